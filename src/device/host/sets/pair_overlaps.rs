//! The overlaps of given pairs of sets (MISI: \[B\] 6.1.1). Pairs of rows enter, those of a probe row one after the other; the number of common elements
//! and both sizes leave.
//!
//! Pairs are merged at first. Once that has taken longer than postings of all indexed sets would, these are made, and a probe set that meets many indexed
//! sets counts in them, as sf-gSSJoin does (\[B\] 6.2.1): that takes as long as their common elements are many.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::device::budget::{Budget, Lease};
use crate::device::host::pace::CancelCheck;
use crate::device::host::sets::encode::encoding::Sets;
use crate::device::host::sets::techniques::postings::Postings;
use crate::device::host::sets::techniques::verify::{SEARCH_FROM, overlap};
use crate::error::{IfItFits as _, Result};

/// The place of a row without a set.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// Pairs of a task. If pairs are counted, further ones of its last probe row are added, up to the greater number.
const TASK_PAIRS: usize = 1 << 12;
const MOST_TASK_PAIRS: usize = 1 << 16;

/// Pairs of a probe row from which counting may repay.
const COUNTED_PAIRS: usize = 8;

/// Elements that are merged in the time that one takes to get into the postings.
const MERGED: u64 = 4;

/// Steps of a search in a long set, in place of a merge with it.
const SEARCH_STEPS: usize = 8;

/// The postings of the indexed sets, once merges have taken longer than making them.
#[derive(Debug, Default)]
pub(crate) struct CountedSets {
    made: OnceLock<Counted>,
    /// One thread makes them, while others merge.
    making: Mutex<()>,
    /// Elements that were merged so far, or since the postings did not fit.
    merged: AtomicU64,
}

/// Postings, with the memory of the counts of each thread.
#[derive(Debug)]
struct Counted {
    postings: Postings,
    _lease: Lease,
}

impl CountedSets {
    /// The postings of `sets`, whose elements are below `universe`, if they are there or the merges of `pairs` more pairs make it repay to make them.
    pub(crate) fn of(
        &self,
        (sets, universe): (&Sets, usize),
        pairs: usize,
        budget: &Arc<Budget>,
        check_cancelled: CancelCheck<'_>,
    ) -> Result<Option<&Postings>> {
        if let Some(made) = self.made.get() {
            return Ok(Some(&made.postings));
        }
        let mean = (sets.elements.len() / sets.len().max(1)) as u64;
        let more = 2 * mean * pairs as u64;
        let merged = self.merged.fetch_add(more, Ordering::Relaxed) + more;
        if merged < MERGED * (sets.elements.len() + universe) as u64 {
            return Ok(None);
        }
        let Some(_making) = self.making.try_lock() else {
            return Ok(None);
        };
        if let Some(made) = self.made.get() {
            return Ok(Some(&made.postings));
        }
        let make = || -> Result<Counted> {
            let counts = rayon::current_num_threads() * sets.len();
            let bytes = (sets.elements.len() + 2 * universe + counts) as u64 * 4;
            Ok(Counted {
                _lease: budget.lease(bytes, "postings of sets")?,
                postings: Postings::new(sets, universe, <[u32]>::len, check_cancelled)?,
            })
        };
        Ok(match make().if_it_fits()? {
            Some(made) => Some(&self.made.get_or_init(|| made).postings),
            None => {
                self.merged.store(0, Ordering::Relaxed);
                None
            }
        })
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
    pub(crate) postings: Option<&'a Postings>,
}

/// The overlap of a pair, and the sizes of its probe set and of its indexed set.
pub(crate) type Overlap = (u64, (u64, u64));

impl RowPairs<'_> {
    /// Parts of all pairs, each the work of one thread.
    pub(crate) fn tasks(&self) -> Vec<Range<usize>> {
        let pairs = self.probe_rows.len();
        let (mut tasks, mut first) = (vec![], 0);
        while first < pairs {
            let (least, most) = match self.postings {
                Some(_) => (first + TASK_PAIRS, first + MOST_TASK_PAIRS),
                None => (first + TASK_PAIRS, first),
            };
            let mut end = least.min(pairs);
            while end < most.min(pairs) && self.probe_rows[end] == self.probe_rows[end - 1] {
                end += 1;
            }
            tasks.push(first..end);
            first = end;
        }
        tasks
    }

