//! The overlaps of given pairs of sets (MISI: \[B\] 6.1.1). Pairs of rows enter, those of a probe row one after the other; the number of common elements
//! and both sizes leave.
//!
//! A probe set that meets many indexed sets counts in their postings, as sf-gSSJoin does (\[B\] 6.2.1): that takes as long as their common elements are
//! many. Others are merged, pair by pair.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::device::budget::{Budget, Lease};
use crate::device::host::pace::CancelCheck;
use crate::device::host::sets::encode::encoding::Sets;
use crate::device::host::sets::techniques::postings::Postings;
use crate::device::host::sets::techniques::verify::overlap;
use crate::error::{IfItFits as _, Result};

/// The place of a row without a set.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// Pairs of a task: at least so many, and then as many more as a probe row has, up to a bound.
const TASK_PAIRS: usize = 1 << 12;
const MOST_TASK_PAIRS: usize = 1 << 16;

/// Pairs of a probe row from which counting may repay.
const COUNTED_PAIRS: usize = 8;

/// Elements that are merged in the time that one takes to get into the postings.
const MERGED: u64 = 4;

/// The postings of all elements of the indexed sets; its memory includes the counts of each thread.
#[derive(Debug)]
pub(crate) struct CountedSets {
    postings: Postings,
    _lease: Lease,
}

impl CountedSets {
    /// Those of the indexed `sets`, which are made the first time that `pairs` pairs repay it; `None` while none do, or without memory for them.
    pub(crate) fn of<'a>(
        made: &'a OnceLock<Option<Self>>,
        sets: &Sets,
        pairs: usize,
        budget: &Arc<Budget>,
        check_cancelled: CancelCheck<'_>,
    ) -> Result<Option<&'a Self>> {
        if let Some(made) = made.get() {
            return Ok(made.as_ref());
        }
        let mean = sets.elements.len() as u64 / (sets.len() as u64).max(1);
        // Elements are numbered without gaps, and each is in a set.
        let universe = sets
            .elements
            .iter()
            .max()
            .map_or(0, |last| *last as usize + 1);
        if pairs as u64 * 2 * mean < MERGED * (sets.elements.len() + universe) as u64 {
            return Ok(None);
        }
        let make = || -> Result<Self> {
            let counts = rayon::current_num_threads() * sets.len();
            let bytes = (sets.elements.len() + 2 * universe + counts) as u64 * 4;
            Ok(Self {
                _lease: budget.lease(bytes, "postings of sets")?,
                postings: Postings::new(sets, universe, <[u32]>::len, check_cancelled)?,
            })
        };
        let new = make().if_it_fits()?;
        Ok(made.get_or_init(|| new).as_ref())
    }
}

/// Pairs of a row of each side, by their places among the sets of their side.
pub(crate) struct RowPairs<'a> {
    pub(crate) indexed: &'a Sets,
    pub(crate) probe: &'a Sets,
    pub(crate) indexed_places: &'a [u32],
    pub(crate) probe_places: &'a [u32],
    pub(crate) indexed_rows: &'a [u32],
    pub(crate) probe_rows: &'a [u32],
    pub(crate) counted: Option<&'a CountedSets>,
}

/// The overlap of a pair, and the sizes of its probe set and of its indexed set.
pub(crate) type Overlap = (u64, (u64, u64));

