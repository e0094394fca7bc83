//! [`GroupKeys`], and the [`Directory`]: a hash table that numbers keys, and the ids it gives to rows
//! (`kernels/aggregate/group_ids.cu`).

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Arc, LazyLock};

use crate::device::cuda::keys::key_width::Width;
use crate::device::cuda::keys::pack::{self, KeyValues, Layout};
use crate::device::cuda::keys::tuples::Tuples;
use crate::device::cuda::runtime::arguments::{Structure, U64};
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::memory::{Memory, Part};
use crate::device::cuda::runtime::stream::Stream;
use crate::error::{BowtieError, Result};

/// The keys of rows in the form that kernels read.
#[derive(Debug)]
pub(crate) enum GroupKeys<'a> {
    /// Values of 32 or 64 bits whose bits are equal exactly where the values are.
    Plain(&'a Memory, Width),
    /// One or more words of 64 bits for each row.
    Tuples(Tuples),
}

/// One word of 32 bits for each row: the group id is the word minus `first`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ids<'a> {
    pub(crate) words: &'a Memory,
    /// The word of id 0.
    pub(crate) first: u32,
}

impl<'a> From<&'a Memory> for Ids<'a> {
    fn from(words: &'a Memory) -> Self {
        Self { words, first: 0 }
    }
}

