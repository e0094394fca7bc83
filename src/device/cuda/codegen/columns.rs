//! Loads and stores of whole units.
//!
//! All memory is allocated in whole vectors, so a unit that begins before the end may be loaded and stored whole.

use crate::device::cuda::codegen::layout::{Place, address};
use crate::device::cuda::codegen::ptx::{Long, Predicate, Text, Word};
use crate::device::cuda::codegen::registers::{Register, Rows, bits, bytes, is_signed};
use crate::device::cuda::runtime::kernel_cache::generated::Layout;
use crate::ir::program::Kind;

/// The registers that receive a thread's units of a column.
#[derive(Debug, Clone)]
pub(crate) enum Units {
    /// For Booleans and bitmaps: the byte that contains each unit.
    Bits(Vec<Word>),
    /// Values of at most 32 bits: the words of each unit, with the values packed.
    Words(Kind, Vec<Vec<Word>>),
    /// The 64-bit words of each unit.
    Longs(Kind, Vec<Vec<Long>>),
}

impl Units {
    pub(crate) fn new(text: &mut Text, layout: Layout, kind: Kind) -> Self {
        let bytes = layout.unit * bytes(kind);
        let words = |text: &mut Text| (0..bytes.div_ceil(4)).map(|_| text.new_word()).collect();
        let longs = |text: &mut Text| (0..bytes / 8).map(|_| text.new_long()).collect();
        let groups = 0..layout.groups;
        match kind {
            Kind::Bool => Self::Bits(groups.map(|_| text.new_word()).collect()),
            kind if bits(kind) <= 32 => Self::Words(kind, groups.map(|_| words(text)).collect()),
            _ => Self::Longs(kind, groups.map(|_| longs(text)).collect()),
        }
    }

    /// Loads the units whose predicate in `wanted` holds, or all units without `wanted`.
    pub(crate) fn load(
        &self,
        text: &mut Text,
        place: &Place,
        from: Long,
        wanted: Option<&[Predicate]>,
    ) {
        for (group, at) in place.read.iter().enumerate() {
            let guard = wanted.map_or(String::new(), |wanted| format!("@{} ", wanted[group]));
            match self {
                Self::Bits(units) => {
                    let byte = text.word("shr.u32", &[at, &3]);
                    let address = address(text, from, byte, 1);
                    text.line(format_args!(
                        "{guard}ld.global.nc.u8 {}, [{address}];",
                        units[group]
                    ));
                }
                Self::Words(kind, units) => {
                    let address = address(text, from, *at, bits(*kind) / 8);
                    let bytes = place.layout.unit * bits(*kind) / 8;
                    let to = vector(&units[group]);
                    text.line(match (bytes, units[group].len()) {
                        (1 | 2, _) => {
                            format!("{guard}ld.global.nc.u{} {to}, [{address}];", 8 * bytes)
                        }
                        (_, 1) => format!("{guard}ld.global.nc.u32 {to}, [{address}];"),
                        (_, words) => {
                            format!("{guard}ld.global.nc.v{words}.u32 {{{to}}}, [{address}];")
                        }
                    });
                }
                Self::Longs(kind, units) => {
                    let address = address(text, from, *at, bytes(*kind));
                    for (pair, at) in units[group].chunks(2).zip((0..).step_by(16)) {
                        let to = vector(pair);
                        text.line(match pair.len() {
                            1 => format!("{guard}ld.global.nc.u64 {to}, [{address}+{at}];"),
                            _ => format!("{guard}ld.global.nc.v2.u64 {{{to}}}, [{address}+{at}];"),
                        });
                    }
                }
            }
        }
    }

    /// The value of each row, after the load.
    pub(crate) fn rows(&self, text: &mut Text, place: &Place) -> Rows {
        match self {
            Self::Bits(units) => Rows::Bools(bits_of(text, place, units)),
            Self::Words(kind, units) => {
                let units = units.iter();
                Rows::Words(
                    units
                        .flat_map(|unit| words_of(text, place.layout.unit, *kind, unit))
                        .collect(),
                )
            }
            Self::Longs(Kind::Decimal, units) => {
                let halves = units.as_slice().concat();
                Rows::Decimals(halves.chunks(2).map(|half| [half[0], half[1]]).collect())
            }
            Self::Longs(_, units) => Rows::Longs(units.concat()),
        }
    }
}

fn vector(registers: &[impl ToString]) -> String {
    let names: Vec<String> = registers.iter().map(ToString::to_string).collect();
    names.join(", ")
}

/// A bit for each row.
fn bits_of(text: &mut Text, place: &Place, bytes: &[Word]) -> Word {
    let unit = place.layout.unit;
    let mut bits = None;
    for ((group, at), byte) in (0..).zip(&place.read).zip(bytes) {
        let within = text.word("and.b32", &[at, &7]);
        let mask = text.word("shr.u32", &[byte, &within]);
        let mask = text.word("and.b32", &[&mask, &((1u32 << unit) - 1)]);
        let mask = text.word("shl.b32", &[&mask, &(group * unit)]);
        bits = text.or(bits, Some(mask));
    }
    // No rows have no bits.
    bits.unwrap_or_else(|| text.word("mov.u32", &[&0]))
}

