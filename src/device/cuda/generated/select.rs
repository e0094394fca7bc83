//! A filter in one pass: rows are tested, and those that pass are put side by side as they are found.
//!
//! ```text
//! 1  a block takes the next tile: its columns that the predicate reads, the predicate, then the other columns' units that have rows
//! 2  rows that pass are counted: lanes, warps, the block
//! 3  a warp looks back at earlier tiles until one knows how many rows there are up to it (decoupled look-back: Merrill & Garland 2016)
//! 4  the rows are put side by side in shared memory, from where whole lines are written
//! ```
//!
//! So each value is read once and each that is kept written once.

use super::columns::load;
use super::layout::{Layout, THREADS, address};
use super::machine::{Machine, loads, widths};
use super::register::Rows;
use super::text::{Long, Predicate, Text, Word};
use super::{Generated, KERNEL, Parameter, Shape};
use crate::spec::{Kind, RowKind, RowOp};

/// A column without NULLs that is moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moved {
    /// Bytes of a value: 1, 2, 4, 8 or 16.
    pub bytes: u32,
    /// Which column of the program it is.
    pub loaded: Option<usize>,
}

impl Moved {
    /// What its values are taken for.
    fn kind(self) -> RowKind {
        match self.bytes {
            1 => RowKind::Plain(Kind::U8),
            2 => RowKind::Plain(Kind::U16),
            4 => RowKind::Plain(Kind::U32),
            8 => RowKind::Plain(Kind::U64),
            _ => RowKind::Decimal,
        }
    }
}

/// Bytes of a row that a thread holds in registers at most.
const MOST_BYTES: u32 = 64;
/// Shared memory: how many rows each warp keeps, which tile it is, and how many rows are kept before it; then rows.
const SCRATCH: u32 = 64;
const TILE_AT: u32 = 32;
const BEFORE_AT: u32 = 36;
const SHARED_ROWS: u32 = 32 << 10;
const WARPS: u32 = THREADS / 32;

/// Words of 64 bits before those of tiles: the next tile, the rows in all, and whether a row is for the host.
pub(super) const HEADER: usize = 3;

/// A kernel that keeps the rows for which the only output of a program is true; `None` where it is for `kernels/map.cu` and
/// `kernels/rows_select.cuh`. Its counts are zeroed: [`HEADER`] words and one for each tile.
pub(super) fn generate(shape: &Shape<'_>, moved: &[Moved]) -> Option<Generated> {
    let (loaded, widest) = widths(shape)?;
    let loads = loads(shape.program);
    let is_loaded = |moved: &Moved| moved.loaded.is_some_and(|at| loads.contains(&at));
    let others = moved.iter().filter(|moved| !is_loaded(moved));
    let all = loaded + others.map(|moved| moved.bytes).sum::<u32>();
    if all > MOST_BYTES {
        return None;
    }
    let widest = moved.iter().map(|moved| moved.bytes).fold(widest, u32::max);
    let layout = Layout::of_filter(widest, all);
    // Never, as such a column makes for short tiles: `put` would look for room without end.
    if moved
        .iter()
        .any(|moved| layout.tile() * moved.bytes > SHARED_ROWS)
    {
        return None;
    }
    let parameters = vec![Parameter::Rows, Parameter::Counts];
    let mut machine = Machine::new(shape, layout, next_tile, parameters)?;
    let mut passing = None;
    for (at, instruction) in shape.program.instructions.iter().enumerate() {
        match instruction.op {
            RowOp::Store => passing = Some(machine.passing(instruction)?),
            _ => machine.run(at, instruction)?,
        }
        if machine.text.is_too_long() {
            return None;
        }
    }
    let passing = passing?;
    let values = values(&mut machine, passing, moved)?;
    let text = &mut machine.text;
    let shared = text.word("mov.u32", &[&"rows"]);
    let counted = count(
        text,
        &machine.place.lane,
        machine.place.warp,
        layout,
        passing,
        shared,
    );
    publish(&mut machine, shared, counted.block);
    let used = put(&mut machine, shared, passing, &counted, moved, &values);
    let (text, parameters) = machine.done();
    Some(Generated {
        text: text.module(KERNEL, parameters.len(), THREADS, SCRATCH + used),
        parameters,
        tile: layout.tile(),
        nullable: vec![],
    })
}

/// Tiles are given out in order, so that those before one's own are under way.
fn next_tile(text: &mut Text) -> Word {
    let counts = text.long("ld.param.u64", &[&"[p1]"]);
    let counts = text.long("cvta.to.global.u64", &[&counts]);
    let shared = text.word("mov.u32", &[&"rows"]);
    let thread = text.word("mov.u32", &[&"%tid.x"]);
    let first = text.predicate("setp.eq.u32", &[&thread, &0]);
    let tile = text.new_word();
    text.line(format_args!(
        "@{first} atom.global.add.u32 {tile}, [{counts}], 1;"
    ));
    text.line(format_args!(
        "@{first} st.shared.u32 [{shared}+{TILE_AT}], {tile};"
    ));
    text.line("bar.sync 0;");
    text.word("ld.shared.u32", &[&format_args!("[{shared}+{TILE_AT}]")])
}

