//! Set joins on a GPU (`kernels/sets`; \[B\] chapters 4 to 6): what `device/host/sets` does, in kernels. Lists of both
//! sides enter; lists of matches, or counts of them, leave.
//!
//! ```text
//!  encode/encoding.rs          lists ─► sets of element ranks
//!    list_offsets.rs           where the elements of each list are
//!    element_ids.rs            ids of equal elements
//!    set_element_words.rs      sorts of (set, element)
//!    set_order.rs              sets by group and size
//!    inverted_lists.rs         inverted lists, for the techniques that need them
//!    equal_sets.rs             equal sets once
//!    empty_sets.rs             the matches of empty sets
//!  choose.rs, costs.rs         the technique, by rule or by cost
//!  techniques/*.rs             a technique per file: rarest, prefix, inverted, signature, bit_rows, mmjoin, intersect
//!  search.rs, predicate.rs     both sides, the predicate, and the launches that test candidates
//!  match_lists.rs              lists of matches, and counts
//! ```

use std::sync::Arc;

use crate::device::cuda::columns::rows;
use crate::device::cuda::columns::storage::Storage;
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::equi::index;
use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::cuda::sets::choose::{self, Profile};
use crate::device::cuda::sets::costs::{self, Work};
use crate::device::cuda::sets::encode::empty_sets::EmptySetMatches;
use crate::device::cuda::sets::encode::encoded::Sets;
use crate::device::cuda::sets::encode::encoding::{self, Domain};
use crate::device::cuda::sets::encode::equal_sets;
use crate::device::cuda::sets::encode::set_element_words;
use crate::device::cuda::sets::encode::set_order;
use crate::device::cuda::sets::match_lists;
use crate::device::cuda::sets::predicate::{Half, Measure};
use crate::device::cuda::sets::search::{PreparedProbe, Search};
use crate::device::cuda::sets::techniques::bit_rows::Bits;
use crate::device::cuda::sets::techniques::intersect;
use crate::device::cuda::sets::techniques::inverted::InvertedIndex;
use crate::device::cuda::sets::techniques::mmjoin::{MmJoin, Split};
use crate::device::cuda::sets::techniques::prefix::Prefix;
use crate::device::cuda::sets::techniques::published::signature::Signature;
use crate::device::cuda::sets::techniques::rarest::Rarest;
use crate::device::cuda::theta::range;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::keys::Keys;
use crate::device::data::ranges::{OrderedRows, Ranges};
use crate::device::data::results::{SetCounting, SetCounts, SetMatches, SetTally};
use crate::device::primitives::device::Device;
use crate::device::set_profile::SetProfile;
use crate::error::Result;
use crate::ir::set_predicate::{SetTechnique, SetTest};
use crate::list_sets::elements::mean_length;

/// The sets of the indexed side, with the index of a technique.
#[derive(Debug)]
pub(crate) struct SetIndex {
    sets: Arc<Sets>,
    domain: Domain,
    /// Rows of the column, with those that have no set.
    rows: usize,
    test: SetTest,
    measure: Measure,
    technique: SetTechnique,
    finder: Finder,
}

/// The index by technique.
#[derive(Debug)]
enum Finder {
    Prefix(Prefix),
    InvertedIndex(InvertedIndex),
    Signature(Signature),
    Bits(Bits),
    MmJoin(MmJoin),
    Rarest(Rarest),
    Intersect,
}

