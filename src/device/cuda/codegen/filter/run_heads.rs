//! The rows that begin a run of equal values, and whether values ascend, so that each value has one run.
//!
//! The row before a thread's first row of a group belongs to the previous lane, or to the last lane and the previous
//! group, as the groups of a warp are consecutive. The value before the warp's first row is loaded separately, one turn
//! ahead, as the rows are.

use std::fmt::Display;

use crate::device::cuda::codegen::layout::{Place, address};
use crate::device::cuda::codegen::ptx::{Long, Operand, Predicate, Text, Word};
use crate::device::cuda::codegen::registers::{Rows, bits, is_signed};
use crate::device::cuda::codegen::row_masks::Mask;
use crate::device::cuda::codegen::translate::Machine;
use crate::device::cuda::runtime::kernel_cache::generated::Parameter;

/// Values of 32 or 64 bits.
trait Value: Copy + Display {
    const BITS: u32;

    fn set(text: &mut Text, name: &str, operands: &[Operand<'_>]) -> Self;

    /// The value of lane `lane`.
    fn of_lane_before(self, text: &mut Text, lane: Word) -> Self;
}

impl Value for Word {
    const BITS: u32 = 32;

    fn set(text: &mut Text, name: &str, operands: &[Operand<'_>]) -> Self {
        text.word(name, operands)
    }

    fn of_lane_before(self, text: &mut Text, lane: Word) -> Self {
        text.word("shfl.sync.idx.b32", &[&self, &lane, &31, &"0xffffffff"])
    }
}

impl Value for Long {
    const BITS: u32 = 64;

    fn set(text: &mut Text, name: &str, operands: &[Operand<'_>]) -> Self {
        text.long(name, operands)
    }

    fn of_lane_before(self, text: &mut Text, lane: Word) -> Self {
        let [lower, upper] = [text.new_word(), text.new_word()];
        text.line(format_args!("mov.b64 {{{lower}, {upper}}}, {self};"));
        let [lower, upper] = [lower, upper].map(|half| half.of_lane_before(text, lane));
        text.long("mov.b64", &[&format_args!("{{{lower}, {upper}}}")])
    }
}

/// The value before a warp's rows.
enum Before {
    Word(Word),
    Long(Long),
}

/// The test for run heads, on the program's first column.
pub(crate) struct Runs {
    values: Long,
    before: Before,
    is_signed: bool,
}

impl Runs {
    /// For the first column of a program: integers of 32 or 64 bits without NULLs.
    pub(crate) fn new(machine: &mut Machine<'_>) -> Option<Self> {
        let kind = machine.kind(0)?;
        let values = machine.pointer(Parameter::Column(0));
        let text = &mut machine.text;
        let before = match bits(kind) {
            Word::BITS => Before::Word(text.new_word()),
            Long::BITS => Before::Long(text.new_long()),
            _ => return None,
        };
        Some(Self {
            values,
            before,
            is_signed: is_signed(kind),
        })
    }

    /// Loads the value before the rows at `place`.
    pub(crate) fn load(&self, text: &mut Text, place: &Place) {
        let at = text.word("sub.u32", &[&place.first[0], &1]);
        // The very first row has no previous one; `at` is the greatest number then.
        let in_range = text.predicate("setp.lt.u32", &[&at, &place.rows]);
        let of_first_lane = [&place.lane as _, &0 as _, &in_range as _];
        let in_range = text.predicate("setp.eq.and.u32", &of_first_lane);
        match &self.before {
            Before::Word(before) => load(text, in_range, *before, (self.values, at)),
            Before::Long(before) => load(text, in_range, *before, (self.values, at)),
        }
    }

    /// The rows that begin runs, and those that are less than the previous row; including rows past the end.
    pub(crate) fn passing(&self, machine: &mut Machine<'_>) -> Option<(Word, Mask)> {
        let rows = machine.loaded(0)?.rows.clone();
        let Machine { text, place, .. } = machine;
        let (begins, descends) = match (&rows, &self.before) {
            (Rows::Words(values), Before::Word(before)) => {
                self.begins(text, place, values, *before)
            }
            (Rows::Longs(values), Before::Long(before)) => {
                self.begins(text, place, values, *before)
            }
            _ => return None,
        };
        Some((begins, Some(descends)))
    }

    fn begins<V: Value>(
        &self,
        text: &mut Text,
        place: &Place,
        values: &[V],
        before: V,
    ) -> (Word, Word) {
        let selected = format!("selp.b{}", V::BITS);
        let sign = if self.is_signed { 's' } else { 'u' };
        let less = format!("setp.lt.{sign}{}", V::BITS);
        let differs = format!("setp.ne.u{}", V::BITS);
        let is_first_lane = text.predicate("setp.eq.u32", &[&place.lane, &0]);
        let is_last_lane = text.predicate("setp.eq.u32", &[&place.lane, &31]);
        let is_first_row = text.predicate("setp.eq.u32", &[&place.first[0], &0]);
        let lane_before = text.word("sub.u32", &[&place.lane, &1]);
        let lane_before = text.word("and.b32", &[&lane_before, &31]);
        let mut begins = vec![];
        let mut descends = vec![];
        let mut last_before: Option<V> = None;
        for group in values.chunks(place.layout.unit as usize) {
            let last = group[group.len() - 1];
            let mut earlier = match last_before {
                None => {
                    let of_lane = last.of_lane_before(text, lane_before);
                    let of_warp = V::set(text, &selected, &[&before, &of_lane, &is_first_lane]);
                    // The very first row is compared with itself.
                    V::set(text, &selected, &[&group[0], &of_warp, &is_first_row])
                }
                Some(of_group) => {
                    let given = V::set(text, &selected, &[&of_group, &last, &is_last_lane]);
                    given.of_lane_before(text, lane_before)
                }
            };
            for value in group {
                begins.push(text.predicate(&differs, &[value, &earlier]));
                descends.push(text.predicate(&less, &[value, &earlier]));
                earlier = *value;
            }
            last_before = Some(last);
        }
        let first = text.word("selp.b32", &[&1, &0, &is_first_row]);
        let begins = text.mask(&begins);
        let begins = text.word("or.b32", &[&begins, &first]);
        (begins, text.mask(&descends))
    }
}

fn load<V: Value>(text: &mut Text, in_range: Predicate, to: V, (from, at): (Long, Word)) {
    let from = address(text, from, at, V::BITS / 8);
    let bits = V::BITS;
    text.line(format_args!(
        "@{in_range} ld.global.nc.u{bits} {to}, [{from}];"
    ));
}
