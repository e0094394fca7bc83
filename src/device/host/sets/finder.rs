//! [`SetIndex`]: the encoded sets of one side, with the technique that finds their matches.

use std::sync::Arc;

use crate::device::budget::{Budget, Lease};
use crate::device::data::column::Column;
use crate::device::data::keys::Keys;
use crate::device::host::pace::CancelCheck;
use crate::device::host::sets::encode::encoding::{Domain, Sets};
use crate::device::host::sets::pair_overlaps::CountedSets;
use crate::device::host::sets::techniques::binary_matrix::BinaryMatrix;
use crate::device::host::sets::techniques::bitmap::Bitmap;
use crate::device::host::sets::techniques::intersect::Intersect;
use crate::device::host::sets::techniques::inverted::InvertedIndex;
use crate::device::host::sets::techniques::mmjoin::MmJoin;
use crate::device::host::sets::techniques::prefix::Prefix;
use crate::device::host::sets::techniques::published::matrix::Matrix;
use crate::device::host::sets::techniques::rarest::Rarest;
use crate::device::host::sets::techniques::signature::Signature;
use crate::error::Result;
use crate::ir::set_predicate::{SetTechnique, SetTest};
use crate::list_sets::elements::Lists;

/// The sets of one side, indexed for a technique.
#[derive(Debug)]
pub(crate) struct SetIndex {
    pub(crate) sets: Sets,
    pub(crate) domain: Domain,
    /// The positions of group `g` begin at `segments[g]`; without groups, all are of group 0.
    pub(crate) segments: Vec<u32>,
    /// The rows of the column, including rows without a set.
    pub(crate) rows: usize,
    pub(crate) test: SetTest,
    pub(crate) finder: Finder,
    /// Elements are below it.
    pub(crate) universe: usize,
    pub(crate) counted: CountedSets,
    pub(crate) _lease: Lease,
}

/// The index of one of the techniques.
#[derive(Debug)]
pub(crate) enum Finder {
    Prefix(Prefix),
    InvertedIndex(InvertedIndex),
    Signature(Signature),
    Bitmap(Bitmap),
    Matrix(Matrix),
    MmJoin(MmJoin),
    Rarest(Rarest),
    Intersect(Intersect),
}

impl Finder {
    pub(crate) fn new(
        technique: SetTechnique,
        sets: &Sets,
        universe: usize,
        test: SetTest,
        check_cancelled: CancelCheck<'_>,
    ) -> Result<Self> {
        Ok(match technique {
            SetTechnique::Prefix => {
                Self::Prefix(Prefix::new(sets, universe, test, check_cancelled)?)
            }
            SetTechnique::InvertedIndex => {
                Self::InvertedIndex(InvertedIndex::new(sets, universe, check_cancelled)?)
            }
            SetTechnique::Signature => Self::Signature(Signature::new(sets, check_cancelled)?),
            SetTechnique::Bitmap => Self::Bitmap(Bitmap::new(sets, universe, check_cancelled)?),
            SetTechnique::Matrix => Self::Matrix(Matrix::new(sets, universe, check_cancelled)?),
            SetTechnique::MmJoin => Self::MmJoin(MmJoin::new(sets, universe, check_cancelled)?),
            SetTechnique::Rarest => {
                let contains = test.indexed_contains();
                Self::Rarest(Rarest::new(sets, universe, contains, check_cancelled)?)
            }
            SetTechnique::Intersect => Self::Intersect(Intersect),
        })
    }

    /// The most bytes of the index.
    pub(crate) fn bytes(technique: SetTechnique, sets: &Sets, universe: usize) -> u64 {
        match technique {
            SetTechnique::Prefix => Prefix::bytes(sets, universe),
            SetTechnique::InvertedIndex => InvertedIndex::bytes(sets, universe),
            SetTechnique::Signature => Signature::bytes(sets),
            SetTechnique::Bitmap | SetTechnique::Matrix => BinaryMatrix::bytes(sets, universe),
            SetTechnique::MmJoin => MmJoin::bytes(sets, universe),
            SetTechnique::Rarest => Rarest::bytes(sets, universe),
            SetTechnique::Intersect => 0,
        }
    }

    fn technique(&self) -> SetTechnique {
        match self {
            Self::Prefix(_) => SetTechnique::Prefix,
            Self::InvertedIndex(_) => SetTechnique::InvertedIndex,
            Self::Signature(_) => SetTechnique::Signature,
            Self::Bitmap(_) => SetTechnique::Bitmap,
            Self::Matrix(_) => SetTechnique::Matrix,
            Self::MmJoin(_) => SetTechnique::MmJoin,
            Self::Rarest(_) => SetTechnique::Rarest,
            Self::Intersect(_) => SetTechnique::Intersect,
        }
    }
}

/// The most matches that one search lists. With more, the caller retries with fewer rows, so that the first output
/// batches come early.
pub(crate) const MOST_MATCHES: u64 = 1 << 26;

impl SetIndex {
    pub(crate) fn technique(&self) -> SetTechnique {
        self.finder.technique()
    }
}

/// The lists of the rows that are not NULL in any of `not_null`, and the reservation of decoded elements.
pub(crate) fn lists_of(
    budget: &Arc<Budget>,
    column: &Column,
    not_null: &[&Keys],
) -> Result<(Lists, Option<Lease>)> {
    let lists = Lists::as_they_are(column.on_host()?);
    let lease = match lists.plain_bytes()? {
        0 => None,
        bytes => Some(budget.lease(bytes, "elements of sets")?),
    };
    let mut lists = lists.plain()?;
    for valid in not_null.iter().filter_map(|keys| keys.valid.as_ref()) {
        lists.leave_out(valid.on_host()?);
    }
    Ok((lists, lease))
}
