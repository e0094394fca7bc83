//! Encoding (`kernels/set_encode.cu`; \[B\] 4.1): lists become ascending sets of numbers, as the host's do (`host/sets/encoding.rs`).
//!
//! ```text
//!  values of all rows ─► ids by equality ─► words of (set, id), sorted, without duplicates ─► sizes, and sets in order of these
//!        indexed:    ids ─► by (group, id) where there are groups ─► ranks by frequency: the rarest is 0
//!        searching:  ids ─► those of the indexed side ─► ranks; what the indexed side lacks counts for the size alone
//!  words of (position, rank), sorted ─► elements, offsets
//! ```
//!
//! Without groups the first sort is left out as long as there are no duplicates: lists are taken for sets, and where the sorted words have a
//! duplicate after all, or an element that the indexed side lacks, all is done again as above.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, make_array};
use arrow::datatypes::DataType;

use super::element_ids::ElementIds;
use super::order::ByGroup;
use crate::device::Device;
use crate::device::budget::Lease;
use crate::device::buffer::{Buffer, Column, GroupDomain, Keys};
use crate::device::check_chunk_rows;
use crate::device::cuda::CudaDevice;
use crate::device::cuda::queue::{Given, Memory, Queue, Shape, Structure};
use crate::device::cuda::range::valid_memory;
use crate::device::cuda::rows::memory;
use crate::device::cuda::scan::EXCLUSIVE_U64;
use crate::device::cuda::sort::{NARROW, WIDE, check_sortable};
use crate::device::cuda::values::{Values, bitmap_bytes};
use crate::device::host::{Lists, are_same_lists};
use crate::error::Result;

/// The sets of one side by position, in the order of their groups and sizes.
#[derive(Debug)]
pub(super) struct Sets {
    /// Row ids. Rows without a list, or in no group, have no position.
    pub(super) rows: Buffer<u32>,
    /// Where rows are in groups.
    pub(super) by_group: Option<ByGroup>,
    pub(super) offsets: Memory,
    pub(super) elements: Memory,
    /// Distinct elements, those that the indexed side lacks included.
    pub(super) sizes: Memory,
    pub(super) len: usize,
    /// Elements of all sets.
    pub(super) entries: usize,
}

impl Sets {
    /// As kernels take them.
    pub(super) fn structure(&self) -> Structure<4> {
        self.structure_from(0)
    }

    /// The same for a launch that begins with a set.
    pub(super) fn structure_from(&self, first: usize) -> Structure<4> {
        Structure([
            (&self.offsets).into(),
            (&self.elements).into(),
            (&self.sizes).into(),
            (self.len as u32, first as u32).into(),
        ])
    }

    /// Elements of an average set.
    pub(super) fn mean(&self) -> usize {
        self.entries / self.len.max(1)
    }
}

/// Elements of the indexed side to their ranks.
#[derive(Debug)]
pub(super) struct Domain {
    ids: ElementIds,
    /// Ids of (group, id).
    grouped: Option<GroupDomain>,
    ranks: Ranks,
    /// Groups of rows.
    groups: u32,
    source: Option<Source>,
}

impl Domain {
    /// Elements that have a rank.
    pub(super) fn universe(&self) -> usize {
        self.ranks.universe
    }

    /// Of each rank, how many sets have it.
    pub(super) fn frequencies(&self) -> &Memory {
        &self.ranks.frequencies
    }
}

/// The ranks of ids by frequency, from 0 on without a gap; ids of no set have none.
#[derive(Debug)]
struct Ranks {
    of: Buffer<u32>,
    universe: usize,
    frequencies: Memory,
}

/// The lists that were encoded, none left out but NULL ones: of a self join the other side need not be sent and encoded again.
#[derive(Debug)]
struct Source {
    lists: ArrayRef,
    #[expect(dead_code, reason = "held")]
    lease: Lease,
}

/// What a source takes of the memory that is left.
const SOURCE_SHARE: u64 = 8;