impl Finder {
    /// Builds the index of `technique` over encoded sets with ranks below `universe`.
    fn new(
        stream: &Arc<Stream>,
        technique: SetTechnique,
        sets: &Sets,
        universe: usize,
        (test, measure): (SetTest, &Measure),
    ) -> Result<Self> {
        Ok(match technique {
            // If the indexed set is contained in the probe set, a prefix of one element is its rarest element.
            SetTechnique::Rarest if !measure.is_contained() => {
                Self::Prefix(Prefix::new(stream, sets, universe, measure)?)
            }
            SetTechnique::Prefix => Self::Prefix(Prefix::new(stream, sets, universe, measure)?),
            SetTechnique::InvertedIndex => {
                Self::InvertedIndex(InvertedIndex::new(stream, sets, universe)?)
            }
            SetTechnique::Signature => Self::Signature(Signature::new(stream, sets, test)?),
            SetTechnique::Bitmap => Self::Bits(Bits::new(stream, sets, universe, false)?),
            SetTechnique::Matrix => Self::Bits(Bits::new(stream, sets, universe, true)?),
            SetTechnique::MmJoin => {
                let search = Search::of_one_side(stream, &|| Ok(()), measure, sets);
                let windows = search.windows()?;
                let (offsets, pairs) = search.pairs_in(&windows)?;
                let split = Split::of(search, &windows, (&offsets, pairs), universe)?;
                Self::MmJoin(MmJoin::new(stream, sets, universe, split.heavy)?)
            }
            SetTechnique::Rarest => Self::Rarest(Rarest::new(stream, sets, universe)?),
            SetTechnique::Intersect => Self::Intersect,
        })
    }

    /// Prepares the launches that test the candidates of `search`.
    fn prepare<'a>(&'a self, search: Search<'a>) -> Result<PreparedProbe<'a>> {
        match self {
            Self::Prefix(prefix) => prefix.prepare(search),
            Self::InvertedIndex(index) => index.prepare(search),
            Self::Signature(signature) => signature.prepare(search),
            Self::Bits(bits) => bits.prepare(search),
            Self::MmJoin(join) => join.prepare(search),
            Self::Rarest(rarest) => rarest.prepare(search),
            Self::Intersect => intersect::prepare(search),
        }
    }
}

impl SetIndex {
    /// The indexed sets.
    pub(crate) fn sets(&self) -> &Arc<Sets> {
        &self.sets
    }

    pub(crate) fn domain(&self) -> &Domain {
        &self.domain
    }

    /// The rows of the indexed column, including those without a set.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// The technique that was chosen.
    pub(crate) fn technique(&self) -> SetTechnique {
        self.technique
    }
}

/// Indexes a column of lists, or of single elements. `groups` are the group of each row and their number,
/// `not_null` columns whose NULLs exclude a row. `probe` is the first probe column, for the choice of a technique.
pub(crate) fn index_sets(
    device: &CudaDevice,
    column: &Column,
    groups: Option<(&Buffer<u32>, u32)>,
    not_null: &[&Keys],
    test: SetTest,
    wanted: Option<SetTechnique>,
    probe: &Column,
) -> Result<SetIndex> {
    let stream = &device.stream;
    let (sets, domain) = encoding::encode_indexed(device, column, groups, not_null)?;
    let universe = domain.universe();
    let profile = Profile {
        sets: SetProfile {
            indexed: sets.len as u64,
            // The probe side has as many equal sets, most likely.
            probe: (probe.rows() as u64 * sets.len as u64) / (sets.rows.len() as u64).max(1),
            mean_indexed: sets.mean() as u64,
            mean_probe: match probe.is_resident() {
                true => match probe.stored() {
                    Some(Storage::Shingles(shingles)) => shingles.mean_length(probe.rows()),
                    _ => 1,
                },
                false => mean_length(probe.on_host()?),
            },
            universe: universe as u64,
        },
        available: stream.budget.available(),
    };
    device.check_cancelled()?;
    let measure = Measure::of(test);
    let of = (test, &measure);
    let (technique, finder) = match choose::choose(wanted, test, &profile) {
        Some(technique) => (
            technique,
            Finder::new(stream, technique, &sets, universe, of)?,
        ),
        None => cheapest(device, &sets, &domain, of, &profile)?,
    };
    Ok(SetIndex {
        finder,
        sets: Arc::new(sets),
        domain,
        rows: column.rows(),
        test,
        measure,
        technique,
    })
}

