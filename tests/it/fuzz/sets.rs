//! Random joins by predicates on sets.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, ListArray, RecordBatch, UInt32Array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Field, TimeUnit};
use proptest::prelude::*;

use crate::fuzz::cases::{Cell, Compare, Outcome, Shares, join_aggregate_sql, outcome, run_cases};
use crate::support::compare::{same_rows, similar_rows};
use crate::support::join_types::KINDS;
use crate::support::key_types::domain;
use crate::support::lists::TECHNIQUES;
use crate::support::session::{session, set};
use crate::support::tables::register;
use crate::support::tuning::Tuning;

fn element_types() -> Vec<DataType> {
    vec![
        DataType::Int8,
        DataType::Int32,
        DataType::Int64,
        DataType::UInt64,
        DataType::Float32,
        DataType::Float64,
        DataType::Decimal128(20, 3),
        DataType::Decimal256(60, 2),
        DataType::Date32,
        DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Boolean,
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Utf8View,
        DataType::Binary,
        DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
    ]
}

type ListKind = fn(Arc<Field>) -> DataType;

const LISTS: [ListKind; 5] = [
    DataType::List,
    DataType::List,
    DataType::LargeList,
    DataType::ListView,
    DataType::LargeListView,
];

/// A row's list, element, and group.
type Row = (Option<Vec<Cell>>, Cell, Cell);

#[derive(Debug, Clone)]
struct Case {
    elements: DataType,
    /// Which kind of list each side has.
    lists: [usize; 2],
    left: Vec<Row>,
    /// `None`: a self join.
    right: Option<Vec<Row>>,
    predicates: Vec<Predicate>,
    others: Vec<Other>,
    kind: usize,
    technique: &'static str,
    tuning: usize,
    /// Aggregate instead of the join's rows.
    aggregate: Option<usize>,
}

