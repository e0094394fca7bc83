//! Set joins on a GPU (`kernels/set*.cu`; \[B\] chapters 4 to 6): what `device/host/sets` does, in kernels.
//!
//! ```text
//!  encode.rs       lists ─► sets of numbers; order.rs: by group and size
//!  choice.rs       which technique serves them
//!  rarest.rs prefix.rs inverted.rs signature.rs bits.rs intersect.rs    the techniques; lists.rs: inverted lists of those that have them
//!  search.rs       both sides and the launches that compare them; measure.rs: the predicate
//!  empties.rs      what empty sets match; found.rs: lists of matches, and counts
//! ```

mod bits;
mod choice;
mod empties;
mod encode;
mod found;
mod intersect;
mod inverted;
mod lists;
mod measure;
mod order;
mod prefix;
mod rarest;
mod search;
mod signature;

use std::sync::Arc;

use self::bits::Bits;
use self::choice::Profile;
use self::empties::Empties;
use self::encode::{Domain, Sets};
use self::inverted::InvertedIndex;
use self::measure::{Half, Measure};
use self::prefix::Prefix;
use self::rarest::Rarest;
use self::search::{Prepared, Search};
use self::signature::Signature;
use super::CudaDevice;
use super::queue::Queue;
use super::rows::memory;
use crate::device::Device;
use crate::device::buffer::{
    self, Buffer, Column, Keys, Ranges, SetCounting, SetCounts, SetMatches, SetTally, Sorted,
};
use crate::device::host::mean_length;
use crate::error::{BowtieError, Result};
use crate::spec::{SetTechnique, SetTest};

/// One side's sets on a GPU, indexed by a technique.
#[derive(Debug)]
pub(crate) struct SetIndex {
    sets: Sets,
    domain: Domain,
    /// Rows of the column, those without a set included.
    rows: usize,
    test: SetTest,
    measure: Measure,
    technique: SetTechnique,
    finder: Finder,
}

#[derive(Debug)]
enum Finder {
    Prefix(Prefix),
    InvertedIndex(InvertedIndex),
    Signature(Signature),
    Bits(Bits),
    Rarest(Rarest),
    Intersect,
}

impl Finder {
    fn new(
        queue: &Arc<Queue>,
        technique: SetTechnique,
        sets: &Sets,
        universe: usize,
        (test, measure): (SetTest, &Measure),
    ) -> Result<Self> {
        Ok(match technique {
            // A set that is contained has its rarest element as its prefix.
            SetTechnique::Rarest if !measure.is_contained() => {
                Self::Prefix(Prefix::new(queue, sets, universe, measure)?)
            }
            SetTechnique::Prefix => Self::Prefix(Prefix::new(queue, sets, universe, measure)?),
            SetTechnique::InvertedIndex => {
                Self::InvertedIndex(InvertedIndex::new(queue, sets, universe)?)
            }
            SetTechnique::Signature => Self::Signature(Signature::new(queue, sets, test)?),
            SetTechnique::Bitmap => Self::Bits(Bits::new(queue, sets, universe, false)?),
            SetTechnique::Matrix => Self::Bits(Bits::new(queue, sets, universe, true)?),
            SetTechnique::Rarest => Self::Rarest(Rarest::new(queue, sets, universe)?),
            SetTechnique::Intersect => Self::Intersect,
        })
    }

    fn prepare<'a>(&'a self, search: Search<'a>) -> Result<Prepared<'a>> {
        match self {
            Self::Prefix(prefix) => prefix.prepare(search),
            Self::InvertedIndex(index) => index.prepare(search),
            Self::Signature(signature) => signature.prepare(search),
            Self::Bits(bits) => bits.prepare(search),
            Self::Rarest(rarest) => rarest.prepare(search),
            Self::Intersect => intersect::prepare(search),
        }
    }
}

impl SetIndex {
    pub(in crate::device) fn technique(&self) -> SetTechnique {
        self.technique
    }
}

impl buffer::SetIndex {
    fn on_cuda(&self) -> Result<&SetIndex> {
        match self {
            Self::Cuda(index) => Ok(index),
            Self::Host(_) => Err(BowtieError::Internal(
                "the host's index was given to a GPU".into(),
            )),
        }
    }
}

impl CudaDevice {
    /// Indexes a column of lists, or of single elements.
    pub(super) fn index_sets(
        &self,
        column: &Column,
        groups: Option<(&Buffer<u32>, u32)>,
        not_null: &[&Keys],
        test: SetTest,
        wanted: Option<SetTechnique>,
        searching: &Column,
    ) -> Result<SetIndex> {
        let queue = &self.queue;
        let (sets, domain) = self.encode_indexed(column, groups, not_null)?;
        let universe = domain.universe();
        let profile = Profile {
            indexed: sets.len as u64,
            searching: searching.rows() as u64,
            mean_indexed: sets.mean() as u64,
            mean_searching: match searching.lies_on_device() {
                true => 1,
                false => mean_length(searching.on_host()),
            },
            universe: universe as u64,
            room: queue
                .budget
                .limit()
                .saturating_sub(queue.budget.in_use_by_all()),
        };
        let technique = choice::choose(wanted, test, &profile);
        self.go_on()?;
        let measure = Measure::of(test);
        Ok(SetIndex {
            finder: Finder::new(queue, technique, &sets, universe, (test, &measure))?,
            sets,
            domain,
            rows: column.rows(),
            test,
            measure,
            technique,
        })
    }

