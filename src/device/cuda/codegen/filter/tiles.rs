//! The tiles of a block, and the turns of its loop.
//!
//! Tiles are handed out in order, to running blocks. A block asks for a tile one turn before it needs the answer. It
//! waits only for tiles before the one that it writes, and its tiles that are not counted yet come after that one.
//! Hence the first uncounted tile belongs to a block that waits for nothing, and there is no deadlock. One half of
//! shared memory belongs to the current tile, the other one to the previous tile. The barrier of a turn with a current
//! tile (`compaction.rs`) separates reading a half and filling it again; the barrier before rows are written
//! (`look_back.rs`) separates filling and reading.

use crate::device::cuda::codegen::ptx::{Long, Predicate, Text, Word};
use crate::device::cuda::runtime::kernel_cache::generated::Layout;

/// Bytes before the counts of tiles, which have 32 bits each: three words of 64 bits for the next tile, the number of
/// kept rows, and whether a row is a fault. The rest pads the cache line, which all blocks write to.
pub(crate) const HEADER: usize = 128;

/// The size of a block and of its tiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    threads: u32,
    /// Bytes of values that a thread holds, unless one row has more: they are in flight while the previous tile is
    /// written.
    bytes: u32,
    /// The bytes of a tile's rows in shared memory.
    tile: u32,
}

/// Two such blocks run concurrently on a multiprocessor if 64 registers a thread suffice, which is worth more than a
/// third block.
const LARGE: Size = Size {
    threads: 512,
    bytes: 128,
    tile: 32 << 10,
};

/// For any card, for programs that need more registers, and for those that would be too long with as many rows.
const SMALL: Size = Size {
    threads: 256,
    bytes: 96,
    tile: 16 << 10,
};

/// The sizes to try, the best first. `shared`: the bytes of shared memory that a block may have; a multiprocessor has
/// hardly more.
pub(crate) fn sizes(shared: u32) -> &'static [Size] {
    match shared >= 2 * 2 * (SCRATCH + LARGE.tile) {
        true => &[LARGE, SMALL],
        false => &[SMALL],
    }
}

/// The layout of a half: the number of passing rows of each warp, the next tile, the number of rows kept before the
/// previous tile, then rows.
pub(crate) const SCRATCH: u32 = NEXT + 32;
const NEXT: u32 = LARGE.threads / 32 * 4;
/// The offset in a half of the number of rows kept before the previous tile.
pub(crate) const BEFORE: u32 = NEXT + 4;

/// No tile.
const NONE: u32 = u32::MAX;

/// The layout for values of at most `widest` bytes, with `bytes` bytes of a row in registers, of which `moved` are
/// moved.
pub(crate) fn layout(size: Size, widest: u32, bytes: u32, moved: u32) -> Layout {
    let fits = |rows: &u32| rows * bytes <= size.bytes && rows * size.threads * moved <= size.tile;
    let rows = [16, 8, 4, 2].into_iter().find(fits).unwrap_or(1);
    Layout::new(widest, rows, size.threads)
}

/// The tiles of a block.
pub(crate) struct Tiles {
    /// The header, and the counts after it.
    pub counts: Long,
    /// The number of tiles.
    pub all: Word,
    pub tile: Word,
    /// The previous tile, and the number of its kept rows.
    pub earlier: Word,
    pub earlier_rows: Word,
    /// The halves of shared memory of the current and the previous tile.
    pub half: Word,
    pub earlier_half: Word,
    /// Whether this is the first thread, and the tile that it was given for the turn after the next.
    is_first: Predicate,
    ticket: Word,
    /// Whether there is no current tile.
    is_done: Option<Predicate>,
    bytes_of_half: u32,
}

impl Tiles {
    /// Begins with the first tile. `bytes`: the moved bytes of a row.
    pub(crate) fn new(text: &mut Text, layout: Layout, rows: Word, bytes: u32) -> Self {
        let bytes_of_half = SCRATCH + layout.tile() * bytes;
        let counts = text.long("ld.param.u64", &[&"[p1]"]);
        let counts = text.long("cvta.to.global.u64", &[&counts]);
        let all = text.word("add.u32", &[&rows, &(layout.tile() - 1)]);
        let all = text.word("shr.u32", &[&all, &layout.tile().trailing_zeros()]);
        let thread = text.word("mov.u32", &[&"%tid.x"]);
        let is_first = text.predicate("setp.eq.u32", &[&thread, &0]);
        let half = text.word("mov.u32", &[&"rows"]);
        let earlier_half = text.word("add.u32", &[&half, &bytes_of_half]);
        let mut tiles = Self {
            counts,
            all,
            tile: text.new_word(),
            earlier: text.word("mov.u32", &[&NONE]),
            earlier_rows: text.word("mov.u32", &[&0]),
            half,
            earlier_half,
            is_first,
            ticket: text.word("mov.u32", &[&0]),
            is_done: None,
            bytes_of_half,
        };
        tiles.draw(text);
        // In the other half: this half's slot is for the next tile, which may be announced before all threads have read
        // the first one.
        text.line(format_args!(
            "@{is_first} st.shared.u32 [{earlier_half}+{NEXT}], {};",
            tiles.ticket
        ));
        tiles.draw(text);
        text.line("bar.sync 0;");
        let given = text.word("ld.shared.u32", &[&format_args!("[{earlier_half}+{NEXT}]")]);
        text.set("min.u32", tiles.tile, &[&given, &all]);
        tiles
    }

