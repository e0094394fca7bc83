//! Words of (set, element) between sorts (`kernels/sets/set_encode.cu`): from lists to sets without duplicates, to
//! their order, and to elements by rank. Also the frequencies of elements, and signatures.

use std::sync::Arc;

use arrow::datatypes::DataType;

use crate::device::cuda::columns::fixed_width::Values;
use crate::device::cuda::columns::rows;
use crate::device::cuda::columns::scan::{self, EXCLUSIVE_U64};
use crate::device::cuda::keys::sort::{self, NARROW, check_sortable};
use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::cuda::sets::encode::encoded::{ByGroup, Sets};
use crate::device::cuda::sets::encode::list_offsets::ListSpans;
use crate::device::cuda::sets::encode::set_order;
use crate::device::cuda::sets::encode::word_packing::{self, Packing, Words, bits_below};
use crate::device::cuda::theta::range;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::error::Result;

/// The ranks of ids by frequency, from 0 (the rarest) without a gap; ids of no set have none.
#[derive(Debug)]
pub(crate) struct Ranks {
    /// Rank of each id.
    pub(crate) of: Buffer<u32>,
    /// Number of ranks.
    pub(crate) universe: usize,
    /// Number of sets with each rank.
    pub(crate) frequencies: Memory,
}

/// Words of (set, id) without duplicates, and the order of sets.
pub(crate) struct Distinct {
    pub(crate) words: Words,
    pub(crate) order: Order,
}

/// The order of sets by group and size.
pub(crate) struct Order {
    /// Size of each set, in order.
    pub(crate) sizes: Memory,
    /// Sets in order, and the position of each set.
    pub(crate) order: Buffer<u32>,
    places: Buffer<u32>,
    by_group: Option<ByGroup>,
}

/// Elements that a block can count in shared memory.
const FEW_ELEMENTS: usize = 12_288;
/// Words per element and block, at least, for that to be worth its time.
const SOME_WORDS: usize = 4;

/// The entries of rows: the row of each entry, the exclusive sums of `lengths`, and the total.
pub(crate) fn entries(
    stream: &Arc<Stream>,
    lengths: &Memory,
    rows: usize,
) -> Result<(Memory, Memory, usize)> {
    let offsets = match rows {
        0 => stream.zeroed(8, "elements of sets")?,
        _ => scan::scan(stream, EXCLUSIVE_U64, lengths, rows, "elements of sets")?,
    };
    let total = stream.read_word(&offsets, rows)? as usize;
    check_sortable(total)?;
    let all = rows::sequence(stream, 0, rows)?;
    let of_entries = stream.alloc(total * 4, "elements of sets")?;
    let args = (
        memory(&all)?.into(),
        (&offsets).into(),
        (rows as u32).into(),
        0u64.into(),
        (total as u32).into(),
        (&of_entries).into(),
    );
    let shape = match total {
        0 => Shape::rows(0),
        _ => range::expansion(stream, total + rows),
    };
    // SAFETY: offsets are one more than the rows, and `of_entries` holds a word for each of the total.
    unsafe { stream.launch(kernels::EXPAND_PROBE, shape, &args)? };
    Ok((of_entries, offsets, total))
}

/// Words of (set, id) in the order of the lists; ids are below `universe`, or none.
pub(crate) fn words_of(
    stream: &Arc<Stream>,
    spans: &ListSpans,
    ids: &Buffer<u32>,
    universe: usize,
) -> Result<Words> {
    let sets = spans.rows.len();
    let (of_entries, offsets, total) = entries(stream, &spans.counts, sets)?;
    let words = word_packing::words(stream, Packing::of(sets, universe), total)?;
    let given = words.structure();
    let args = (
        (&spans.starts).into(),
        memory(ids)?.into(),
        (&offsets).into(),
        (&of_entries).into(),
        (total as u32).into(),
        (&given).into(),
    );
    // SAFETY: each entry belongs to a row, whose values' ids are behind its start; there is a word for each entry.
    unsafe { stream.launch(kernels::SET_ENCODE_ENTRIES, Shape::rows(total), &args)? };
    Ok(words)
}

/// Words of (set, id), sorted, without duplicates, and the order of the sets.
pub(crate) fn distinct(
    stream: &Arc<Stream>,
    spans: &ListSpans,
    ids: &Buffer<u32>,
    universe: usize,
) -> Result<Distinct> {
    let len = spans.rows.len();
    let words = words_of(stream, spans, ids, universe)?;
    let words = word_packing::sorted_words(stream, words, Packing::all)?;
    let words = word_packing::without_duplicates(stream, words)?;

    let offsets = word_packing::upper_offsets(stream, &words, len)?;
    let sizes = stream.alloc(len * 4, "sizes of sets")?;
    let args = ((&offsets).into(), (len as u32).into(), (&sizes).into());
    // SAFETY: `offsets` holds one word more than `sizes`.
    unsafe { stream.launch(kernels::SET_ENCODE_SIZES, Shape::rows(len), &args)? };
    let order = sets_in_order(stream, spans, &sizes)?;
    Ok(Distinct { words, order })
}

