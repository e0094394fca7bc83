//! [`Place`]: the rows of a thread.
//!
//! A unit is the number of rows whose values of the widest column fit one vector of at most 16 bytes. The units of
//! neighbouring lanes are adjacent, so each load and store of a warp covers whole cache lines whatever the width. A
//! thread has one unit of each group of its warp.

use crate::device::cuda::codegen::ptx::{Long, Text, Word};
use crate::device::cuda::runtime::kernel_cache::generated::Layout;

const WARP: u32 = 32;

/// The rows of the current thread.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub layout: Layout,
    pub rows: Word,
    pub lane: Word,
    pub warp: Word,
    /// The first row of each unit.
    pub first: Vec<Word>,
    /// The first row to load for each unit: that of the last unit if the unit is past the end.
    pub read: Vec<Word>,
}

impl Place {
    /// The rows of tile `tile` of an input of `rows` rows.
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

    /// The rows of the same thread in another tile.
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

    /// The rows before the end.
    pub(crate) fn inside(&self, text: &mut Text) -> Word {
        let unit = self.layout.unit;
        let mut inside = None;
        for (group, first) in (0..).zip(&self.first) {
            let remaining = text.word("sub.s32", &[&self.rows, first]);
            let remaining = text.word("max.s32", &[&remaining, &0]);
            let remaining = text.word("min.s32", &[&remaining, &unit]);
            let above = text.word("shl.b32", &[&1, &remaining]);
            let mask = text.word("sub.u32", &[&above, &1]);
            let mask = text.word("shl.b32", &[&mask, &(group * unit)]);
            inside = text.or(inside, Some(mask));
        }
        // No rows have no bits.
        inside.unwrap_or_else(|| text.word("mov.u32", &[&0]))
    }
}

/// The address of value `at`, of values of `bytes` bytes.
pub(crate) fn address(text: &mut Text, base: Long, at: Word, bytes: u32) -> Long {
    text.long("mad.wide.u32", &[&at, &bytes, &base])
}
