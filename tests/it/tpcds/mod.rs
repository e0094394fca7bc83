//! The 99 queries of TPC-DS: forced and stock give the same rows.
//!
//! The texts in `queries/` are those of TPC's templates with the parameters of its qualification, as DuckDB's extension `tpcds` has them
//! (the NOTICE names its licence). The tables are small ones of our own (`data/`).

use crate::support::answer::{Answer, forced, stock};
use crate::support::compare::similar_rows;
use crate::support::tuning::Tuning;
use crate::tpcds::tables::tables;

mod data;
mod tables;

macro_rules! queries {
    ($($folder:literal: $($query:literal)*;)*) => {
        [$($(include_str!(concat!("queries/", $folder, "/q", $query, ".sql")),)*)*]
    };
}

/// In order.
const QUERIES: [&str; 99] = queries! {
    "00": "01" "02" "03" "04" "05" "06" "07" "08" "09" "10" "11" "12" "13" "14" "15" "16" "17" "18" "19";
    "20": "20" "21" "22" "23" "24" "25" "26" "27" "28" "29" "30" "31" "32" "33" "34" "35" "36" "37" "38" "39";
    "40": "40" "41" "42" "43" "44" "45" "46" "47" "48" "49" "50" "51" "52" "53" "54" "55" "56" "57" "58" "59";
    "60": "60" "61" "62" "63" "64" "65" "66" "67" "68" "69" "70" "71" "72" "73" "74" "75" "76" "77" "78" "79";
    "80": "80" "81" "82" "83" "84" "85" "86" "87" "88" "89" "90" "91" "92" "93" "94" "95" "96" "97" "98" "99";
};

/// Rows of the limits at the ends of the queries.
const LIMIT: usize = 100;

/// Queries that find nothing in these tables, or NULL alone.
const WITHOUT_VALUES: [usize; 7] = [8, 13, 54, 58, 64, 85, 91];

/// The query without a limit at its end: which of equal rows are beyond it is nobody's promise.
fn without_limit(sql: &str) -> &str {
    let end = sql.trim_end();
    end.strip_suffix("LIMIT 100").unwrap_or(end)
}

fn rows(answer: &Answer) -> usize {
    answer.batches.iter().map(|batch| batch.num_rows()).sum()
}

/// Whether there is a value that is not NULL.
fn has_values(answer: &Answer) -> bool {
    let columns = answer.batches.iter().flat_map(|batch| batch.columns());
    columns
        .into_iter()
        .any(|column| column.logical_null_count() < column.len())
}

#[tokio::test]
async fn all_queries() {
    let ctx = tables();
    let mut empty = vec![];
    let mut left = vec![];
    for (i, whole) in QUERIES.iter().enumerate() {
        let query = i + 1;
        let sql = without_limit(whole);
        let stock = stock(&ctx, sql)
            .await
            .unwrap_or_else(|e| panic!("Q{query}: {e}"));
        if !has_values(&stock) {
            empty.push(query);
        }
        // Where the limit cuts nothing it is kept.
        let limited = if rows(&stock) < LIMIT { whole } else { sql };
        for (sql, partitions, device_memory, cache) in
            [(sql, 1, "auto", "off"), (limited, 4, "32MB", "16MB")]
        {
            let tuning = Tuning {
                partitions,
                device_memory,
                cache: Some(cache),
                ..Tuning::PLAIN
            };
            let given = forced(&ctx, sql, &tuning).await;
            let given = given.unwrap_or_else(|e| panic!("Q{query} {tuning:?}: {e}"));
            assert!(given.plan.contains("Bowtie"), "Q{query}\n{}", given.plan);
            if let Err(difference) = similar_rows(&stock, &given) {
                panic!("Q{query} {tuning:?}\n{}\n{difference}", given.plan);
            }
            let nodes = given.plan.lines().map(str::trim_start);
            let others =
                nodes.filter(|node| node.contains("JoinExec") || node.contains("AggregateExec"));
            left.extend(
                others
                    .filter(|node| !node.starts_with("Bowtie"))
                    .map(|node| format!("Q{query} {node}")),
            );
        }
    }
    assert!(left.is_empty(), "{}", left.join("\n"));
    assert_eq!(empty, WITHOUT_VALUES);
}
