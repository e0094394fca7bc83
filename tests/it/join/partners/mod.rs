//! Joins of which each row keeps only some of its partners: as-of joins, nearest neighbours, the first partners of each row. Forced and stock
//! give the same rows, and both those of a plain computation.
//!
//! Where partners tie and the query does not say which is kept, it outputs only what they have in common.

mod floats;
mod forms;
mod functions;
mod intervals;
mod limits;
mod names;
mod oracle;
mod types;
mod within;

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::prelude::SessionContext;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::support::answer::{answer, check, forced, stock};
use crate::support::compare::same_rows;
use crate::support::session::set;
use crate::support::tables::register;
use crate::support::tuning::Tuning;

/// `id` (distinct), keys `k` and `s` (text), and a time `ts` of `data_type` below `most`.
fn events(data_type: &DataType, rows: usize, most: i64, nulls: f64, seed: u64) -> RecordBatch {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut drawn = |most: i64| -> Vec<Option<i64>> {
        let value = |_| (!rng.random_bool(nulls)).then(|| rng.random_range(0..most));
        (0..rows).map(value).collect()
    };
    let (keys, texts, times) = (drawn(3), drawn(3), drawn(most));
    let ids = Int64Array::from_iter_values(0..rows as i64);
    let keys = keys.into_iter().map(|key| key.map(|key| key as i32));
    let texts = texts
        .into_iter()
        .map(|text| text.map(|text| format!("symbol {text}")));
    let times: ArrayRef = Arc::new(Int64Array::from(times));
    let columns: [(&str, ArrayRef); 4] = [
        ("id", Arc::new(ids)),
        ("k", Arc::new(Int32Array::from_iter(keys))),
        ("s", Arc::new(StringArray::from_iter(texts))),
        ("ts", cast(&times, data_type).unwrap()),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
        .unwrap()
}

/// Tables `t` and `q` of events.
fn tables(ctx: &SessionContext, data_type: &DataType, rows: (usize, usize), nulls: f64) {
    register(ctx, "t", &events(data_type, rows.0, 40, nulls, 3));
    register(ctx, "q", &events(data_type, rows.1, 40, nulls, 4));
}

/// What must be in the plan of a query with a limit of partners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limited {
    /// By the join alone.
    Finally,
    /// By the join, and by numbers above it.
    First,
    /// Not by the join.
    No,
}

/// Checks that `sql` gives the rows of DataFusion under some tunings.
async fn check_limited(ctx: &SessionContext, sql: &str, limited: Limited, tunings: &[Tuning]) {
    let stock = stock(ctx, sql)
        .await
        .unwrap_or_else(|e| panic!("{sql}\n{e}"));
    // Few rows are left to DataFusion.
    set(ctx, "bowtie.offload", "auto");
    let given = answer(ctx, sql)
        .await
        .unwrap_or_else(|e| panic!("{sql}\n{e}"));
    if let Err(difference) = same_rows(&stock, &given) {
        panic!("{sql}\n{}\n{difference}", given.plan);
    }
    for tuning in tunings {
        let plan = check(ctx, sql, tuning, &stock, &["Bowtie"]).await;
        // Rows that are numbered as a whole have no current one.
        let is_window = |line: &str| line.contains("WindowAggExec") && line.contains("CURRENT ROW");
        let numbers = plan.lines().any(is_window);
        let kept = plan.contains("partners=");
        let seen = match (kept, numbers) {
            (true, false) => Limited::Finally,
            (true, true) => Limited::First,
            (false, _) => Limited::No,
        };
        assert_eq!(seen, limited, "{sql}\n{plan}");
    }
}

/// The rows of `sql` when forced, as text.
async fn rows_of(ctx: &SessionContext, sql: &str, tuning: &Tuning) -> Vec<String> {
    let given = forced(ctx, sql, tuning)
        .await
        .unwrap_or_else(|e| panic!("{sql}\n{e}"));
    given.rows()
}

fn tunings(first: usize, count: usize) -> Vec<Tuning> {
    (first..first + count).map(Tuning::nth).collect()
}