/// The technique for similar sets that costs least, and its index. The probe side is assumed to be like the indexed
/// one.
fn cheapest(
    device: &CudaDevice,
    sets: &Sets,
    domain: &Domain,
    (test, measure): (SetTest, &Measure),
    profile: &Profile,
) -> Result<(SetTechnique, Finder)> {
    let (stream, universe) = (&device.stream, domain.universe());
    let prefix = Prefix::new(stream, sets, universe, measure)?;
    let check_cancelled = || device.check_cancelled();
    let search = Search::of_one_side(stream, &check_cancelled, measure, sets);
    let windows = search.windows()?;
    let (offsets, pairs) = search.pairs_in(&windows)?;
    let split = Split::of(search, &windows, (&offsets, pairs), universe)?;
    let longer = profile.sets.probe as f64 / sets.len.max(1) as f64;
    let all_pairs = match &sets.by_group {
        Some(groups) => {
            costs::sum_of_squares(stream, &groups.segments, groups.count, true)? * longer
        }
        None => profile.sets.indexed as f64 * profile.sets.probe as f64,
    };
    let work = Work {
        pairs: pairs as f64 * longer,
        all_pairs,
        items: costs::sum_of_squares(stream, domain.frequencies(), universe, false)? * longer,
        candidates: costs::sum_of_squares(stream, prefix.list_offsets(), universe, true)? * longer,
        sets: profile.sets.probe as f64,
        mean: profile.sets.mean() as f64,
        share: profile.sets.minimum_share(test),
        universe: universe as f64,
        split: split.cost * longer,
    };
    let technique = work.cheapest(profile.bits_fit(), profile.rows_fit(split.heavy));
    let finder = match technique {
        SetTechnique::Prefix => Finder::Prefix(prefix),
        SetTechnique::MmJoin => {
            drop(prefix);
            Finder::MmJoin(MmJoin::new(stream, sets, universe, split.heavy)?)
        }
        other => {
            drop(prefix);
            Finder::new(stream, other, sets, universe, (test, measure))?
        }
    };
    Ok((technique, finder))
}

/// The matches of each probe row as a list, and its range in all lists.
pub(crate) fn search_sets(
    device: &CudaDevice,
    index: &crate::device::data::structures::SetIndex,
    column: &Column,
    groups: Option<&Buffer<u32>>,
    not_null: &[&Keys],
) -> Result<SetMatches> {
    let (index, stream) = (index.index.get::<SetIndex>()?, &device.stream);
    let sets = index.probe(encoding::encode_probe(
        device,
        &index.domain,
        column,
        groups,
        not_null,
    )?);
    if sets.len == 0 || index.sets.len == 0 {
        return Ok(SetMatches {
            matches: OrderedRows {
                rows: rows::no_rows(stream)?,
                keys: None,
                segments: Some(Buffer::cuda(stream.zeroed(4, "range bounds")?, 1)),
            },
            probe: OrderedRows::of_rows(rows::no_rows(stream)?),
            ranges: index::no_ranges(stream)?,
            tally: SetTally::default(),
        });
    }
    let check_cancelled = || device.check_cancelled();
    let empties = EmptySetMatches::of(stream, [sets.as_ref(), index.sets.as_ref()], index.test)?;
    let prepared = index
        .finder
        .prepare(index.search(stream, &check_cancelled, &sets)?)?;
    let found = match_lists::list_matches(stream, &prepared, &sets, empties.as_ref())?;
    let tally = SetTally {
        candidates: prepared.candidates,
        verified: found.verified,
        repeats: sets.repeats(),
    };
    drop(prepared);
    let (matches, ranges) = match_lists::lists_of_rows(stream, found, [&sets, &index.sets])?;
    Ok(SetMatches {
        matches,
        probe: OrderedRows::of_rows(rows_of(stream, sets)?),
        ranges,
        tally,
    })
}

