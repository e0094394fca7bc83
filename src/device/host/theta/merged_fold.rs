//! Folds over one-sided ranges of which one inequality is tested, by merging (Bentley 1980, multidimensional divide-and-conquer). In: points, each
//! with a key and a value, in the order of their positions; queries, each with a cut and a word. Out: for each query the fold of the values of the
//! points from its cut on whose keys are below its word.
//!
//! Points are halved by position. Queries whose cut is in the left half match a part of it, which the half itself finds, and all points of the right
//! half below their word: with both sorted by key and by word, one pass over both folds them. The halves are merged as they are left, so that all is
//! read in order, O((n + m) log n), whatever the fold: neither ranks, nor subtraction, nor a tree is needed.

use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use crate::device::data::matches::{Matches, Test};
use crate::device::host::theta::zone_map::ZonedKeys;
use crate::error::{BowtieError, Result};
use crate::ir::comparison::Comparison;

/// A build position.
#[derive(Debug, Clone, Copy)]
struct Point<V> {
    key: u64,
    value: V,
}

/// A probe position, and the fold of its matches so far.
#[derive(Debug, Clone, Copy)]
struct Query<V> {
    word: u64,
    id: u32,
    folded: V,
}

/// Bytes of a point, and of a query, with a fold of at most 8 bytes while they are merged: both twice, cuts, and what the caller keeps.
pub(super) const MERGED_POINT: usize = 40;
pub(super) const MERGED_QUERY: usize = 64;

/// Bytes of a segment: its ends, and its task.
pub(super) const SEGMENT_BYTES: usize = 128;

/// The most points of a leaf, in which each query tests each.
const LEAF: usize = 32;

/// Points and queries that are worth a task.
const TASK: usize = 1 << 14;

/// The test of a key of each point by a word of each query: `key OP word`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tested<'a> {
    pub(super) keys: &'a [u64],
    pub(super) words: &'a [u64],
    pub(super) op: Comparison,
}

impl<'a> Tested<'a> {
    pub(super) fn of(test: &Test<'a>) -> Result<Self> {
        Ok(Self {
            keys: test.build.0.get::<ZonedKeys>()?.keys(),
            words: test.probe.0.get::<ZonedKeys>()?.keys(),
            op: test.op,
        })
    }
}

/// Which end of its segment each range has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sided {
    /// The last position: matches are from a cut on.
    From,
    /// The first one: matches are up to a cut.
    UpTo,
}

/// Ranges with one free end.
#[derive(Debug)]
pub(super) struct OneSided {
    sided: Sided,
    /// The ranges that are not empty, in the order of their free ends.
    ids: Vec<u32>,
    /// The first position of each segment, and the end of the last one.
    segments: Vec<u32>,
}

impl OneSided {
    pub(super) fn segment_bytes(&self) -> usize {
        self.segments.len() * SEGMENT_BYTES
    }

    /// Of the ranges of these matches; `None` if some range has two free ends.
    pub(super) fn of_matches(matches: Matches<'_>) -> Result<Option<Self>> {
        let (lo, hi) = (matches.ranges.lo.on_host()?, matches.ranges.hi.on_host()?);
        let segments = matches.build.segments.as_ref();
        let segments = segments.map(|segments| segments.on_host()).transpose()?;
        let segments = segments.map(|segments| &segments[..]);
        Ok(Self::of(lo, hi, matches.build.len(), segments))
    }

    /// Of the ranges `lo .. hi` of `n` positions in these segments; `None` if some range has two free ends.
    pub(super) fn of(lo: &[u32], hi: &[u32], n: usize, segments: Option<&[u32]>) -> Option<Self> {
        let segments = match segments {
            Some(segments) => segments.to_vec(),
            None => vec![0, n as u32],
        };
        let is_sided = |sided: Sided| {
            lo.par_iter().zip(hi).all(|(lo, hi)| {
                if lo >= hi {
                    return true;
                }
                let after = segments.partition_point(|first| first <= lo);
                match sided {
                    Sided::From => segments.get(after) == Some(hi),
                    Sided::UpTo => {
                        after > 0
                            && segments[after - 1] == *lo
                            && segments.get(after).is_some_and(|end| hi <= end)
                    }
                }
            })
        };
        if n == 0 {
            return None;
        }
        let sided = [Sided::From, Sided::UpTo]
            .into_iter()
            .find(|sided| is_sided(*sided))?;
        let free = match sided {
            Sided::From => lo,
            Sided::UpTo => hi,
        };
        let mut ids: Vec<u32> = (0..lo.len() as u32)
            .filter(|id| lo[*id as usize] < hi[*id as usize])
            .collect();
        // Probe rows are sorted by what they search for, nearly always.
        if !ids.is_sorted_by_key(|id| free[*id as usize]) {
            ids.par_sort_unstable_by_key(|id| free[*id as usize]);
        }
        Some(Self {
            sided,
            ids,
            segments,
        })
    }