impl Source {
    /// `None` where they would take too much of the room.
    fn of(queue: &Queue, column: &Column, lists: &ArrayRef) -> Option<Self> {
        // Those that lie on the host are the column's, which has a lease and outlives the index.
        let bytes = match column.lies_on_device() {
            true => lists.to_data().get_slice_memory_size().ok()? as u64,
            false => 0,
        };
        if bytes > queue.budget.room() / SOURCE_SHARE {
            return None;
        }
        Some(Self {
            lists: Arc::clone(lists),
            lease: queue.budget.lease(bytes, "lists").ok()?,
        })
    }
}

/// Whether each row that has a list has a set.
fn takes_all(is_grouped: bool, not_null: &[&Keys]) -> Result<bool> {
    for keys in not_null {
        if valid_memory(keys.valid.as_ref())?.is_some() {
            return Ok(false);
        }
    }
    Ok(!is_grouped)
}

/// Groups of rows, and how many there are.
type Groups<'a> = (&'a Buffer<u32>, u32);

/// Rows that have a list, and where these lie among values.
struct Lying {
    rows: Buffer<u32>,
    groups: Option<(Memory, u32)>,
    /// Where each row's values begin, and how many they are.
    starts: Memory,
    counts: Memory,
    /// Values of the longest list.
    longest: u32,
}

/// Words of (set, id) without duplicates, and the order of sets by group and size.
struct Distinct {
    words: Memory,
    n: usize,
    sizes: Memory,
    /// Sets in order, and the place of each in it.
    order: Buffer<u32>,
    places: Buffer<u32>,
    by_group: Option<ByGroup>,
}

impl CudaDevice {
    /// Encodes a column that is to be indexed.
    pub(super) fn encode_indexed(
        &self,
        column: &Column,
        groups: Option<Groups<'_>>,
        not_null: &[&Keys],
    ) -> Result<(Sets, Domain)> {
        let lists = self.queue.download(column)?;
        let source = match takes_all(groups.is_some(), not_null)? {
            true => Source::of(&self.queue, column, &lists),
            false => None,
        };
        let (values, lying) = self.lying(&lists, groups, not_null)?;
        let (ids, elements) = self.element_ids(&values)?;
        drop(values);
        self.go_on()?;
        let queue = &self.queue;
        let universe = elements.count();
        let mut grouped = None;
        let as_listed = match lying.groups {
            None => {
                let listed = queue.as_listed(&lying, &ids)?;
                let total = listed.n;
                let ranks = queue.ranks(&listed, universe)?;
                let sets = queue.arrange(&lying, listed, &ranks)?;
                (sets.entries == total).then_some((sets, ranks))
            }
            Some(_) => None,
        };
        self.go_on()?;
        let (sets, ranks) = match as_listed {
            Some(encoded) => encoded,
            None => {
                let mut distinct = queue.distinct(&lying, &ids, universe)?;
                drop(ids);
                let mut universe = universe;
                if let Some((groups, _)) = &lying.groups {
                    let keys = queue.grouped_words(&distinct, groups, None)?;
                    let (ids, of_groups) = self.groups(&[&keys], true)?;
                    universe = of_groups.groups() as usize;
                    distinct.words = queue.renamed(&distinct, &ids)?;
                    grouped = Some(of_groups);
                }
                self.go_on()?;
                let ranks = queue.ranks(&distinct, universe)?;
                (queue.arrange(&lying, distinct, &ranks)?, ranks)
            }
        };
        let domain = Domain {
            ids: elements,
            grouped,
            ranks,
            groups: groups.map_or(0, |(_, count)| count),
            source,
        };
        Ok((sets, domain))
    }

