//! Two inequalities on uncorrelated columns, so many rows that matches are counted by a wavelet tree. DataFusion would take minutes, so
//! the expected counts are computed here.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::support::answer::{assert_offloaded, forced};
use crate::support::session::session;
use crate::support::tables::register;
use crate::support::tuning::Tuning;

const ROWS: usize = 20_000;

/// `id`, a group `g`, and `a` and `b`, either of which may be NULL and has duplicates.
#[derive(Debug, Clone, Copy)]
struct Row {
    g: i64,
    a: Option<i64>,
    b: Option<i64>,
}

fn rows(seed: u64) -> Vec<Row> {
    let rng = &mut StdRng::seed_from_u64(seed);
    let value = |rng: &mut StdRng| {
        let value = rng.random_range(-10_000..10_000);
        (!rng.random_bool(0.01)).then_some(value)
    };
    (0..ROWS)
        .map(|_| Row {
            g: rng.random_range(0..2),
            a: value(rng),
            b: value(rng),
        })
        .collect()
}

fn batch(rows: &[Row]) -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows.len() as i64));
    let column = |of: fn(&Row) -> Option<i64>| -> ArrayRef {
        Arc::new(rows.iter().map(of).collect::<Int64Array>())
    };
    let columns = [
        ("id", ids),
        ("g", column(|row| Some(row.g))),
        ("a", column(|row| row.a)),
        ("b", column(|row| row.b)),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

/// For each row of `from` how many rows of `of` have a greater `a` and a `b` that is not greater; `signs` of -1 turn the
/// comparisons, `grouped` asks for the same `g` too. Rows come in descending order of `a`, a Fenwick tree counts their `b`.
fn counted(from: &[Row], of: &[Row], signs: (i64, i64), grouped: bool) -> Vec<i64> {
    let points = |rows: &[Row]| -> Vec<(i64, i64, i64, usize)> {
        let known = rows
            .iter()
            .enumerate()
            .filter_map(|(id, row)| Some((signs.0 * row.a?, signs.1 * row.b? + 10_000, row.g, id)));
        let mut points: Vec<_> = known.collect();
        points.sort_by_key(|(a, ..)| -a);
        points
    };
    let mut counts = vec![0; from.len()];
    for group in 0..if grouped { 2 } else { 1 } {
        let in_group = |(.., g, _): &(i64, i64, i64, usize)| !grouped || *g == group;
        let of = points(of);
        let mut of = of.iter().copied().filter(in_group).peekable();
        let mut tree = vec![0i64; 20_002];
        for (a, b, _, id) in points(from).into_iter().filter(in_group) {
            while let Some((_, b, ..)) = of.next_if(|(of_a, ..)| *of_a > a) {
                let mut at = b as usize + 1;
                while at < tree.len() {
                    tree[at] += 1;
                    at += at & at.wrapping_neg();
                }
            }
            let mut at = b as usize + 1;
            while at > 0 {
                counts[id] += tree[at];
                at &= at - 1;
            }
        }
    }
    counts
}

/// An answer of integers, a row each, sorted.
async fn integers(sql: &str, r: &[Row], s: &[Row], tuning: &Tuning) -> Vec<Vec<i64>> {
    let ctx = session();
    register(&ctx, "r", &batch(r));
    register(&ctx, "s", &batch(s));
    let answer = forced(&ctx, sql, tuning).await.unwrap();
    assert_offloaded(sql, &answer.plan, &["Bowtie"]);
    let mut rows = vec![];
    for batch in &answer.batches {
        let value = |c: usize, row| batch.column(c).as_primitive::<Int64Type>().value(row);
        rows.extend((0..batch.num_rows()).map(|row| {
            (0..batch.num_columns())
                .map(|c| value(c, row))
                .collect::<Vec<_>>()
        }));
    }
    rows.sort_unstable();
    rows
}

#[tokio::test]
async fn counts_of_two_inequalities() {
    let (r, s) = (rows(1), rows(2));
    let plain = Tuning::PLAIN.with_strategy("dominance");
    // No memory for a wavelet tree.
    let small = Tuning {
        device_memory: "2MB",
        ..plain
    };
    for (grouped, tuning) in [(false, plain), (true, plain), (false, small)] {
        let also = if grouped { " AND r.g = s.g" } else { "" };
        let on = format!("r.a < s.a AND r.b >= s.b{also}");
        let of_r = counted(&r, &s, (1, 1), grouped);
        // The other way round: s.a > r.a, and s.b <= r.b.
        let of_s = counted(&s, &r, (-1, -1), grouped);
        let total: i64 = of_r.iter().sum();
        assert_eq!(total, of_s.iter().sum::<i64>());

        let sql = format!("SELECT count(*) FROM r JOIN s ON {on}");
        assert_eq!(integers(&sql, &r, &s, &tuning).await, [[total]], "{sql}");
        if tuning == small {
            continue;
        }
        for (side, counts) in [("r", &of_r), ("s", &of_s)] {
            let matched: Vec<Vec<i64>> = (0..)
                .zip(counts)
                .filter(|(_, count)| **count > 0)
                .map(|(id, count)| vec![id, *count])
                .collect();
            let other = if side == "r" { "s" } else { "r" };
            let sql = format!(
                "SELECT {side}.id FROM {side} WHERE EXISTS (SELECT 1 FROM {other} WHERE {on})"
            );
            let ids: Vec<Vec<i64>> = matched.iter().map(|row| vec![row[0]]).collect();
            assert_eq!(integers(&sql, &r, &s, &tuning).await, ids, "{sql}");
            let sql =
                format!("SELECT {side}.id, count(*) FROM r JOIN s ON {on} GROUP BY {side}.id");
            assert_eq!(integers(&sql, &r, &s, &tuning).await, matched, "{sql}");
        }
    }
}
