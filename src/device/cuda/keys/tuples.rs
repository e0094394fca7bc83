//! [`Tuples`]: rows as tuples of words on a GPU. Equal tuples are found by sorting; tuples of other rows are found by
//! search among the distinct ones (`kernels/keys/groups.cu`).
//!
//! ```text
//! sort by the last word, …, by the first ─► first positions of runs of equal tuples ─► distinct tuples
//!                                                       └► the run of each row: its group id, or its rank
//! ```

use std::sync::Arc;

use crate::device::cuda::columns::layout::bitmap_bytes;
use crate::device::cuda::columns::rows;
use crate::device::cuda::keys::sort::{self, WIDE, check_sortable};
use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::arguments::{U32, U64};
use crate::device::cuda::runtime::kernels::{self, Kernel};
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::{Memory, Part};
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::buffer::Buffer;
use crate::device::data::keys::NO_GROUP;
use crate::error::Result;

/// Rows as tuples that compare word by word. Word `j` of row `i` is at `j * rows + i`.
#[derive(Debug)]
pub(crate) struct Tuples {
    words: Memory,
    rows: usize,
    width: usize,
}

impl Tuples {
    /// Word `j` of all rows.
    ///
    /// # Errors
    /// [`BowtieError::Internal`](crate::error::BowtieError::Internal) where `j` is above the width.
    pub(crate) fn word(&self, j: usize) -> Result<Part<'_>> {
        self.words.part(j * self.rows * 8)
    }

    /// Word 0 of all rows.
    pub(crate) fn first_word(&self) -> Part<'_> {
        (&self.words).into()
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Words of a tuple.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// All words: word 0 of all rows, then word 1, ….
    pub(crate) fn into_words(self) -> Memory {
        self.words
    }
}

/// Rows sorted by their tuples, so that equal tuples are adjacent.
#[derive(Debug)]
pub(crate) struct Runs {
    /// Row ids by position; `None`: all rows, in order.
    rows: Option<Buffer<u32>>,
    /// The number of positions.
    len: usize,
    /// A bitmap of the positions where runs begin.
    heads: Memory,
    /// The number of runs that begin before each block of positions.
    offsets: Memory,
    /// Rows of the tuples, including those not in the runs.
    of_rows: usize,
}

/// The distinct tuples of a base, sorted.
#[derive(Debug)]
pub(crate) struct Distinct {
    tuples: Tuples,
    /// For each word `j` of these tuples the base's word.
    order: Vec<usize>,
}

impl Distinct {
    /// The number of distinct tuples.
    pub(crate) fn len(&self) -> usize {
        self.tuples.rows
    }

    /// For each word of the base its index in these tuples.
    pub(crate) fn places(&self) -> Vec<usize> {
        let mut places = vec![0; self.order.len()];
        for (place, word) in self.order.iter().enumerate() {
            places[*word] = place;
        }
        places
    }
}

/// Which word of a tuple is compared first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Significance {
    /// The words in their order: the tuples' order matters.
    AsGiven,
    /// Words with the most varying bits first, which decide searches soonest: only equality matters.
    MostVarying,
}

/// Allocates tuples of `width` words for `rows` rows.
pub(crate) fn allocate_tuples(stream: &Arc<Stream>, rows: usize, width: usize) -> Result<Tuples> {
    Ok(Tuples {
        words: stream.alloc(rows * width * 8, "key words")?,
        rows,
        width,
    })
}

