//! Compacts the kept rows of a tile into shared memory, and writes them from there to their output positions.

use crate::device::cuda::codegen::columns::Units;
use crate::device::cuda::codegen::filter::compaction::Places;
use crate::device::cuda::codegen::filter::tiles::Tiles;
use crate::device::cuda::codegen::layout::address;
use crate::device::cuda::codegen::ptx::{Long, Predicate, Text, Word};
use crate::device::cuda::codegen::registers::Rows;
use crate::device::cuda::codegen::translate::Machine;
use crate::device::cuda::runtime::kernel_cache::generated::Parameter;

/// Values that a thread writes in one step.
const AT_ONCE: u32 = 4;

/// A column that is moved.
pub(crate) struct Column {
    /// Its number among the moved columns.
    pub at: usize,
    pub bytes: u32,
    /// The offset of its rows in a half of shared memory.
    pub from: u32,
    pub values: Values,
}

/// The values of the thread's rows.
pub(crate) enum Values {
    Loaded(Rows),
    /// Loads in flight.
    InFlight(Units),
}

impl Column {
    /// Whether its loads may still be in flight.
    pub(crate) fn arrives(&self) -> bool {
        matches!(self.values, Values::InFlight(_))
    }
}

/// Compacts the passing rows of the current tile into shared memory.
pub(crate) fn stage(machine: &mut Machine<'_>, tiles: &Tiles, places: &Places, columns: &[Column]) {
    if columns.is_empty() {
        return;
    }
    let Machine { text, place, .. } = machine;
    let places = places.of_rows(text, place.layout.unit);
    for Column {
        bytes,
        from,
        values,
        ..
    } in columns
    {
        let values = match values {
            Values::Loaded(rows) => rows.clone(),
            Values::InFlight(units) => units.rows(text, place),
        };
        for (k, (place, passes)) in places.iter().enumerate() {
            let to = text.word("mad.lo.u32", &[place, bytes, &tiles.half]);
            match &values {
                // Never moved: a column of bits has no bytes.
                Rows::Bools(_) => {}
                Rows::Words(words) => text.line(format_args!(
                    "@{passes} st.shared.u{} [{to}+{from}], {};",
                    8 * bytes,
                    words[k]
                )),
                Rows::Longs(longs) => text.line(format_args!(
                    "@{passes} st.shared.u64 [{to}+{from}], {};",
                    longs[k]
                )),
                Rows::Decimals(halves) => {
                    let [lower, upper] = halves[k];
                    text.line(format_args!(
                        "@{passes} st.shared.v2.u64 [{to}+{from}], {{{lower}, {upper}}};"
                    ));
                }
            }
        }
    }
}

/// Writes the rows of the previous tile to their positions, which begin after `before` rows. Warps write whole lines:
/// 32 values from a multiple of 32 on.
pub(crate) fn write(machine: &mut Machine<'_>, tiles: &Tiles, before: Word, columns: &[Column]) {
    let threads = machine.place.layout.threads;
    let (lane, warp) = (machine.place.lane, machine.place.warp);
    for Column {
        at: column,
        bytes,
        from,
        ..
    } in columns
    {
        let to = machine.pointer(Parameter::Kept(*column));
        let text = &mut machine.text;
        let thread = text.word("mad.lo.u32", &[&warp, &32, &lane]);
        let out = text.word("and.b32", &[&before, &31]);
        // The thread's first row of the tile; negative if it belongs to the tile before.
        let row = text.word("sub.u32", &[&thread, &out]);
        let source = text.word("mad.lo.u32", &[&row, bytes, &tiles.earlier_half]);
        let aligned = text.word("sub.u32", &[&before, &out]);
        let place = text.word("add.u32", &[&aligned, &thread]);
        let target = address(text, to, place, *bytes);
        // The same for all lanes, so that the warp does not diverge.
        let end = text.word("add.u32", &[&tiles.earlier_rows, &out]);
        let done = text.word("mul.lo.u32", &[&warp, &32]);
        let nothing = text.predicate("setp.ge.u32", &[&done, &end]);
        text.line(format_args!("@{nothing} bra KEPT{column};"));
        text.line(format_args!("KEEP{column}:"));
        let mut values = vec![];
        for k in 0..AT_ONCE {
            let row = text.word("add.u32", &[&row, &(k * threads)]);
            let is_row = text.predicate("setp.lt.u32", &[&row, &tiles.earlier_rows]);
            let source = format!("[{source}+{}]", from + k * threads * bytes);
            values.push((is_row, Value::read(text, is_row, *bytes, &source)));
        }
        for (k, (is_row, value)) in (0..).zip(values) {
            let target = format!("[{target}+{}]", k * threads * bytes);
            value.write(text, is_row, *bytes, &target);
        }
        let step = AT_ONCE * threads;
        text.set("add.u32", row, &[&row, &step]);
        text.set("add.u32", source, &[&source, &(step * bytes)]);
        text.set("add.s64", target, &[&target, &(step * bytes)]);
        text.set("add.u32", done, &[&done, &step]);
        let more = text.predicate("setp.lt.u32", &[&done, &end]);
        text.line(format_args!("@{more} bra KEEP{column};"));
        text.line(format_args!("KEPT{column}:"));
    }
}

/// A value between shared memory and the output.
enum Value {
    Word(Word),
    Long(Long),
    Decimal([Long; 2]),
}

impl Value {
    fn read(text: &mut Text, is_row: Predicate, bytes: u32, source: &str) -> Self {
        match bytes {
            16 => {
                let [lower, upper] = [text.new_long(), text.new_long()];
                text.line(format_args!(
                    "@{is_row} ld.shared.v2.u64 {{{lower}, {upper}}}, {source};"
                ));
                Self::Decimal([lower, upper])
            }
            8 => {
                let long = text.new_long();
                text.line(format_args!("@{is_row} ld.shared.u64 {long}, {source};"));
                Self::Long(long)
            }
            _ => {
                let word = text.new_word();
                let bits = 8 * bytes;
                text.line(format_args!(
                    "@{is_row} ld.shared.u{bits} {word}, {source};"
                ));
                Self::Word(word)
            }
        }
    }

    fn write(&self, text: &mut Text, is_row: Predicate, bytes: u32, target: &str) {
        let bits = 8 * bytes;
        text.line(match self {
            Self::Word(word) => format!("@{is_row} st.global.u{bits} {target}, {word};"),
            Self::Long(long) => format!("@{is_row} st.global.u64 {target}, {long};"),
            Self::Decimal([lower, upper]) => {
                format!("@{is_row} st.global.v2.u64 {target}, {{{lower}, {upper}}};")
            }
        });
    }
}