    /// The bytes of shared memory of a block: both halves.
    pub(crate) fn shared(&self) -> u32 {
        2 * self.bytes_of_half
    }

    fn draw(&mut self, text: &mut Text) {
        text.line(format_args!(
            "@{} atom.global.add.u32 {}, [{}], 1;",
            self.is_first, self.ticket, self.counts
        ));
    }

    /// Begins a turn: with a tile, or with the previous tile alone.
    pub(crate) fn turn(&mut self, text: &mut Text) {
        text.line("TURN:");
        let is_done = text.predicate("setp.ge.u32", &[&self.tile, &self.all]);
        text.line(format_args!("@{is_done} bra EARLIER;"));
        self.is_done = Some(is_done);
    }

    /// Announces the next tile, before a barrier.
    pub(crate) fn announce_next(&self, text: &mut Text) {
        text.line(format_args!(
            "@{} st.shared.u32 [{}+{NEXT}], {};",
            self.is_first, self.half, self.ticket
        ));
    }

    /// The next tile, after the barrier; asks for the one after that.
    pub(crate) fn next(&mut self, text: &mut Text) -> Word {
        let next = text.word("ld.shared.u32", &[&format_args!("[{}+{NEXT}]", self.half)]);
        self.draw(text);
        text.word("min.u32", &[&next, &self.all])
    }

    /// Begins the part for the previous tile, if there is one.
    pub(crate) fn write(&self, text: &mut Text) {
        text.line("EARLIER:");
        let is_none = text.predicate("setp.eq.u32", &[&self.earlier, &NONE]);
        text.line(format_args!("@{is_none} bra WRITTEN;"));
    }

    /// Begins the part for the current tile; without one the loop ends.
    pub(crate) fn written(&self, text: &mut Text) {
        text.line("WRITTEN:");
        if let Some(is_done) = self.is_done {
            text.line(format_args!("@{is_done} bra DONE;"));
        }
    }

    /// Ends a turn. The current tile, with `rows` kept rows, becomes the previous one.
    pub(crate) fn advance(&self, text: &mut Text, next: Word, rows: Word) {
        text.set("mov.u32", self.earlier, &[&self.tile]);
        text.set("mov.u32", self.earlier_rows, &[&rows]);
        text.set("mov.u32", self.tile, &[&next]);
        let half = text.word("mov.u32", &[&self.half]);
        text.set("mov.u32", self.half, &[&self.earlier_half]);
        text.set("mov.u32", self.earlier_half, &[&half]);
        text.line("bra TURN;");
        text.line("DONE:");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_tiles_of_any_rows_are_in_shared_memory() {
        for (shared, sizes) in
            [48, 64, 99, 163, 227].map(|shared| (shared << 10, sizes(shared << 10)))
        {
            assert_eq!(sizes.last(), Some(&SMALL));
            for (size, bytes) in sizes
                .iter()
                .flat_map(|size| (1..=64).map(move |bytes| (*size, bytes)))
            {
                for widest in [1, 2, 4, 8, 16].into_iter().filter(|w| *w <= bytes) {
                    for moved in 0..=bytes {
                        let layout = layout(size, widest, bytes, moved);
                        let tile = layout.tile();
                        let what = format!("{bytes} bytes, {moved} moved: {layout:?}");
                        assert!(2 * (SCRATCH + tile * moved) <= shared, "{what}");
                        // `all` is computed by a shift, and columns begin at whole vectors.
                        assert!(tile.is_power_of_two() && tile >= 16, "{what}");
                        assert!(layout.unit * widest <= 16, "{what}");
                        let held = layout.unit * layout.groups * bytes;
                        assert!(held <= size.bytes.max(bytes), "{what}");
                    }
                }
            }
        }
        assert_eq!(layout(LARGE, 4, 8, 8), Layout::new(4, 8, 512));
        assert_eq!(layout(SMALL, 4, 8, 8), Layout::new(4, 8, 256));
    }
}
