//! Pairs of points of two relations of which one dominates the other, summed up without being listed: sorted by one
//! coordinate, then merged by the other one, in O(n log n).

use rayon::prelude::*;

/// A point of either relation.
#[derive(Clone, Copy)]
struct Point {
    a: i64,
    b: i64,
    /// Of a point of the second relation; `None` of the first one.
    weight: Option<i32>,
}

/// The sum of the second points' weights over all pairs of `one` and `other` with `one.a < other.a` and
/// `one.b > other.b`. A point of `other` is `a`, `b` and its weight; with weights of 1 the sum is the number of pairs.
pub fn less_and_greater(
    one: impl Iterator<Item = (i64, i64)>,
    other: impl Iterator<Item = (i64, i64, i32)>,
) -> i64 {
    let one = one.map(|(a, b)| Point { a, b, weight: None });
    let other = other.map(|(a, b, weight)| Point {
        a,
        b,
        weight: Some(weight),
    });
    let mut points: Vec<Point> = one.chain(other).collect();
    // With equal `a`, the points of the first relation come last: the comparison is strict.
    points.par_sort_unstable_by_key(|point| (point.a, point.weight.is_none()));
    let mut scratch = points.clone();
    sort_and_sum(&mut points, &mut scratch)
}

/// Sorts `points` by `b`. For each point of the second relation, adds its weight for every earlier point of the first
/// one with a greater `b`: at each merge, those of the first half for each of the second half.
fn sort_and_sum(points: &mut [Point], scratch: &mut [Point]) -> i64 {
    const ALONE: usize = 1 << 14;
    let middle = points.len() / 2;
    if middle == 0 {
        return 0;
    }
    let (first, second) = points.split_at_mut(middle);
    let (for_first, for_second) = scratch.split_at_mut(middle);
    let (below, above) = match first.len() > ALONE {
        true => rayon::join(
            || sort_and_sum(first, for_first),
            || sort_and_sum(second, for_second),
        ),
        false => (
            sort_and_sum(first, for_first),
            sort_and_sum(second, for_second),
        ),
    };
    let all = first.iter().filter(|point| point.weight.is_none()).count() as i64;
    let (mut i, mut j, mut passed, mut sum) = (0, 0, 0, 0);
    for place in scratch.iter_mut() {
        if j == second.len() || (i < first.len() && first[i].b <= second[j].b) {
            passed += i64::from(first[i].weight.is_none());
            *place = first[i];
            i += 1;
        } else {
            if let Some(weight) = second[j].weight {
                sum += (all - passed) * i64::from(weight);
            }
            *place = second[j];
            j += 1;
        }
    }
    points.copy_from_slice(scratch);
    below + above + sum
}
