//! What is left out or compared less strictly, record by record, and why.

/// Records whose SQL contains `sql` (white space collapsed), in `file`.
#[derive(Debug)]
pub(super) struct Entry {
    pub file: &'static str,
    pub sql: &'static str,
    pub why: &'static str,
}

const fn entry(file: &'static str, sql: &'static str, why: &'static str) -> Entry {
    Entry { file, sql, why }
}

/// Folders of data files that the published crate lacks, as records name them. A table made from such a file is not made, and what reads
/// it is skipped.
pub(super) const DATA: &[&str] = &[
    "../../datafusion/core/tests/data/",
    "../../parquet-testing/data/",
    "../../testing/data/",
    "../core/tests/data/",
    "../core/tests/tpch-csv/",
    "../datasource-arrow/tests/data/",
];

/// Not run.
pub(super) const SKIPS: &[Entry] = &[
    entry(
        "limit.slt",
        "select * from testSubQueryLimit as t1 join (select * from testSubQueryLimit limit 10) limit 2",
        ANY_ROWS,
    ),
    entry(
        "joins.slt",
        "select * from t1 FULL JOIN t2 ON t1.a = t2.b LIMIT 2",
        ANY_ROWS,
    ),
    entry(
        "clickbench_extended.slt",
        "APPROX_PERCENTILE_CONT(0.95) WITHIN GROUP (ORDER BY \"ResponseStartTiming\") tp95",
        FROM_A_MISSING_FILE,
    ),
    entry(
        "csv_files.slt",
        "select * from stored_table_with_double_quotes",
        FROM_A_MISSING_FILE,
    ),
    entry(
        "csv_files.slt",
        "select * from stored_table_with_escaped_quotes",
        FROM_A_MISSING_FILE,
    ),
    entry("ddl.slt", "where table_name='empty'", FROM_A_MISSING_FILE),
    entry(
        "encrypted_parquet.slt",
        "SELECT * FROM parquet_table",
        "needs DataFusion's feature parquet_encryption, without which the file is written as it is",
    ),
    entry("information_schema.slt", "SHOW ALL", NAMES_OF_BOWTIE),
    entry(
        "information_schema.slt",
        "where function_type = 'TABLE' order by routine_name",
        NAMES_OF_BOWTIE,
    ),
    entry(
        "input_file_name.slt",
        "SELECT input_file_name(), column1 FROM csv_table ORDER BY column1",
        WHERE_FILES_ARE,
    ),
    entry(
        "parquet_metadata_functions.slt",
        "SELECT input_file_name(), file_row_index(), column1 FROM test_table",
        WHERE_FILES_ARE,
    ),
];

/// Not run in plans that are cut at their exchanges.
pub(super) const SKIPS_IN_STAGES: &[Entry] = &[
    entry(
        "aggregate_memory_spill.slt",
        "SELECT count(*), sum(total) FROM ( SELECT (v * 7) % 100000 AS k, sum(v) AS total FROM generate_series(1, 100000) AS t(v)",
        "of a pool of 1 MB the uploads of four partitions leave their aggregation nothing",
    ),
    entry(
        "sort_merge_join_spill.slt",
        "SELECT pr.k FROM probe pr WHERE EXISTS ( SELECT 1 FROM bitwise_wide wi WHERE pr.k = wi.k AND wi.v <= pr.x - 300 )",
        "of a pool of 64 KB the uploads of several partitions get nothing",
    ),
];

const FROM_A_MISSING_FILE: &str =
    "reads what another record would have made of a file that the published crate lacks";
const NAMES_OF_BOWTIE: &str = "lists options and functions, of which bowtie adds some";
const WHERE_FILES_ARE: &str = "the folder of files that upstream's runner puts into its checkout";

const ANY_ROWS: &str = "LIMIT without ORDER BY: which rows come out is not defined";

/// Compared as a multiset, although the query has an ORDER BY.
pub(super) const ANY_ORDER: &[Entry] = &[
    entry("pwmj.slt", "WHERE t2.t2_int >= 3 ORDER BY 1,2", NOT_ORDERED),
    entry(
        "pwmj.slt",
        "AND t2.t2_name <> 'y' ORDER BY 1,2",
        NOT_ORDERED,
    ),
];

const NOT_ORDERED: &str =
    "the file expects rows that do not follow the ORDER BY (upstream's piecewise merge join)";
