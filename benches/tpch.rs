//! `cargo bench --bench tpch`: the 22 queries of TPC-H on tables in memory, from the SQL text to the last row:
//! DataFusion alone, with bowtie's defaults, and with every supported operator on the device.
//!
//! ```text
//! cargo bench --bench tpch                          scale factor 1
//! cargo bench --bench tpch -- --large               10: some 15 GiB of memory
//! cargo bench --bench tpch -- --quick --filter q03  0.1, one query
//! cargo bench --bench tpch -- --scale 30            any other scale factor
//! cargo bench --bench tpch -- --parquet target/tpch --clients 8    from Parquet files, and with 8 concurrent sessions
//! cargo bench --bench tpch -- --large --selections  filters and projections alone
//! ```

mod support;
#[path = "tpch/tables.rs"]
mod tables;

use support::Result;
use support::arguments::Arguments;
use support::query_set::QuerySet;

/// Query `n`, as the tests run it.
const QUERIES: [(&str, &str); 22] = [
    ("q01", include_str!("../tests/it/tpch/plain/q01.sql")),
    ("q02", include_str!("../tests/it/tpch/subqueries/q02.sql")),
    ("q03", include_str!("../tests/it/tpch/plain/q03.sql")),
    ("q04", include_str!("../tests/it/tpch/subqueries/q04.sql")),
    ("q05", include_str!("../tests/it/tpch/plain/q05.sql")),
    ("q06", include_str!("../tests/it/tpch/plain/q06.sql")),
    ("q07", include_str!("../tests/it/tpch/plain/q07.sql")),
    ("q08", include_str!("../tests/it/tpch/plain/q08.sql")),
    ("q09", include_str!("../tests/it/tpch/plain/q09.sql")),
    ("q10", include_str!("../tests/it/tpch/plain/q10.sql")),
    ("q11", include_str!("../tests/it/tpch/subqueries/q11.sql")),
    ("q12", include_str!("../tests/it/tpch/plain/q12.sql")),
    ("q13", include_str!("../tests/it/tpch/plain/q13.sql")),
    ("q14", include_str!("../tests/it/tpch/plain/q14.sql")),
    ("q15", include_str!("../tests/it/tpch/subqueries/q15.sql")),
    ("q16", include_str!("../tests/it/tpch/subqueries/q16.sql")),
    ("q17", include_str!("../tests/it/tpch/subqueries/q17.sql")),
    ("q18", include_str!("../tests/it/tpch/subqueries/q18.sql")),
    ("q19", include_str!("../tests/it/tpch/plain/q19.sql")),
    ("q20", include_str!("../tests/it/tpch/subqueries/q20.sql")),
    ("q21", include_str!("../tests/it/tpch/subqueries/q21.sql")),
    ("q22", include_str!("../tests/it/tpch/subqueries/q22.sql")),
];

/// SELECT and PROJECT of \[D\] over `lineitem`: the rows are the result. By the share of rows that is kept, in percent.
const SELECTIONS: [(&str, &str); 8] = [
    (
        "few",
        "SELECT l_orderkey, l_partkey, l_extendedprice FROM lineitem WHERE l_shipdate = DATE '1995-03-01' AND l_quantity < 2",
    ),
    (
        "1-date",
        "SELECT l_orderkey, l_partkey, l_extendedprice, l_discount FROM lineitem WHERE l_shipdate BETWEEN DATE '1995-03-01' AND DATE '1995-03-25'",
    ),
    (
        "1-computed",
        "SELECT l_orderkey, l_extendedprice * (1 - l_discount) AS revenue FROM lineitem WHERE l_partkey % 100 = 7",
    ),
    (
        "1-text",
        "SELECT l_orderkey, l_shipmode, l_returnflag FROM lineitem WHERE l_shipdate BETWEEN DATE '1995-03-01' AND DATE '1995-03-25' AND l_shipinstruct <> 'NONE'",
    ),
    (
        "1-like",
        "SELECT l_orderkey, l_linenumber FROM lineitem WHERE l_comment LIKE '%special%'",
    ),
    (
        "10",
        "SELECT l_orderkey, l_partkey, l_extendedprice, l_discount FROM lineitem WHERE l_shipdate BETWEEN DATE '1995-01-01' AND DATE '1995-09-08'",
    ),
    (
        "50",
        "SELECT l_orderkey, l_partkey, l_extendedprice, l_discount FROM lineitem WHERE l_quantity <= 25",
    ),
    (
        "100",
        "SELECT l_extendedprice * (1 - l_discount) * (1 + l_tax) AS charge FROM lineitem",
    ),
];

#[tokio::main]
async fn main() {
    support::main("tpch", run()).await;
}

async fn run() -> Result<()> {
    let arguments = Arguments::from_command_line()?;
    let by_size = match (arguments.large, arguments.quick) {
        (true, _) => 10.0,
        (false, true) => 0.1,
        (false, false) => 1.0,
    };
    let scale = arguments.scale.unwrap_or(by_size);
    if let Some(dir) = &arguments.export {
        return tables::write(scale, dir).await;
    }
    let (from, tables) = match &arguments.parquet {
        Some(dir) => {
            tables::write(scale, dir).await?;
            ("Parquet files", tables::files(dir).await?)
        }
        None => ("tables in memory", tables::all(scale)?),
    };
    let (name, title, queries) = match arguments.selections {
        true => ("selections", "Selections of lineitem", &SELECTIONS[..]),
        false => ("tpch", "TPC-H", &QUERIES[..]),
    };
    let queries = queries.iter().map(|(name, sql)| (name.to_string(), *sql));
    let set = QuerySet {
        name,
        title: title.into(),
        scale: scale.to_string(),
        from,
        queries: queries.collect(),
        tables,
    };
    set.run(&arguments).await
}
