//! [`GroupKeys`], the [`Directory`] that numbers them without sorting, and their ids (`kernels/aggregate/group_ids.cu`).

use std::sync::Arc;

use crate::device::cuda::keys::key_width::KeyWidth;
use crate::device::cuda::keys::pack::{KeyValues, Layout};
use crate::device::cuda::keys::tuples::Tuples;
use crate::device::cuda::runtime::launch::{Arg, Given, Structure};
use crate::device::cuda::runtime::memory::{Memory, Part};
use crate::device::cuda::runtime::stream::Stream;
use crate::error::{BowtieError, Result};

/// Keys of rows as kernels take them.
#[derive(Debug)]
pub(crate) enum GroupKeys<'a> {
    /// Values of 32 or 64 bits that are equal where their bits are.
    Plain(&'a Memory, KeyWidth),
    Tuples(Tuples),
}

/// A word of 32 bits a row: its group's id is that, less the first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ids<'a> {
    pub(crate) words: &'a Memory,
    pub(crate) first: u32,
}

impl<'a> From<&'a Memory> for Ids<'a> {
    fn from(words: &'a Memory) -> Self {
        Self { words, first: 0 }
    }
}

impl<'a> GroupKeys<'a> {
    pub(crate) fn of(queue: &Arc<Stream>, columns: &[KeyValues<'a>], rows: usize) -> Result<Self> {
        match columns {
            [column] => match column.plain() {
                Some((values, 32)) => Ok(Self::Plain(values, KeyWidth::B32)),
                Some((values, _)) => Ok(Self::Plain(values, KeyWidth::B64)),
                None => Self::tuples(queue, columns, rows),
            },
            _ => Self::tuples(queue, columns, rows),
        }
    }

    fn tuples(queue: &Arc<Stream>, columns: &[KeyValues<'_>], rows: usize) -> Result<Self> {
        let layout = Layout::of(columns, true);
        Ok(Self::Tuples(queue.pack(&layout, columns, rows)?))
    }

    /// Keys of one word, and its bits.
    pub(crate) fn word(&self) -> Option<(Part<'_>, KeyWidth)> {
        match self {
            Self::Plain(values, bits) => Some((Part::from(*values), *bits)),
            Self::Tuples(tuples) if tuples.width() == 1 => Some((tuples.word(0), KeyWidth::B64)),
            Self::Tuples(_) => None,
        }
    }

    fn entry_bytes(&self) -> usize {
        match self {
            Self::Plain(_, KeyWidth::B32) => 8,
            _ => 16,
        }
    }

    /// Of what a directory knows of a group: its key's word, or a row.
    fn member_bytes(&self) -> usize {
        match self.word() {
            Some((_, bits)) => bits.bytes(),
            None => 4,
        }
    }
}

/// A table that has no room for all groups is given up soon, and one for so many times as many is made.
const GROWTH: usize = 16;

/// Words of a table's state; where in it the number of groups is, and whether there were more than it has room for.
const STATE_WORDS: usize = 96;
const GROUPS: usize = 0;
const FULL: usize = 32;

/// A hash table that numbers keys from 0 as they come.
#[derive(Debug)]
pub(crate) struct Directory {
    entries: Memory,
    members: Memory,
    state: Memory,
    slots: usize,
    limit: usize,
}

impl Directory {
    /// For at most `limit` groups.
    pub(crate) fn new(queue: &Arc<Stream>, keys: &GroupKeys<'_>, limit: usize) -> Result<Self> {
        let slots = (2 * limit).max(64);
        let what = "group table";
        Ok(Self {
            entries: queue.filled((slots + 1) * keys.entry_bytes(), 0xFF, what)?,
            members: queue.alloc(limit * keys.member_bytes(), what)?,
            state: queue.zeroed(STATE_WORDS * 4, what)?,
            slots,
            limit,
        })
    }

    /// By group its key's word; of keys of several words a row that has it.
    pub(crate) fn into_members(self) -> Memory {
        self.members
    }

    pub(crate) fn structure(&self) -> Structure<4> {
        Structure([
            Arg::from(&self.entries),
            Arg::from(&self.members),
            Arg::from(&self.state),
            Arg::from((self.slots as u32, self.limit as u32)),
        ])
    }

    /// How many groups there are; `None` when they are more than the limit.
    pub(crate) fn groups(&self, queue: &Stream) -> Result<Option<usize>> {
        let mut bytes = [0; (FULL + 1) * 4];
        queue.read_few(&mut bytes, &self.state, 0)?;
        let word = |at: usize| {
            let word = bytes[at * 4..][..4].try_into();
            u32::from_le_bytes(word.unwrap_or_default())
        };
        Ok((word(FULL) == 0).then(|| word(GROUPS) as usize))
    }
}

/// Does something with tables for more and more of `rows` groups, at first for `limit`, until one has room.
pub(crate) fn with_room<T>(
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

impl Stream {
    /// The group of each of `rows` rows, numbered from 0 as they come, and how many there are, at first taken to be at most
    /// `limit`. There is at least one row.
    pub(crate) fn hashed_ids(
        self: &Arc<Self>,
        keys: &GroupKeys<'_>,
        rows: usize,
        limit: usize,
    ) -> Result<(Memory, usize)> {
        let (ids, groups, _) = self.hashed_groups(keys, rows, limit)?;
        Ok((ids, groups))
    }

    /// The same, and what is known of each group: its key's word; of keys of several words a row that has it.
    pub(crate) fn hashed_groups(
        self: &Arc<Self>,
        keys: &GroupKeys<'_>,
        rows: usize,
        limit: usize,
    ) -> Result<(Memory, usize, Memory)> {
        let ids = self.alloc(rows * 4, "group ids")?;
        let (groups, members) = with_room(rows, limit, |limit| {
            self.number_groups(keys, rows, limit, &ids)
        })?;
        Ok((ids, groups, members))
    }

    /// `None` when there are more groups than `limit`.
    fn number_groups(
        self: &Arc<Self>,
        keys: &GroupKeys<'_>,
        rows: usize,
        limit: usize,
        ids: &Memory,
    ) -> Result<Option<(usize, Memory)>> {
        let directory = Directory::new(self, keys, limit)?;
        let structure = directory.structure();
        let all: Option<&Memory> = None;
        let (kernel, mut args): (_, Vec<Given<'_>>) = match (keys.word(), keys) {
            (Some((word, KeyWidth::B32)), _) => ("group_ids_u32", vec![word.into()]),
            (Some((word, KeyWidth::B64)), _) => ("group_ids_u64", vec![word.into()]),
            (None, GroupKeys::Tuples(tuples)) => (
                "group_ids_tuples",
                vec![tuples.word(0).into(), (tuples.width() as u32).into()],
            ),
            (None, GroupKeys::Plain(..)) => {
                return Err(BowtieError::Internal("a key without a word".into()));
            }
        };
        args.extend([
            all.into(),
            (rows as u32).into(),
            Given::Four(&structure),
            ids.into(),
        ]);
        // SAFETY: there are so many keys or tuples, of so many bits or words; the directory has entries of their width, all set, one
        // more than slots, room for the keys of `limit` groups, and a clear state; `ids` holds a word a row.
        unsafe { self.launch_given(kernel, self.strips(rows.div_ceil(4)), &args)? };
        let groups = directory.groups(self)?;
        Ok(groups.map(|groups| (groups, directory.into_members())))
    }
}
