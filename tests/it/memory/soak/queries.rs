//! Random queries over two tables, and random options.

use datafusion::prelude::SessionContext;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use crate::support::session::set;

/// Of tables `{a}` and `{b}` and a small number `{n}`.
const QUERIES: [&str; 16] = [
    "SELECT k, count(*), sum(v), count(t), max(v) FROM {a} WHERE v % 5 <> {n} AND t LIKE '%1%' GROUP BY k",
    "SELECT k, sum(v), avg(v) FROM {a} GROUP BY k",
    "SELECT t, count(*), min(v) FROM {a} WHERE k <> {n} GROUP BY t",
    "SELECT count(*), sum(v), max(t) FROM {a}",
    "SELECT * FROM {a} WHERE v % 7 = {n}",
    "SELECT v, t FROM {a} WHERE v > {n} * 100 ORDER BY t NULLS LAST, v DESC LIMIT 50",
    "SELECT DISTINCT k, v % 10 AS w FROM {a} WHERE t IS NOT NULL",
    "SELECT a.k, count(*), max(b.t), sum(b.v) FROM {a} a JOIN {b} b ON a.v = b.v GROUP BY a.k",
    "SELECT a.v, b.t FROM {a} a LEFT JOIN {b} b ON a.v = b.v + {n} AND b.k > 2",
    "SELECT count(*), sum(a.v), max(b.t) FROM {a} a JOIN {b} b ON a.k = b.k AND a.v % 300 = b.v % 300",
    "SELECT k, v FROM {a} WHERE v IN (SELECT v + {n} FROM {b} WHERE k = 3)",
    "SELECT k, v FROM {a} WHERE NOT EXISTS (SELECT 1 FROM {b} b WHERE b.v = {a}.v * 2)",
    "SELECT count(*), sum(b.v) FROM {a} a JOIN {b} b ON a.v < b.v AND a.v + 9 > b.v WHERE a.v % 11 = {n}",
    "SELECT k, t FROM {a} WHERE k = {n} UNION SELECT k + 1, t FROM {b} WHERE v % 13 = {n}",
    "SELECT x.w, count(*) FROM (SELECT v % 50 AS w, k FROM {a} WHERE v > (SELECT avg(v) FROM {b})) AS x GROUP BY x.w",
    "SELECT v FROM {a} INTERSECT SELECT v FROM {b} WHERE k < {n}",
];

pub(super) fn query(rng: &mut StdRng, tables: &[&str]) -> String {
    let mut table = || *tables.choose(rng).unwrap();
    let (a, b) = (table(), table());
    let n = rng.random_range(0..5).to_string();
    let query = *QUERIES.choose(rng).unwrap();
    query.replace("{a}", a).replace("{b}", b).replace("{n}", &n)
}

/// Options that change no rows, and their values.
const OPTIONS: [(&str, &[&str]); 7] = [
    ("bowtie.cache", &["off", "auto", "1MB", "1MB", "2MB", "4MB"]),
    ("bowtie.device_memory", &["auto", "1MB", "2MB", "1GB"]),
    ("bowtie.offload", &["force", "force", "force", "auto"]),
    ("bowtie.chunk_rows", &["auto", "auto", "500", "1111"]),
    (
        "bowtie.equi_join_strategy",
        &["auto", "auto", "hash", "partitioned_hash", "sort_merge"],
    ),
    ("datafusion.execution.target_partitions", &["1", "2", "4"]),
    ("datafusion.execution.batch_size", &["8192", "500"]),
];

/// Changes each option with this probability.
pub(super) fn change_options(rng: &mut StdRng, ctx: &SessionContext, probability: f64) {
    for (option, values) in OPTIONS {
        if rng.random_bool(probability) {
            set(ctx, option, values.choose(rng).unwrap());
        }
    }
}
