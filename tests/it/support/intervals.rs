//! Tables of intervals, and the conditions by which they overlap.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::prelude::SessionContext;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::support::tables::register;

/// What the intervals of a table look like.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub rows: usize,
    /// Lengths are below it; with 1 all intervals are points.
    pub longest: i64,
    /// Whether one of them is a point.
    pub points: bool,
    /// Whether some end before they begin.
    pub reversed: bool,
    pub nulls: f64,
    pub seed: u64,
}

impl Shape {
    pub const PLAIN: Self = Self {
        rows: 60,
        longest: 12,
        points: true,
        reversed: false,
        nulls: 0.1,
        seed: 1,
    };
}

/// The low and the high end of an interval.
type Ends = (Option<i64>, Option<i64>);

/// `id` (distinct), `lo` and `hi` of `data_type`, a key `k`, a text key `t`, and values `v` and `w`.
pub(crate) fn intervals(data_type: &DataType, shape: Shape) -> RecordBatch {
    let mut rng = StdRng::seed_from_u64(shape.seed);
    let mut ends: Vec<Ends> = vec![];
    for _ in 0..shape.rows {
        let from = rng.random_range(0..50);
        let least = i64::from(!shape.points);
        let mut to = from + rng.random_range(least..shape.longest.max(least + 1));
        if shape.reversed && rng.random_bool(0.2) {
            to = from - rng.random_range(1..5);
        }
        let mut end = |end| (!rng.random_bool(shape.nulls)).then_some(end);
        ends.push((end(from), end(to)));
    }
    let of_type = |end: fn(&Ends) -> Option<i64>| {
        let ints: ArrayRef = Arc::new(Int64Array::from_iter(ends.iter().map(end)));
        cast(&ints, data_type).unwrap()
    };
    let mut drawn = |most: i32| {
        let value = |_| (!rng.random_bool(shape.nulls)).then(|| rng.random_range(0..most));
        Int32Array::from_iter((0..shape.rows).map(value))
    };
    let (key, text, value) = (drawn(3), drawn(3), drawn(9));
    let text = text.iter().map(|t| t.map(|t| format!("chromosome{t}")));
    let columns: [(&str, ArrayRef); 7] = [
        (
            "id",
            Arc::new(Int64Array::from_iter_values(0..shape.rows as i64)),
        ),
        ("lo", of_type(|ends| ends.0)),
        ("hi", of_type(|ends| ends.1)),
        ("k", Arc::new(key)),
        ("t", Arc::new(StringArray::from_iter(text))),
        (
            "w",
            Arc::new(Float64Array::from_iter(
                value.iter().map(|v| v.map(f64::from)),
            )),
        ),
        ("v", Arc::new(value)),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
        .unwrap()
}

/// Tables `r` and `s` of intervals.
pub(crate) fn tables(ctx: &SessionContext, data_type: &DataType, r: Shape, s: Shape) {
    register(ctx, "r", &intervals(data_type, r));
    register(ctx, "s", &intervals(data_type, Shape { seed: 77, ..s }));
}

/// How intervals overlap: closed, half-open and open ones, with and without keys.
pub(crate) const OVERLAPS: [&str; 8] = [
    "r.lo <= s.hi AND r.hi >= s.lo",
    "r.lo < s.hi AND r.hi > s.lo",
    "r.lo < s.hi AND s.lo <= r.hi",
    "s.hi >= r.lo AND r.hi > s.lo",
    "r.k = s.k AND r.lo <= s.hi AND r.hi >= s.lo",
    "r.t = s.t AND r.lo < s.hi AND s.lo < r.hi",
    "r.t = s.t AND r.k = s.k AND r.lo <= s.hi AND s.lo <= r.hi",
    "(r.k IS NOT DISTINCT FROM s.k) AND r.lo <= s.hi AND s.lo <= r.hi",
];