    /// Encodes a column whose sets search; `None` where they are those that were indexed.
    pub(super) fn encode_searching(
        &self,
        domain: &Domain,
        column: &Column,
        groups: Option<&Buffer<u32>>,
        not_null: &[&Keys],
    ) -> Result<Option<Sets>> {
        let lists = self.queue.download(column)?;
        if let Some(source) = &domain.source
            && takes_all(groups.is_some(), not_null)?
            && are_same_lists(&source.lists, &lists)
        {
            self.go_on()?;
            return Ok(None);
        }
        let groups = groups.map(|ids| (ids, domain.groups));
        let (values, lying) = self.lying(&lists, groups, not_null)?;
        let known = self.known_ids(&domain.ids, &values)?;
        self.go_on()?;
        let queue = &self.queue;
        if lying.groups.is_none() {
            let listed = queue.as_listed(&lying, &known)?;
            let total = listed.n;
            let sets = queue.arrange(&lying, listed, &domain.ranks)?;
            if sets.entries == total {
                return Ok(Some(sets));
            }
        }
        // Ids of their own tell elements apart that the indexed side lacks.
        let (ids, own) = self.element_ids(&values)?;
        drop(values);
        self.go_on()?;
        let mut distinct = queue.distinct(&lying, &ids, own.count())?;
        // The same number for all values of one id.
        let known = queue.scatter(&ids, &known, own.count())?;
        drop(ids);
        distinct.words = match (&lying.groups, &domain.grouped) {
            (Some((groups, _)), Some(of_groups)) => {
                let keys = queue.grouped_words(&distinct, groups, Some(memory(&known)?))?;
                let ids = self.groups_in(of_groups, &[&keys])?;
                queue.renamed(&distinct, &ids)?
            }
            _ => queue.recode(&distinct, &known, None)?,
        };
        self.go_on()?;
        queue.arrange(&lying, distinct, &domain.ranks).map(Some)
    }

    /// The values of a column's lists, and the rows that have a list, are in a group and are not NULL in any of `not_null`.
    fn lying(
        &self,
        lists: &ArrayRef,
        groups: Option<Groups<'_>>,
        not_null: &[&Keys],
    ) -> Result<(Column, Lying)> {
        let rows = lists.len();
        check_chunk_rows(rows)?;
        let queue = &self.queue;
        let lists = Lists::of(lists)?;
        check_sortable(lists.values.len())?;
        let values = by_bits(&lists.values)?;
        let values = queue.upload(std::slice::from_ref(&values), values.data_type())?;
        self.receive(&values)?;
        let (starts, counts) = lists.spans(rows);
        let longest = counts.iter().copied().max().unwrap_or(0);
        let mut kept = match lists.nulls() {
            Some(nulls) => Some(queue.upload_bits(nulls.inner(), "validity")?),
            None => None,
        };
        for keys in not_null {
            if let Some(valid) = valid_memory(keys.valid.as_ref())? {
                kept = Some(queue.bits_and(kept.as_ref().unwrap_or(valid), valid, rows)?);
            }
        }
        if let Some((groups, _)) = groups {
            let grouped = queue.bits_of_groups(memory(groups)?, rows)?;
            kept = Some(queue.bits_and(kept.as_ref().unwrap_or(&grouped), &grouped, rows)?);
        }
        let starts = queue.send_words(&starts)?;
        let counts = queue.send_words(&counts)?;
        let Some(kept) = kept else {
            let lying = Lying {
                rows: queue.sequence(0, rows)?,
                groups: None,
                starts,
                counts,
                longest,
            };
            return Ok((values, lying));
        };
        let rows = queue.select(&kept, rows, None)?;
        let of_rows = |words: &Memory| queue.gather_values(words, memory(&rows)?, rows.len(), 4);
        let lying = Lying {
            groups: match groups {
                Some((ids, count)) => Some((of_rows(memory(ids)?)?, count)),
                None => None,
            },
            starts: of_rows(&starts)?,
            counts: of_rows(&counts)?,
            rows,
            longest,
        };
        Ok((values, lying))
    }
}

/// Floats as their bits, by which elements are equal.
fn by_bits(values: &ArrayRef) -> Result<ArrayRef> {
    let bits = match values.data_type() {
        DataType::Float16 => DataType::UInt16,
        DataType::Float32 => DataType::UInt32,
        DataType::Float64 => DataType::UInt64,
        _ => return Ok(Arc::clone(values)),
    };
    let data = values.to_data().into_builder().data_type(bits).build()?;
    Ok(make_array(data))
}

/// The bits on which numbers below `count` differ.
pub(super) fn bits_below(count: usize) -> u64 {
    (count as u64).next_power_of_two() - 1
}

impl Queue {
    fn send_words(self: &Arc<Self>, words: &[u32]) -> Result<Memory> {
        let bytes: &[u8] = arrow::datatypes::ToByteSlice::to_byte_slice(words);
        self.send(bytes, "lists")
    }