/// The values of a unit, of at most 32 bits each.
fn words_of(text: &mut Text, unit: u32, kind: Kind, vector: &[Word]) -> Vec<Word> {
    let width = bits(kind) / 8;
    let value = |k: u32| {
        let word = vector[(k * width / 4) as usize];
        let shift = k * width % 4 * 8;
        match is_signed(kind) {
            _ if width == 4 => word,
            true => text.word("bfe.s32", &[&word, &shift, &(8 * width)]),
            false => text.word("bfe.u32", &[&word, &shift, &(8 * width)]),
        }
    };
    (0..unit).map(value).collect()
}

/// The stores of a thread: the units that begin before the end.
#[derive(Debug)]
pub(crate) struct Stores {
    inside: Vec<Predicate>,
    /// For each unit, whether this lane writes the byte that holds the bits of its unit and of its neighbours' units.
    byte: Vec<Predicate>,
}

impl Stores {
    pub(crate) fn new(text: &mut Text, place: &Place) -> Self {
        let inside = place.first.iter();
        let inside = inside.map(|first| text.predicate("setp.lt.u32", &[first, &place.rows]));
        let inside = inside.collect();
        // Bitmaps have whole words, whose bits past the end are 0.
        let end = text.word("add.u32", &[&place.rows, &31]);
        let end = text.word("and.b32", &[&end, &!31u32]);
        let among = text.word("and.b32", &[&place.lane, &(8 / place.layout.unit - 1)]);
        let first = text.predicate("setp.eq.u32", &[&among, &0]);
        let byte = place.first.iter();
        let byte = byte.map(|at| text.predicate("setp.lt.and.u32", &[at, &end, &first]));
        Self {
            byte: byte.collect(),
            inside,
        }
    }

    /// Stores a bitmap of the bits in `mask`.
    pub(crate) fn bits(&self, text: &mut Text, place: &Place, mask: Word, to: Long) {
        let unit = place.layout.unit;
        for (group, (at, stores)) in (0..).zip(place.first.iter().zip(&self.byte)) {
            let mut byte = text.word("bfe.u32", &[&mask, &(group * unit), &unit]);
            let mut lanes = 1;
            while unit * lanes < 8 {
                let other = text.word("shfl.sync.down.b32", &[&byte, &lanes, &31, &"0xffffffff"]);
                let other = text.word("shl.b32", &[&other, &(unit * lanes)]);
                byte = text.word("or.b32", &[&byte, &other]);
                lanes *= 2;
            }
            let at = text.word("shr.u32", &[at, &3]);
            let address = address(text, to, at, 1);
            text.line(format_args!("@{stores} st.global.u8 [{address}], {byte};"));
        }
    }

    /// Stores the values of all rows, whatever their states. Booleans are stored as bits, not here.
    pub(crate) fn values(&self, text: &mut Text, place: &Place, register: &Register, to: Long) {
        let unit = place.layout.unit as usize;
        let width = bytes(register.kind);
        for (group, (at, stores)) in place.first.iter().zip(&self.inside).enumerate() {
            let address = address(text, to, *at, width);
            let rows = group * unit..(group + 1) * unit;
            match &register.rows {
                Rows::Bools(_) => {}
                Rows::Words(words) => store_words(text, *stores, address, &words[rows], width),
                Rows::Longs(longs) => store_longs(text, *stores, address, &longs[rows]),
                Rows::Decimals(halves) => {
                    store_longs(text, *stores, address, halves[rows].as_flattened());
                }
            }
        }
    }
}

fn store_longs(text: &mut Text, stores: Predicate, address: Long, longs: &[Long]) {
    for (pair, at) in longs.chunks(2).zip((0..).step_by(16)) {
        match pair {
            [one, other] => text.line(format_args!(
                "@{stores} st.global.v2.u64 [{address}+{at}], {{{one}, {other}}};"
            )),
            _ => text.line(format_args!(
                "@{stores} st.global.u64 [{address}+{at}], {};",
                pair[0]
            )),
        }
    }
}

fn store_words(text: &mut Text, stores: Predicate, address: Long, words: &[Word], width: u32) {
    let in_a_word = (4 / width) as usize;
    let mut vector = vec![];
    for together in words.chunks(in_a_word) {
        let mut word = together[0];
        for (value, at) in together[1..]
            .iter()
            .zip((8 * width..).step_by(8 * width as usize))
        {
            word = text.word("bfi.b32", &[value, &word, &at, &(8 * width)]);
        }
        vector.push(word.to_string());
    }
    let names = vector.join(", ");
    match (words.len() as u32 * width, vector.len()) {
        (narrow @ (1 | 2), _) => {
            text.line(format_args!(
                "@{stores} st.global.u{} [{address}], {names};",
                8 * narrow
            ));
        }
        (_, 1) => text.line(format_args!(
            "@{stores} st.global.u32 [{address}], {names};"
        )),
        (_, words) => {
            text.line(format_args!(
                "@{stores} st.global.v{words}.u32 [{address}], {{{names}}};"
            ));
        }
    }
}
