//! Rates of set joins.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int32Array, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field};
use rayon::prelude::*;

use crate::device::data::matches::Matches;
use crate::device::data::results::SetMatches;
use crate::device::data::structures::SetIndex;
use crate::device::primitives::device::Device;
use crate::error::Result;
use crate::ir::set_predicate::{SetMeasure, SetPredicate};
use crate::ir::side::Side;
use crate::options::SetStrategy;
use crate::rates::{Rate, Zipf, fraction, open, scattered, timed};

/// Sets like those of a data set of \[B\]: their number, their mean size, and the size of their universe. Sizes have a
/// geometric distribution, frequencies Zipf's. Some sets are planted: subsets of others, and near-duplicates. The same
/// case gives the same sets, and a case with fewer sets gives the first ones of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SetCase {
    /// The number of sets of each side.
    pub sets: usize,
    /// The least size: 1, or more where these are the largest sets of a data set.
    pub least: usize,
    /// Their mean size.
    pub mean: f64,
    /// The size of the universe.
    pub universe: usize,
    /// The exponent of Zipf's distribution of the elements.
    pub zipf: f64,
}

/// Which pairs of sets match.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SetQuery {
    /// The indexed set contains the probe set.
    Contained,
    /// They share at least this number of elements.
    Overlap(u64),
    /// Their Jaccard similarity is at least this.
    Jaccard(f64),
}

impl SetQuery {
    fn predicate(self) -> Result<SetPredicate> {
        let no_threshold =
            || crate::error::BowtieError::Internal("a threshold that every pair meets".into());
        match self {
            Self::Contained => Ok(SetPredicate::Contains(Side::Left)),
            Self::Overlap(least) => Ok(SetPredicate::Overlap(least)),
            Self::Jaccard(threshold) => {
                let jaccard = SetPredicate::degree(SetMeasure::Jaccard, threshold, false);
                jaccard.ok_or_else(no_threshold)
            }
        }
    }
}

/// One set in `PLANTED` is planted.
const PLANTED: u64 = 50;
/// Sets that one task generates.
const TASK: usize = 4096;
/// The most elements of a set that is searched as a list; larger sets have a hash table.
const SHORT: usize = 32;

/// Generates the sets of a case, each from its number.
struct Maker {
    least: usize,
    universe: usize,
    /// The parameter of the distribution of sizes; `None`: all have the least size.
    decay: Option<f64>,
    elements: Zipf,
}

impl Maker {
    fn new(case: &SetCase) -> Self {
        let more = case.mean - case.least as f64;
        Self {
            least: case.least,
            universe: case.universe,
            decay: (more > 0.0).then(|| (1.0 + 1.0 / more).ln()),
            elements: Zipf::new(case.universe as u64, case.zipf),
        }
    }

    fn size(&self, i: u64) -> usize {
        let more = self
            .decay
            .map_or(0.0, |decay| -(1.0 - fraction(i ^ 7 << 50)).ln() / decay);
        (self.least + more as usize).clamp(1, self.universe)
    }

    fn set(&self, i: u64) -> Vec<i32> {
        let planted = scattered(i ^ 3 << 50);
        if i > 0 && planted.is_multiple_of(PLANTED) {
            // An earlier set, which may be planted, too, without its last element, or with another one in its place.
            let mut set = self.set(scattered(i ^ 5 << 50) % i);
            if set.len() > 1 {
                let size = set.len();
                let last = set.pop();
                if !(planted / PLANTED).is_multiple_of(2) {
                    self.fill(i, &mut set, size, last);
                }
            }
            return set;
        }
        let size = self.size(i);
        let mut set = Vec::with_capacity(size);
        self.fill(i, &mut set, size, None);
        set
    }