/// The order of sets of these sizes.
pub(crate) fn sets_in_order(
    stream: &Arc<Stream>,
    spans: &ListSpans,
    sizes: &Memory,
) -> Result<Order> {
    let len = spans.rows.len();
    let groups = spans
        .groups
        .as_ref()
        .map(|(ids, count)| (ids, *count as usize));
    let (order, by_group) =
        set_order::in_order(stream, groups, sizes, len, spans.longest as usize)?;
    Ok(Order {
        sizes: rows::gather_values(stream, sizes, memory(&order)?, len, 4)?,
        places: rows::scatter(stream, &order, &rows::sequence(stream, 0, len)?, len)?,
        order,
        by_group,
    })
}

/// The word (group, element) of each word, as a column; elements by their `numbers` if given.
pub(crate) fn grouped_words(
    stream: &Arc<Stream>,
    words: &Words,
    groups: &Memory,
    numbers: Option<&Memory>,
) -> Result<Column> {
    let out = stream.alloc(words.n * 8, "elements of sets")?;
    let given = words.structure();
    let args = (
        (&given).into(),
        (words.n as u32).into(),
        groups.into(),
        numbers.into(),
        (&out).into(),
    );
    let shape = Shape::rows(words.n);
    // SAFETY: each of n words has a set, which has a group, and an element, which has a number; `out` holds n words.
    unsafe { stream.launch(kernels::SET_ENCODE_GROUPED, shape, &args)? };
    let values = Values {
        data_type: DataType::UInt64,
        values: out,
        valid: None,
        original: None,
        made: None,
    };
    Ok(Column::cuda(values, words.n))
}

/// The words with other elements, one for each word, below `universe` or none.
pub(crate) fn renamed(
    stream: &Arc<Stream>,
    words: &Words,
    elements: &Buffer<u32>,
    universe: usize,
) -> Result<Words> {
    let renamed = word_packing::words(stream, words.packing.with_lowers(universe), words.n)?;
    let (given, out) = (words.structure(), renamed.structure());
    let args = (
        (&given).into(),
        memory(elements)?.into(),
        (words.n as u32).into(),
        (&out).into(),
    );
    // SAFETY: all hold n words.
    unsafe { stream.launch(kernels::SET_ENCODE_RENAMED, Shape::rows(words.n), &args)? };
    Ok(renamed)
}

/// The words with elements by `ranks`, which are below `universe` (or none), and sets by `places`.
pub(crate) fn recode(
    stream: &Arc<Stream>,
    words: &Words,
    ranks: &Buffer<u32>,
    universe: usize,
    places: Option<&Memory>,
) -> Result<Words> {
    let recoded = word_packing::words(stream, words.packing.with_lowers(universe), words.n)?;
    let (given, out) = (words.structure(), recoded.structure());
    let args = (
        (&given).into(),
        (words.n as u32).into(),
        memory(ranks)?.into(),
        (ranks.len() as u32).into(),
        places.into(),
        (&out).into(),
    );
    // SAFETY: `places` holds a word for each set of the words; for an element without a rank no word is read; words
    // and recoded are n.
    unsafe { stream.launch(kernels::SET_ENCODE_RECODE, Shape::rows(words.n), &args)? };
    Ok(recoded)
}

/// The number of sets with each element.
fn frequencies(stream: &Arc<Stream>, words: &Words, universe: usize) -> Result<Memory> {
    let frequencies = stream.zeroed(universe * 4, "elements of sets")?;
    let given = words.structure();
    let (given, n) = ((&given).into(), (words.n as u32).into());
    let blocks = 4 * stream.gpu.multiprocessors;
    // A block adds its count of each element at the end, so elements should be few beside its words.
    let many = SOME_WORDS * universe * blocks as usize;
    if (1..=FEW_ELEMENTS).contains(&universe) && words.n >= many {
        let args = (given, n, (universe as u32).into(), (&frequencies).into());
        let shape = Shape {
            blocks,
            ..Shape::rows(words.n)
        };
        // SAFETY: elements of n words are below the universe; `frequencies` holds a word for each, and so does a
        // block.
        unsafe { stream.launch(kernels::SET_ENCODE_FEW_FREQUENCIES, shape, &args)? };
    } else {
        let args = (given, n, (&frequencies).into());
        let shape = Shape::rows(words.n);
        // SAFETY: elements of n words are below the universe; `frequencies` holds a word for each.
        unsafe { stream.launch(kernels::SET_ENCODE_FREQUENCIES, shape, &args)? };
    }
    Ok(frequencies)
}

