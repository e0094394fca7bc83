//! An inverted index: for each element, the indexed positions whose sets, or whose prefixes, have it.

use std::ops::Range;

use crate::device::host::pace::{CancelCheck, Pace};
use crate::device::host::sets::encode::encoding::Sets;
use crate::error::Result;

/// Positions by element.
#[derive(Debug)]
pub(crate) struct Postings {
    /// Element `e` has the postings `begins[e] .. begins[e + 1]`.
    begins: Vec<u32>,
    /// Ascending for each element, hence ascending by size within a group.
    positions: Vec<u32>,
    /// The element's rank in the order of each set.
    places: Vec<u32>,
}

impl Postings {
    /// Indexes the first `prefix(elements)` elements of each set of a universe of `universe` elements. `with_places`: also
    /// stores each element's rank in its set.
    pub(crate) fn new(
        sets: &Sets,
        universe: usize,
        prefix: impl Fn(&[u32]) -> usize,
        with_places: bool,
        check_cancelled: CancelCheck<'_>,
    ) -> Result<Self> {
        let mut pace = Pace::new(check_cancelled);
        let front = |position: usize| {
            let elements = sets.get(position);
            &elements[..prefix(elements).min(elements.len())]
        };
        let mut begins = vec![0u32; universe + 1];
        for position in 0..sets.len() {
            for element in front(position) {
                begins[*element as usize + 1] += 1;
            }
            pace.step(front(position).len() + 1)?;
        }
        for element in 0..universe {
            begins[element + 1] += begins[element];
        }
        let mut next = begins.clone();
        let total = begins[universe] as usize;
        let mut positions = vec![0; total];
        let mut places = vec![0; if with_places { total } else { 0 }];
        for position in 0..sets.len() {
            for (place, element) in front(position).iter().enumerate() {
                let at = &mut next[*element as usize];
                positions[*at as usize] = position as u32;
                if with_places {
                    places[*at as usize] = place as u32;
                }
                *at += 1;
            }
            pace.step(front(position).len() + 1)?;
        }
        Ok(Self {
            begins,
            positions,
            places,
        })
    }

    /// The numbers of the postings of `element` in `window`.
    fn numbers(&self, element: u32, window: &Range<usize>) -> Range<usize> {
        let element = element as usize;
        let all = self.begins[element] as usize..self.begins[element + 1] as usize;
        let list = &self.positions[all.clone()];
        let inside = list.first().is_none_or(|p| *p as usize >= window.start)
            && list.last().is_none_or(|p| (*p as usize) < window.end);
        if inside {
            return all;
        }
        let low = list.partition_point(|p| (*p as usize) < window.start);
        let high = list.partition_point(|p| (*p as usize) < window.end);
        all.start + low..all.start + high
    }

    /// The positions in `window` with `element`.
    pub(crate) fn of(&self, element: u32, window: &Range<usize>) -> &[u32] {
        &self.positions[self.numbers(element, window)]
    }

    /// The same, with the element's rank in each set.
    pub(crate) fn placed(
        &self,
        element: u32,
        window: &Range<usize>,
    ) -> impl Iterator<Item = (u32, u32)> {
        let numbers = self.numbers(element, window);
        let positions = self.positions[numbers.clone()].iter().copied();
        positions.zip(self.places[numbers].iter().copied())
    }
}
