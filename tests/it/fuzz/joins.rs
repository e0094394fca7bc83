//! Random joins, some below an aggregation.

use arrow::datatypes::DataType;
use proptest::prelude::*;

use crate::fuzz::cases::{
    Cell, Compare, Outcome, Shares, column_types, equi, join_aggregate_sql, outcome, rows,
    run_cases, table,
};
use crate::support::compare::{same_rows, similar_rows};
use crate::support::join_types::KINDS;
use crate::support::session::{session, set};
use crate::support::tables::register;
use crate::support::tuning::Tuning;

#[derive(Debug, Clone)]
struct Case {
    types: Vec<DataType>,
    /// The rows of each side, with a cell for every column that there may be.
    left: Vec<[Cell; 4]>,
    right: Vec<[Cell; 4]>,
    conjuncts: Vec<Conjunct>,
    kind: usize,
    strategy: &'static str,
    /// `bowtie.join_strategy` and `bowtie.materialization`.
    equi: (&'static str, &'static str),
    tuning: usize,
    /// Aggregate instead of the join's rows.
    aggregate: Option<usize>,
}

/// Columns are numbers modulo the case's columns.
#[derive(Debug, Clone)]
enum Conjunct {
    /// `r.x OP s.x`, of one column or of two columns of one type.
    Compare(usize, usize, &'static str),
    /// `(r.x OP s.x OR r.y OP s.y)`
    Either(usize, &'static str, usize, &'static str),
    /// An inequality of expressions over the row numbers.
    Numbers(i64, &'static str, i64),
    /// A condition on both sides that no comparison of columns decides.
    Mixed(i64),
    /// `x IS NULL` on one side.
    IsNull(bool, usize),
    /// `CASE WHEN r.id % 2 = 0 THEN r.x OP s.x ELSE r.id < s.id END`
    Case(usize, &'static str),
    Distinct(usize),
}

fn operator() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["<", "<=", ">", ">=", "=", "=", "=", "<>"])
}

fn conjunct() -> impl Strategy<Value = Conjunct> {
    let column = 0..4usize;
    prop_oneof![
        8 => (column.clone(), column.clone(), operator())
            .prop_map(|(x, y, op)| Conjunct::Compare(x, y, op)),
        1 => (column.clone(), operator(), column.clone(), operator())
            .prop_map(|(x, a, y, b)| Conjunct::Either(x, a, y, b)),
        3 => (-9..9i64, operator(), 1..4i64).prop_map(|(d, op, m)| Conjunct::Numbers(d, op, m)),
        1 => (0..70i64).prop_map(Conjunct::Mixed),
        1 => (any::<bool>(), column.clone()).prop_map(|(left, x)| Conjunct::IsNull(left, x)),
        1 => (column.clone(), operator()).prop_map(|(x, op)| Conjunct::Case(x, op)),
        1 => column.prop_map(Conjunct::Distinct),
    ]
}

fn case() -> impl Strategy<Value = Case> {
    (
        prop::collection::vec(prop::sample::select(column_types()), 1..4),
        rows(),
        rows(),
        prop::collection::vec(conjunct(), 1..4),
        0..KINDS.len(),
        prop::sample::select(vec!["auto", "auto", "range", "dominance", "tiles"]),
        equi(),
        0..Tuning::COUNT,
        prop::option::weighted(0.3, 0..AGGREGATES.len()),
    )
        .prop_map(
            |(types, left, right, conjuncts, kind, strategy, equi, tuning, aggregate)| Case {
                types,
                left,
                right,
                conjuncts,
                kind,
                strategy,
                equi,
                tuning,
                aggregate,
            },
        )
}

const AGGREGATES: [&str; 5] = [
    "count(*), sum(s.id), avg(r.id), min(s.id) FROM",
    "count(s.x0), max(r.id), sum(r.id) FROM",
    "r.x0 AS g, count(*), sum(s.id), min(s.id) FROM",
    "s.id AS g, count(r.x0), avg(r.id), max(r.id) FROM",
    "s.id % 5 AS g, count(*) FILTER (WHERE s.id > 9), sum(s.id) FROM",
];

impl Conjunct {
    fn sql(&self, types: &[DataType]) -> String {
        let n = types.len();
        match self {
            Self::Compare(x, y, op) => {
                let x = x % n;
                // The next column of the same type, if there is one.
                let y = (0..n).map(|i| (y + i) % n).find(|y| types[*y] == types[x]);
                format!("r.x{x} {op} s.x{}", y.unwrap_or(x))
            }
            Self::Either(x, a, y, b) => {
                let (x, y) = (x % n, y % n);
                format!("(r.x{x} {a} s.x{x} OR r.x{y} {b} s.x{y})")
            }
            Self::Numbers(d, op, m) => format!("r.id + ({d}) {op} s.id * {m}"),
            Self::Mixed(sum) => format!("r.id + s.id > {sum}"),
            Self::IsNull(left, x) => {
                let side = if *left { "r" } else { "s" };
                format!("{side}.x{} IS NULL", x % n)
            }
            Self::Case(x, op) => {
                let x = x % n;
                format!("CASE WHEN r.id % 2 = 0 THEN r.x{x} {op} s.x{x} ELSE r.id < s.id END")
            }
            Self::Distinct(x) => format!("(r.x{0} IS DISTINCT FROM s.x{0})", x % n),
        }
    }
}

impl Case {
    fn sql(&self) -> String {
        let condition: Vec<String> = self.conjuncts.iter().map(|c| c.sql(&self.types)).collect();
        let condition = condition.join(" AND ");
        match self.aggregate {
            None => KINDS[self.kind].sql("a", "b", &["id", "x0"], &condition),
            Some(aggregate) => {
                join_aggregate_sql(AGGREGATES[aggregate], self.kind, "b", &condition)
            }
        }
    }

    /// What became of it, or why the rows differ.
    async fn run(&self) -> Result<Outcome, String> {
        let ctx = session();
        register(&ctx, "a", &table(&self.types, &self.left));
        register(&ctx, "b", &table(&self.types, &self.right));
        let sql = self.sql();
        let tuning = Tuning::nth(self.tuning).with_strategy(self.strategy);
        set(&ctx, "bowtie.equi_join_strategy", self.equi.0);
        set(&ctx, "bowtie.materialization", self.equi.1);
        let compare: Compare = match self.aggregate {
            None => same_rows,
            Some(_) => similar_rows,
        };
        outcome(&ctx, &sql, &tuning, compare, &["Bowtie"]).await
    }
}

#[test]
fn random_joins() {
    let shares = Shares {
        offloaded: 92,
        refused: 3,
    };
    run_cases(case(), shares, |case| async move { case.run().await });
}