#[derive(Debug, Clone)]
enum Predicate {
    /// `true`: the right list is the contained one.
    HasAll(bool),
    HasAny,
    Has(bool),
    Overlap(&'static str, i64),
    /// A function, and a comparison with `p / q`.
    Degree(&'static str, &'static str, u32, u32),
}

#[derive(Debug, Clone)]
enum Other {
    Groups,
    NoDistinction,
    Numbers(&'static str),
    /// On both sides in one expression.
    Mixed(i64),
    Elements(&'static str),
    /// A condition that does not compile.
    Text(&'static str),
}

fn predicate() -> impl Strategy<Value = Predicate> {
    let function = prop::sample::select(vec!["jaccard", "dice", "cosine", "containment"]);
    let comparison = prop::sample::select(vec![">=", ">"]);
    prop_oneof![
        2 => any::<bool>().prop_map(Predicate::HasAll),
        2 => Just(Predicate::HasAny),
        1 => any::<bool>().prop_map(Predicate::Has),
        2 => (comparison.clone(), 1..5i64).prop_map(|(op, k)| Predicate::Overlap(op, k)),
        // Fractions that small sets can reach, and some above 1.
        5 => (function, comparison, 1..8u32, 1..8u32)
            .prop_map(|(f, op, p, q)| Predicate::Degree(f, op, p.min(q + 1), q)),
    ]
}

fn other() -> impl Strategy<Value = Other> {
    let operator = || prop::sample::select(vec!["<", "<=", "<>", "=", ">="]);
    prop_oneof![
        3 => Just(Other::Groups),
        1 => Just(Other::NoDistinction),
        3 => operator().prop_map(Other::Numbers),
        1 => (0..60i64).prop_map(Other::Mixed),
        1 => operator().prop_map(Other::Elements),
        1 => operator().prop_map(Other::Text),
    ]
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    // The first values are frequent.
    let cell = || {
        prop_oneof![
            1 => Just(None),
            8 => (0..4u8).prop_map(Some),
            4 => (0..12u8).prop_map(Some),
        ]
    };
    let list = prop::option::weighted(0.9, prop::collection::vec(cell(), 0..8));
    let group = prop_oneof![1 => Just(None), 6 => (0..4u8).prop_map(Some)];
    prop::collection::vec((list, cell(), group), 0..50)
}

fn case() -> impl Strategy<Value = Case> {
    let sides = (
        prop::sample::select(element_types()),
        prop::array::uniform2(0..LISTS.len()),
        rows(),
        prop::option::weighted(0.7, rows()),
    );
    let condition = (
        prop::collection::vec(predicate(), 1..3),
        prop::collection::vec(other(), 0..3),
    );
    (
        sides,
        condition,
        0..KINDS.len(),
        prop::sample::select(TECHNIQUES.to_vec()),
        0..Tuning::COUNT,
        prop::option::weighted(0.4, 0..AGGREGATES.len()),
    )
        .prop_map(
            |(
                (elements, lists, left, right),
                (predicates, others),
                kind,
                technique,
                tuning,
                aggregate,
            )| {
                Case {
                    elements,
                    lists,
                    left,
                    right,
                    predicates,
                    others,
                    kind,
                    technique,
                    tuning,
                    aggregate,
                }
            },
        )
}

const AGGREGATES: [&str; 6] = [
    "count(*) FROM",
    "count(*), sum(s.id), avg(r.id), min(s.id) FROM",
    "r.g AS g, count(*), sum(r.id) FROM",
    "r.g AS g, count(*), sum(s.id), min(s.id) FROM",
    "s.id AS g, count(r.g), avg(r.id), max(r.id) FROM",
    "s.id % 5 AS g, count(*) FILTER (WHERE s.id > 9), sum(s.id) FROM",
];

impl Predicate {
    fn sql(&self) -> String {
        match self {
            Self::HasAll(true) => "array_has_all(r.v, s.v)".into(),
            Self::HasAll(false) => "array_has_all(s.v, r.v)".into(),
            Self::HasAny => "array_has_any(r.v, s.v)".into(),
            Self::Has(true) => "array_has(r.v, s.x)".into(),
            Self::Has(false) => "array_has(s.v, r.x)".into(),
            Self::Overlap(op, k) => format!("array_overlap(r.v, s.v) {op} {k}"),
            Self::Degree(function, op, p, q) => {
                let threshold = f64::from(*p) / f64::from(*q);
                format!("array_{function}(r.v, s.v) {op} CAST({threshold:?} AS DOUBLE)")
            }
        }
    }
}

impl Other {
    fn sql(&self) -> String {
        match self {
            Self::Groups => "r.g = s.g".into(),
            Self::NoDistinction => "r.g IS NOT DISTINCT FROM s.g".into(),
            Self::Numbers(op) => format!("r.id {op} s.id"),
            Self::Mixed(sum) => format!("r.id + s.id > {sum}"),
            Self::Elements(op) => format!("r.x {op} s.x"),
            Self::Text(op) => format!("concat(r.g, s.g) {op} concat(s.id, r.id)"),
        }
    }
}

impl Case {
    fn table(&self, rows: &[Row], kind: ListKind) -> RecordBatch {
        let values = domain(&self.elements);
        let pick = |cell: &Cell| cell.map(|cell| u32::from(cell) % values.len() as u32);
        // In DataFusion, `array_has_all` of a NULL list depends on the other rows of its batch.
        let trap = |p: &Predicate| matches!(p, Predicate::HasAll(_));
        let all_valid = self.predicates.iter().any(trap);
        let lists = rows.iter().map(|(list, _, _)| list.as_deref());
        let elements: UInt32Array = lists.clone().flatten().flatten().map(pick).collect();
        let elements = take(&values, &elements, None).unwrap();
        let list = ListArray::new(
            Arc::new(Field::new_list_field(elements.data_type().clone(), true)),
            OffsetBuffer::from_lengths(lists.clone().map(|list| list.map_or(0, <[Cell]>::len))),
            elements,
            Some(NullBuffer::from_iter(
                lists.map(|list| all_valid || list.is_some()),
            )),
        );
        let field = Field::new_list_field(self.elements.clone(), true);
        let list = cast(&list, &kind(Arc::new(field))).unwrap();
        let x: UInt32Array = rows.iter().map(|(_, x, _)| pick(x)).collect();
        let g = rows.iter().map(|(_, _, g)| g.map(i64::from));
        RecordBatch::try_from_iter_with_nullable([
            (
                "id",
                Arc::new(Int64Array::from_iter_values(0..rows.len() as i64)) as ArrayRef,
                false,
            ),
            ("g", Arc::new(g.collect::<Int64Array>()), true),
            ("x", take(&values, &x, None).unwrap(), true),
            ("v", list, true),
        ])
        .unwrap()
    }

    fn sql(&self) -> String {
        let predicates = self.predicates.iter().map(Predicate::sql);
        let condition: Vec<String> = predicates
            .chain(self.others.iter().map(Other::sql))
            .collect();
        let condition = condition.join(" AND ");
        let right = if self.right.is_some() { "b" } else { "a" };
        match self.aggregate {
            None => KINDS[self.kind].sql("a", right, &["id", "g"], &condition),
            Some(aggregate) => {
                join_aggregate_sql(AGGREGATES[aggregate], self.kind, right, &condition)
            }
        }
    }

    /// What became of it, or why the rows differ.
    async fn run(self) -> Result<Outcome, String> {
        let ctx = session();
        register(&ctx, "a", &self.table(&self.left, LISTS[self.lists[0]]));
        if let Some(right) = &self.right {
            register(&ctx, "b", &self.table(right, LISTS[self.lists[1]]));
        }
        let sql = self.sql();
        let tuning = Tuning::nth(self.tuning);
        set(&ctx, "bowtie.set_strategy", self.technique);
        let compare: Compare = match self.aggregate {
            None => same_rows,
            Some(_) => similar_rows,
        };
        outcome(&ctx, &sql, &tuning, compare, &["strategy=set"]).await
    }
}

#[test]
fn random_set_joins() {
    let shares = Shares {
        offloaded: 90,
        refused: 10,
    };
    run_cases(case(), shares, Case::run);
}
