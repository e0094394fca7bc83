//! Random plans: filters, projections, joins, aggregations, set operations and subqueries, one above the other, over random types.
//!
//! Every relation has the columns `i` and `j` (BIGINT), `c0` and `c1` (of the case's type), so that any can be the input of any.

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::DataType;
use proptest::prelude::*;

use crate::fuzz::cases::{Cell, Outcome, Shares, column_types, equi, is_defect, run_cases, table};
use crate::support::answer::{forced, forced_and_sent, stock};
use crate::support::compare::same_rows;
use crate::support::session::{Rule, session_by, set};
use crate::support::tables::register;
use crate::support::tuning::Tuning;

/// Tables that a plan reads, at most: joins of more may have too many rows.
pub(super) const MOST_LEAVES: usize = 4;

#[derive(Debug, Clone)]
pub(super) enum Plan {
    Table(usize),
    Filter(Box<Plan>, usize),
    Project(Box<Plan>, usize),
    Group(Box<Plan>, usize),
    Join(Box<Plan>, Box<Plan>, usize, usize),
    Set(Box<Plan>, Box<Plan>, usize),
    Subquery(Box<Plan>, Box<Plan>, usize),
    Sort(Box<Plan>, usize),
}

const FILTERS: [&str; 9] = [
    "i > 3",
    "c0 = c1",
    "c0 IS NOT NULL",
    "j % 3 <> 1 OR c1 IS NULL",
    "i BETWEEN j AND 9",
    "CASE WHEN i > 5 THEN j > 2 ELSE c0 IS NULL END",
    "j IN (1, 3, 4, NULL) OR i < 2",
    "NOT (i = j) AND c1 IS DISTINCT FROM c0",
    "i / (j - 2) > 1 OR j = 2",
];

const PROJECTIONS: [&str; 7] = [
    "i + j AS i, j * 2 - 1 AS j, c1 AS c0, c0 AS c1",
    "abs(i - 5) AS i, CASE WHEN j > 4 THEN NULL ELSE j END AS j, c0, c1",
    "coalesce(i, 7) AS i, i % 11 AS j, nullif(c0, c1) AS c0, c1",
    "i, j, CASE WHEN i > 4 THEN c0 ELSE c1 END AS c0, c1",
    "j AS i, i AS j, c0, c0 AS c1",
    "-i AS i, nullif(j, 3) AS j, coalesce(c0, c1) AS c0, c1",
    "i, CAST(date_part('doy', DATE '2020-02-27' + CAST(abs(j) % 400 AS INT)) AS BIGINT) AS j, c0, c1",
];

/// What is selected, and how it is grouped.
const GROUPS: [(&str, &str); 8] = [
    ("sum(i) AS i, count(*) AS j, c0, c1", "GROUP BY c0, c1"),
    ("max(i) AS i, min(j) AS j, c0, c0 AS c1", "GROUP BY c0"),
    ("i, count(c0) AS j, c1 AS c0, c1", "GROUP BY i, c1"),
    (
        "sum(i) FILTER (WHERE j > 2) AS i, count(DISTINCT c0) AS j, c1 AS c0, c1",
        "GROUP BY c1",
    ),
    (
        "count(DISTINCT i) AS i, sum(DISTINCT j) AS j, c0, c1",
        "GROUP BY ROLLUP (c0, c1)",
    ),
    ("DISTINCT i % 4 AS i, j % 3 AS j, c0, c1", ""),
    (
        "CAST(avg(i) AS BIGINT) AS i, bit_xor(j) AS j, c0, c1",
        "GROUP BY c1, c0 HAVING count(*) < 4",
    ),
    (
        "CAST(median(i) AS BIGINT) AS i, j, c0, c1",
        "GROUP BY j, c0, c1",
    ),
];

/// The kind of a join, and what it selects.
const JOINS: [(&str, &str); 8] = [
    ("JOIN", PAIRS),
    ("LEFT JOIN", PAIRS),
    ("RIGHT JOIN", PAIRS),
    ("FULL JOIN", PAIRS),
    ("LEFT SEMI JOIN", "l.*"),
    ("LEFT ANTI JOIN", "l.*"),
    ("RIGHT SEMI JOIN", "r.*"),
    ("RIGHT ANTI JOIN", "r.*"),
];

const PAIRS: &str = "l.i AS i, r.j AS j, l.c0 AS c0, r.c1 AS c1";

const CONDITIONS: [&str; 10] = [
    "l.c0 = r.c0",
    "l.c0 = r.c1 AND l.i < r.i",
    "l.i = r.i AND l.c1 = r.c1",
    "l.j = r.j",
    "l.i > r.i AND l.j = r.j",
    "l.c0 IS NOT DISTINCT FROM r.c0",
    "l.i = r.j AND l.i * r.i > 3",
    "l.i < r.i AND l.j >= r.j",
    "l.i - r.j = 1",
    "l.i = r.i AND (l.c0 = r.c0 OR l.j > r.j)",
];

