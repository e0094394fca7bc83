//! `cargo bench --bench tpcds`: the 99 queries of TPC-DS, from the SQL text to the last row: DataFusion alone, with bowtie's defaults, and
//! with every supported operator on the device. The tables are Parquet files that `benches/tpcds/tables.py` makes.
//!
//! ```text
//! python3 benches/tpcds/tables.py --scale 1 --out target/tpcds
//! cargo bench --bench tpcds -- --tables target/tpcds                   loaded into memory before
//! cargo bench --bench tpcds -- --parquet target/tpcds --filter q48     from the files, one query
//! ```

mod support;

use std::path::Path;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;
use datafusion::prelude::{ParquetReadOptions, SessionContext};

use support::Result;
use support::arguments::Arguments;
use support::query_set::QuerySet;

macro_rules! queries {
    ($($folder:literal: $($query:literal)*;)*) => {
        [$($(($query, include_str!(concat!("../tests/it/tpcds/queries/", $folder, "/q", $query, ".sql"))),)*)*]
    };
}

/// As the tests run them.
const QUERIES: [(&str, &str); 99] = queries! {
    "00": "01" "02" "03" "04" "05" "06" "07" "08" "09" "10" "11" "12" "13" "14" "15" "16" "17" "18" "19";
    "20": "20" "21" "22" "23" "24" "25" "26" "27" "28" "29" "30" "31" "32" "33" "34" "35" "36" "37" "38" "39";
    "40": "40" "41" "42" "43" "44" "45" "46" "47" "48" "49" "50" "51" "52" "53" "54" "55" "56" "57" "58" "59";
    "60": "60" "61" "62" "63" "64" "65" "66" "67" "68" "69" "70" "71" "72" "73" "74" "75" "76" "77" "78" "79";
    "80": "80" "81" "82" "83" "84" "85" "86" "87" "88" "89" "90" "91" "92" "93" "94" "95" "96" "97" "98" "99";
};

const TABLES: [&str; 24] = [
    "call_center",
    "catalog_page",
    "catalog_returns",
    "catalog_sales",
    "customer",
    "customer_address",
    "customer_demographics",
    "date_dim",
    "household_demographics",
    "income_band",
    "inventory",
    "item",
    "promotion",
    "reason",
    "ship_mode",
    "store",
    "store_returns",
    "store_sales",
    "time_dim",
    "warehouse",
    "web_page",
    "web_returns",
    "web_sales",
    "web_site",
];

#[tokio::main]
async fn main() {
    support::main("tpcds", run()).await;
}

async fn run() -> Result<()> {
    let arguments = Arguments::from_command_line()?;
    if arguments.export.is_some() {
        return Err("benches/tpcds/tables.py writes the tables of TPC-DS, no --export".into());
    }
    let (from, dir, in_memory) = match (&arguments.tables, &arguments.parquet) {
        (Some(dir), None) => ("tables in memory", dir, true),
        (None, Some(dir)) => ("Parquet files", dir, false),
        _ => {
            return Err("--tables <dir> or --parquet <dir> must say where benches/tpcds/tables.py has written the tables".into());
        }
    };
    let queries = QUERIES.iter().map(|(name, sql)| (format!("q{name}"), *sql));
    let scale = std::fs::read_to_string(dir.join("scale"));
    let set = QuerySet {
        name: "tpcds",
        title: "TPC-DS".into(),
        scale: scale.map_or("unknown".into(), |scale| scale.trim().to_string()),
        from,
        queries: queries.collect(),
        tables: tables(dir, in_memory).await?,
    };
    set.run(&arguments).await
}

/// The tables in the files below `dir`, or their rows.
async fn tables(
    dir: &Path,
    in_memory: bool,
) -> Result<Vec<(&'static str, Arc<dyn TableProvider>)>> {
    let ctx = SessionContext::new();
    let mut tables: Vec<(_, Arc<dyn TableProvider>)> = vec![];
    for name in TABLES {
        let from = dir.join(name);
        let from = from.to_str().ok_or("a path that is no text")?;
        let options = ParquetReadOptions::default();
        ctx.register_parquet(name, &format!("{from}/"), options)
            .await?;
        let files = ctx.table_provider(name).await?;
        tables.push((
            name,
            match in_memory {
                false => files,
                true => {
                    let rows = ctx.table(name).await?.collect_partitioned().await?;
                    Arc::new(MemTable::try_new(files.schema(), rows)?)
                }
            },
        ));
    }
    Ok(tables)
}
