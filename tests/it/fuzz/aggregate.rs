//! Random aggregations, of a table and of joins.

use arrow::datatypes::DataType;
use proptest::prelude::*;

use crate::fuzz::cases::{Cell, Outcome, Shares, column_types, outcome, rows, run_cases, table};
use crate::support::compare::similar_rows;
use crate::support::session::session;
use crate::support::tables::register;
use crate::support::tuning::Tuning;

#[derive(Debug, Clone)]
struct Case {
    types: Vec<DataType>,
    left: Vec<[Cell; 4]>,
    right: Vec<[Cell; 4]>,
    /// What is aggregated: a table, or a join.
    source: usize,
    keys: Vec<Key>,
    /// How the keys are grouped.
    sets: usize,
    aggregates: Vec<(Aggregate, Option<i64>)>,
    tuning: usize,
}

/// Columns are numbers modulo the case's columns.
#[derive(Debug, Clone)]
enum Key {
    Column(usize),
    /// The row number modulo this number.
    Number(i64),
    IsNull(usize),
}

#[derive(Debug, Clone)]
enum Aggregate {
    Rows,
    Count(usize),
    Distinct(usize),
    Least(usize),
    Greatest(usize),
    Sum,
    SumDistinct(i64),
    Mean,
    AnyAbove(i64),
    Bits(&'static str),
    Median,
    First(usize),
    Both(usize, usize),
}

const SOURCES: [&str; 5] = [
    "a r",
    "a r",
    "a r JOIN b s ON r.id > s.id",
    "a r LEFT JOIN b s ON r.id % 5 = s.id % 7 AND r.id < s.id",
    "a r FULL JOIN b s ON r.id = s.id * 2",
];

fn key() -> impl Strategy<Value = Key> {
    prop_oneof![
        4 => (0..4usize).prop_map(Key::Column),
        2 => (1..9i64).prop_map(Key::Number),
        1 => (0..4usize).prop_map(Key::IsNull),
    ]
}

fn aggregate() -> impl Strategy<Value = Aggregate> {
    let column = 0..4usize;
    prop_oneof![
        2 => Just(Aggregate::Rows),
        2 => column.clone().prop_map(Aggregate::Count),
        2 => column.clone().prop_map(Aggregate::Distinct),
        2 => column.clone().prop_map(Aggregate::Least),
        2 => column.clone().prop_map(Aggregate::Greatest),
        2 => Just(Aggregate::Sum),
        1 => (1..9i64).prop_map(Aggregate::SumDistinct),
        2 => Just(Aggregate::Mean),
        1 => (0..50i64).prop_map(Aggregate::AnyAbove),
        1 => prop::sample::select(vec!["bit_and", "bit_or", "bit_xor"]).prop_map(Aggregate::Bits),
        1 => Just(Aggregate::Median),
        1 => column.clone().prop_map(Aggregate::First),
        1 => (column.clone(), column).prop_map(|(x, y)| Aggregate::Both(x, y)),
    ]
}

fn case() -> impl Strategy<Value = Case> {
    (
        prop::collection::vec(prop::sample::select(column_types()), 1..4),
        rows(),
        rows(),
        0..SOURCES.len(),
        prop::collection::vec(key(), 0..4),
        0..6usize,
        prop::collection::vec((aggregate(), prop::option::weighted(0.25, 0..40i64)), 1..6),
        0..Tuning::COUNT,
    )
        .prop_map(
            |(types, left, right, source, keys, sets, aggregates, tuning)| Case {
                types,
                left,
                right,
                source,
                keys,
                sets,
                aggregates,
                tuning,
            },
        )
}

impl Case {
    fn column(&self, x: usize) -> String {
        format!("r.x{}", x % self.types.len())
    }

    /// In DataFusion itself, MIN and MAX depend on the order of rows where there is a NaN.
    fn has_extremes(&self, x: usize) -> bool {
        match &self.types[x % self.types.len()] {
            DataType::Dictionary(_, values) => !values.is_floating(),
            other => !other.is_floating(),
        }
    }