    /// Draws distinct elements other than `without`, until the set has `size`.
    fn fill(&self, i: u64, set: &mut Vec<i32>, size: usize, without: Option<i32>) {
        let mut table: HashSet<i32> = match size > SHORT {
            true => set.iter().copied().collect(),
            false => HashSet::new(),
        };
        // Frequent elements are drawn again and again: after this number of draws the following elements are taken
        // instead.
        let draws = 4 * size as u64;
        for draw in 0.. {
            if set.len() == size.min(self.universe - usize::from(without.is_some())) {
                break;
            }
            let drawn = match draw < draws {
                true => self.elements.at(i << 20 ^ draw),
                false => (scattered(i) + draw) % self.universe as u64,
            } as i32;
            let fresh = match size > SHORT {
                true => table.insert(drawn),
                false => !set.contains(&drawn),
            };
            if fresh && Some(drawn) != without {
                set.push(drawn);
            }
        }
    }
}

impl SetCase {
    /// The sets as a list column without NULLs, with distinct elements in no order.
    pub fn lists(&self) -> ListArray {
        let maker = Maker::new(self);
        let tasks: Vec<(Vec<usize>, Vec<i32>)> = (0..self.sets.div_ceil(TASK))
            .into_par_iter()
            .map(|task| {
                let (mut lengths, mut elements) = (vec![], vec![]);
                for i in task * TASK..self.sets.min((task + 1) * TASK) {
                    let set = maker.set(i as u64);
                    lengths.push(set.len());
                    elements.extend(set);
                }
                (lengths, elements)
            })
            .collect();
        let lengths = tasks.iter().flat_map(|(lengths, _)| lengths);
        let offsets = OffsetBuffer::from_lengths(lengths.copied());
        let total = tasks.iter().map(|(_, elements)| elements.len()).sum();
        let mut all = Vec::with_capacity(total);
        for (_, elements) in tasks {
            all.extend(elements);
        }
        let field = Arc::new(Field::new_list_field(DataType::Int32, true));
        ListArray::new(field, offsets, Arc::new(Int32Array::from(all)), None)
    }
}

/// Sets for repeated self joins.
#[derive(Debug)]
pub struct SetSides {
    device: Arc<dyn Device>,
    lists: ArrayRef,
    elements: usize,
}

/// With fewer sets an out-of-memory error is final.
const FEW_SETS: usize = 1024;

impl SetSides {
    /// Generates the sets, and opens a device, named as in `bowtie.device`.
    ///
    /// # Errors
    /// If there is no such device.
    pub fn new(device: &str, case: SetCase) -> datafusion::error::Result<Self> {
        let device = open(device)?;
        let lists = case.lists();
        Ok(Self {
            elements: lists.values().len(),
            lists: Arc::new(lists),
            device,
        })
    }

    /// The number of matches of a probe. Rows with equal sets may share a list.
    fn matches(&self, found: &SetMatches) -> Result<usize> {
        if !found.ranges.share_lists(&found.matches) {
            return Ok(found.matches.len());
        }
        let matches = Matches {
            build: &found.matches,
            probe: &found.probe,
            ranges: &found.ranges,
            tests: &[],
            program: None,
        };
        let counts = self.device.count_matches(matches, false)?.counts;
        Ok(self.device.total(&self.device.scan(&counts)?)? as usize)
    }

    /// The number of all matches, listed in tiles as by a query; in smaller tiles where memory does not suffice.
    fn search(&self, index: &SetIndex) -> Result<usize> {
        let mut tile = self.device.profile().probed_sets as usize;
        let (mut from, mut matches) = (0, 0);
        while from < self.lists.len() {
            let len = tile.min(self.lists.len() - from);
            let lists = self.device.upload(&[self.lists.slice(from, len)])?;
            match self.device.set_search(index, &lists, None, &[]) {
                Ok(found) => {
                    matches += self.matches(&found)?;
                    from += len;
                }
                Err(error) if error.is_divisible() && len > FEW_SETS => tile = len / 2,
                Err(error) => return Err(error),
            }
        }
        Ok(matches)
    }

    /// The number of sets of both sides.
    pub fn input_rows(&self) -> usize {
        2 * self.lists.len()
    }

