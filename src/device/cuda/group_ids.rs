//! Dense group ids of tuples by a hash table, without sorting (`kernels/group_ids.cu`).

use std::sync::Arc;

use super::queue::{Arg, Given, Memory, Queue, Structure};
use super::tuples::Tuples;
use crate::error::{BowtieError, Result};

/// Groups that the first table has room for: where there are more it is given up soon, and one for so many more is made.
const FIRST_LIMIT: usize = 1 << 20;
const GROWTH: usize = 16;

/// Words of a table's state; where in it the number of groups is, and whether there were more than it has room for.
const STATE_WORDS: usize = 96;
const GROUPS: usize = 0;
const FULL: usize = 32;

impl Queue {
    /// Each row's group, numbered from 0 as they come, and how many there are. There is at least one row.
    pub(super) fn hashed_ids(self: &Arc<Self>, tuples: &Tuples) -> Result<(Memory, usize)> {
        let rows = tuples.rows();
        let ids = self.alloc(rows * 4, "group ids")?;
        let mut limit = rows.min(FIRST_LIMIT);
        loop {
            if let Some(groups) = self.number_groups(tuples, limit, &ids)? {
                return Ok((ids, groups));
            }
            if limit == rows {
                return Err(BowtieError::Internal("more groups than rows".into()));
            }
            limit = rows.min(limit * GROWTH);
        }
    }

    /// `None` when there are more groups than `limit`.
    fn number_groups(
        self: &Arc<Self>,
        tuples: &Tuples,
        limit: usize,
        ids: &Memory,
    ) -> Result<Option<usize>> {
        let rows = tuples.rows();
        let slots = (2 * limit).next_power_of_two().max(64);
        let entries = self.filled((slots + 1) * 16, 0xFF, "group table")?;
        let members = self.alloc(limit * 8, "group table")?;
        let state = self.zeroed(STATE_WORDS * 4, "group table")?;
        let directory = Structure([
            Arg::from(&entries),
            Arg::from(&members),
            Arg::from(&state),
            Arg::from((slots as u32, limit as u32)),
        ]);
        let all: Option<&Memory> = None;
        let mut args: Vec<Given<'_>> = vec![tuples.word(0).into()];
        let kernel = match tuples.width() {
            1 => "group_ids_u64",
            width => {
                args.push((width as u32).into());
                "group_ids_tuples"
            }
        };
        args.extend([
            all.into(),
            (rows as u32).into(),
            Given::Directory(&directory),
            ids.into(),
        ]);
        // SAFETY: the tuples have so many rows and words; the directory's entries are of 16 bytes, all set, one more than slots,
        // its keys have room for `limit`, and its state is clear; `ids` holds a word a row.
        unsafe { self.launch_given(kernel, self.strips(rows.div_ceil(4)), &args)? };
        let word = |at: usize| -> Result<u32> {
            let mut bytes = [0; 4];
            self.read_few(&mut bytes, &state, at * 4)?;
            Ok(u32::from_le_bytes(bytes))
        };
        Ok(match word(FULL)? {
            0 => Some(word(GROUPS)? as usize),
            _ => None,
        })
    }
}