    fn aggregate(&self, aggregate: &Aggregate) -> String {
        match aggregate {
            Aggregate::Rows => "count(*)".into(),
            Aggregate::Count(x) => format!("count({})", self.column(*x)),
            Aggregate::Distinct(x) => format!("count(DISTINCT {})", self.column(*x)),
            Aggregate::Least(x) if self.has_extremes(*x) => format!("min({})", self.column(*x)),
            Aggregate::Greatest(x) if self.has_extremes(*x) => format!("max({})", self.column(*x)),
            Aggregate::Least(_) => "min(r.id)".into(),
            Aggregate::Greatest(_) => "max(r.id)".into(),
            Aggregate::Sum => "sum(r.id * 3)".into(),
            Aggregate::SumDistinct(m) => format!("sum(DISTINCT r.id % {m})"),
            Aggregate::Mean => "avg(r.id)".into(),
            Aggregate::AnyAbove(least) => format!("bool_or(r.id > {least})"),
            Aggregate::Bits(function) => format!("{function}(r.id)"),
            Aggregate::Median => "median(r.id)".into(),
            Aggregate::First(x) => {
                let column = self.column(*x);
                format!("first_value({column} ORDER BY r.id DESC, {column})")
            }
            Aggregate::Both(x, y) => format!("count({}, {})", self.column(*x), self.column(*y)),
        }
    }

    fn sql(&self) -> String {
        // Where planning finds that a key is a constant, DataFusion itself gives some groups of ROLLUP and CUBE twice.
        let may_be_constant = |key: &&Key| matches!(key, Key::IsNull(_) | Key::Number(1));
        let plain = self.sets > 1;
        let mut keys: Vec<String> = self
            .keys
            .iter()
            .filter(|key| plain || !may_be_constant(key))
            .map(|key| match key {
                Key::Column(x) => self.column(*x),
                Key::Number(m) => format!("r.id % {m}"),
                Key::IsNull(x) => format!("{} IS NULL", self.column(*x)),
            })
            .collect();
        keys.sort();
        keys.dedup();
        let aggregates = self.aggregates.iter().enumerate();
        let aggregates: Vec<String> = aggregates
            .map(|(i, (aggregate, least))| {
                let shown = self.aggregate(aggregate);
                match least {
                    Some(least) => format!("{shown} FILTER (WHERE r.id >= {least}) AS a{i}"),
                    None => format!("{shown} AS a{i}"),
                }
            })
            .collect();
        let listed: Vec<String> = keys
            .iter()
            .enumerate()
            .map(|(i, key)| format!("{key} AS k{i}"))
            .chain(aggregates)
            .collect();
        let by = keys.join(", ");
        let group = match (keys.is_empty(), self.sets) {
            (true, _) => String::new(),
            (false, 0) => format!(" GROUP BY ROLLUP ({by})"),
            (false, 1) => format!(" GROUP BY CUBE ({by})"),
            (false, _) => format!(" GROUP BY {by}"),
        };
        let source = SOURCES[self.source];
        format!("SELECT {} FROM {source}{group}", listed.join(", "))
    }

    /// What became of it, or why the rows differ.
    async fn run(self) -> Result<Outcome, String> {
        let ctx = session();
        register(&ctx, "a", &table(&self.types, &self.left));
        register(&ctx, "b", &table(&self.types, &self.right));
        let sql = self.sql();
        let tuning = Tuning::nth(self.tuning);
        let nodes = ["BowtieAggregateExec", "BowtieJoinAggregateExec"];
        outcome(&ctx, &sql, &tuning, similar_rows, &nodes).await
    }
}

#[test]
fn random_aggregations() {
    let shares = Shares {
        offloaded: 86,
        refused: 3,
    };
    run_cases(case(), shares, Case::run);
}
