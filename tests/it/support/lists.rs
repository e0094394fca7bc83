//! Tables of lists, and predicates on two lists.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int32Array, Int64Array, ListArray, RecordBatch, UInt32Array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Field};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::support::key_types::domain;
use crate::support::tables::batch_of;

/// All values of `bowtie.set_strategy`.
pub(crate) const TECHNIQUES: [&str; 9] = [
    "auto",
    "prefix",
    "inverted_index",
    "signature",
    "bitmap",
    "matrix",
    "mmjoin",
    "rarest",
    "intersect",
];

/// A predicate on `r.v` and `s.v`, and whether DataFusion's answer depends on other rows where a list is NULL.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Predicate {
    pub sql: &'static str,
    pub trap: bool,
}

pub(crate) const fn of(sql: &'static str) -> Predicate {
    Predicate { sql, trap: false }
}

const fn trap(sql: &'static str) -> Predicate {
    Predicate { sql, trap: true }
}

pub(crate) const PREDICATES: [Predicate; 22] = [
    trap("array_has_all(s.v, r.v)"),
    trap("(r.v @> s.v)"),
    of("array_has_any(r.v, s.v)"),
    of("array_has(s.v, r.x)"),
    of("array_has(r.v, s.x)"),
    of("array_overlap(r.v, s.v) >= 2"),
    of("3 < array_overlap(s.v, r.v)"),
    of("array_jaccard(r.v, s.v) >= 0.2"),
    of("array_jaccard(r.v, s.v) >= 0.5"),
    of("array_jaccard(s.v, r.v) > 0.5"),
    of("array_jaccard(r.v, s.v) >= 0.8"),
    of("array_jaccard(r.v, s.v) = 1"),
    of("array_dice(r.v, s.v) >= 0.5"),
    of("0.8 <= array_dice(r.v, s.v)"),
    of("array_dice(r.v, s.v) > 0"),
    of("array_cosine(r.v, s.v) >= 0.5"),
    of("array_cosine(r.v, s.v) > 0.75"),
    of("array_cosine(r.v, s.v) >= 1"),
    of("array_containment(r.v, s.v) >= 0.5"),
    of("array_containment(r.v, s.v) > 0.6"),
    of("array_containment(r.v, s.v) >= 1"),
    of("list_jaccard(r.v, s.v) > 1"),
];

impl Predicate {
    /// The predicate for the oracle.
    pub fn guarded(&self) -> String {
        match self.trap {
            true => format!("{} AND r.v IS NOT NULL AND s.v IS NOT NULL", self.sql),
            false => self.sql.to_string(),
        }
    }

    /// The technique that runs where `technique` is asked for, if the sets are few and short enough for all of them; `None` where the device
    /// chooses.
    pub fn run_by(&self, technique: &'static str) -> Option<&'static str> {
        let containments = ["array_has_all", "@>", "array_has("];
        let is_containment = containments.iter().any(|of| self.sql.contains(of));
        match technique {
            "auto" => None,
            "rarest" if !is_containment => Some("prefix"),
            technique => Some(technique),
        }
    }
}

/// How a table's lists are drawn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub rows: usize,
    /// Elements of a list, duplicates included, at most.
    pub longest: usize,
    /// The share of NULL lists, and of NULL elements.
    pub nulls: f64,
    pub seed: u64,
}

impl Shape {
    /// Lists of at most six elements.
    pub fn short(rows: usize, nulls: f64, seed: u64) -> Self {
        Self {
            rows,
            longest: 6,
            nulls,
            seed,
        }
    }
}