impl<'a> GroupKeys<'a> {
    /// Keys of one or more columns: plain where one column has 32 or 64 bits without NULLs and without a second zero,
    /// otherwise packed tuples.
    pub(crate) fn of(stream: &Arc<Stream>, columns: &[KeyValues<'a>], rows: usize) -> Result<Self> {
        match columns {
            [column] => match column.plain() {
                Some((values, 32)) => Ok(Self::Plain(values, Width::Four)),
                Some((values, _)) => Ok(Self::Plain(values, Width::Eight)),
                None => Self::tuples(stream, columns, rows),
            },
            _ => Self::tuples(stream, columns, rows),
        }
    }

    fn tuples(stream: &Arc<Stream>, columns: &[KeyValues<'_>], rows: usize) -> Result<Self> {
        let layout = Layout::of(columns, true);
        Ok(Self::Tuples(pack::pack(stream, &layout, columns, rows)?))
    }

    /// The keys and their width, where a key is one word.
    pub(crate) fn word(&self) -> Option<(Part<'_>, Width)> {
        match self {
            Self::Plain(values, bits) => Some((Part::from(*values), *bits)),
            Self::Tuples(tuples) if tuples.width() == 1 => {
                Some((tuples.first_word(), Width::Eight))
            }
            Self::Tuples(_) => None,
        }
    }

    fn entry_bytes(&self) -> usize {
        match self {
            Self::Plain(_, Width::Four) => 8,
            _ => 16,
        }
    }

    /// Bytes per group in the directory's list of members: the key's word, or a row id.
    fn member_bytes(&self) -> usize {
        match self.word() {
            Some((_, bits)) => bits.bytes(),
            None => 4,
        }
    }
}

/// The factor to the next table's capacity. A table without capacity for all groups is given up early.
const GROWTH: usize = 16;

/// The words of a table's state; the index of the number of groups; the index of the flag for more groups than the
/// table's capacity.
pub(crate) const STATE_WORDS: usize = 96;
const GROUPS: usize = 0;
const FULL: usize = 32;

/// The seed of the keys' hashes, another one in each process: keys that were prepared have not one home, for which linear probing would take a
/// time quadratic in their number.
static SEED: LazyLock<u32> = LazyLock::new(|| RandomState::new().build_hasher().finish() as u32);

/// The argument of kernels that hash keys of a directory.
pub(crate) fn seed() -> u32 {
    *SEED
}

/// A hash table that numbers distinct keys from 0 in the order of their arrival.
#[derive(Debug)]
pub(crate) struct Directory {
    entries: Memory,
    members: Memory,
    state: Memory,
    slots: usize,
    limit: usize,
}

impl Directory {
    /// A directory for at most `limit` groups.
    pub(crate) fn new(stream: &Arc<Stream>, keys: &GroupKeys<'_>, limit: usize) -> Result<Self> {
        let slots = (2 * limit).max(64);
        let what = "group table";
        Ok(Self {
            entries: stream.filled((slots + 1) * keys.entry_bytes(), 0xFF, what)?,
            members: stream.alloc(limit * keys.member_bytes(), what)?,
            state: stream.zeroed(STATE_WORDS * 4, what)?,
            slots,
            limit,
        })
    }

    /// For each group its key's word; for keys of several words a row id with that key.
    pub(crate) fn into_members(self) -> Memory {
        self.members
    }

    /// The kernels' argument: entries, members, state, the numbers of slots and of groups at most, and the seed of hashes.
    pub(crate) fn structure(&self) -> Structure<5> {
        Structure([
            U64::from(&self.entries),
            U64::from(&self.members),
            U64::from(&self.state),
            U64::from((self.slots as u32, self.limit as u32)),
            U64::from((seed(), 0)),
        ])
    }

    /// The number of groups; `None` when there are more than the limit. Waits for the kernel.
    pub(crate) fn groups(&self, stream: &Stream) -> Result<Option<usize>> {
        groups_of_state(stream, &self.state)
    }
}

/// The number of groups of a table's state; `None` when there are more than the limit. Waits for the kernel.
pub(crate) fn groups_of_state(stream: &Stream, state: &Memory) -> Result<Option<usize>> {
    let mut bytes = [0; (FULL + 1) * 4];
    stream.read_few(&mut bytes, state, 0)?;
    let word = |at: usize| {
        let word = bytes[at * 4..][..4].try_into();
        u32::from_le_bytes(word.unwrap_or_default())
    };
    Ok((word(FULL) == 0).then(|| word(GROUPS) as usize))
}

/// Retries `attempt` with larger and larger capacities, from `limit` up to `rows` groups, until one is sufficient.
pub(crate) fn with_capacity<T>(
    rows: usize,
    limit: usize,
    mut attempt: impl FnMut(usize) -> Result<Option<T>>,
) -> Result<T> {
    let mut limit = rows.min(limit);
    loop {
        if let Some(done) = attempt(limit)? {
            return Ok(done);
        }
        if limit == rows {
            return Err(BowtieError::Internal("more groups than rows".into()));
        }
        limit = rows.min(limit * GROWTH);
    }
}

/// The group id of each of `rows` > 0 rows, numbered from 0 in the order of arrival, and the number of groups.
/// `limit`: the estimated most groups.
pub(crate) fn hashed_ids(
    stream: &Arc<Stream>,
    keys: &GroupKeys<'_>,
    rows: usize,
    limit: usize,
) -> Result<(Memory, usize)> {
    let (ids, groups, _) = hashed_groups(stream, keys, rows, limit)?;
    Ok((ids, groups))
}

/// The same, and the members: for each group its key's word; for keys of several words a row id with that key.
pub(crate) fn hashed_groups(
    stream: &Arc<Stream>,
    keys: &GroupKeys<'_>,
    rows: usize,
    limit: usize,
) -> Result<(Memory, usize, Memory)> {
    let ids = stream.alloc(rows * 4, "group ids")?;
    let (groups, members) = with_capacity(rows, limit, |limit| {
        number_groups(stream, keys, rows, limit, &ids)
    })?;
    Ok((ids, groups, members))
}

/// `None` when there are more groups than `limit`.
fn number_groups(
    stream: &Arc<Stream>,
    keys: &GroupKeys<'_>,
    rows: usize,
    limit: usize,
    ids: &Memory,
) -> Result<Option<(usize, Memory)>> {
    let directory = Directory::new(stream, keys, limit)?;
    let structure = directory.structure();
    let shape = stream.strips(rows.div_ceil(4));
    let n = (rows as u32).into();
    match (keys.word(), keys) {
        (Some((word, width)), _) => {
            let kernel = match width {
                Width::Four => kernels::GROUP_IDS_U32,
                Width::Eight => kernels::GROUP_IDS_U64,
            };
            let all = U64::ZERO;
            let args = (word.into(), all, n, (&structure).into(), ids.into());
            // SAFETY: there are `rows` keys of the kernel's width; the directory has entries of their width, all
            // set, one more than slots, memory for the keys of `limit` groups, and a clear state; `ids` holds a
            // word for each row.
            unsafe { stream.launch(kernel, shape, &args)? };
        }
        (None, GroupKeys::Tuples(tuples)) => {
            let args = (
                tuples.first_word().into(),
                (tuples.width() as u32).into(),
                U64::ZERO,
                n,
                (&structure).into(),
                ids.into(),
            );
            // SAFETY: as above, with tuples of `width` words.
            unsafe { stream.launch(kernels::GROUP_IDS_TUPLES, shape, &args)? };
        }
        (None, GroupKeys::Plain(..)) => {
            return Err(BowtieError::Internal("a key without a word".into()));
        }
    }
    let groups = directory.groups(stream)?;
    Ok(groups.map(|groups| (groups, directory.into_members())))
}
