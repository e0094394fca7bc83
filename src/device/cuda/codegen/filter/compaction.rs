//! The position in its tile of each row that passes: counts by lane, by warp and by block.

use crate::device::cuda::codegen::filter::tiles::Tiles;
use crate::device::cuda::codegen::ptx::{Predicate, Text, Word};
use crate::device::cuda::codegen::translate::Machine;

/// The rows of a tile that pass.
pub(crate) struct Places {
    /// The passing rows of the thread, and the number of passing rows before each of its units.
    passing: Word,
    before: Vec<Word>,
    /// The number of passing rows of the tile.
    pub rows: Word,
}

impl Places {
    /// Counts the passing rows. Has the barrier of the turn: before it warps write their counts, and the next tile is
    /// announced.
    pub(crate) fn new(machine: &mut Machine<'_>, tiles: &Tiles, passing: Word) -> Self {
        let layout = machine.place.layout;
        let (lane, warp) = (machine.place.lane, machine.place.warp);
        let text = &mut machine.text;
        let mut before = vec![];
        let mut of_warp = text.word("mov.u32", &[&0]);
        let groups: Vec<u32> = (0..layout.groups).collect();
        // Four groups in one word, a byte each: a group of a warp has at most 128 rows.
        for together in groups.chunks(4) {
            let mut own = text.word("mov.u32", &[&0]);
            for (group, shift) in together.iter().zip((0u32..).step_by(8)) {
                let of_group = [
                    &passing as _,
                    &(group * layout.unit) as _,
                    &layout.unit as _,
                ];
                let mask = text.word("bfe.u32", &of_group);
                let rows = text.word("popc.b32", &[&mask]);
                let rows = text.word("shl.b32", &[&rows, &shift]);
                own = text.word("add.u32", &[&own, &rows]);
            }
            let through = text.word("mov.u32", &[&own]);
            for lanes in [1, 2, 4, 8, 16] {
                let other = [&through as _, &lanes as _, &0 as _, &"0xffffffff" as _];
                let other = text.word("shfl.sync.up.b32", &other);
                let has = text.predicate("setp.ge.u32", &[&lane, &lanes]);
                text.line(format_args!(
                    "@{has} add.u32 {through}, {through}, {other};"
                ));
            }
            let all = text.word("shfl.sync.idx.b32", &[&through, &31, &31, &"0xffffffff"]);
            let earlier = text.word("sub.u32", &[&through, &own]);
            for shift in (0u32..).step_by(8).take(together.len()) {
                let in_group = text.word("bfe.u32", &[&earlier, &shift, &8]);
                before.push(text.word("add.u32", &[&of_warp, &in_group]));
                let rows = text.word("bfe.u32", &[&all, &shift, &8]);
                of_warp = text.word("add.u32", &[&of_warp, &rows]);
            }
        }
        let first = text.predicate("setp.eq.u32", &[&lane, &0]);
        let slot = text.word("mad.lo.u32", &[&warp, &4, &tiles.half]);
        text.line(format_args!("@{first} st.shared.u32 [{slot}], {of_warp};"));
        tiles.announce_next(text);
        text.line("bar.sync 0;");
        let mut rows = text.word("mov.u32", &[&0]);
        let earlier = text.word("mov.u32", &[&0]);
        for other in 0..layout.threads / 32 {
            let from = format!("[{}+{}]", tiles.half, 4 * other);
            let of_other = text.word("ld.shared.u32", &[&from]);
            let is_earlier = text.predicate("setp.gt.u32", &[&warp, &other]);
            text.line(format_args!(
                "@{is_earlier} add.u32 {earlier}, {earlier}, {of_other};"
            ));
            rows = text.word("add.u32", &[&rows, &of_other]);
        }
        let before = before.iter();
        let before = before.map(|before| text.word("add.u32", &[before, &earlier]));
        Self {
            passing,
            before: before.collect(),
            rows,
        }
    }

    /// For each row of the thread its position in the tile, and whether it passes.
    pub(crate) fn of_rows(&self, text: &mut Text, unit: u32) -> Vec<(Word, Predicate)> {
        let mut places: Vec<(Word, Predicate)> = vec![];
        let mut next = self.passing;
        for k in 0..unit * self.before.len() as u32 {
            let place = match k % unit {
                0 => self.before[(k / unit) as usize],
                _ => next,
            };
            let bit = text.word("bfe.u32", &[&self.passing, &k, &1]);
            next = text.word("add.u32", &[&place, &bit]);
            places.push((place, text.bit(self.passing, k)));
        }
        places
    }
}
