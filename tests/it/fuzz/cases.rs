//! Random tables, the loop over cases, and what becomes of each case.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array, RecordBatch, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::error::DataFusionError;
use datafusion::prelude::SessionContext;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use crate::support::answer::{Answer, forced, stock};
use crate::support::key_types::domain;
use crate::support::tuning::Tuning;

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
    // A dictionary has its NULLs among the values, too.
    let columns = columns.into_iter().map(|(name, column)| {
        let nullable = column.logical_null_count() > 0;
        (name, column, nullable)
    });
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
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

/// What became of a case in which no rows differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The forced plan has the nodes of bowtie that the module is about.
    Offloaded,
    /// The forced plan has none of them.
    Declined,
    /// DataFusion has an error for the query.
    Refused,
}

impl Outcome {
    pub(crate) fn of_plan(is_offloaded: bool) -> Self {
        if is_offloaded {
            Self::Offloaded
        } else {
            Self::Declined
        }
    }
}

/// Shares of cases, in percent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shares {
    /// The minimum of those that are offloaded.
    pub offloaded: u32,
    /// The maximum of those that DataFusion refuses.
    pub refused: u32,
}

/// With fewer cases, shares say nothing.
const ENOUGH_CASES: u32 = 200;

impl Shares {
    /// Checks the shares of `cases` of which so many were offloaded and refused.
    pub(crate) fn check(self, cases: u32, offloaded: u32, refused: u32) {
        println!("{offloaded} of {cases} cases were offloaded, DataFusion refused {refused}");
        if cases >= ENOUGH_CASES {
            assert!(
                offloaded * 100 >= self.offloaded * cases,
                "{offloaded} of {cases} are offloaded, less than {} %",
                self.offloaded
            );
            assert!(
                refused * 100 <= self.refused * cases,
                "DataFusion refuses {refused} of {cases}, more than {} %",
                self.refused
            );
        }
    }
}

/// Whether `error` is a defect of bowtie, of a query that DataFusion refuses with `refusal`.
pub(crate) fn is_defect(error: &DataFusionError, refusal: &DataFusionError) -> bool {
    let (error, refusal) = (error.to_string(), refusal.to_string());
    let is_internal = |text: &str| text.contains("Internal error") || text.contains("panicked");
    error.contains("bowtie: internal error") || (is_internal(&error) && !is_internal(&refusal))
}

/// Forces a query that DataFusion refuses. It may have rows or an error, but no defect of bowtie.
pub(crate) async fn refused(
    ctx: &SessionContext,
    sql: &str,
    tuning: &Tuning,
    refusal: &DataFusionError,
) -> Result<Outcome, String> {
    match forced(ctx, sql, tuning).await {
        Err(error) if is_defect(&error, refusal) => Err(format!(
            "{sql}\n{tuning:?}\nfails when forced: {error}\nDataFusion: {refusal}"
        )),
        _ => Ok(Outcome::Refused),
    }
}

/// How the rows of two answers are compared.
pub(crate) type Compare = fn(&Answer, &Answer) -> Result<(), String>;

/// What became of a query that is forced, whose rows must be those of DataFusion alone. `nodes`: one of them is in the plan if it is offloaded.
pub(crate) async fn outcome(
    ctx: &SessionContext,
    sql: &str,
    tuning: &Tuning,
    compare: Compare,
    nodes: &[&str],
) -> Result<Outcome, String> {
    let expected = match stock(ctx, sql).await {
        Ok(expected) => expected,
        // DataFusion has some functions, comparisons and hashes not for all types.
        Err(refusal) => return refused(ctx, sql, tuning, &refusal).await,
    };
    let given = forced(ctx, sql, tuning).await;
    let given = given.map_err(|error| format!("{sql}\n{tuning:?}\nfails when forced: {error}"))?;
    compare(&expected, &given)
        .map_err(|difference| format!("{sql}\n{tuning:?}\n{}\n{difference}", given.plan))?;
    let is_offloaded = nodes.iter().any(|node| given.plan.contains(node));
    Ok(Outcome::of_plan(is_offloaded))
}

/// The number that an environment variable holds.
fn variable(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    match value.parse() {
        Ok(number) => Some(number),
        Err(_) => panic!("{name} = {value} is no number"),
    }
}

/// `BOWTIE_FUZZ_SEED`, if it is set.
pub(crate) fn seed() -> Option<u64> {
    variable("BOWTIE_FUZZ_SEED")
}

/// `BOWTIE_FUZZ_CASES`, or a module's own number of cases.
pub(crate) fn case_count(default: u32) -> u32 {
    let cases =
        variable("BOWTIE_FUZZ_CASES").map_or(default, |cases| u32::try_from(cases).unwrap());
    assert!(cases > 0, "BOWTIE_FUZZ_CASES = 0");
    cases
}

/// Runs cases, whose shares are bounded.
pub(crate) fn run_cases<C, F>(
    strategy: impl Strategy<Value = C>,
    shares: Shares,
    run: impl Fn(C) -> F,
) where
    C: std::fmt::Debug,
    F: Future<Output = Result<Outcome, String>>,
{
    let cases = case_count(200);
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 400,
        ..Config::default()
    };
    let rng = match seed() {
        // The seed of ChaCha has 32 bytes.
        Some(seed) => TestRng::from_seed(RngAlgorithm::ChaCha, &seed.to_le_bytes().repeat(4)),
        None => TestRng::deterministic_rng(RngAlgorithm::ChaCha),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    // The cases that started, and those that passed until one failed: attempts to make that one smaller follow.
    let (started, passed) = (std::cell::Cell::new(0u32), std::cell::Cell::new(0));
    let (offloaded, refused) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    let result = TestRunner::new_with_rng(config, rng).run(&strategy, |case| {
        let number = started.replace(started.get() + 1);
        let outcome = runtime.block_on(run(case)).map_err(TestCaseError::fail)?;
        if passed.get() == number {
            passed.set(number + 1);
        }
        offloaded.set(offloaded.get() + u32::from(outcome == Outcome::Offloaded));
        refused.set(refused.get() + u32::from(outcome == Outcome::Refused));
        Ok(())
    });
    if let Err(failure) = result {
        let seed = seed().map_or("is not set".to_string(), |seed| format!("= {seed}"));
        let number = passed.get();
        panic!("case {number}, where BOWTIE_FUZZ_SEED {seed}\n{failure}");
    }
    shares.check(cases, offloaded.get(), refused.get());
}