    /// Words in order, which differ in `varying` bits at most.
    fn sorted_words(self: &Arc<Self>, words: Memory, n: usize, varying: u64) -> Result<Memory> {
        if n < 2 {
            return Ok(words);
        }
        let sorted = self.sort_pairs(WIDE, (&words).into(), None, n, varying)?;
        Ok(sorted.map_or(words, |(sorted, _)| sorted))
    }

    /// The entries of rows: the row of each by number, and the exclusive sums of `lengths`.
    pub(super) fn entries(
        self: &Arc<Self>,
        lengths: &Memory,
        rows: usize,
    ) -> Result<(Memory, Memory, usize)> {
        let offsets = match rows {
            0 => self.zeroed(8, "elements of sets")?,
            _ => self.scan(EXCLUSIVE_U64, lengths, rows, "elements of sets")?,
        };
        let total = self.read_word(&offsets, rows)? as usize;
        check_sortable(total)?;
        let all = self.sequence(0, rows)?;
        let of_entries = self.alloc(total * 4, "elements of sets")?;
        let args = [
            memory(&all)?.into(),
            (&offsets).into(),
            (rows as u32).into(),
            0u64.into(),
            (total as u32).into(),
            (&of_entries).into(),
        ];
        let shape = match total {
            0 => Shape::rows(0),
            _ => self.expansion(total + rows),
        };
        // SAFETY: offsets are one more than the rows, and `of_entries` holds a word for each of the total.
        unsafe { self.launch("expand_searching", shape, &args)? };
        Ok((of_entries, offsets, total))
    }

    /// Words of (set, id) as they stand in the lists, and how many.
    fn words_of(self: &Arc<Self>, lying: &Lying, ids: &Buffer<u32>) -> Result<(Memory, usize)> {
        let (of_entries, offsets, total) = self.entries(&lying.counts, lying.rows.len())?;
        let words = self.alloc(total * 8, "elements of sets")?;
        let args = [
            (&lying.starts).into(),
            memory(ids)?.into(),
            (&offsets).into(),
            (&of_entries).into(),
            (total as u32).into(),
            (&words).into(),
        ];
        // SAFETY: each entry is of a row, whose values' ids lie behind its start; `words` holds a word an entry.
        unsafe { self.launch("set_encode_entries", Shape::rows(total), &args)? };
        Ok((words, total))
    }

    /// The lists as sets, in no order inside: such as they are, where they have no duplicates.
    fn as_listed(self: &Arc<Self>, lying: &Lying, ids: &Buffer<u32>) -> Result<Distinct> {
        let words = self.words_of(lying, ids)?;
        self.sets_in_order(lying, words, &lying.counts)
    }

    fn distinct(
        self: &Arc<Self>,
        lying: &Lying,
        ids: &Buffer<u32>,
        universe: usize,
    ) -> Result<Distinct> {
        let len = lying.rows.len();
        let (words, total) = self.words_of(lying, ids)?;
        let varying = bits_below(universe) | bits_below(len) << 32;
        let words = self.sorted_words(words, total, varying)?;
        let (words, n) = self.without_duplicates(words, total)?;

        let offsets = self.set_offsets(&words, n, len)?;
        let sizes = self.alloc(len * 4, "sizes of sets")?;
        let args = [(&offsets).into(), (len as u32).into(), (&sizes).into()];
        // SAFETY: `offsets` holds one word more than `sizes`.
        unsafe { self.launch("set_encode_sizes", Shape::rows(len), &args)? };
        self.sets_in_order(lying, (words, n), &sizes)
    }

    /// Sets of these sizes in order.
    fn sets_in_order(
        self: &Arc<Self>,
        lying: &Lying,
        (words, n): (Memory, usize),
        sizes: &Memory,
    ) -> Result<Distinct> {
        let len = lying.rows.len();
        let groups = lying
            .groups
            .as_ref()
            .map(|(ids, count)| (ids, *count as usize));
        let (order, by_group) = self.in_order(groups, sizes, len, lying.longest as usize)?;
        Ok(Distinct {
            words,
            n,
            sizes: self.gather_values(sizes, memory(&order)?, len, 4)?,
            places: self.scatter(&order, &self.sequence(0, len)?, len)?,
            order,
            by_group,
        })
    }