/// The rank of each element by the number of sets that have it.
pub(crate) fn ranks(stream: &Arc<Stream>, words: &Words, universe: usize) -> Result<Ranks> {
    if words.n == 0 {
        return Ok(Ranks {
            of: rows::no_rows(stream)?,
            universe: 0,
            frequencies: stream.zeroed(0, "elements of sets")?,
        });
    }
    let frequencies = frequencies(stream, words, universe)?;
    let order = match universe {
        0 | 1 => None,
        _ => {
            let varying = bits_below(words.n + 1);
            sort::sort_pairs(
                stream,
                NARROW,
                (&frequencies).into(),
                None,
                universe,
                varying,
            )?
        }
    };
    let Some((sorted, order)) = order else {
        return Ok(Ranks {
            of: rows::sequence(stream, 0, universe)?,
            universe,
            frequencies,
        });
    };
    // Ids of no set are sorted first.
    let absent = stream.alloc(4, "elements of sets")?;
    let args = ((&sorted).into(), (universe as u32).into(), (&absent).into());
    // SAFETY: there is a frequency for each of the universe; `absent` holds a word.
    unsafe { stream.launch(kernels::SET_ENCODE_ABSENT, Shape::rows(1), &args)? };
    let absent = stream.read_word32(&absent, 0)? as usize;
    let of = stream.alloc(universe * 4, "elements of sets")?;
    let args = (
        (&order).into(),
        (universe as u32).into(),
        (absent as u32).into(),
        (&of).into(),
    );
    // SAFETY: `order` holds each number below the universe once; `of` holds a word for each.
    unsafe { stream.launch(kernels::SET_ENCODE_RANKS, Shape::rows(universe), &args)? };
    let present = universe - absent;
    Ok(Ranks {
        of: Buffer::cuda(of, universe),
        universe: present,
        frequencies: stream.copy_of(sorted.part(absent * 4)?, present * 4, "elements of sets")?,
    })
}

/// The encoded sets: in order, elements by `ranks`.
pub(crate) fn arrange(
    stream: &Arc<Stream>,
    spans: &ListSpans,
    distinct: Distinct,
    ranks: &Ranks,
) -> Result<Sets> {
    let Distinct { words, order } = distinct;
    let places = memory(&order.places)?;
    let recoded = recode(stream, &words, &ranks.of, ranks.universe, Some(places))?;
    drop(words);
    let words = word_packing::sorted_words(stream, recoded, Packing::all)?;
    let words = word_packing::without_duplicates(stream, words)?;
    let entries = words.n;
    let elements = stream.alloc(entries * 4, "elements of sets")?;
    let given = words.structure();
    let args = ((&given).into(), (entries as u32).into(), (&elements).into());
    let shape = Shape::rows(entries);
    // SAFETY: both hold `entries` words.
    unsafe { stream.launch(kernels::SET_ENCODE_ELEMENTS, shape, &args)? };
    let offsets = word_packing::upper_offsets(stream, &words, spans.rows.len())?;
    sets_of(stream, spans, order, offsets, elements, entries)
}

/// Encoded sets from their order and elements; rows are gathered.
pub(crate) fn sets_of(
    stream: &Arc<Stream>,
    spans: &ListSpans,
    order: Order,
    offsets: Memory,
    elements: Memory,
    entries: usize,
) -> Result<Sets> {
    let len = spans.rows.len();
    let in_order = memory(&order.order)?;
    let rows = rows::gather_values(stream, memory(&spans.rows)?, in_order, len, 4)?;
    Ok(Sets {
        rows: Buffer::cuda(rows, len),
        members: None,
        by_group: order.by_group,
        offsets,
        elements,
        sizes: order.sizes,
        len,
        entries,
    })
}

/// The number of occurrences of each number below `most` in `numbers`; those from `most` on are counted together.
pub(crate) fn histogram(
    stream: &Arc<Stream>,
    numbers: &Memory,
    n: usize,
    most: usize,
) -> Result<Memory> {
    let histogram = stream.zeroed((most + 1) * 4, "coverage")?;
    let args = (
        numbers.into(),
        (n as u32).into(),
        (most as u32).into(),
        (&histogram).into(),
    );
    // SAFETY: `numbers` holds n words, `histogram` one more than `most`.
    unsafe { stream.launch(kernels::SET_ENCODE_SIZE_HISTOGRAM, Shape::rows(n), &args)? };
    Ok(histogram)
}

/// A signature of `words` words of 32 bits per set.
pub(crate) fn signatures(stream: &Arc<Stream>, sets: &Sets, words: usize) -> Result<Memory> {
    let out = stream.alloc(sets.len * words * 4, "signatures of sets")?;
    let structure = sets.structure();
    let args = ((&structure).into(), (words as u32).into(), (&out).into());
    let shape = Shape::blocks_of(sets.len, 32, 256);
    // SAFETY: the structure is of sets, each of which has `words` words in `out`.
    unsafe { stream.launch(kernels::SET_SIGNATURE_BUILD, shape, &args)? };
    Ok(out)
}
