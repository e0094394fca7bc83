//! Loads and stores of whole units.
//!
//! Every memory is allocated in whole vectors, so a unit that begins below the end may be loaded and stored whole.

use super::layout::{Place, address};
use super::register::{Register, Rows, bytes, is_signed};
use super::text::{Long, Predicate, Text, Word};
use crate::spec::{Kind, RowKind};

/// The bits of a column's or bitmap's rows.
pub(super) fn load_bits(text: &mut Text, place: &Place, from: Long) -> Word {
    let unit = place.layout.unit;
    let mut bits = None;
    for (group, at) in (0..).zip(&place.read) {
        let byte = text.word("shr.u32", &[at, &3]);
        let address = address(text, from, byte, 1);
        let byte = text.word("ld.global.nc.u8", &[&format_args!("[{address}]")]);
        let within = text.word("and.b32", &[at, &7]);
        let mask = text.word("shr.u32", &[&byte, &within]);
        let mask = text.word("and.b32", &[&mask, &((1u32 << unit) - 1)]);
        let mask = text.word("shl.b32", &[&mask, &(group * unit)]);
        bits = text.or(bits, Some(mask));
    }
    bits.unwrap_or_else(|| unreachable!("a thread has a group"))
}

/// A column without states. Units are loaded where `wanted` has a predicate that holds, or all where there are none.
pub(super) fn load(
    text: &mut Text,
    place: &Place,
    kind: RowKind,
    from: Long,
    wanted: Option<&[Predicate]>,
) -> Register {
    let rows = match kind {
        RowKind::Plain(Kind::Bool) => Rows::Bools(load_bits(text, place, from)),
        RowKind::Plain(kind) if bytes(RowKind::Plain(kind)) == 8 => {
            Rows::Longs(load_longs(text, place, from, 1, wanted))
        }
        RowKind::Plain(kind) => Rows::Words(load_words(text, place, kind, from, wanted)),
        RowKind::Decimal => {
            let halves = load_longs(text, place, from, 2, wanted);
            Rows::Decimals(halves.chunks(2).map(|half| [half[0], half[1]]).collect())
        }
    };
    Register {
        kind,
        rows,
        null: None,
        host: None,
    }
}

fn guard(wanted: Option<&[Predicate]>, group: usize) -> String {
    wanted.map_or(String::new(), |wanted| format!("@{} ", wanted[group]))
}

/// `of_row` words of 64 bits a row.
fn load_longs(
    text: &mut Text,
    place: &Place,
    from: Long,
    of_row: u32,
    wanted: Option<&[Predicate]>,
) -> Vec<Long> {
    let mut loaded = vec![];
    for (group, at) in place.read.iter().enumerate() {
        let guard = guard(wanted, group);
        let address = address(text, from, *at, 8 * of_row);
        let some: Vec<Long> = (0..place.layout.unit * of_row)
            .map(|_| text.new_long())
            .collect();
        for (pair, at) in some.chunks(2).zip((0..).step_by(16)) {
            match pair {
                [one, other] => text.line(format_args!(
                    "{guard}ld.global.nc.v2.u64 {{{one}, {other}}}, [{address}+{at}];"
                )),
                _ => text.line(format_args!(
                    "{guard}ld.global.nc.u64 {}, [{address}+{at}];",
                    pair[0]
                )),
            }
        }
        loaded.extend(some);
    }
    loaded
}

/// Values of at most 32 bits.
fn load_words(
    text: &mut Text,
    place: &Place,
    kind: Kind,
    from: Long,
    wanted: Option<&[Predicate]>,
) -> Vec<Word> {
    let (unit, width) = (place.layout.unit, bytes(RowKind::Plain(kind)));
    let mut loaded = vec![];
    for (group, at) in place.read.iter().enumerate() {
        let guard = guard(wanted, group);
        let address = address(text, from, *at, width);
        let vector: Vec<Word> = (0..(unit * width).div_ceil(4))
            .map(|_| text.new_word())
            .collect();
        let names: Vec<String> = vector.iter().map(Word::to_string).collect();
        let names = names.join(", ");
        match (unit * width, vector.len()) {
            (narrow @ (1 | 2), _) => {
                text.line(format_args!(
                    "{guard}ld.global.nc.u{} {names}, [{address}];",
                    8 * narrow
                ));
            }
            (_, 1) => text.line(format_args!(
                "{guard}ld.global.nc.u32 {names}, [{address}];"
            )),
            (_, words) => {
                text.line(format_args!(
                    "{guard}ld.global.nc.v{words}.u32 {{{names}}}, [{address}];"
                ));
            }
        }
        for k in 0..unit {
            let word = vector[(k * width / 4) as usize];
            let shift = k * width % 4 * 8;
            loaded.push(match is_signed(kind) {
                _ if width == 4 => word,
                true => text.word("bfe.s32", &[&word, &shift, &(8 * width)]),
                false => text.word("bfe.u32", &[&word, &shift, &(8 * width)]),
            });
        }
    }
    loaded
}

/// Where a thread's stores go: units that begin below the end.
#[derive(Debug)]
pub(super) struct Stores {
    inside: Vec<Predicate>,
    /// Of each unit, whether this lane writes the byte that the bits of it and of its neighbours are.
    byte: Vec<Predicate>,
}

impl Stores {
    pub(super) fn new(text: &mut Text, place: &Place) -> Self {
        let inside = place.first.iter();
        let inside = inside.map(|first| text.predicate("setp.lt.u32", &[first, &place.rows]));
        let inside = inside.collect();
        // Bitmaps are in whole words, whose bits past the end are 0.
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

    /// A bitmap of the bits of rows that are `inside`.
    pub(super) fn bits(&self, text: &mut Text, place: &Place, mask: Word, to: Long) {
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

    /// The values of all rows, whatever their states; not those of Booleans.
    pub(super) fn values(&self, text: &mut Text, place: &Place, register: &Register, to: Long) {
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