/// `id`; `a` and `g`, integers; `t`, text; `x`, an element; and `v`, a list of elements drawn from `elements`, the first ones more often.
fn table_of(elements: &ArrayRef, shape: Shape) -> RecordBatch {
    let rng = &mut StdRng::seed_from_u64(shape.seed);
    let rows = shape.rows;
    let most = elements.len();
    let pick = |rng: &mut StdRng| {
        let skewed = rng.random_range(0.0..1.0f64).powi(2) * most as f64;
        (!rng.random_bool(shape.nulls / 2.0)).then_some((skewed as u32).min(most as u32 - 1))
    };
    let mut picks: Vec<Option<u32>> = vec![];
    let mut lengths = vec![];
    let mut valid = vec![];
    for _ in 0..rows {
        let length = rng.random_range(0..=shape.longest);
        lengths.push(length);
        valid.push(!rng.random_bool(shape.nulls));
        picks.extend((0..length).map(|_| pick(rng)));
    }
    let values = take(elements, &UInt32Array::from(picks), None).unwrap();
    let list = ListArray::new(
        Arc::new(Field::new_list_field(values.data_type().clone(), true)),
        OffsetBuffer::from_lengths(lengths),
        values,
        Some(NullBuffer::from(valid)),
    );
    let x: UInt32Array = (0..rows).map(|_| pick(rng)).collect();
    let mut integers = |most: i32| -> Int32Array {
        let mut value = || (!rng.random_bool(shape.nulls)).then(|| rng.random_range(0..most));
        (0..rows).map(|_| value()).collect()
    };
    let (a, g) = (integers(20), integers(4));
    let t: arrow::array::StringArray = a
        .iter()
        .map(|a| a.map(|a| format!("{}", (b'a' + a as u8) as char)))
        .collect();
    batch_of([
        (
            "id",
            Arc::new(Int64Array::from_iter_values(0..rows as i64)) as ArrayRef,
        ),
        ("a", Arc::new(a)),
        ("g", Arc::new(g)),
        ("t", Arc::new(t)),
        ("x", take(elements, &x, None).unwrap()),
        ("v", Arc::new(list)),
    ])
}

/// The table with small integers.
pub(crate) fn table(shape: Shape) -> RecordBatch {
    let elements: ArrayRef = Arc::new(Int32Array::from_iter_values(0..30));
    table_of(&elements, shape)
}

/// The table with the values of a type.
pub(crate) fn typed_table(data_type: &DataType, shape: Shape) -> RecordBatch {
    table_of(&domain(data_type), shape)
}

/// `batch` with its lists as another kind of list.
pub(crate) fn with_lists(batch: &RecordBatch, kind: &DataType) -> RecordBatch {
    let schema = batch.schema();
    let columns = schema.fields().iter().enumerate().map(|(i, field)| {
        let column = batch.column(i);
        let column = match field.name() == "v" {
            true => cast(column, kind).unwrap(),
            false => column.clone(),
        };
        (field.name().clone(), column)
    });
    batch_of(columns)
}

/// `batch` with the lists of its first `of` rows alone, again and again: their elements in other orders, and some twice.
pub(crate) fn repeating(batch: &RecordBatch, of: usize) -> RecordBatch {
    let schema = batch.schema();
    let lists = batch.column_by_name("v").unwrap().as_list::<i32>();
    let (mut picks, mut lengths, mut valid) = (vec![], vec![], vec![]);
    for row in 0..batch.num_rows() {
        let like = row * 7 % of;
        let span = lists.value_offsets()[like] as u32..lists.value_offsets()[like + 1] as u32;
        let mut elements: Vec<u32> = span.collect();
        let turns = row % elements.len().max(1);
        elements.rotate_left(turns);
        elements.extend_from_within(..(row % 2).min(elements.len()));
        lengths.push(elements.len());
        picks.extend(elements);
        valid.push(lists.is_valid(like));
    }
    let values = take(lists.values(), &UInt32Array::from(picks), None).unwrap();
    let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    let offsets = OffsetBuffer::from_lengths(lengths);
    let list = ListArray::new(field, offsets, values, Some(NullBuffer::from(valid)));
    let columns = schema.fields().iter().enumerate().map(|(i, field)| {
        let column = match field.name() == "v" {
            true => Arc::new(list.clone()) as ArrayRef,
            false => Arc::clone(batch.column(i)),
        };
        (field.name().clone(), column)
    });
    batch_of(columns)
}
