//! The queries, each with what makes it take another way through the crate.

/// Bytes of a memory pool that refuses nothing.
pub(crate) const POOL: usize = 64 << 20;

/// Bytes of one for which rows are spilled.
const SMALL_POOL: usize = 160 << 10;

/// Tables `r` and `s` are [`mixed_table`](crate::support::tables::mixed_table)s, `u` and `v` have lists.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Query {
    pub sql: &'static str,
    /// Options beside those of a plain session.
    pub set: &'static [(&'static str, &'static str)],
    /// What its plan has.
    pub node: &'static str,
    /// Bytes of DataFusion's memory pool.
    pub pool: usize,
}

impl Query {
    /// Whether all its tables are in memory.
    pub(crate) fn reads_memory(&self) -> bool {
        !self.sql.contains("FROM p ")
    }
}

const fn query(
    node: &'static str,
    sql: &'static str,
    set: &'static [(&'static str, &'static str)],
) -> Query {
    Query {
        sql,
        set,
        node,
        pool: POOL,
    }
}

/// A join of each kind.
pub(crate) const FEW_JOINS: [Query; 3] = [
    query(
        "BowtieJoinExec",
        "SELECT r.id, s.id AS j, s.t FROM r JOIN s ON r.a = s.b AND r.t <> s.t",
        &[("bowtie.equi_join_strategy", "hash")],
    ),
    query(
        "BowtieJoinExec",
        "SELECT r.id, s.id AS j, s.t FROM r JOIN s ON r.lo BETWEEN s.lo AND s.hi",
        &[("bowtie.theta_strategy", "range")],
    ),
    query(
        "BowtieJoinExec",
        "SELECT u.id, v.id AS j FROM u JOIN v ON array_overlap(u.v, v.v) >= 2",
        &[("bowtie.set_strategy", "inverted_index")],
    ),
];

pub(crate) const OUTER: Query = query(
    "BowtieJoinExec",
    "SELECT r.id, r.b, s.id AS j, s.t FROM r FULL JOIN s ON r.id = s.id * 2",
    &[("bowtie.materialization", "early")],
);

/// An aggregation, one that is fused with a join, a sort, clusters, and a scan of columns that stay on the device.
pub(crate) const FEW_OTHERS: [Query; 5] = [
    query(
        "BowtieAggregateExec",
        "SELECT a, t, count(*), sum(lo), min(c), max(t), avg(b) FROM r GROUP BY a, t",
        &[("bowtie.group_strategy", "hash_global")],
    ),
    query(
        "BowtieJoinAggregateExec",
        "SELECT r.id, count(*), sum(s.a), min(s.c) FROM r LEFT JOIN s ON r.lo > s.lo GROUP BY r.id",
        &[],
    ),
    query(
        "BowtieSortExec",
        "SELECT r.id, s.id AS j FROM r JOIN s ON r.a = s.b ORDER BY s.c DESC, r.id, s.id LIMIT 7",
        &[("bowtie.chunk_rows", "64")],
    ),
    query(
        "BowtieClustersExec",
        "SELECT * FROM bowtie_clusters('SELECT r.t, s.t FROM r JOIN s ON r.a = s.b AND r.g > s.g')",
        &[("bowtie.chunk_rows", "64")],
    ),
    query(
        "BowtieScanExec",
        "SELECT t, count(*), sum(a + b), min(c) FROM r WHERE g > 0 AND t LIKE '%1' GROUP BY t",
        &[("bowtie.cache", "16MB")],
    ),
];

/// Joins of which each row keeps one partner, in place of which DataFusion runs joins with numbered rows.
pub(crate) const PARTNERS: [Query; 2] = [
    query(
        "BowtieJoinExec",
        "SELECT id, lo, lo_right FROM bowtie_asof('r', 's', 'lo', 'a')",
        &[],
    ),
    query(
        "BowtieJoinExec",
        "SELECT id, similarity FROM bowtie_similar('SELECT id, v FROM u', 'SELECT id, v FROM v', 'v')",
        &[],
    ),
];

