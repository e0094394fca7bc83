//! Words of (set, element), between sorts (`kernels/set_encode.cu`): lists to sets, sets to their order, elements to their ranks.

use std::sync::Arc;

use arrow::datatypes::DataType;

use super::encode::Sets;
use super::lying::Lying;
use super::order::ByGroup;
use crate::device::buffer::{Buffer, Column};
use crate::device::cuda::queue::{Given, Memory, Queue, Shape};
use crate::device::cuda::rows::memory;
use crate::device::cuda::scan::EXCLUSIVE_U64;
use crate::device::cuda::sort::{NARROW, WIDE, check_sortable};
use crate::device::cuda::values::{Values, bitmap_bytes};
use crate::error::Result;

/// The ranks of ids by frequency, from 0 on without a gap; ids of no set have none.
#[derive(Debug)]
pub(super) struct Ranks {
    pub(super) of: Buffer<u32>,
    pub(super) universe: usize,
    pub(super) frequencies: Memory,
}

/// Words of (set, id) without duplicates, and the order of sets by group and size.
pub(super) struct Distinct {
    pub(super) words: Memory,
    pub(super) n: usize,
    sizes: Memory,
    /// Sets in order, and the place of each in it.
    order: Buffer<u32>,
    places: Buffer<u32>,
    by_group: Option<ByGroup>,
}

/// The bits on which numbers below `count` differ.
pub(super) fn bits_below(count: usize) -> u64 {
    (count as u64).next_power_of_two() - 1
}

/// Elements that a block of the kernel counts by itself.
const FEW_ELEMENTS: usize = 12_288;
/// Words of a block for each element.
const SOME_WORDS: usize = 4;

impl Queue {
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
    pub(super) fn as_listed(
        self: &Arc<Self>,
        lying: &Lying,
        ids: &Buffer<u32>,
    ) -> Result<Distinct> {
        let words = self.words_of(lying, ids)?;
        self.sets_in_order(lying, words, &lying.counts)
    }

    pub(super) fn distinct(
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
    pub(super) fn grouped_words(
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
    pub(super) fn renamed(
        self: &Arc<Self>,
        distinct: &Distinct,
        elements: &Buffer<u32>,
    ) -> Result<Memory> {
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
    pub(super) fn recode(
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

    /// How many sets have each element.
    fn frequencies(self: &Arc<Self>, distinct: &Distinct, universe: usize) -> Result<Memory> {
        let frequencies = self.zeroed(universe * 4, "elements of sets")?;
        let words = (&distinct.words).into();
        let n = (distinct.n as u32).into();
        let blocks = 4 * self.gpu.multiprocessors;
        // A block adds each element at last, which should be few beside its words.
        let many = SOME_WORDS * universe * blocks as usize;
        if (1..=FEW_ELEMENTS).contains(&universe) && distinct.n >= many {
            let args = [words, n, (universe as u32).into(), (&frequencies).into()];
            let shape = Shape {
                blocks,
                ..Shape::rows(distinct.n)
            };
            // SAFETY: elements of n words are below the universe, of each of which `frequencies` holds a word, and a block too.
            unsafe { self.launch("set_encode_few_frequencies", shape, &args)? };
        } else {
            let args = [words, n, (&frequencies).into()];
            // SAFETY: elements of n words are below the universe, of each of which `frequencies` holds a word.
            unsafe { self.launch("set_encode_frequencies", Shape::rows(distinct.n), &args)? };
        }
        Ok(frequencies)
    }

    /// The rank of each element by the number of sets that have it.
    pub(super) fn ranks(self: &Arc<Self>, distinct: &Distinct, universe: usize) -> Result<Ranks> {
        if distinct.n == 0 {
            return Ok(Ranks {
                of: self.sequence(0, 0)?,
                universe: 0,
                frequencies: self.zeroed(0, "elements of sets")?,
            });
        }
        let frequencies = self.frequencies(distinct, universe)?;
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
    pub(super) fn arrange(
        self: &Arc<Self>,
        lying: &Lying,
        distinct: Distinct,
        ranks: &Ranks,
    ) -> Result<Sets> {
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