    /// Sorted words that differ from the one before and have an element.
    fn without_duplicates(self: &Arc<Self>, words: Memory, n: usize) -> Result<(Memory, usize)> {
        if n == 0 {
            return Ok((words, 0));
        }
        let heads = self.alloc(bitmap_bytes(n), "elements of sets")?;
        let args = [(&words).into(), (n as u32).into(), (&heads).into()];
        // SAFETY: `words` holds n words, `heads` n bits.
        unsafe { self.launch("set_encode_heads", Shape::rows(n), &args)? };
        let (offsets, kept) = self.select_offsets(&heads, n)?;
        if kept == n {
            return Ok((words, n));
        }
        let rows = self.select_at(&heads, n, &offsets, kept, None)?;
        let out = self.gather_values(&words, memory(&rows)?, kept, 8)?;
        Ok((out, kept))
    }

    /// Where the words of each set, or of each of whatever stands in their upper halves, begin, and the end.
    pub(super) fn set_offsets(
        self: &Arc<Self>,
        words: &Memory,
        n: usize,
        sets: usize,
    ) -> Result<Memory> {
        let offsets = self.alloc((sets + 1) * 4, "elements of sets")?;
        let args = [
            words.into(),
            (n as u32).into(),
            (sets as u32).into(),
            (&offsets).into(),
        ];
        // SAFETY: `words` holds n words, `offsets` one more than sets.
        unsafe { self.launch("set_encode_offsets", Shape::each(sets + 1), &args)? };
        Ok(offsets)
    }

    /// (group, element) of each word, elements by their `numbers` where given, as a column.
    fn grouped_words(
        self: &Arc<Self>,
        distinct: &Distinct,
        groups: &Memory,
        numbers: Option<&Memory>,
    ) -> Result<Column> {
        let out = self.alloc(distinct.n * 8, "elements of sets")?;
        let args = [
            (&distinct.words).into(),
            (distinct.n as u32).into(),
            groups.into(),
            numbers.into(),
            (&out).into(),
        ];
        // SAFETY: each of n words has a set, which has a group, and an element, which has a number; `out` holds n words.
        unsafe { self.launch("set_encode_grouped", Shape::rows(distinct.n), &args)? };
        let values = Values {
            data_type: DataType::UInt64,
            values: out,
            valid: None,
            original: None,
            made: None,
        };
        Ok(Column::cuda(values, distinct.n))
    }

    /// The words with other elements, one for each.
    fn renamed(self: &Arc<Self>, distinct: &Distinct, elements: &Buffer<u32>) -> Result<Memory> {
        let out = self.alloc(distinct.n * 8, "elements of sets")?;
        let args = [
            (&distinct.words).into(),
            memory(elements)?.into(),
            (distinct.n as u32).into(),
            (&out).into(),
        ];
        // SAFETY: all hold n words.
        unsafe { self.launch("set_encode_renamed", Shape::rows(distinct.n), &args)? };
        Ok(out)
    }

    /// The words with elements by `ranks`, none where there is none, and sets by `places`.
    fn recode(
        self: &Arc<Self>,
        distinct: &Distinct,
        ranks: &Buffer<u32>,
        places: Option<&Memory>,
    ) -> Result<Memory> {
        let out = self.alloc(distinct.n * 8, "elements of sets")?;
        let args = [
            (&distinct.words).into(),
            (distinct.n as u32).into(),
            memory(ranks)?.into(),
            (ranks.len() as u32).into(),
            places.into(),
            (&out).into(),
        ];
        // SAFETY: `places` holds a word for each set of the words; of what has no rank none is read; both others hold n words.
        unsafe { self.launch("set_encode_recode", Shape::rows(distinct.n), &args)? };
        Ok(out)
    }

