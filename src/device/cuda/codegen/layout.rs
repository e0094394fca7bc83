//! Which rows a thread takes.
//!
//! A unit is what one vector of at most 16 bytes holds of the widest column; the units of neighbouring lanes lie side by side, so each
//! load and store of a warp covers whole lines whatever the width. A thread takes a unit of each of its warp's groups.

use crate::device::cuda::codegen::ptx::{Long, Text, Word};

const WARP: u32 = 32;

/// Rows of a unit (1, 2 or 4), units of a thread, and threads of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub unit: u32,
    pub groups: u32,
    pub threads: u32,
}

impl Layout {
    /// Of a program whose values have so many bytes at most, none more than 16, and so many a row in registers: enough bytes on
    /// their way for each thread, few enough to stay in registers.
    pub(crate) fn of_program(widest: u32, bytes: u32) -> Self {
        Self::new(widest, if bytes <= 24 { 8 } else { 4 }, 256)
    }

    /// Of so many rows a thread: a power of 2.
    pub(crate) fn new(widest: u32, rows: u32, threads: u32) -> Self {
        let unit = (16 / widest).clamp(1, 4).min(rows);
        Self {
            unit,
            groups: rows / unit,
            threads,
        }
    }

    /// Rows of a thread.
    pub(crate) fn rows(self) -> u32 {
        self.unit * self.groups
    }

    /// Rows of a block.
    pub(crate) fn tile(self) -> u32 {
        self.rows() * self.threads
    }
}

/// The rows of the thread at hand.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub layout: Layout,
    pub rows: Word,
    pub lane: Word,
    pub warp: Word,
    /// The first row of each unit.
    pub first: Vec<Word>,
    /// The same, but of the last unit for those past the end: what is loaded.
    pub read: Vec<Word>,
}

impl Place {
    /// Of tile `tile`, of so many rows.
    pub(crate) fn new(text: &mut Text, layout: Layout, tile: Word, rows: Word) -> Self {
        let thread = text.word("mov.u32", &[&"%tid.x"]);
        let place = Self {
            layout,
            rows,
            lane: text.word("and.b32", &[&thread, &(WARP - 1)]),
            warp: text.word("shr.u32", &[&thread, &5]),
            first: vec![],
            read: vec![],
        };
        place.in_tile(text, tile)
    }

    /// The same thread's in another tile.
    pub(crate) fn in_tile(&self, text: &mut Text, tile: Word) -> Self {
        let layout = self.layout;
        let Layout { unit, groups, .. } = layout;
        let block = text.word("mul.lo.u32", &[&tile, &layout.tile()]);
        let of_warp = [&self.warp as _, &(layout.rows() * WARP) as _, &block as _];
        let of_warp = text.word("mad.lo.u32", &of_warp);
        let of_lane = text.word("mad.lo.u32", &[&self.lane, &unit, &of_warp]);
        let last = text.word("sub.u32", &[&self.rows, &1]);
        let last = text.word("and.b32", &[&last, &!(unit - 1)]);
        let (mut first, mut read) = (vec![], vec![]);
        for group in 0..groups {
            let at = text.word("add.u32", &[&of_lane, &(group * unit * WARP)]);
            first.push(at);
            read.push(text.word("min.u32", &[&at, &last]));
        }
        Self {
            first,
            read,
            ..self.clone()
        }
    }

    /// Which rows are not past the end.
    pub(crate) fn inside(&self, text: &mut Text) -> Word {
        let unit = self.layout.unit;
        let mut inside = None;
        for (group, first) in (0..).zip(&self.first) {
            let left = text.word("sub.s32", &[&self.rows, first]);
            let left = text.word("max.s32", &[&left, &0]);
            let left = text.word("min.s32", &[&left, &unit]);
            let above = text.word("shl.b32", &[&1, &left]);
            let mask = text.word("sub.u32", &[&above, &1]);
            let mask = text.word("shl.b32", &[&mask, &(group * unit)]);
            inside = text.or(inside, Some(mask));
        }
        inside.unwrap_or_else(|| unreachable!("a thread has a group"))
    }
}

/// The address of value `at` of so many bytes.
pub(crate) fn address(text: &mut Text, base: Long, at: Word, bytes: u32) -> Long {
    text.long("mad.wide.u32", &[&at, &bytes, &base])
}
