//! Launches of the kernels that add rows to accumulators: `group_dense`, `group_global`, `group_table`, `group_sorted`.

use std::sync::Arc;

use crate::device::cuda::aggregate::accumulate::accumulator::{
    Accumulator, MOST_ACCUMULATORS, shared_words,
};
use crate::device::cuda::aggregate::accumulate::added::{
    self, Added, AddedInGlobal, CLAIM_WORDS, GLOBAL_ROWS, SORTED_ROWS, THREADS, structure,
};
use crate::device::cuda::aggregate::accumulate::shared_layout::{SharedAccumulators, Slots};
use crate::device::cuda::aggregate::directory::{Directory, Ids};
use crate::device::cuda::keys::key_width::Width;
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::{Memory, Part};
use crate::device::cuda::runtime::stream::Stream;
use crate::error::Result;

/// Adds `rows` rows by their group ids to the results of `groups` groups. Rows with ids of `groups` and above are
/// left out. `shared`: in shared memory, if it holds the accumulators of most groups.
pub(crate) fn accumulate_dense(
    stream: &Arc<Stream>,
    ids: Ids<'_>,
    rows: usize,
    groups: usize,
    all: &[Accumulator<'_>],
    outs: &[Memory],
    shared: bool,
) -> Result<Added> {
    let mut inside = true;
    let mut claims = None;
    let parts = all
        .chunks(MOST_ACCUMULATORS)
        .zip(outs.chunks(MOST_ACCUMULATORS));
    for (all, outs) in parts {
        let words = shared_words(all);
        let bytes = stream.gpu.shared_bytes as usize;
        let places = match shared {
            true => SharedAccumulators::of(groups, words, bytes),
            false => SharedAccumulators::global(words, bytes),
        };
        inside &= places.holds(groups);
        let given = structure(all, outs, groups);
        let claims = &*claims.insert(stream.zeroed(CLAIM_WORDS * 4, "aggregates")?);
        let everything: Option<&Memory> = None;
        let args = (
            ids.words.into(),
            ids.first.into(),
            (groups as u32).into(),
            everything.into(),
            (rows as u32).into(),
            claims.into(),
            (&given).into(),
            (places.hot as u32).into(),
            (places.plain as u32).into(),
            (places.teams as u32).into(),
        );
        let blocks = added::claiming_blocks(stream, rows);
        let shape = Shape {
            blocks: (blocks / places.teams * places.teams).max(places.teams) as u32,
            slices: 1,
            threads: THREADS,
            shared: places.bytes(words) as u32,
        };
        // SAFETY: `ids` holds a word for each row, and every column of an accumulator a value and a bit for each;
        // each result is allocated for `groups` groups and holds its neutral element; centers hold a value for each
        // group; the claims are clear; and the shared memory is that of the places.
        unsafe { stream.launch(kernels::GROUP_DENSE, shape, &args)? };
    }
    Ok(Added { inside, claims })
}

/// The same in global memory only, for rows of which no group has many, or whose groups are close together.
pub(crate) fn accumulate_in_global(
    stream: &Arc<Stream>,
    ids: Ids<'_>,
    rows: usize,
    groups: usize,
    all: &[Accumulator<'_>],
    outs: &[Memory],
) -> Result<AddedInGlobal> {
    let mut added = AddedInGlobal::new(groups);
    let parts = all
        .chunks(MOST_ACCUMULATORS)
        .zip(outs.chunks(MOST_ACCUMULATORS));
    for of_launch in parts {
        added.launch(stream, of_launch, |found, accumulators| {
            let args = (
                ids.words.into(),
                ids.first.into(),
                (groups as u32).into(),
                (rows as u32).into(),
                found.into(),
                accumulators.into(),
            );
            let shape = Shape::blocks_of(rows, GLOBAL_ROWS, 256);
            // SAFETY: `ids` holds a word for each row, of which there is at least one, and every column of an
            // accumulator a value and a bit for each; each result is allocated for `groups` groups and holds its
            // neutral element; centers hold a value for each group; `found` is clear.
            unsafe { stream.launch(kernels::GROUP_GLOBAL, shape, &args) }
        })?;
    }
    Ok(added)
}

/// Adds rows by their keys, which the directory numbers, with at most [`MOST_ACCUMULATORS`] accumulators. The
/// results are allocated for the directory's `limit` groups.
pub(crate) fn accumulate_table(
    stream: &Arc<Stream>,
    (keys, bits): (Part<'_>, Width),
    rows: usize,
    (directory, limit): (&Directory, usize),
    all: &[Accumulator<'_>],
    outs: &[Memory],
    slots: &Slots,
) -> Result<()> {
    let directory = directory.structure();
    let given = structure(all, outs, limit);
    let everything: Option<&Memory> = None;
    let args = (
        keys.into(),
        everything.into(),
        (rows as u32).into(),
        (&directory).into(),
        (&given).into(),
        (slots.hot as u32).into(),
        (slots.plain as u32).into(),
        1u32.into(),
    );
    let kernel = match bits {
        Width::Four => kernels::GROUP_TABLE_U32,
        Width::Eight => kernels::GROUP_TABLE_U64,
    };
    let shape = Shape {
        blocks: added::claiming_blocks(stream, rows) as u32,
        slices: 1,
        threads: THREADS,
        shared: slots.bytes(shared_words(all), bits.bytes()) as u32,
    };
    // SAFETY: there are `rows` keys of the kernel's width, and a value and a bit for each in every column of an
    // accumulator; the directory was made for such keys and `limit` groups, for which each result is allocated, and
    // each holds its neutral element; and the shared memory is that of the slots.
    unsafe { stream.launch(kernel, shape, &args) }
}

/// Adds rows in the order of their ids to the results of `groups` groups.
pub(crate) fn accumulate_sorted(
    stream: &Arc<Stream>,
    ids: &Memory,
    rows: usize,
    groups: usize,
    all: &[Accumulator<'_>],
    outs: &[Memory],
) -> Result<()> {
    let parts = all
        .chunks(MOST_ACCUMULATORS)
        .zip(outs.chunks(MOST_ACCUMULATORS));
    for (all, outs) in parts {
        let given = structure(all, outs, groups);
        let args = (ids.into(), (rows as u32).into(), (&given).into());
        let shape = Shape {
            slices: all.len() as u32,
            ..Shape::blocks_of(rows, SORTED_ROWS, 256)
        };
        // SAFETY: `ids` holds a word for each row, ascending and below `groups`; every column of an accumulator
        // holds a value and a bit for each; each result is allocated for `groups` groups and holds its neutral
        // element.
        unsafe { stream.launch(kernels::GROUP_SORTED, shape, &args)? };
    }
    Ok(())
}
