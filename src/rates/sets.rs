//! Set joins.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field};
use rayon::prelude::*;

use super::{Rate, fraction, scattered, timed, zipf_rank};
use crate::device::open::Devices;
use crate::device::{Column, Device};
use crate::error::Result;
use crate::options::{DeviceChoice, SetStrategy};
use crate::spec::{SetMeasure, SetPredicate, Side};

/// Sets as a data set of \[B\] has them: so many, of so many elements on average, of a universe of so many. Sizes are exponentially
/// distributed, frequencies by Zipf's distribution. Some sets are planted: subsets of others, and near-duplicates.
#[derive(Debug, Clone, Copy)]
pub struct SetCase {
    /// Sets of each side.
    pub sets: usize,
    /// Their mean size.
    pub mean: f64,
    /// Elements that there are.
    pub universe: usize,
    /// The exponent of the elements' frequencies.
    pub zipf: f64,
}

/// Which pairs of sets match.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SetQuery {
    /// The set of the searching side is contained in the indexed one.
    Contained,
    /// They share so many elements.
    Overlap(u64),
    /// Their Jaccard similarity is so much at least.
    Jaccard(f64),
}

impl SetQuery {
    fn predicate(self) -> Result<SetPredicate> {
        let no_threshold = || crate::error::BowtieError::Internal("a threshold of no use".into());
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

/// One in so many sets is planted.
const PLANTED: u64 = 50;

impl SetCase {
    fn set(&self, i: u64) -> Vec<i32> {
        if i > 0 && scattered(i ^ 3 << 50).is_multiple_of(PLANTED) {
            // An earlier set, which may be planted too, but for its last element.
            let mut planted = self.set(scattered(i ^ 5 << 50) % i);
            if planted.len() > 1 {
                planted.pop();
            }
            return planted;
        }
        let size = 1.0 - (1.0 - fraction(i ^ 7 << 50)).ln() * (self.mean - 1.0);
        let size = (size as usize).clamp(1, self.universe.div_ceil(2));
        let mut set = Vec::with_capacity(size);
        // Frequent elements come again: of few the rest is left out.
        for draw in 0..4 * size as u64 {
            let drawn = zipf_rank(i << 16 ^ draw, self.universe as u64, self.zipf) as i32;
            if !set.contains(&drawn) {
                set.push(drawn);
            }
            if set.len() == size {
                break;
            }
        }
        set
    }

    fn lists(&self) -> ArrayRef {
        let sets: Vec<Vec<i32>> = (0..self.sets as u64)
            .into_par_iter()
            .map(|i| self.set(i))
            .collect();
        let offsets = OffsetBuffer::from_lengths(sets.iter().map(Vec::len));
        let elements = Int32Array::from(sets.into_par_iter().flatten().collect::<Vec<_>>());
        let field = Arc::new(Field::new_list_field(DataType::Int32, true));
        Arc::new(ListArray::new(field, offsets, Arc::new(elements), None))
    }
}

/// Sets that are joined with themselves again and again.
#[derive(Debug)]
pub struct SetSides {
    case: SetCase,
    device: Arc<dyn Device>,
    lists: Arc<Column>,
    elements: usize,
}

impl SetSides {
    /// Makes the sets, and hands them to a device, as `bowtie.device` names it.
    ///
    /// # Errors
    /// When there is no such device, or no room on it.
    pub fn new(device: &str, case: SetCase) -> datafusion::error::Result<Self> {
        let device = Devices::default().open(device.parse::<DeviceChoice>()?, None)?;
        let lists = case.lists();
        let elements = lists.to_data().child_data().iter().map(|d| d.len()).sum();
        Ok(Self {
            case,
            lists: device.upload(&[lists])?,
            device,
            elements,
        })
    }

    /// Sets of both sides.
    pub fn input_rows(&self) -> usize {
        2 * self.case.sets
    }

    /// Bytes of the elements of both sides, and of so many pairs of row numbers.
    pub fn least_bytes(&self, pairs: usize) -> usize {
        8 * self.elements + 8 * pairs
    }

    /// Joins the sets with themselves so many times by a technique, as the option names it: their encoding, which lists of elements on
    /// the host begin, the search and the lists of matches.
    ///
    /// # Errors
    /// When there is no such technique, or no room.
    pub fn measure(
        &self,
        query: SetQuery,
        technique: &str,
        runs: usize,
    ) -> datafusion::error::Result<Rate> {
        let technique = technique.parse::<SetStrategy>()?.0;
        let device = self.device.as_ref();
        let test = query.predicate()?.seen_from(Side::Left);
        let lists = self.lists.as_ref();
        let (ms, (rows, strategy)) = timed(device, runs, || {
            let index = device.set_index(lists, None, &[], test, technique, lists)?;
            let found = device.set_search(&index, lists, None, &[])?;
            Ok((found.matches.len(), index.technique().name().to_string()))
        })?;
        Ok(Rate { ms, rows, strategy })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_technique_finds_the_same_pairs() {
        let case = SetCase {
            sets: 600,
            mean: 5.0,
            universe: 300,
            zipf: 0.9,
        };
        let sides = SetSides::new("host", case).unwrap();
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
}
