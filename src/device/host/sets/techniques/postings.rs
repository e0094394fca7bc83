//! An inverted index: for each element, the indexed positions whose sets, or whose prefixes, have it.

use std::ops::Range;

use crate::device::host::pace::{CancelCheck, Pace};
use crate::device::host::sets::encode::encoding::Sets;
use crate::error::Result;

/// What an inverted index stores of an element of a set.
pub(crate) trait Posting: Copy + Default {
    /// The set's position.
    fn position(&self) -> u32;
}

impl Posting for u32 {
    fn position(&self) -> u32 {
        *self
    }
}

/// Positions by element, or postings that have them.
#[derive(Debug)]
pub(crate) struct Postings<P = u32> {
    /// Element `e` has the postings `begins[e] .. begins[e + 1]`.
    begins: Vec<u32>,
    /// By ascending position for each element, hence by ascending size within a group.
    postings: Vec<P>,
}

impl Postings {
    /// Indexes the first `prefix(elements)` elements of each set of a universe of `universe` elements.
    pub(crate) fn new(
        sets: &Sets,
        universe: usize,
        prefix: impl Fn(&[u32]) -> usize,
        check_cancelled: CancelCheck<'_>,
    ) -> Result<Self> {
        let posting = |position: usize, _: usize| position as u32;
        Self::of_postings(sets, universe, prefix, posting, check_cancelled)
    }
}

impl<P: Posting> Postings<P> {
    /// The same with `posting(position, rank)` for the element of this rank in the set at this position.
    pub(crate) fn of_postings(
        sets: &Sets,
        universe: usize,
        prefix: impl Fn(&[u32]) -> usize,
        posting: impl Fn(usize, usize) -> P,
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
        let mut postings = vec![P::default(); begins[universe] as usize];
        for position in 0..sets.len() {
            for (rank, element) in front(position).iter().enumerate() {
                let at = &mut next[*element as usize];
                postings[*at as usize] = posting(position, rank);
                *at += 1;
            }
            pace.step(front(position).len() + 1)?;
        }
        Ok(Self { begins, postings })
    }

    /// The postings of `element`.
    pub(crate) fn all(&self, element: u32) -> &[P] {
        let element = element as usize;
        &self.postings[self.begins[element] as usize..self.begins[element + 1] as usize]
    }

    /// The postings of `element` in `window`.
    pub(crate) fn of(&self, element: u32, window: &Range<usize>) -> &[P] {
        let list = self.all(element);
        let is_before = |end: usize| move |posting: &P| (posting.position() as usize) < end;
        let inside = !list.first().is_some_and(is_before(window.start))
            && list.last().is_none_or(is_before(window.end));
        if inside {
            return list;
        }
        let low = list.partition_point(is_before(window.start));
        let high = list.partition_point(is_before(window.end));
        &list[low..high]
    }
}