    /// The bytes of the elements of both sides, and of `pairs` matches as row ids.
    pub fn least_bytes(&self, pairs: usize) -> usize {
        8 * self.elements + 8 * pairs
    }

    /// Joins the sets with themselves `runs` times by a technique, named as in the option. The time includes encoding,
    /// which for lists of elements begins on the host, the search, and the match lists, of which equal sets share one.
    ///
    /// # Errors
    /// If there is no such technique, or memory does not suffice.
    pub fn measure(
        &self,
        query: SetQuery,
        technique: &str,
        runs: usize,
    ) -> datafusion::error::Result<Rate> {
        let technique = technique.parse::<SetStrategy>()?.0;
        let device = self.device.as_ref();
        let test = query.predicate()?.seen_from(Side::Left);
        let (ms, (rows, strategy)) = timed(device, runs, || {
            let lists = device.upload(&[Arc::clone(&self.lists)])?;
            let index = device.set_index(&lists, None, &[], test, technique, &lists)?;
            let rows = self.search(&index)?;
            Ok((rows, index.technique.name().to_string()))
        })?;
        Ok(Rate { ms, rows, strategy })
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::Int32Type;

    use super::*;

    const CASE: SetCase = SetCase {
        sets: 600,
        least: 1,
        mean: 5.0,
        universe: 300,
        zipf: 0.9,
    };

    #[test]
    fn every_technique_finds_the_same_pairs() {
        let sides = SetSides::new("host", CASE).unwrap();
        for query in [
            SetQuery::Contained,
            SetQuery::Overlap(3),
            SetQuery::Jaccard(0.7),
        ] {
            let all = sides.measure(query, "auto", 1).unwrap().rows;
            assert!(all >= 500, "{query:?}: {all} pairs");
            for technique in ["prefix", "inverted_index", "signature", "bitmap", "matrix"] {
                assert_eq!(sides.measure(query, technique, 1).unwrap().rows, all);
            }
        }
    }

    #[test]
    fn sets_are_as_many_and_as_large_as_asked_for() {
        let cases = [
            (20_000, 1, 6.5, 1_657),
            (20_000, 1, 3.0, 3_900_000),
            (20_000, 10, 17.0, 1_600),
            (1_000, 1_480, 2_021.0, 11_000),
            (500, 20, 20.0, 20),
        ];
        for (sets, least, mean, universe) in cases {
            let case = SetCase {
                sets,
                least,
                mean,
                universe,
                zipf: 0.8,
            };
            let lists = case.lists();
            assert_eq!(lists.len(), sets);
            let found = lists.values().len() as f64 / sets as f64;
            assert!((found / mean - 1.0).abs() < 0.03, "{case:?}: {found}");
            for set in lists.iter().flatten() {
                let set = set.as_primitive::<Int32Type>().values();
                let distinct: HashSet<i32> = set.iter().copied().collect();
                assert_eq!(distinct.len(), set.len());
                assert!(set.iter().all(|e| (0..universe as i32).contains(e)));
            }
            let fewer = SetCase {
                sets: sets / 3,
                ..case
            };
            assert_eq!(
                &fewer.lists() as &dyn Array,
                &lists.slice(0, sets / 3) as &dyn Array
            );
        }
    }

    #[test]
    fn subsets_and_near_duplicates_are_planted() {
        let sides = SetSides::new(
            "host",
            SetCase {
                sets: 5_000,
                mean: 40.0,
                universe: 1_000_000,
                ..CASE
            },
        )
        .unwrap();
        // Besides each set itself.
        let subsets = sides.measure(SetQuery::Contained, "auto", 1).unwrap();
        assert!(subsets.rows >= 5_030, "{} pairs", subsets.rows);
        let near = sides.measure(SetQuery::Jaccard(0.8), "auto", 1).unwrap();
        assert!(near.rows >= 5_000 + 2 * 75, "{} pairs", near.rows);
    }
}