/// Finds the runs of equal tuples among the rows whose bit of `kept` is set; `None` when there is no such row.
pub(crate) fn runs(
    stream: &Arc<Stream>,
    tuples: &Tuples,
    kept: Option<&Memory>,
    significance: Significance,
) -> Result<Option<(Runs, Distinct)>> {
    let mut rows = match kept {
        Some(kept) => Some(rows::select(stream, kept, tuples.rows, None)?),
        None => None,
    };
    let n = rows.as_ref().map_or(tuples.rows, Buffer::len);
    if n == 0 {
        return Ok(None);
    }
    check_sortable(n)?;
    let varying = varying_words(stream, tuples)?;
    let mut order: Vec<usize> = (0..tuples.width).collect();
    if significance == Significance::MostVarying {
        order.sort_by_key(|j| std::cmp::Reverse(varying[*j].count_ones()));
    }

    let mut differing: Vec<usize> = order.clone();
    differing.retain(|j| varying[*j] != 0);
    let mut last_sorted: Option<(usize, Memory)> = None;
    for j in differing.iter().rev().copied() {
        let gathered = match &rows {
            Some(rows) => Some(rows::gather_values(
                stream,
                tuples.word(j)?,
                memory(rows)?,
                n,
                8,
            )?),
            None => None,
        };
        let unsorted = gathered.as_ref().map_or(tuples.word(j)?, Part::from);
        let before = rows.as_ref().map(memory).transpose()?;
        if let Some((sorted, by_word)) =
            sort::sort_pairs(stream, WIDE, unsorted, before, n, varying[j])?
        {
            rows = Some(Buffer::cuda(by_word, n));
            last_sorted = Some((j, sorted));
        }
    }

    let heads = stream.alloc(bitmap_bytes(n), "groups")?;
    if differing.is_empty() {
        // All rows are equal, so any word shows one run.
        differing.push(0);
    }
    for (i, j) in differing.into_iter().enumerate() {
        let gathered = match (&rows, &last_sorted) {
            (_, Some((last, _))) if *last == j => None,
            (Some(rows), _) => Some(rows::gather_values(
                stream,
                tuples.word(j)?,
                memory(rows)?,
                n,
                8,
            )?),
            (None, _) => None,
        };
        let sorted = match (&gathered, &last_sorted) {
            (Some(gathered), _) => gathered.into(),
            (None, Some((last, sorted))) if *last == j => sorted.into(),
            (None, _) => tuples.word(j)?,
        };
        let args = (
            sorted.into(),
            u32::from(i > 0).into(),
            (&heads).into(),
            (n as u32).into(),
        );
        // SAFETY: `sorted` holds n words, `heads` n bits.
        unsafe { stream.launch(kernels::GROUPS_HEADS, Shape::rows(n), &args)? };
    }
    drop(last_sorted);

    let (offsets, count) = rows::select_offsets(stream, &heads, n)?;
    let firsts = rows.as_ref().map(memory).transpose()?;
    let firsts = rows::select_at(stream, &heads, n, &offsets, count, firsts)?;
    let distinct = allocate_tuples(stream, count, tuples.width)?;
    for (at, j) in order.iter().enumerate() {
        rows::gather_into(
            stream,
            tuples.word(*j)?,
            memory(&firsts)?,
            distinct.word(at)?,
            count,
            8,
        )?;
    }
    let runs = Runs {
        rows,
        len: n,
        heads,
        offsets,
        of_rows: tuples.rows,
    };
    let distinct = Distinct {
        tuples: distinct,
        order,
    };
    Ok(Some((runs, distinct)))
}

/// For each word the bits in which not all rows agree.
fn varying_words(stream: &Arc<Stream>, tuples: &Tuples) -> Result<Vec<u64>> {
    let varying = stream.zeroed(tuples.width * 8, "sort scratch")?;
    for j in 0..tuples.width {
        sort::add_varying_bits(stream, tuples.word(j)?, tuples.rows, varying.part(j * 8)?)?;
    }
    let mut bytes = vec![0; tuples.width * 8];
    stream.read_few(&mut bytes, &varying, 0)?;
    Ok(bytes
        .chunks_exact(8)
        .map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()))
        .collect())
}

/// The run of each row as its group id; [`NO_GROUP`] for rows not in the runs.
pub(crate) fn run_ids(stream: &Arc<Stream>, runs: &Runs) -> Result<Buffer<u32>> {
    let out = match runs.len < runs.of_rows {
        true => no_groups(stream, runs.of_rows)?,
        false => stream.alloc(runs.of_rows * 4, "group ids")?,
    };
    number_runs(stream, kernels::GROUPS_IDS, runs, &out)?;
    Ok(Buffer::cuda(out, runs.of_rows))
}