    /// The fold of the values of each range whose keys pass the test; `zero` for empty ranges. `combine` is commutative.
    pub(super) fn fold<V: Copy + Send + Sync>(
        &self,
        tested: Tested<'_>,
        values: &[V],
        (lo, hi): (&[u32], &[u32]),
        (zero, combine): (V, &(impl Fn(V, V) -> V + Sync)),
        cancelled: &AtomicBool,
    ) -> Result<Vec<V>> {
        let n = values.len();
        // Where greater keys match, the order is that of the inverted ones.
        let (flip, or_equal) = match tested.op {
            Comparison::Lt => (0, false),
            Comparison::LtEq => (0, true),
            Comparison::Gt => (u64::MAX, false),
            Comparison::GtEq => (u64::MAX, true),
            op => return Err(BowtieError::Internal(format!("folds under {op:?}"))),
        };
        let point = |(key, value): (&u64, &V)| Point {
            key: key ^ flip,
            value: *value,
        };
        let mut points: Vec<Point<V>> = tested.keys.par_iter().zip(values).map(point).collect();
        let query = |id: &u32| Query {
            word: tested.words[*id as usize] ^ flip,
            id: *id,
            folded: zero,
        };
        let mut queries: Vec<Query<V>>;
        // Positions before which queries begin to match.
        let cuts: Vec<u32>;
        let mut ends: Vec<usize>;
        match self.sided {
            Sided::From => {
                queries = self.ids.par_iter().map(query).collect();
                cuts = self.ids.par_iter().map(|id| lo[*id as usize]).collect();
                ends = self.segments.iter().map(|end| *end as usize).collect();
            }
            // From the other end.
            Sided::UpTo => {
                points.reverse();
                queries = self.ids.par_iter().rev().map(query).collect();
                cuts = self
                    .ids
                    .par_iter()
                    .rev()
                    .map(|id| n as u32 - hi[*id as usize])
                    .collect();
                ends = self
                    .segments
                    .iter()
                    .rev()
                    .map(|end| n - *end as usize)
                    .collect();
            }
        }
        // Positions before the first segment, or after the last one, are in no group.
        ends.dedup();
        let mut spare_points = points.clone();
        let mut spare_queries = queries.clone();
        let mut tasks = vec![];
        {
            let mut points = &mut points[..];
            let mut spare_points = &mut spare_points[..];
            let (mut queries, mut spare_queries) = (&mut queries[..], &mut spare_queries[..]);
            let (mut cuts, mut first) = (&cuts[..], 0);
            for end in ends {
                let of_segment = cuts.partition_point(|cut| (*cut as usize) < end);
                let (points_of, rest) = points.split_at_mut(end - first);
                let (spare_points_of, spare_rest) = spare_points.split_at_mut(end - first);
                let (queries_of, queries_rest) = queries.split_at_mut(of_segment);
                let (spare_queries_of, spare_queries_rest) = spare_queries.split_at_mut(of_segment);
                let (cuts_of, cuts_rest) = cuts.split_at(of_segment);
                if !queries_of.is_empty() {
                    tasks.push(Node {
                        first,
                        points: points_of,
                        spare_points: spare_points_of,
                        queries: queries_of,
                        spare_queries: spare_queries_of,
                        cuts: cuts_of,
                    });
                }
                (points, spare_points, queries, spare_queries, cuts) = (
                    rest,
                    spare_rest,
                    queries_rest,
                    spare_queries_rest,
                    cuts_rest,
                );
                first = end;
            }
        }
        let work = Work {
            or_equal,
            zero,
            combine,
            cancelled,
        };
        tasks.into_par_iter().for_each(|node| {
            work.solve(
                node,
                Wanted {
                    points: false,
                    queries: false,
                },
            )
        });
        if cancelled.load(Ordering::Relaxed) {
            return Err(BowtieError::Cancelled);
        }
        let mut folded = vec![zero; lo.len()];
        for query in queries {
            folded[query.id as usize] = query.folded;
        }
        Ok(folded)
    }
}

/// Some points, and the queries whose cuts are among them.
struct Node<'a, V> {
    /// The position of the first point.
    first: usize,
    points: &'a mut [Point<V>],
    spare_points: &'a mut [Point<V>],
    /// In the order of their cuts.
    queries: &'a mut [Query<V>],
    spare_queries: &'a mut [Query<V>],
    cuts: &'a [u32],
}