    /// The matches of each row of the other side as a list.
    pub(super) fn search_sets(
        &self,
        index: &buffer::SetIndex,
        column: &Column,
        groups: Option<&Buffer<u32>>,
        not_null: &[&Keys],
    ) -> Result<SetMatches> {
        let (index, queue) = (index.on_cuda()?, &self.queue);
        let sets = self.encode_searching(&index.domain, column, groups, not_null)?;
        if sets.len == 0 || index.sets.len == 0 {
            let none = || queue.sequence(0, 0);
            return Ok(SetMatches {
                matches: Sorted {
                    rows: none()?,
                    keys: None,
                    segments: Some(Buffer::cuda(queue.zeroed(4, "range bounds")?, 1)),
                },
                searching: Sorted::of_rows(none()?),
                ranges: Ranges {
                    lo: none()?,
                    hi: none()?,
                },
                tally: SetTally::default(),
            });
        }
        let go_on = || self.go_on();
        let empties = Empties::of(queue, [&sets, &index.sets], index.test)?;
        let prepared = index.finder.prepare(index.search(queue, &go_on, &sets)?)?;
        let found = queue.list_matches(&prepared, &sets, empties.as_ref())?;
        let tally = SetTally {
            candidates: prepared.candidates,
            verified: found.verified,
        };
        drop(prepared);
        let of_indexed = memory(&index.sets.rows)?;
        let rows = queue.gather_values(of_indexed, &found.positions, found.total, 4)?;
        Ok(SetMatches {
            matches: Sorted {
                rows: Buffer::cuda(rows, found.total),
                keys: None,
                segments: Some(found.segments),
            },
            searching: Sorted::of_rows(sets.rows),
            ranges: found.ranges,
            tally,
        })
    }

    /// How many matches rows have.
    pub(super) fn count_sets(
        &self,
        index: &buffer::SetIndex,
        column: &Column,
        groups: Option<&Buffer<u32>>,
        counting: SetCounting,
    ) -> Result<SetCounts> {
        let (index, queue) = (index.on_cuda()?, &self.queue);
        let sets = self.encode_searching(&index.domain, column, groups, &[])?;
        if sets.len == 0 || index.sets.len == 0 {
            let indexed = match counting {
                SetCounting::Both => Some(queue.zeroed(index.rows * 4, "match counts")?),
                SetCounting::Exists | SetCounting::Searching => None,
            };
            return Ok(SetCounts {
                searching: Sorted::of_rows(queue.sequence(0, 0)?),
                counts: queue.sequence(0, 0)?,
                indexed: indexed.map(|counts| Buffer::cuda(counts, index.rows)),
                tally: SetTally::default(),
            });
        }
        let go_on = || self.go_on();
        let empties = Empties::of(queue, [&sets, &index.sets], index.test)?;
        let prepared = index.finder.prepare(index.search(queue, &go_on, &sets)?)?;
        let sides = [&sets, &index.sets];
        let counted = queue.count_matches_of_sets(&prepared, sides, empties.as_ref(), counting)?;
        let tally = SetTally {
            candidates: prepared.candidates,
            verified: counted.verified,
        };
        drop(prepared);
        let by_row = |counts| {
            let counts = Buffer::cuda(counts, index.sets.len);
            queue.scatter(&index.sets.rows, &counts, index.rows)
        };
        let indexed = counted.indexed.map(by_row).transpose()?;
        Ok(SetCounts {
            counts: Buffer::cuda(counted.searching, sets.len),
            searching: Sorted::of_rows(sets.rows),
            indexed,
            tally,
        })
    }

    /// How often each of `rows` row ids stands in `list`.
    pub(super) fn count_occurrences(&self, list: &Buffer<u32>, rows: usize) -> Result<Buffer<u32>> {
        let counts = self.queue.histogram(memory(list)?, list.len(), rows)?;
        Ok(Buffer::cuda(counts, rows))
    }
}

impl SetIndex {
    fn search<'a>(
        &'a self,
        queue: &'a Arc<Queue>,
        go_on: &'a dyn Fn() -> Result<()>,
        searching: &'a Sets,
    ) -> Result<Search<'a>> {
        let same = queue.are_same(searching, &self.sets)?;
        Ok(Search {
            queue,
            go_on,
            measure: &self.measure,
            searching,
            indexed: &self.sets,
            half: same.then(|| Half::of(&self.measure)),
        })
    }
}