const SETS: [&str; 6] = [
    "UNION ALL",
    "UNION",
    "INTERSECT",
    "INTERSECT ALL",
    "EXCEPT",
    "EXCEPT ALL",
];

/// Of a relation `l`; `{}` is another one.
const SUBQUERIES: [&str; 5] = [
    "l.c0 IN (SELECT c1 FROM ({}) AS r)",
    "l.i NOT IN (SELECT j FROM ({}) AS r)",
    "EXISTS (SELECT 1 FROM ({}) AS r WHERE r.i = l.i AND r.j > l.j)",
    "NOT EXISTS (SELECT 1 FROM ({}) AS r WHERE r.c0 = l.c0)",
    "l.i > (SELECT min(j) FROM ({}) AS r) OR l.j IS NULL",
];

/// Orders by all columns, so that the rows within a limit are the same. None has an OFFSET without a LIMIT: where no order is needed above
/// it, DataFusion 55 drops the sort below it, and skips other rows.
const ORDERS: [&str; 4] = [
    "ORDER BY i, j, c0, c1 LIMIT 7",
    "ORDER BY c0 DESC, c1 NULLS FIRST, i DESC, j LIMIT 5 OFFSET 2",
    "ORDER BY c1 DESC NULLS LAST, j, i, c0 LIMIT 1000 OFFSET 3",
    "ORDER BY i + j DESC, j, c0, c1 DESC, i LIMIT 10",
];

pub(super) fn plan() -> impl Strategy<Value = Plan> {
    let table = (0..3usize).prop_map(Plan::Table);
    table.prop_recursive(5, 12, 2, |below| {
        let below = below.prop_map(Box::new).boxed();
        prop_oneof![
            2 => (below.clone(), 0..FILTERS.len()).prop_map(|(p, n)| Plan::Filter(p, n)),
            2 => (below.clone(), 0..PROJECTIONS.len()).prop_map(|(p, n)| Plan::Project(p, n)),
            2 => (below.clone(), 0..GROUPS.len()).prop_map(|(p, n)| Plan::Group(p, n)),
            4 => (below.clone(), below.clone(), 0..JOINS.len(), 0..CONDITIONS.len())
                .prop_map(|(l, r, kind, on)| Plan::Join(l, r, kind, on)),
            2 => (below.clone(), below.clone(), 0..SETS.len()).prop_map(|(l, r, n)| Plan::Set(l, r, n)),
            2 => (below.clone(), 0..ORDERS.len()).prop_map(|(p, n)| Plan::Sort(p, n)),
            1 => (below.clone(), below, 0..SUBQUERIES.len()).prop_map(|(l, r, n)| Plan::Subquery(l, r, n)),
        ]
    })
}

impl Plan {
    /// The query of this plan; `tables` may still be read.
    pub(super) fn sql(&self, leaves: &mut usize) -> String {
        let both = |left: &Self, right: &Self, leaves: &mut usize| {
            let left = left.sql(leaves);
            let right = (*leaves > 0).then(|| right.sql(leaves));
            (left, right)
        };
        match self {
            Self::Table(n) => {
                *leaves = leaves.saturating_sub(1);
                format!("SELECT * FROM {}", ["a", "b", "c"][*n])
            }
            Self::Filter(below, n) => {
                let below = below.sql(leaves);
                format!("SELECT * FROM ({below}) AS f WHERE {}", FILTERS[*n])
            }
            Self::Sort(below, n) => {
                let below = below.sql(leaves);
                format!("SELECT * FROM ({below}) AS o {}", ORDERS[*n])
            }
            Self::Project(below, n) => {
                let below = below.sql(leaves);
                format!("SELECT {} FROM ({below}) AS p", PROJECTIONS[*n])
            }
            Self::Group(below, n) => {
                let (selected, group) = GROUPS[*n];
                let below = below.sql(leaves);
                format!("SELECT {selected} FROM ({below}) AS g {group}")
            }
            Self::Join(left, right, kind, on) => match both(left, right, leaves) {
                (left, None) => left,
                (left, Some(right)) => {
                    let (kind, selected) = JOINS[*kind];
                    let on = CONDITIONS[*on];
                    format!("SELECT {selected} FROM ({left}) AS l {kind} ({right}) AS r ON {on}")
                }
            },
            Self::Set(left, right, n) => match both(left, right, leaves) {
                (left, None) => left,
                (left, Some(right)) => format!("({left}) {} ({right})", SETS[*n]),
            },
            Self::Subquery(left, right, n) => match both(left, right, leaves) {
                (left, None) => left,
                (left, Some(right)) => {
                    let condition = SUBQUERIES[*n].replace("{}", &right);
                    format!("SELECT * FROM ({left}) AS l WHERE {condition}")
                }
            },
        }
    }
}