impl RowPairs<'_> {
    /// Parts of all pairs, each the work of one thread.
    pub(crate) fn tasks(&self) -> Vec<Range<usize>> {
        let pairs = self.probe_rows.len();
        let (mut tasks, mut first) = (vec![], 0);
        while first < pairs {
            let (least, most) = (first + TASK_PAIRS, first + MOST_TASK_PAIRS);
            let mut end = least.min(pairs);
            while end < most.min(pairs) && self.probe_rows[end] == self.probe_rows[end - 1] {
                end += 1;
            }
            tasks.push(first..end);
            first = end;
        }
        tasks
    }

    /// Words of memory of a thread: a count for each indexed set.
    pub(crate) fn counts(&self) -> Vec<u32> {
        vec![0; self.counted.map_or(0, |_| self.indexed.len())]
    }

    /// Calls `each` with each pair of a task: its overlap, `None` if a row has no set. `counts` are all 0, before and after.
    pub(crate) fn for_each(
        &self,
        task: Range<usize>,
        counts: &mut [u32],
        each: &mut impl FnMut(Option<Overlap>),
    ) {
        let mut rest = task;
        while !rest.is_empty() {
            let rows = &self.probe_rows[rest.clone()];
            let others = rows.iter().position(|row| *row != rows[0]);
            let end = others.map_or(rest.end, |others| rest.start + others);
            self.of_probe_row(rest.start..end, counts, each);
            rest.start = end;
        }
    }

    /// The same with pairs of one probe row.
    fn of_probe_row(
        &self,
        pairs: Range<usize>,
        counts: &mut [u32],
        each: &mut impl FnMut(Option<Overlap>),
    ) {
        let place = self.probe_places[self.probe_rows[pairs.start] as usize];
        if place == NOWHERE {
            return pairs.for_each(|_| each(None));
        }
        let (set, size) = (
            self.probe.get(place as usize),
            self.probe.size(place as usize),
        );
        let postings = self.counted.map(|counted| &counted.postings);
        let postings = postings.filter(|postings| self.counting_repays(postings, set, pairs.len()));
        let met = |postings: &Postings, each: &mut dyn FnMut(usize)| {
            let positions = set.iter().flat_map(|element| postings.all(*element));
            positions.for_each(|position| each(*position as usize));
        };
        if let Some(postings) = postings {
            met(postings, &mut |position| counts[position] += 1);
        }
        for row in &self.indexed_rows[pairs] {
            let indexed = self.indexed_places[*row as usize];
            if indexed == NOWHERE {
                each(None);
                continue;
            }
            let indexed = indexed as usize;
            let shared = match postings {
                Some(_) => u64::from(counts[indexed]),
                None => overlap(set, self.indexed.get(indexed)) as u64,
            };
            each(Some((shared, (size, self.indexed.size(indexed)))));
        }
        if let Some(postings) = postings {
            met(postings, &mut |position| counts[position] = 0);
        }
    }

    /// Whether the postings of a probe set, which are read twice, are fewer than the elements of merges.
    fn counting_repays(&self, postings: &Postings, set: &[u32], pairs: usize) -> bool {
        if pairs < COUNTED_PAIRS {
            return false;
        }
        let mean = self.indexed.elements.len() / self.indexed.len().max(1);
        let lists = set.iter().map(|element| postings.all(*element).len());
        2 * lists.sum::<usize>() < pairs * (set.len() + mean)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::ListArray;
    use arrow::datatypes::Int32Type;

    use super::*;
    use crate::device::data::column::Column;
    use crate::device::host::sets::index::index;
    use crate::device::host::sets::values::probe_sets;
    use crate::ir::set_predicate::{SetPredicate, SetTechnique};
    use crate::ir::side::Side;

    /// Lists below `universe`, some of them NULL or empty; row `i` begins at `i * step`.
    fn lists(budget: &Arc<Budget>, rows: i32, longest: i32, step: i32, universe: i32) -> Column {
        let list = |row: i32| {
            let length = row * 7 % (longest + 1);
            let elements = (0..length).map(|i| Some((row * step + i * i) % universe));
            (row % 11 != 5).then(|| elements.collect::<Vec<_>>())
        };
        let array = ListArray::from_iter_primitive::<Int32Type, _, _>((0..rows).map(list));
        Column::host(Arc::new(array), budget.lease(0, "test").unwrap())
    }

    #[test]
    fn counts_are_those_of_merges() {
        let budget = Budget::new(u64::MAX);
        for (n, m, longest, universe) in [(90, 70, 12, 50), (300, 40, 30, 4_000), (40, 9, 0, 1)] {
            let indexed = lists(&budget, n, longest, 3, universe);
            // Elements that no indexed set has, too.
            let probe = lists(&budget, m, longest + 9, 5, universe + 20);
            let test = SetPredicate::Overlap(1).seen_from(Side::Left);
            let by = (Some(SetTechnique::Intersect), &probe);
            let index = index(&budget, &indexed, None, &[], test, by, &|| Ok(())).unwrap();
            let probe = probe_sets(&budget, &index, &probe, None, &|| Ok(())).unwrap();
            // Each probe row meets a range of the indexed rows: all, some, few.
            let pairs = (0..m as u32).flat_map(|row| {
                let first = row * 13 % n as u32 * (row % 3) / 2;
                (first..n as u32).map(move |indexed| (indexed, row))
            });
            let (indexed_rows, probe_rows): (Vec<u32>, Vec<u32>) = pairs.unzip();
            let counted_of = |pairs| {
                let (made, sets) = (&index.counted, &index.sets);
                CountedSets::of(made, sets, pairs, &budget, &|| Ok(())).unwrap()
            };
            assert!(counted_of(1).is_none() || longest == 0);
            let counted = counted_of(probe_rows.len());
            let mut pairs = RowPairs {
                indexed: &index.sets,
                probe: &probe.sets,
                indexed_places: &probe.indexed_places,
                probe_places: &probe.places,
                indexed_rows: &indexed_rows,
                probe_rows: &probe_rows,
                counted,
            };
            assert!(pairs.counted.is_some(), "{n} sets");
            let overlaps = |pairs: &RowPairs<'_>| {
                let mut counts = pairs.counts();
                let mut overlaps = vec![];
                for task in pairs.tasks() {
                    pairs.for_each(task, &mut counts, &mut |overlap| overlaps.push(overlap));
                    assert!(counts.iter().all(|count| *count == 0));
                }
                overlaps
            };
            let by_counts = overlaps(&pairs);
            let repays = (0..probe.sets.len()).any(|place| {
                let postings = &counted.unwrap().postings;
                pairs.counting_repays(postings, probe.sets.get(place), n as usize)
            });
            assert!(repays || longest == 0);
            pairs.counted = None;
            assert_eq!(by_counts, overlaps(&pairs));
            assert_eq!(by_counts.len(), probe_rows.len());
            assert!(by_counts.contains(&None));
        }
    }

    /// Pairs of a row stay together, unless they are very many.
    #[test]
    fn tasks_have_whole_rows() {
        let none = Sets::default();
        let probe_rows: Vec<u32> = (0..40u32)
            .flat_map(|row| vec![row; if row == 20 { 3 * MOST_TASK_PAIRS } else { 700 }])
            .collect();
        let pairs = RowPairs {
            indexed: &none,
            probe: &none,
            indexed_places: &[],
            probe_places: &[],
            indexed_rows: &[],
            probe_rows: &probe_rows,
            counted: None,
        };
        let tasks = pairs.tasks();
        assert_eq!(tasks.first().map(|task| task.start), Some(0));
        assert_eq!(tasks.last().map(|task| task.end), Some(probe_rows.len()));
        for pair in tasks.windows(2) {
            assert_eq!(pair[0].end, pair[1].start);
            let is_cut = probe_rows[pair[1].start] == probe_rows[pair[1].start - 1];
            assert!(!is_cut || pair[0].len() == MOST_TASK_PAIRS);
        }
    }
}