pub(crate) const EQUI: [Query; 5] = [
    query(
        "BowtieJoinExec",
        "SELECT r.id, s.id AS j, s.t, s.c FROM r JOIN s ON r.t = s.t",
        &[
            ("bowtie.equi_join_strategy", "partitioned_hash"),
            ("bowtie.materialization", "early"),
        ],
    ),
    query(
        "BowtieJoinExec",
        "SELECT r.id, s.id AS j, r.t FROM r LEFT JOIN s ON r.a = s.b AND r.c = s.c",
        &[("bowtie.equi_join_strategy", "sort_merge")],
    ),
    query(
        "BowtieJoinExec",
        "SELECT r.id, s.id AS j, r.t FROM r FULL JOIN s ON r.a = s.b",
        &[("bowtie.equi_join_strategy", "direct")],
    ),
    query(
        "BowtieJoinExec",
        "SELECT r.id, r.t FROM r WHERE r.a IN (SELECT b FROM s WHERE c > 0)",
        &[],
    ),
    query(
        "BowtieJoinExec",
        "SELECT r.id, s.id AS j, u.x FROM r JOIN s ON r.id = s.id JOIN u ON s.b = u.g",
        &[("bowtie.chunk_rows", "64")],
    ),
];

pub(crate) const THETA: [Query; 3] = [
    query(
        "BowtieJoinExec",
        "SELECT r.id, s.id AS j FROM r FULL JOIN s ON r.lo < s.lo - 20 AND r.hi > s.a",
        &[("bowtie.theta_strategy", "dominance")],
    ),
    query(
        "BowtieJoinExec",
        "SELECT r.id, s.id AS j FROM r JOIN s ON r.lo < s.lo - 20 AND r.a + s.b < 9",
        &[("bowtie.theta_strategy", "tiles")],
    ),
    query(
        "BowtieJoinExec",
        "SELECT r.id FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE r.lo < s.lo - 25 AND r.t <> s.t)",
        &[("bowtie.chunk_rows", "64")],
    ),
];

pub(crate) const SETS: [Query; 2] = [
    query(
        "BowtieJoinExec",
        "SELECT u.id, v.id AS j FROM u JOIN v ON array_jaccard(u.v, v.v) >= 0.5",
        &[("bowtie.set_strategy", "prefix")],
    ),
    query(
        "BowtieJoinExec",
        "SELECT u.id, v.id AS j FROM u JOIN v ON array_has_any(u.v, v.v) AND u.a < v.a",
        &[("bowtie.set_strategy", "bitmap")],
    ),
];

pub(crate) const AGGREGATES: [Query; 3] = [
    query(
        "BowtieAggregateExec",
        "SELECT b, count(*), sum(lo), min(t), count(DISTINCT a) FROM r GROUP BY b",
        &[("bowtie.group_strategy", "sort")],
    ),
    query(
        "BowtieAggregateExec",
        "SELECT a, b, median(lo), stddev(c) FROM r GROUP BY a, b",
        &[
            ("bowtie.group_strategy", "partition"),
            ("bowtie.chunk_rows", "64"),
        ],
    ),
    query(
        "BowtieJoinAggregateExec",
        "SELECT r.g, count(*), sum(s.a), max(s.t) FROM r JOIN s ON r.a = s.b GROUP BY r.g",
        &[("bowtie.chunk_rows", "64")],
    ),
];

/// Counts of overlapping intervals, of rows that are kept without one, too.
pub(crate) const INTERVALS: [Query; 4] = [
    query(
        "BowtieJoinAggregateExec",
        "SELECT s.id, count(*), count(r.t), sum(s.a) FROM r RIGHT JOIN s ON r.lo <= s.hi AND r.hi >= s.lo AND r.b = s.b GROUP BY s.id",
        &[],
    ),
    query(
        "BowtieJoinAggregateExec",
        "SELECT r.id, count(*), count(s.t), avg(r.c) FROM r LEFT JOIN s ON r.lo < s.hi AND r.hi > s.lo AND r.b = s.b GROUP BY r.id",
        &[("bowtie.chunk_rows", "64")],
    ),
    query(
        "BowtieJoinAggregateExec",
        "SELECT count(*), sum(r.a), max(s.c) FROM r RIGHT JOIN s ON r.lo <= s.hi AND r.hi >= s.lo AND r.t = s.t",
        &[("bowtie.chunk_rows", "64")],
    ),
    query(
        "BowtieJoinAggregateExec",
        "SELECT r.g, r.t, count(*), count(s.c) FROM r JOIN s ON r.lo <= s.hi AND r.hi >= s.lo GROUP BY r.g, r.t",
        &[],
    ),
];