#[derive(Debug, Clone)]
struct Case {
    data_type: DataType,
    /// Rows of three tables.
    tables: [Vec<[Cell; 4]>; 3],
    plan: Plan,
    equi: (&'static str, &'static str),
    tuning: usize,
}

fn case() -> impl Strategy<Value = Case> {
    let cell = prop_oneof![1 => Just(None), 5 => (0..12u8).prop_map(Some)];
    let rows = prop::collection::vec(prop::array::uniform4(cell), 0..14);
    (
        prop::sample::select(column_types()),
        prop::array::uniform3(rows),
        plan(),
        equi(),
        0..Tuning::COUNT,
    )
        .prop_map(|(data_type, tables, plan, equi, tuning)| Case {
            data_type,
            tables,
            plan,
            equi,
            tuning,
        })
}

impl Case {
    fn table(&self, n: usize) -> RecordBatch {
        let rows = &self.tables[n];
        let number = |column: usize| -> ArrayRef {
            let numbers = rows.iter().map(|row| row[column].map(i64::from));
            std::sync::Arc::new(Int64Array::from_iter(numbers))
        };
        let types = [self.data_type.clone(), self.data_type.clone()];
        let values = table(&types, rows);
        RecordBatch::try_from_iter_with_nullable([
            ("i", number(2), true),
            ("j", number(3), true),
            ("c0", std::sync::Arc::clone(values.column(1)), true),
            ("c1", std::sync::Arc::clone(values.column(2)), true),
        ])
        .unwrap()
    }

    /// What became of it, or why the rows differ.
    async fn run(&self, rule: Rule, is_sent: bool) -> Result<Outcome, String> {
        let ctx = session_by(rule);
        // Values of scalar subqueries that are computed apart are not sent.
        let apart = "datafusion.optimizer.enable_physical_uncorrelated_scalar_subquery";
        if is_sent {
            set(&ctx, apart, "false");
        }
        for (n, name) in ["a", "b", "c"].into_iter().enumerate() {
            register(&ctx, name, &self.table(n));
        }
        let sql = self.plan.sql(&mut { MOST_LEAVES });
        let stock = stock(&ctx, &sql).await;
        let tuning = Tuning::nth(self.tuning);
        set(&ctx, "bowtie.equi_join_strategy", self.equi.0);
        set(&ctx, "bowtie.materialization", self.equi.1);
        let given = match is_sent {
            true => forced_and_sent(&ctx, &sql, &tuning).await,
            false => forced(&ctx, &sql, &tuning).await,
        };
        let (stock, given) = match (stock, given) {
            (Ok(stock), Ok(given)) => (stock, given),
            // An expression that fails, or one that DataFusion does not support.
            (Err(refusal), Err(error)) if is_defect(&error, &refusal) => {
                return Err(format!("{sql}\n{tuning:?}\n{error}\nDataFusion: {refusal}"));
            }
            (Err(_), _) => return Ok(Outcome::Refused),
            (Ok(_), Err(error)) => {
                return Err(format!("{sql}\n{tuning:?}\nfails when forced: {error}"));
            }
        };
        same_rows(&stock, &given).map_err(|difference| {
            let equi = self.equi;
            format!("{sql}\n{tuning:?}, {equi:?}\n{}\n{difference}", given.plan)
        })?;
        Ok(Outcome::of_plan(given.plan.contains("Bowtie")))
    }
}

/// Some plans read one table, where nothing is joined or grouped.
const SHARES: Shares = Shares {
    offloaded: 70,
    refused: 5,
};

#[test]
fn random_plans() {
    run_cases(case(), SHARES, |case| async move {
        case.run(Rule::of_tests(), false).await
    });
}

/// In plans that are distributed and ordered already.
#[test]
fn random_stages() {
    run_cases(case(), SHARES, |case| async move {
        case.run(Rule::Stages, false).await
    });
}

/// In plans that are cut at their exchanges.
#[test]
fn random_cut_stages() {
    // Exchanges stand between the operators of a stage.
    let shares = Shares {
        offloaded: 62,
        ..SHARES
    };
    run_cases(case(), shares, |case| async move {
        case.run(Rule::CutStages, false).await
    });
}

/// In plans that are sent before they run.
#[test]
fn random_plans_that_are_sent() {
    run_cases(case(), SHARES, |case| async move {
        case.run(Rule::Early, true).await
    });
}