/// The number of matches of each probe row or, if `counting` says so, of each row of both sides.
pub(crate) fn count_sets(
    device: &CudaDevice,
    index: &crate::device::data::structures::SetIndex,
    column: &Column,
    groups: Option<&Buffer<u32>>,
    counting: SetCounting,
) -> Result<SetCounts> {
    let (index, stream) = (index.index.get::<SetIndex>()?, &device.stream);
    let sets = index.probe(encoding::encode_probe(
        device,
        &index.domain,
        column,
        groups,
        &[],
    )?);
    if sets.len == 0 || index.sets.len == 0 {
        let indexed = match counting {
            SetCounting::Both => Some(stream.zeroed(index.rows * 4, "match counts")?),
            SetCounting::Exists | SetCounting::Probe => None,
        };
        return Ok(SetCounts {
            probe: OrderedRows::of_rows(rows::no_rows(stream)?),
            counts: rows::no_rows(stream)?,
            indexed: indexed.map(|counts| Buffer::cuda(counts, index.rows)),
            tally: SetTally::default(),
        });
    }
    let check_cancelled = || device.check_cancelled();
    let empties = EmptySetMatches::of(stream, [sets.as_ref(), index.sets.as_ref()], index.test)?;
    let prepared = index
        .finder
        .prepare(index.search(stream, &check_cancelled, &sets)?)?;
    let sides = [sets.as_ref(), index.sets.as_ref()];
    let counted =
        match_lists::count_matches_of_sets(stream, &prepared, sides, empties.as_ref(), counting)?;
    let tally = SetTally {
        candidates: prepared.candidates,
        verified: counted.verified,
        repeats: sets.repeats(),
    };
    drop(prepared);
    let by_row = |counts: Memory| {
        let counts = equal_sets::by_row(stream, &index.sets, counts.part(0)?)?;
        rows::scatter(stream, &index.sets.rows, &counts, index.rows)
    };
    let indexed = counted.indexed.map(by_row).transpose()?;
    let counts = match sets.members.is_some() {
        true => equal_sets::by_row(stream, &sets, counted.probe.part(0)?)?,
        false => Buffer::cuda(counted.probe, sets.len),
    };
    Ok(SetCounts {
        counts,
        probe: OrderedRows::of_rows(rows_of(stream, sets)?),
        indexed,
        tally,
    })
}

/// The number of occurrences of each of `rows` row ids in the lists of all probe rows.
pub(crate) fn count_occurrences(
    device: &CudaDevice,
    matches: &OrderedRows,
    ranges: &Ranges,
    rows: usize,
) -> Result<Buffer<u32>> {
    let (stream, n) = (&device.stream, matches.len());
    let row_ids = memory(&matches.rows)?;
    if !ranges.share_lists(matches) {
        return Ok(Buffer::cuda(
            set_element_words::histogram(stream, row_ids, n, rows)?,
            rows,
        ));
    }
    let positions = OrderedRows::of_rows(rows::sequence(stream, 0, n)?);
    let covering = range::cover(stream, &positions, ranges, n)?;
    let sums = stream.zeroed(rows * 4, "coverage")?;
    let args = (
        row_ids.into(),
        memory(&covering)?.into(),
        (n as u32).into(),
        (&sums).into(),
    );
    // SAFETY: there are n row ids, below `rows`, and n numbers.
    unsafe { stream.launch(kernels::SET_EQUAL_OCCUR, Shape::rows(n), &args)? };
    Ok(Buffer::cuda(sums, rows))
}

/// The row ids of sets that are no longer needed; a copy if the index shares the sets (a self join).
fn rows_of(stream: &Arc<Stream>, sets: Arc<Sets>) -> Result<Buffer<u32>> {
    match Arc::try_unwrap(sets) {
        Ok(sets) => Ok(sets.rows),
        Err(shared) => {
            let n = shared.rows.len();
            let rows = stream.copy_of(memory(&shared.rows)?.into(), n * 4, "sets")?;
            Ok(Buffer::cuda(rows, n))
        }
    }
}

impl SetIndex {
    /// The probe sets: those that were encoded, or the indexed ones.
    fn probe(&self, encoded: Option<Sets>) -> Arc<Sets> {
        encoded.map_or_else(|| Arc::clone(&self.sets), Arc::new)
    }

    /// The search of `probe` sets, by halves if both sides are the same sets.
    fn search<'a>(
        &'a self,
        stream: &'a Arc<Stream>,
        check_cancelled: &'a dyn Fn() -> Result<()>,
        probe: &'a Arc<Sets>,
    ) -> Result<Search<'a>> {
        let same =
            Arc::ptr_eq(probe, &self.sets) || set_order::are_same(stream, probe, &self.sets)?;
        Ok(Search {
            stream,
            check_cancelled,
            measure: &self.measure,
            probe,
            indexed: &self.sets,
            half: same.then(|| Half::of(&self.measure)),
        })
    }
}
