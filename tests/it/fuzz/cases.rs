//! Random tables, and the loop over cases.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, TimeUnit};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use crate::support::key_types::domain;

/// Types of the columns that a case may have.
pub(crate) fn column_types() -> Vec<DataType> {
    vec![
        DataType::Int8,
        DataType::Int32,
        DataType::Int64,
        DataType::UInt64,
        DataType::Float32,
        DataType::Float64,
        DataType::Utf8,
        DataType::Utf8View,
        DataType::Decimal128(20, 3),
        DataType::Decimal128(38, 0),
        DataType::Decimal256(60, 2),
        DataType::Date32,
        DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Boolean,
        DataType::Binary,
        DataType::Dictionary(Box::new(DataType::UInt16), Box::new(DataType::Utf8)),
        DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Float64)),
    ]
}

/// Which value of its domain a cell holds; `None` is NULL.
pub(crate) type Cell = Option<u8>;

pub(crate) fn rows() -> impl Strategy<Value = Vec<[Cell; 4]>> {
    let cell = prop_oneof![1 => Just(None), 5 => (0..12u8).prop_map(Some)];
    prop::collection::vec(prop::array::uniform4(cell), 0..60)
}

/// `bowtie.equi_join_strategy` and `bowtie.materialization`.
pub(crate) fn equi() -> impl Strategy<Value = (&'static str, &'static str)> {
    let strategies = vec!["auto", "direct", "hash", "partitioned_hash", "sort_merge"];
    (
        prop::sample::select(strategies),
        prop::sample::select(vec!["auto", "late", "early"]),
    )
}

pub(crate) fn table(types: &[DataType], rows: &[[Cell; 4]]) -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows.len() as i64));
    let mut columns = vec![("id".to_string(), ids)];
    for (i, data_type) in types.iter().enumerate() {
        let values = domain(data_type);
        let picks: UInt32Array = rows
            .iter()
            .map(|row| row[i].map(|cell| u32::from(cell) % values.len() as u32))
            .collect();
        columns.push((format!("x{i}"), take(&values, &picks, None).unwrap()));
    }
    RecordBatch::try_from_iter(columns).unwrap()
}

/// Aggregates of a join of `a` as r with `right` as s; where `listed` begins with `… AS g`, by that group.
pub(crate) fn join_aggregate_sql(
    listed: &str,
    kind: usize,
    right: &str,
    condition: &str,
) -> String {
    let kind = ["INNER", "LEFT", "RIGHT"][kind % 3];
    let group = match listed.split_once(" AS g") {
        Some((group, _)) => format!(" GROUP BY {group}"),
        None => String::new(),
    };
    format!("SELECT {listed} a r {kind} JOIN {right} s ON {condition}{group}")
}

/// Runs cases, of which more than half must be offloaded.
pub(crate) fn run_cases<C, F>(strategy: impl Strategy<Value = C>, run: impl Fn(C) -> F)
where
    C: std::fmt::Debug,
    F: Future<Output = Result<bool, String>>,
{
    let cases = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok())
        .unwrap_or(200);
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 400,
        ..Config::default()
    };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    let offloaded = std::cell::Cell::new(0);
    let result = TestRunner::new_with_rng(config, rng).run(&strategy, |case| {
        let taken = runtime.block_on(run(case)).map_err(TestCaseError::fail)?;
        offloaded.set(offloaded.get() + u32::from(taken));
        Ok(())
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
    let offloaded = offloaded.get();
    println!("{offloaded} of {cases} cases were offloaded");
    assert!(offloaded > cases / 2, "{offloaded} of {cases}");
}