/// What is in order when a node is left.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    /// By key.
    points: bool,
    /// By word.
    queries: bool,
}

struct Work<'a, V, F> {
    /// Whether a key matches an equal word.
    or_equal: bool,
    zero: V,
    combine: &'a F,
    cancelled: &'a AtomicBool,
}

impl<V: Copy + Send + Sync, F: Fn(V, V) -> V + Sync> Work<'_, V, F> {
    fn solve(&self, node: Node<'_, V>, wanted: Wanted) {
        let size = node.points.len() + node.queries.len();
        if size >= TASK && self.cancelled.load(Ordering::Relaxed) {
            return;
        }
        if node.queries.is_empty() && !wanted.points {
            return;
        }
        if node.points.len() <= LEAF {
            return self.leaf(node, wanted);
        }
        let half = node.points.len() / 2;
        let middle = node.first + half;
        let of_left = node.cuts.partition_point(|cut| (*cut as usize) < middle);
        {
            let (left_points, right_points) = node.points.split_at_mut(half);
            let (left_spare, right_spare) = node.spare_points.split_at_mut(half);
            let (left_queries, right_queries) = node.queries.split_at_mut(of_left);
            let (left_spare_queries, right_spare_queries) =
                node.spare_queries.split_at_mut(of_left);
            let left = Node {
                first: node.first,
                points: left_points,
                spare_points: left_spare,
                queries: left_queries,
                spare_queries: left_spare_queries,
                cuts: &node.cuts[..of_left],
            };
            let right = Node {
                first: middle,
                points: right_points,
                spare_points: right_spare,
                queries: right_queries,
                spare_queries: right_spare_queries,
                cuts: &node.cuts[of_left..],
            };
            let of_left = Wanted {
                points: wanted.points,
                queries: true,
            };
            let of_right = Wanted {
                points: true,
                queries: wanted.queries,
            };
            match size >= TASK {
                true => {
                    rayon::join(|| self.solve(left, of_left), || self.solve(right, of_right));
                }
                false => {
                    self.solve(left, of_left);
                    self.solve(right, of_right);
                }
            }
        }
        // Points of the right half, in the order of their keys, to queries of the left one, in the order of their words.
        let right = &node.points[half..];
        let (mut next, mut folded) = (0, self.zero);
        for query in &mut node.queries[..of_left] {
            while next < right.len() && self.matches(right[next].key, query.word) {
                folded = (self.combine)(folded, right[next].value);
                next += 1;
            }
            query.folded = (self.combine)(query.folded, folded);
        }
        if wanted.points {
            merge(node.points, half, node.spare_points, |point| point.key);
        }
        if wanted.queries {
            merge(node.queries, of_left, node.spare_queries, |query| {
                query.word
            });
        }
    }

    fn matches(&self, key: u64, word: u64) -> bool {
        key < word || (self.or_equal && key == word)
    }

    fn leaf(&self, node: Node<'_, V>, wanted: Wanted) {
        let (points, first) = (&*node.points, node.first);
        let fold = |(query, cut): (&mut Query<V>, &u32)| {
            for point in &points[*cut as usize - first..] {
                if self.matches(point.key, query.word) {
                    query.folded = (self.combine)(query.folded, point.value);
                }
            }
        };
        // A segment of few points may have any number of queries.
        let queries = node
            .queries
            .par_chunks_mut(TASK)
            .zip(node.cuts.par_chunks(TASK));
        queries.for_each(|(queries, cuts)| {
            if !self.cancelled.load(Ordering::Relaxed) {
                queries.iter_mut().zip(cuts).for_each(fold);
            }
        });
        if wanted.points {
            node.points.sort_unstable_by_key(|point| point.key);
        }
        if wanted.queries {
            node.queries.sort_unstable_by_key(|query| query.word);
        }
    }
}

/// Merges `items[..half]` and `items[half..]`, which are sorted.
fn merge<T: Copy>(items: &mut [T], half: usize, spare: &mut [T], key: impl Fn(&T) -> u64) {
    let (left, right) = items.split_at(half);
    if left
        .last()
        .zip(right.first())
        .is_none_or(|(last, first)| key(last) <= key(first))
    {
        return;
    }
    let (mut i, mut j) = (0, 0);
    for out in spare.iter_mut() {
        let take_right = i == left.len() || (j < right.len() && key(&right[j]) < key(&left[i]));
        *out = match take_right {
            true => right[j],
            false => left[i],
        };
        j += usize::from(take_right);
        i += usize::from(!take_right);
    }
    items.copy_from_slice(spare);
}

#[cfg(test)]
mod tests;