    /// Calls `each` with each pair of a task: its overlap, `None` if a row has no set. `counts` of a thread begin empty,
    /// and are all 0 between two tasks.
    pub(crate) fn for_each(
        &self,
        task: Range<usize>,
        counts: &mut Vec<u32>,
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
        counts: &mut Vec<u32>,
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
        let postings = self
            .postings
            .filter(|postings| self.counting_repays(postings, set, pairs.len()));
        let met = |postings: &Postings, each: &mut dyn FnMut(usize)| {
            let positions = set.iter().flat_map(|element| postings.all(*element));
            positions.for_each(|position| each(*position as usize));
        };
        if let Some(postings) = postings {
            counts.resize(self.indexed.len(), 0);
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

    /// Whether the postings of a probe set, which are read twice, are fewer than the elements that its pairs would read.
    fn counting_repays(&self, postings: &Postings, set: &[u32], pairs: usize) -> bool {
        if pairs < COUNTED_PAIRS {
            return false;
        }
        let mean = self.indexed.elements.len() / self.indexed.len().max(1);
        let (short, long) = (set.len().min(mean), set.len().max(mean));
        let of_pair = match long / SEARCH_FROM > short {
            true => short * SEARCH_STEPS,
            false => short + long,
        };
        let lists = set.iter().map(|element| postings.all(*element).len());
        2 * lists.sum::<usize>() < pairs * of_pair
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
            let sets = (&index.sets, index.universe);
            let postings = |pairs| index.counted.of(sets, pairs, &budget, &|| Ok(())).unwrap();
            assert!(postings(1).is_none() || longest == 0);
            // Pieces add up.
            let mut made = None;
            for _ in 0..4 {
                made = postings(probe_rows.len() / 4);
            }
            let mut pairs = RowPairs {
                indexed: &index.sets,
                probe: &probe.sets,
                indexed_places: &probe.indexed_places,
                probe_places: &probe.places,
                indexed_rows: &indexed_rows,
                probe_rows: &probe_rows,
                postings: made,
            };
            assert!(made.is_some(), "{n} sets");
            let overlaps = |pairs: &RowPairs<'_>| {
                let mut counts = vec![];
                let mut overlaps = vec![];
                for task in pairs.tasks() {
                    pairs.for_each(task, &mut counts, &mut |overlap| overlaps.push(overlap));
                    assert!(counts.iter().all(|count| *count == 0));
                }
                overlaps
            };
            let by_counts = overlaps(&pairs);
            let repays = (0..probe.sets.len()).any(|place| {
                pairs.counting_repays(made.unwrap(), probe.sets.get(place), n as usize)
            });
            assert!(repays || longest == 0);
            pairs.postings = None;
            assert_eq!(by_counts, overlaps(&pairs));
            assert_eq!(by_counts.len(), probe_rows.len());
            assert!(by_counts.contains(&None));
        }
    }

    /// Pairs of a row that are counted stay together, unless they are very many.
    #[test]
    fn tasks_have_whole_rows() {
        let none = Sets::default();
        let postings = Postings::new(&none, 0, <[u32]>::len, &|| Ok(())).unwrap();
        let probe_rows: Vec<u32> = (0..40u32)
            .flat_map(|row| vec![row; if row == 20 { 3 * MOST_TASK_PAIRS } else { 700 }])
            .collect();
        for (postings, most) in [(None, TASK_PAIRS), (Some(&postings), MOST_TASK_PAIRS)] {
            let pairs = RowPairs {
                indexed: &none,
                probe: &none,
                indexed_places: &[],
                probe_places: &[],
                indexed_rows: &[],
                probe_rows: &probe_rows,
                postings,
            };
            let tasks = pairs.tasks();
            assert_eq!(tasks.first().map(|task| task.start), Some(0));
            assert_eq!(tasks.last().map(|task| task.end), Some(probe_rows.len()));
            for pair in tasks.windows(2) {
                assert_eq!(pair[0].end, pair[1].start);
                let is_cut = probe_rows[pair[1].start] == probe_rows[pair[1].start - 1];
                assert!(!is_cut || pair[0].len() == most);
            }
        }
    }

    /// What does not fit is asked for again after as many pairs.
    #[test]
    fn postings_that_do_not_fit_are_asked_for_later() {
        let plenty = Budget::new(u64::MAX);
        let lists = lists(&plenty, 50, 9, 3, 40);
        let test = SetPredicate::Overlap(1).seen_from(Side::Left);
        let by = (Some(SetTechnique::Intersect), &lists);
        let index = index(&plenty, &lists, None, &[], test, by, &|| Ok(())).unwrap();
        let sets = (&index.sets, index.universe);
        let of = |pairs, budget: &Arc<Budget>| {
            index.counted.of(sets, pairs, budget, &|| Ok(())).unwrap()
        };
        assert!(of(1 << 20, &Budget::new(8)).is_none());
        assert!(of(1, &plenty).is_none());
        assert!(of(1 << 20, &plenty).is_some());
    }
}
