//! Encodes lists as ascending sets of element ranks (`kernels/sets/set_encode.cu`; \[B\] 4.1), as the host does
//! (`host/sets/encode/encoding.rs`).
//!
//! ```text
//!  values of all rows ─► ids by equality ─► words of (set, id), sorted, distinct ─► sizes, and sets ordered by size
//!    indexed:  ids ─► ids of (group, id) if there are groups ─► ranks by frequency: the rarest is 0
//!    probe:    ids ─► ids of the indexed side ─► ranks; elements that it lacks count for the size only
//!  words of (position, rank), sorted ─► elements, offsets ─► equal sets once, if there are many (`equal_sets.rs`)
//! ```
//!
//! Without groups the first sort is skipped while lists have no duplicates: lists are assumed to be sets
//! (`bitmap_sort.rs`). If one has a duplicate, or an element that the indexed side lacks, all is encoded again as
//! above.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{Array, ArrayRef};

use crate::device::budget::Lease;
use crate::device::cuda::columns::rows;
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::keys::group_ids;
use crate::device::cuda::runtime::access::{memory, valid_memory};
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::cuda::sets::encode::bitmap_sort;
use crate::device::cuda::sets::encode::element_ids::{self, ElementIds};
use crate::device::cuda::sets::encode::encoded::{GroupIds, Sets};
use crate::device::cuda::sets::encode::equal_sets;
use crate::device::cuda::sets::encode::list_offsets::{self, ListColumn};
use crate::device::cuda::sets::encode::set_element_words::{self, Ranks};
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::keys::Keys;
use crate::device::data::structures::GroupDomain;
use crate::device::primitives::device::Device;
use crate::device::threads;
use crate::error::Result;
use crate::list_sets::same_lists::are_same_lists;

/// The assignment of ranks to the elements of the indexed side, by which probe lists are encoded.
#[derive(Debug)]
pub(crate) struct Domain {
    ids: ElementIds,
    /// Ids of (group, id), if there are groups.
    grouped: Option<GroupDomain>,
    ranks: Ranks,
    /// Whether probe lists had duplicates or other elements, so that they were encoded a second time.
    probed_twice: AtomicBool,
    /// Number of groups; 0 without groups.
    groups: u32,
    source: Option<Source>,
}

impl Domain {
    /// Number of elements with a rank.
    pub(crate) fn universe(&self) -> usize {
        self.ranks.universe
    }

    /// The number of sets with each rank, of equal sets one.
    pub(crate) fn frequencies(&self) -> &Memory {
        &self.ranks.frequencies
    }
}

/// The lists that were encoded, if only NULL ones were excluded: the probe side of a self join need not be transferred
/// and encoded again.
#[derive(Debug)]
struct Source {
    /// The lists, or texts.
    lists: ArrayRef,
    /// The characters of a window, if the lists are windows of texts.
    windows: Option<u32>,
    #[expect(dead_code, reason = "held")]
    lease: Lease,
}

/// A source takes one `SOURCE_SHARE`th of the free memory, at most.
const SOURCE_SHARE: u64 = 8;

impl Source {
    /// The lists with a lease of their bytes; `None` if they would take too much of the free memory.
    fn of(stream: &Stream, column: &Column, lists: &ListColumn<'_>) -> Option<Self> {
        let (lists, windows) = Self::parts(lists)?;
        // Lists of a column on the host belong to the column, which has a lease and outlives the index.
        let bytes = match column.is_resident() {
            true => lists.to_data().get_slice_memory_size().ok()? as u64,
            false => 0,
        };
        if bytes > stream.budget.available() / SOURCE_SHARE {
            return None;
        }
        Some(Self {
            lists: Arc::clone(lists),
            windows,
            lease: stream.budget.lease(bytes, "lists").ok()?,
        })
    }

    /// `None` for texts that are not on the host as one array.
    fn parts<'a>(lists: &'a ListColumn<'_>) -> Option<(&'a ArrayRef, Option<u32>)> {
        match lists {
            ListColumn::OnHost(lists) => Some((lists, None)),
            ListColumn::Shingles(shingles, _) => match shingles.text.original.as_deref() {
                Some([texts]) => Some((texts, Some(shingles.length))),
                _ => None,
            },
        }
    }

    fn is_of(&self, lists: &ListColumn<'_>) -> bool {
        match Self::parts(lists) {
            Some((lists, windows)) if self.windows == windows => are_same_lists(&self.lists, lists),
            _ => false,
        }
    }
}

/// Whether each row with a list has a set: no groups, and no other NULLs.
fn takes_all(is_grouped: bool, not_null: &[&Keys]) -> Result<bool> {
    for keys in not_null {
        if valid_memory(keys.valid.as_ref())?.is_some() {
            return Ok(false);
        }
    }
    Ok(!is_grouped)
}