/// The run of each position as its group id, and the row ids by position (`None`: in order).
pub(crate) fn runs_in_order(
    stream: &Arc<Stream>,
    runs: Runs,
) -> Result<(Memory, Option<Buffer<u32>>)> {
    let ids = stream.alloc(runs.len * 4, "group ids")?;
    let rows = runs.rows;
    let by_position = Runs { rows: None, ..runs };
    number_runs(stream, kernels::GROUPS_IDS, &by_position, &ids)?;
    Ok((ids, rows))
}

/// The run of each row as its rank among the base's values; 0 for rows not in the runs.
pub(crate) fn run_ranks(stream: &Arc<Stream>, runs: &Runs) -> Result<Buffer<u64>> {
    let out = match runs.len < runs.of_rows {
        true => stream.zeroed(runs.of_rows * 8, "order keys")?,
        false => stream.alloc(runs.of_rows * 8, "order keys")?,
    };
    number_runs(stream, kernels::GROUPS_RANKS, runs, &out)?;
    Ok(Buffer::cuda(out, runs.of_rows))
}

fn number_runs(
    stream: &Stream,
    kernel: Kernel<(U64, U64, U64, U64, U32)>,
    runs: &Runs,
    out: &Memory,
) -> Result<()> {
    let args = (
        (&runs.heads).into(),
        (&runs.offsets).into(),
        runs.rows.as_ref().map(memory).transpose()?.into(),
        out.into(),
        (runs.len as u32).into(),
    );
    // SAFETY: `heads` holds a bit for each position, `offsets` a word for each 8192 of them, `rows` row ids below
    // `of_rows`; `out` holds `of_rows` words, of 32 bits for ids and of 64 for ranks.
    unsafe { stream.launch(kernel, Shape::blocks_of(runs.len, 8192, 256), &args) }
}

/// Ids of `rows` rows, all [`NO_GROUP`].
pub(crate) fn no_groups(stream: &Arc<Stream>, rows: usize) -> Result<Memory> {
    const { assert!(NO_GROUP == u32::from_ne_bytes([0xFF; 4])) };
    stream.filled(rows * 4, 0xFF, "group ids")
}

/// The index of each tuple among the distinct ones, or [`NO_GROUP`].
pub(crate) fn find_ids(
    stream: &Arc<Stream>,
    distinct: Option<&Distinct>,
    tuples: &Tuples,
    valid: Option<&Memory>,
) -> Result<Buffer<u32>> {
    let out = match distinct {
        Some(distinct) => {
            let out = stream.alloc(tuples.rows * 4, "group ids")?;
            find(stream, kernels::GROUPS_FIND, distinct, tuples, valid, &out)?;
            out
        }
        None => no_groups(stream, tuples.rows)?,
    };
    Ok(Buffer::cuda(out, tuples.rows))
}

/// The rank of each tuple among the distinct ones.
pub(crate) fn find_ranks(
    stream: &Arc<Stream>,
    distinct: Option<&Distinct>,
    tuples: &Tuples,
    valid: Option<&Memory>,
) -> Result<Buffer<u64>> {
    let out = match distinct {
        Some(distinct) => {
            let out = stream.alloc(tuples.rows * 8, "order keys")?;
            find(stream, kernels::GROUPS_RANK, distinct, tuples, valid, &out)?;
            out
        }
        None => stream.zeroed(tuples.rows * 8, "order keys")?,
    };
    Ok(Buffer::cuda(out, tuples.rows))
}

fn find(
    stream: &Stream,
    kernel: Kernel<(U64, U32, U64, U32, U64, U64, U32)>,
    distinct: &Distinct,
    tuples: &Tuples,
    valid: Option<&Memory>,
    out: &Memory,
) -> Result<()> {
    let args = (
        distinct.tuples.first_word().into(),
        (distinct.tuples.rows as u32).into(),
        tuples.first_word().into(),
        (tuples.width as u32).into(),
        valid.into(),
        out.into(),
        (tuples.rows as u32).into(),
    );
    debug_assert_eq!(distinct.tuples.width, tuples.width);
    // SAFETY: both hold the words of their rows, with the same number of words per row; `valid` holds a bit and
    // `out` a word for each tuple.
    unsafe { stream.launch(kernel, stream.strips(tuples.rows.div_ceil(4)), &args) }
}