    /// The rank of each element by the number of sets that have it.
    fn ranks(self: &Arc<Self>, distinct: &Distinct, universe: usize) -> Result<Ranks> {
        let frequencies = self.zeroed(universe * 4, "elements of sets")?;
        let args = [
            (&distinct.words).into(),
            (distinct.n as u32).into(),
            (&frequencies).into(),
        ];
        // SAFETY: elements of n words are below the universe, of each of which `frequencies` holds a word.
        unsafe { self.launch("set_encode_frequencies", Shape::rows(distinct.n), &args)? };
        let order = match universe {
            0 | 1 => None,
            _ => {
                let varying = bits_below(distinct.n + 1);
                self.sort_pairs(NARROW, (&frequencies).into(), None, universe, varying)?
            }
        };
        let Some((sorted, order)) = order else {
            return Ok(Ranks {
                of: self.sequence(0, universe)?,
                universe,
                frequencies,
            });
        };
        // Those that nobody has come first.
        let absent = self.alloc(4, "elements of sets")?;
        let args = [(&sorted).into(), (universe as u32).into(), (&absent).into()];
        // SAFETY: there is a frequency for each of the universe; `absent` holds a word.
        unsafe { self.launch("set_encode_absent", Shape::rows(1), &args)? };
        let absent = self.read_word32(&absent, 0)? as usize;
        let of = self.alloc(universe * 4, "elements of sets")?;
        let args = [
            (&order).into(),
            (universe as u32).into(),
            (absent as u32).into(),
            (&of).into(),
        ];
        // SAFETY: `order` holds each number below the universe once, of each of which `of` holds a word.
        unsafe { self.launch("set_encode_ranks", Shape::rows(universe), &args)? };
        let present = universe - absent;
        Ok(Ranks {
            of: Buffer::cuda(of, universe),
            universe: present,
            frequencies: self.copy_of(sorted.part(absent * 4), present * 4, "elements of sets")?,
        })
    }

    /// The sets in order, their elements by `ranks`.
    fn arrange(self: &Arc<Self>, lying: &Lying, distinct: Distinct, ranks: &Ranks) -> Result<Sets> {
        let len = lying.rows.len();
        let words = self.recode(&distinct, &ranks.of, Some(memory(&distinct.places)?))?;
        let n = distinct.n;
        drop(distinct.words);
        // One more than the universe stands for what has no rank.
        let varying = bits_below(ranks.universe + 1) | bits_below(len) << 32;
        let words = self.sorted_words(words, n, varying)?;
        let (words, entries) = self.without_duplicates(words, n)?;
        let elements = self.alloc(entries * 4, "elements of sets")?;
        let args = [(&words).into(), (entries as u32).into(), (&elements).into()];
        // SAFETY: both hold so many words.
        unsafe { self.launch("set_encode_elements", Shape::rows(entries), &args)? };

        let order = memory(&distinct.order)?;
        let rows = self.gather_values(memory(&lying.rows)?, order, len, 4)?;
        Ok(Sets {
            rows: Buffer::cuda(rows, len),
            by_group: distinct.by_group,
            offsets: self.set_offsets(&words, entries, len)?,
            elements,
            sizes: distinct.sizes,
            len,
            entries,
        })
    }

    /// How often each number up to `most` stands in `numbers`, those above it together with it.
    pub(super) fn histogram(
        self: &Arc<Self>,
        numbers: &Memory,
        n: usize,
        most: usize,
    ) -> Result<Memory> {
        let histogram = self.zeroed((most + 1) * 4, "coverage")?;
        let args = [
            numbers.into(),
            (n as u32).into(),
            (most as u32).into(),
            (&histogram).into(),
        ];
        // SAFETY: `numbers` holds n words, `histogram` one more than `most`.
        unsafe { self.launch("set_encode_size_histogram", Shape::rows(n), &args)? };
        Ok(histogram)
    }

    /// Signatures of so many words of 32 bits.
    pub(super) fn signatures(self: &Arc<Self>, sets: &Sets, words: usize) -> Result<Memory> {
        let out = self.alloc(sets.len * words * 4, "signatures of sets")?;
        let structure = sets.structure();
        let args = [
            Given::Four(&structure),
            (words as u32).into(),
            (&out).into(),
        ];
        let shape = Shape::blocks_of(sets.len, 32, 256);
        // SAFETY: the structure is of sets, each of which has so many words in `out`.
        unsafe { self.launch_given("set_signature_build", shape, &args)? };
        Ok(out)
    }
}