/// The values of the moved columns. Units without a row that passes are not loaded.
fn values(machine: &mut Machine<'_>, passing: Word, moved: &[Moved]) -> Option<Vec<Rows>> {
    let layout = machine.place.layout;
    let wanted: Vec<Predicate> = (0..layout.groups)
        .map(|group| {
            let of_group = [
                &passing as _,
                &(group * layout.unit) as _,
                &layout.unit as _,
            ];
            let some = machine.text.word("bfe.u32", &of_group);
            machine.text.predicate("setp.ne.u32", &[&some, &0])
        })
        .collect();
    let mut values = vec![];
    for (at, column) in moved.iter().enumerate() {
        values.push(match column.loaded.and_then(|at| machine.loaded(at)) {
            Some(register) => register.rows.clone(),
            None => {
                let from = machine.pointer(Parameter::Moved(at));
                load(
                    &mut machine.text,
                    &machine.place,
                    column.kind(),
                    from,
                    Some(&wanted),
                )
                .rows
            }
        });
    }
    Some(values)
}

/// How many rows pass.
struct Counted {
    /// Before each unit of the thread, in its block.
    before: Vec<Word>,
    /// Of the block.
    block: Word,
}

fn count(
    text: &mut Text,
    lane: &Word,
    warp: Word,
    layout: Layout,
    passing: Word,
    shared: Word,
) -> Counted {
    let Layout { unit, groups } = layout;
    let mut before = vec![];
    let mut of_warp = text.word("mov.u32", &[&0]);
    let groups: Vec<u32> = (0..groups).collect();
    // Four groups at once, a byte each: a group of a warp has at most 128 rows.
    for together in groups.chunks(4) {
        let mut own = text.word("mov.u32", &[&0]);
        for (group, shift) in together.iter().zip((0u32..).step_by(8)) {
            let mask = text.word("bfe.u32", &[&passing, &(group * unit), &unit]);
            let rows = text.word("popc.b32", &[&mask]);
            let rows = text.word("shl.b32", &[&rows, &shift]);
            own = text.word("add.u32", &[&own, &rows]);
        }
        let through = text.word("mov.u32", &[&own]);
        for lanes in [1, 2, 4, 8, 16] {
            let other = text.word("shfl.sync.up.b32", &[&through, &lanes, &0, &"0xffffffff"]);
            let has = text.predicate("setp.ge.u32", &[lane, &lanes]);
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
    let first = text.predicate("setp.eq.u32", &[lane, &0]);
    let slot = text.word("mad.lo.u32", &[&warp, &4, &shared]);
    text.line(format_args!("@{first} st.shared.u32 [{slot}], {of_warp};"));
    text.line("bar.sync 0;");
    let mut block = text.word("mov.u32", &[&0]);
    let earlier = text.word("mov.u32", &[&0]);
    for other in 0..WARPS {
        let rows = text.word(
            "ld.shared.u32",
            &[&format_args!("[{shared}+{}]", 4 * other)],
        );
        let is_earlier = text.predicate("setp.gt.u32", &[&warp, &other]);
        text.line(format_args!(
            "@{is_earlier} add.u32 {earlier}, {earlier}, {rows};"
        ));
        block = text.word("add.u32", &[&block, &rows]);
    }
    let before = before
        .iter()
        .map(|rows| text.word("add.u32", &[rows, &earlier]));
    Counted {
        before: before.collect(),
        block,
    }
}

/// A tile's word has the rows that it keeps in its lower half, and in the upper one 1; or 2 where these are all rows up to its end.
const ALONE: u64 = 1 << 32;
const THROUGH: u64 = 2 << 32;

/// Windows of a warp's lanes that it looks back at once. More of them take registers, and so blocks: four took a seventh longer.
const WINDOWS: u32 = 1;

/// A lane's tile in one of them.
struct Window {
    is_tile: Predicate,
    from: Long,
    word: Long,
}

/// The first warp says how many rows the tile keeps, and finds out how many those before it do. Others go on.
fn publish(machine: &mut Machine<'_>, shared: Word, block: Word) {
    let counts = machine.pointer(Parameter::Counts);
    let (lane, warp, left) = (machine.place.lane, machine.place.warp, machine.left);
    let rows = machine.place.rows;
    let tile_rows = machine.place.layout.tile();
    let text = &mut machine.text;
    if let Some(left) = left {
        let any = text.predicate("setp.ne.u32", &[&left, &0]);
        text.line(format_args!("@{any} st.global.u64 [{counts}+16], 1;"));
    }
    let tile = text.word("ld.shared.u32", &[&format_args!("[{shared}+{TILE_AT}]")]);
    let others = text.predicate("setp.ne.u32", &[&warp, &0]);
    text.line(format_args!("@{others} bra PUT;"));
    let first = text.predicate("setp.eq.u32", &[&lane, &0]);
    let words = text.long("add.s64", &[&counts, &(8 * HEADER)]);
    let own = address(text, words, tile, 8);
    let rows_of_block = text.long("cvt.u64.u32", &[&block]);
    let alone = text.long("or.b64", &[&rows_of_block, &ALONE]);
    text.line(format_args!(
        "@{first} st.relaxed.gpu.global.u64 [{own}], {alone};"
    ));

    // As many tiles as a warp has lanes, for each window, at once: tiles end faster than a word travels. The nearest is in
    // lane 0 of the first window; before the first tile there are no rows.
    let before = text.word("mov.u32", &[&0]);
    let next = text.word("mov.u32", &[&tile]);
    text.line("LOOK:");
    let windows: Vec<Window> = (0..WINDOWS)
        .map(|window| {
            let at = text.word("sub.u32", &[&next, &(1 + 32 * window)]);
            let at = text.word("sub.u32", &[&at, &lane]);
            let is_tile = text.predicate("setp.ge.s32", &[&at, &0]);
            let at = text.word("max.s32", &[&at, &0]);
            let from = address(text, words, at, 8);
            let word = text.long("mov.u64", &[&THROUGH]);
            Window {
                is_tile,
                from,
                word,
            }
        })
        .collect();
    text.line("SPIN:");
    for Window {
        is_tile,
        from,
        word,
    } in &windows
    {
        text.line(format_args!(
            "@{is_tile} ld.relaxed.gpu.global.u64 {word}, [{from}];"
        ));
    }
    let mut least = windows[0].word;
    for window in &windows[1..] {
        least = text.long("min.u64", &[&least, &window.word]);
    }
    let absent = text.predicate("setp.eq.u64", &[&least, &0]);
    let some_absent = text.predicate("vote.sync.any.pred", &[&absent, &"0xffffffff"]);
    text.line(format_args!("@{some_absent} bra SPIN;"));
    let mut sum = text.word("mov.u32", &[&0]);
    let mut known = text.word("mov.u32", &[&0]);
    for Window { word, .. } in &windows {
        let through = text.predicate("setp.ge.u64", &[word, &THROUGH]);
        let in_window = text.word("vote.sync.ballot.b32", &[&through, &"0xffffffff"]);
        let reversed = text.word("brev.b32", &[&in_window]);
        let nearest = text.word("clz.b32", &[&reversed]);
        let unknown = text.predicate("setp.eq.u32", &[&known, &0]);
        let counts_it = text.predicate("setp.le.and.u32", &[&lane, &nearest, &unknown]);
        let rows_of_tile = text.word("cvt.u32.u64", &[word]);
        let counted = text.word("selp.b32", &[&rows_of_tile, &0, &counts_it]);
        sum = text.word("add.u32", &[&sum, &counted]);
        known = text.word("or.b32", &[&known, &in_window]);
    }
    for lanes in [16, 8, 4, 2, 1] {
        let other = text.word("shfl.sync.bfly.b32", &[&sum, &lanes, &31, &"0xffffffff"]);
        sum = text.word("add.u32", &[&sum, &other]);
    }
    text.set("add.u32", before, &[&before, &sum]);
    text.set("sub.u32", next, &[&next, &(32 * WINDOWS)]);
    let unknown = text.predicate("setp.eq.u32", &[&known, &0]);
    text.line(format_args!("@{unknown} bra LOOK;"));

    let end = text.word("add.u32", &[&before, &block]);
    let end = text.long("cvt.u64.u32", &[&end]);
    let word = text.long("or.b64", &[&end, &THROUGH]);
    text.line(format_args!(
        "@{first} st.relaxed.gpu.global.u64 [{own}], {word};"
    ));
    text.line(format_args!(
        "@{first} st.shared.u32 [{shared}+{BEFORE_AT}], {before};"
    ));
    let next_tile = text.word("add.u32", &[&tile, &1]);
    let next_row = text.word("mul.lo.u32", &[&next_tile, &tile_rows]);
    let is_last = text.predicate("setp.ge.and.u32", &[&next_row, &rows, &first]);
    text.line(format_args!(
        "@{is_last} st.global.u64 [{counts}+8], {end};"
    ));
    text.line("PUT:");
}

/// Puts the rows of as many columns as shared memory holds side by side there, and from there to their places; then the next columns'.
/// Returns how many bytes of it rows take.
fn put(
    machine: &mut Machine<'_>,
    shared: Word,
    passing: Word,
    counted: &Counted,
    moved: &[Moved],
    values: &[Rows],
) -> u32 {
    let layout = machine.place.layout;
    let (lane, warp) = (machine.place.lane, machine.place.warp);
    let text = &mut machine.text;
    let thread = text.word("mad.lo.u32", &[&warp, &32, &lane]);
    // Where each row goes, and whether it does.
    let mut places: Vec<(Word, Predicate)> = vec![];
    for k in 0..layout.rows() {
        let place = match k % layout.unit {
            0 => counted.before[(k / layout.unit) as usize],
            _ => {
                let bit = text.word("bfe.u32", &[&passing, &(k - 1), &1]);
                text.word("add.u32", &[&places[k as usize - 1].0, &bit])
            }
        };
        places.push((place, text.bit(passing, k)));
    }
    let mut columns: Vec<usize> = (0..moved.len()).collect();
    let mut used = 0;
    while !columns.is_empty() {
        let mut room = SHARED_ROWS;
        let mut together = vec![];
        columns.retain(|column| {
            let bytes = layout.tile() * moved[*column].bytes;
            if bytes > room {
                return true;
            }
            together.push((*column, SCRATCH + SHARED_ROWS - room));
            // The next column begins at a whole vector: tiles have a multiple of 16 rows.
            room -= bytes;
            false
        });
        let text = &mut machine.text;
        if used > 0 {
            text.line("bar.sync 0;");
        }
        used = used.max(SHARED_ROWS - room);
        for (column, from) in &together {
            to_shared(
                text,
                shared,
                *from,
                &places,
                moved[*column].bytes,
                &values[*column],
            );
        }
        text.line("bar.sync 0;");
        let before = text.word("ld.shared.u32", &[&format_args!("[{shared}+{BEFORE_AT}]")]);
        for (column, from) in &together {
            let bytes = moved[*column].bytes;
            let to = machine.pointer(Parameter::Kept(*column));
            let text = &mut machine.text;
            let to = address(text, to, before, bytes);
            let at = text.word("mov.u32", &[&thread]);
            let done = text.predicate("setp.ge.u32", &[&at, &counted.block]);
            text.line(format_args!("@{done} bra KEPT{column};"));
            text.line(format_args!("KEEP{column}:"));
            let source = text.word("mad.lo.u32", &[&at, &bytes, &shared]);
            let target = address(text, to, at, bytes);
            copy(text, bytes, source, *from, target);
            text.set("add.u32", at, &[&at, &THREADS]);
            let more = text.predicate("setp.lt.u32", &[&at, &counted.block]);
            text.line(format_args!("@{more} bra KEEP{column};"));
            text.line(format_args!("KEPT{column}:"));
        }
    }
    used
}

fn to_shared(
    text: &mut Text,
    shared: Word,
    from: u32,
    places: &[(Word, Predicate)],
    bytes: u32,
    values: &Rows,
) {
    for (k, (place, goes)) in places.iter().enumerate() {
        let at = text.word("mad.lo.u32", &[place, &bytes, &shared]);
        match values {
            Rows::Bools(_) => {}
            Rows::Words(words) => text.line(format_args!(
                "@{goes} st.shared.u{} [{at}+{from}], {};",
                8 * bytes,
                words[k]
            )),
            Rows::Longs(longs) => {
                text.line(format_args!(
                    "@{goes} st.shared.u64 [{at}+{from}], {};",
                    longs[k]
                ));
            }
            Rows::Decimals(halves) => {
                let [lower, upper] = halves[k];
                text.line(format_args!(
                    "@{goes} st.shared.v2.u64 [{at}+{from}], {{{lower}, {upper}}};"
                ));
            }
        }
    }
}

fn copy(text: &mut Text, bytes: u32, source: Word, from: u32, target: impl std::fmt::Display) {
    match bytes {
        16 => {
            let [lower, upper] = [text.new_long(), text.new_long()];
            text.line(format_args!(
                "ld.shared.v2.u64 {{{lower}, {upper}}}, [{source}+{from}];"
            ));
            text.line(format_args!(
                "st.global.v2.u64 [{target}], {{{lower}, {upper}}};"
            ));
        }
        8 => {
            let value = text.long("ld.shared.u64", &[&format_args!("[{source}+{from}]")]);
            text.line(format_args!("st.global.u64 [{target}], {value};"));
        }
        _ => {
            let name = format!("ld.shared.u{}", 8 * bytes);
            let value = text.word(&name, &[&format_args!("[{source}+{from}]")]);
            text.line(format_args!(
                "st.global.u{} [{target}], {value};",
                8 * bytes
            ));
        }
    }
}