/// Encodes the column of the indexed side; with the sets the assignment for the probe side.
pub(crate) fn encode_indexed(
    device: &CudaDevice,
    column: &Column,
    groups: Option<GroupIds<'_>>,
    not_null: &[&Keys],
) -> Result<(Sets, Domain)> {
    let lists = list_offsets::list_column(column)?;
    let source = match takes_all(groups.is_some(), not_null)? {
        true => Source::of(&device.stream, column, &lists),
        false => None,
    };
    let (values, spans) = list_offsets::list_spans(device, &lists, groups, not_null)?;
    let (ids, elements) = element_ids::element_ids(device, &values)?;
    drop(values);
    device.check_cancelled()?;
    let stream = &device.stream;
    let universe = elements.count();
    let mut grouped = None;
    let as_listed = match spans.groups {
        None => {
            let words = set_element_words::words_of(stream, &spans, &ids, universe)?;
            let ranks = set_element_words::ranks(stream, &words, universe)?;
            let sets = bitmap_sort::arrange_listed(stream, &spans, &ids, &ranks, || Ok(words))?;
            sets.map(|sets| (sets, ranks))
        }
        Some(_) => None,
    };
    device.check_cancelled()?;
    let (sets, mut ranks) = match as_listed {
        Some(encoded) => encoded,
        None => {
            let mut distinct = set_element_words::distinct(stream, &spans, &ids, universe)?;
            drop(ids);
            let mut universe = universe;
            if let Some((groups, _)) = &spans.groups {
                let keys = set_element_words::grouped_words(stream, &distinct.words, groups, None)?;
                let (ids, of_groups) = group_ids::groups(device, &[&keys], true)?;
                universe = of_groups.groups as usize;
                distinct.words =
                    set_element_words::renamed(stream, &distinct.words, &ids, universe)?;
                grouped = Some(of_groups);
            }
            device.check_cancelled()?;
            let ranks = set_element_words::ranks(stream, &distinct.words, universe)?;
            (
                set_element_words::arrange(stream, &spans, distinct, &ranks)?,
                ranks,
            )
        }
    };
    device.check_cancelled()?;
    let sets = equal_sets::share_equal_sets(stream, sets)?;
    if sets.members.is_some() {
        let frequencies =
            set_element_words::histogram(stream, &sets.elements, sets.entries, ranks.universe)?;
        ranks.frequencies = frequencies;
    }
    let domain = Domain {
        ids: elements,
        grouped,
        ranks,
        probed_twice: AtomicBool::new(false),
        groups: groups.map_or(0, |(_, count)| count),
        source,
    };
    Ok((sets, domain))
}

/// Encodes the column of the probe side; `None` if it holds the lists that were indexed (a self join).
pub(crate) fn encode_probe(
    device: &CudaDevice,
    domain: &Domain,
    column: &Column,
    groups: Option<&Buffer<u32>>,
    not_null: &[&Keys],
) -> Result<Option<Sets>> {
    let lists = list_offsets::list_column(column)?;
    if let Some(source) = &domain.source
        && takes_all(groups.is_some(), not_null)?
        && threads::in_pool(|| source.is_of(&lists))?
    {
        device.check_cancelled()?;
        return Ok(None);
    }
    let groups = groups.map(|ids| (ids, domain.groups));
    let (values, spans) = list_offsets::list_spans(device, &lists, groups, not_null)?;
    let known = element_ids::known_ids(device, &domain.ids, &values)?;
    device.check_cancelled()?;
    let stream = &device.stream;
    if spans.groups.is_none() && !domain.probed_twice.load(Ordering::Relaxed) {
        let words = || set_element_words::words_of(stream, &spans, &known, domain.ids.count());
        let sets = bitmap_sort::arrange_listed(stream, &spans, &known, &domain.ranks, words)?;
        if let Some(sets) = sets {
            return equal_sets::share_equal_sets(stream, sets).map(Some);
        }
        // Later probe batches will fail the same way, most likely.
        domain.probed_twice.store(true, Ordering::Relaxed);
    }
    // Ids of the probe side distinguish elements that the indexed side lacks.
    let (ids, own) = element_ids::element_ids(device, &values)?;
    drop(values);
    device.check_cancelled()?;
    let mut distinct = set_element_words::distinct(stream, &spans, &ids, own.count())?;
    // The indexed side's id of each probe id.
    let known = rows::scatter(stream, &ids, &known, own.count())?;
    drop(ids);
    distinct.words = match (&spans.groups, &domain.grouped) {
        (Some((groups, _)), Some(of_groups)) => {
            let numbers = Some(memory(&known)?);
            let keys = set_element_words::grouped_words(stream, &distinct.words, groups, numbers)?;
            let ids = group_ids::groups_in(device, of_groups, &[&keys])?;
            set_element_words::renamed(stream, &distinct.words, &ids, of_groups.groups as usize)?
        }
        _ => set_element_words::recode(stream, &distinct.words, &known, domain.ids.count(), None)?,
    };
    device.check_cancelled()?;
    let sets = set_element_words::arrange(stream, &spans, distinct, &domain.ranks)?;
    equal_sets::share_equal_sets(stream, sets).map(Some)
}