/// Overlaps of intervals with both ends, which two range joins find: as rows, folded, and counted.
pub(crate) const OVERLAPS: [Query; 4] = [
    query(
        "BowtieJoinExec",
        "SELECT r.id, s.id AS j, s.t FROM (SELECT * FROM r WHERE hi >= lo) r JOIN (SELECT * FROM s WHERE hi >= lo) s \
         ON r.lo <= s.hi AND r.hi >= s.lo AND r.b = s.b",
        &[],
    ),
    query(
        "BowtieJoinExec",
        "SELECT r.id, s.id AS j FROM (SELECT * FROM r WHERE hi >= lo) r FULL JOIN (SELECT * FROM s WHERE hi >= lo) s \
         ON r.lo <= s.hi AND r.hi >= s.lo AND r.b = s.b",
        &[("bowtie.chunk_rows", "64")],
    ),
    query(
        "BowtieJoinAggregateExec",
        "SELECT r.id, sum(s.a), max(s.t), count(*) FROM (SELECT * FROM r WHERE hi >= lo) r \
         LEFT JOIN (SELECT * FROM s WHERE hi >= lo) s ON r.lo <= s.hi AND r.hi >= s.lo GROUP BY r.id",
        &[("bowtie.chunk_rows", "64")],
    ),
    query(
        "BowtieJoinAggregateExec",
        "SELECT s.id, count(*) FROM (SELECT * FROM r WHERE hi >= lo) r JOIN (SELECT * FROM s WHERE hi >= lo) s \
         ON r.lo <= s.hi AND r.hi >= s.lo GROUP BY s.id",
        &[],
    ),
];

pub(crate) const ROWS: [Query; 2] = [
    query(
        "BowtieFilterExec",
        "SELECT m, count(*) FROM (SELECT a, b, count(*) AS n, max(t) AS m FROM r GROUP BY a, b) WHERE n < 3 AND m LIKE '%1' GROUP BY m",
        &[],
    ),
    query(
        "BowtieUnionExec",
        "SELECT k, count(*) FROM (SELECT a AS k FROM r GROUP BY a UNION ALL SELECT b FROM s GROUP BY b) GROUP BY k",
        &[("bowtie.chunk_rows", "64")],
    ),
];

pub(crate) const SORTS: [Query; 2] = [
    query(
        "BowtieSortExec",
        "SELECT r.id, s.t FROM r JOIN s ON r.a = s.b ORDER BY s.t, r.id DESC, s.id",
        &[],
    ),
    query(
        "BowtieSortExec",
        "SELECT a, count(*) AS n FROM r GROUP BY a ORDER BY n DESC, a LIMIT 3",
        &[],
    ),
];

/// Over columns that stay on the device. Table `p` is of Parquet files.
pub(crate) const STORED: &[Query] = &[
    query(
        "BowtieScanExec",
        "SELECT r.id, s.id AS j, s.t FROM r JOIN s ON r.a = s.b WHERE r.g > 1",
        &[("bowtie.cache", "16MB"), ("bowtie.chunk_rows", "64")],
    ),
    #[cfg(feature = "parquet")]
    query(
        "BowtieScanExec",
        "SELECT p.k, count(*), sum(p.v), max(p.t) FROM p JOIN r ON p.k = r.b WHERE p.v > 20 GROUP BY p.k",
        &[("bowtie.cache", "16MB")],
    ),
];

/// Rows that exceed a chunk, the device or the memory pool.
pub(crate) const LARGE: [Query; 3] = [
    query(
        "BowtieJoinExec",
        "SELECT r.id, s.id AS j, s.t FROM r JOIN s ON r.a = s.b AND r.lo < s.hi",
        &[
            ("bowtie.equi_join_strategy", "hash"),
            ("bowtie.chunk_rows", "20"),
        ],
    ),
    query(
        "BowtieAggregateExec",
        "SELECT a, b, lo, count(*), min(t) FROM r GROUP BY a, b, lo",
        &[("bowtie.chunk_rows", "20")],
    ),
    Query {
        pool: SMALL_POOL,
        ..query(
            "BowtieJoinAggregateExec",
            "SELECT count(*), sum(x.a), sum(y.a), min(x.t), max(y.t) FROM long x JOIN long y ON x.id = y.a",
            &[("bowtie.device_memory", "1MB")],
        )
    },
];
