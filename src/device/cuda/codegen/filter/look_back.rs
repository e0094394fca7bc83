//! The output position of a tile: blocks publish the counts of their tiles, and add up the counts of the tiles before
//! their own.
//!
//! A count is one word and complete by itself: no other data depends on it, so relaxed accesses suffice.

use crate::device::cuda::codegen::filter::tiles::{BEFORE, HEADER, Tiles};
use crate::device::cuda::codegen::layout::address;
use crate::device::cuda::codegen::ptx::{Predicate, Text, Word};
use crate::device::cuda::codegen::translate::Machine;

/// Counts that each lane reads in one step. Between two tiles of a block, the other blocks finish about one tile each.
const AT_ONCE: u32 = 8;

/// Publishes the number of the current tile's kept rows plus 1; and whether the tile has a fault.
pub(crate) fn publish(machine: &mut Machine<'_>, tiles: &Tiles, rows: Word) {
    let faults = machine.faults;
    let first = first_lane(machine);
    let text = &mut machine.text;
    if let Some(faults) = faults {
        let any = text.predicate("setp.ne.u32", &[&faults, &0]);
        text.line(format_args!(
            "@{any} st.global.u64 [{}+16], 1;",
            tiles.counts
        ));
    }
    let count = text.word("add.u32", &[&rows, &1]);
    let to = address(text, tiles.counts, tiles.tile, 4);
    text.line(format_args!(
        "@{first} st.relaxed.gpu.global.u32 [{to}+{HEADER}], {count};"
    ));
}

/// The first lane of the first warp.
fn first_lane(machine: &mut Machine<'_>) -> Predicate {
    let (lane, warp) = (machine.place.lane, machine.place.warp);
    let either = machine.text.word("or.b32", &[&lane, &warp]);
    machine.text.predicate("setp.eq.u32", &[&either, &0])
}

/// The first warp's prefix sum: the number of tiles, and their kept rows.
pub(crate) struct PrefixSum {
    tiles: Word,
    rows: Word,
}

impl PrefixSum {
    pub(crate) fn new(text: &mut Text) -> Self {
        Self {
            tiles: text.word("mov.u32", &[&0]),
            rows: text.word("mov.u32", &[&0]),
        }
    }

    /// The number of rows kept before the previous tile, passed to the block through a barrier.
    pub(crate) fn rows_before(&self, machine: &mut Machine<'_>, tiles: &Tiles) -> Word {
        let first = first_lane(machine);
        let (lane, warp) = (machine.place.lane, machine.place.warp);
        let text = &mut machine.text;
        let others = text.predicate("setp.ne.u32", &[&warp, &0]);
        text.line(format_args!("@{others} bra TOLD;"));
        let sum = self.since(text, lane, tiles);
        let before = text.word("add.u32", &[&self.rows, &sum]);
        text.set("add.u32", self.tiles, &[&tiles.earlier, &1]);
        text.set("add.u32", self.rows, &[&before, &tiles.earlier_rows]);
        text.line(format_args!(
            "@{first} st.shared.u32 [{}+{BEFORE}], {before};",
            tiles.half
        ));
        let is_last = [&self.tiles as _, &tiles.all as _, &first as _];
        let is_last = text.predicate("setp.ge.and.u32", &is_last);
        let all = text.long("cvt.u64.u32", &[&self.rows]);
        text.line(format_args!(
            "@{is_last} st.global.u64 [{}+8], {all};",
            tiles.counts
        ));
        text.line("TOLD:");
        text.line("bar.sync 0;");
        text.word(
            "ld.shared.u32",
            &[&format_args!("[{}+{BEFORE}]", tiles.half)],
        )
    }

    /// The kept rows of the tiles from the prefix sum on, up to the previous tile.
    fn since(&self, text: &mut Text, lane: Word, tiles: &Tiles) -> Word {
        let sum = text.word("mov.u32", &[&0]);
        let known = text.word("mov.u32", &[&self.tiles]);
        let to = tiles.earlier;
        let nothing = text.predicate("setp.ge.u32", &[&known, &to]);
        text.line(format_args!("@{nothing} bra SUMMED;"));
        text.line("SINCE:");
        let at = text.word("add.u32", &[&known, &lane]);
        let from = address(text, tiles.counts, at, 4);
        let counts: Vec<(Predicate, Word)> = (0..AT_ONCE)
            .map(|window| {
                let at = text.word("add.u32", &[&at, &(32 * window)]);
                let is_since = text.predicate("setp.lt.u32", &[&at, &to]);
                (is_since, text.word("mov.u32", &[&1]))
            })
            .collect();
        text.line("SPIN:");
        for ((is_since, count), at) in counts.iter().zip((HEADER..).step_by(128)) {
            text.line(format_args!(
                "@{is_since} ld.relaxed.gpu.global.u32 {count}, [{from}+{at}];"
            ));
        }
        let least = text.word("mov.u32", &[&1]);
        for (_, count) in &counts {
            text.set("min.u32", least, &[&least, count]);
        }
        let absent = text.predicate("setp.eq.u32", &[&least, &0]);
        let some = text.predicate("vote.sync.any.pred", &[&absent, &"0xffffffff"]);
        text.line(format_args!("@{some} bra SPIN;"));
        for (_, count) in &counts {
            text.set("add.u32", sum, &[&sum, count]);
        }
        // Subtracts the 1 of each count.
        text.set("sub.u32", sum, &[&sum, &AT_ONCE]);
        text.set("add.u32", known, &[&known, &(32 * AT_ONCE)]);
        let more = text.predicate("setp.lt.u32", &[&known, &to]);
        text.line(format_args!("@{more} bra SINCE;"));
        for lanes in [16, 8, 4, 2, 1] {
            let other = [&sum as _, &lanes as _, &31 as _, &"0xffffffff" as _];
            let other = text.word("shfl.sync.bfly.b32", &other);
            text.set("add.u32", sum, &[&sum, &other]);
        }
        text.line("SUMMED:");
        sum
    }
}
