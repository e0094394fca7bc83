//! Rows that pass because the bit of their key is set, or not set. Counterpart of `key_bits_test*` in
//! `kernels/semi/key_bits.cu`.

use crate::device::cuda::codegen::layout::address;
use crate::device::cuda::codegen::ptx::{Predicate, Text, Word};
use crate::device::cuda::codegen::registers::{Register, Rows};
use crate::device::cuda::codegen::translate::Machine;
use crate::device::cuda::runtime::kernel_cache::form::KeyTest;
use crate::device::cuda::runtime::kernel_cache::generated::Parameter;

/// Bytes of registers for a row: the number of its bit, and a word of the bitmap.
pub(crate) const BYTES: u32 = 8;

/// The number of a row's bit, or one digit of it, and whether it is in the range; `None` if it always is.
struct Digit {
    digit: Word,
    in_range: Option<Predicate>,
}

impl KeyTest {
    /// The rows that pass, including rows past the end. Each loaded column is a digit of the bit's number.
    pub(crate) fn passing(self, machine: &mut Machine<'_>, columns: usize) -> Option<Word> {
        let bits = machine.pointer(Parameter::Bits);
        let mut places: Option<Vec<Digit>> = None;
        for at in 0..columns {
            let digits = self.digits(machine, at)?;
            let Some(places) = &mut places else {
                places = Some(digits);
                continue;
            };
            let stride = parameter(machine, Parameter::Stride(at));
            let text = &mut machine.text;
            for (place, digit) in places.iter_mut().zip(digits) {
                let with = [&digit.digit as _, &stride as _, &place.digit as _];
                place.digit = text.word("mad.lo.u32", &with);
                place.in_range = both(text, place.in_range, digit.in_range);
            }
        }
        let places = places?;
        let text = &mut machine.text;
        let words = places.iter().map(|place| {
            let word = text.word("shr.u32", &[&place.digit, &5]);
            let from = address(text, bits, word, 4);
            let word = text.word("mov.u32", &[&0]);
            let if_there = place.in_range.map_or(String::new(), |is| format!("@{is} "));
            text.line(format_args!("{if_there}ld.global.nc.u32 {word}, [{from}];"));
            word
        });
        let words: Vec<Word> = words.collect();
        let mut set = text.word("mov.u32", &[&0]);
        for ((k, place), word) in (0u32..).zip(&places).zip(words) {
            // Rotates the row's bit to bit k. A rotation uses the lower five bits of its count.
            let by = text.word("sub.u32", &[&place.digit, &k]);
            let bit = text.word("shf.r.wrap.b32", &[&word, &word, &by]);
            let bit = text.word("and.b32", &[&bit, &(1u32 << k)]);
            set = text.word("or.b32", &[&set, &bit]);
        }
        Some(match self.set {
            true => set,
            false => text.not(set),
        })
    }

    /// The digits of a column for the rows of the thread.
    fn digits(self, machine: &mut Machine<'_>, at: usize) -> Option<Vec<Digit>> {
        let rows = machine.place.layout.rows();
        let Register {
            rows: values, null, ..
        } = machine.loaded(at)?.clone();
        let mut digits: Vec<Digit> = match &values {
            Rows::Bools(mask) => (0..rows)
                .map(|k| Digit {
                    digit: machine.text.word("bfe.u32", &[mask, &k, &1]),
                    in_range: None,
                })
                .collect(),
            Rows::Words(words) => {
                let least = parameter(machine, Parameter::Least(at));
                let values = parameter(machine, Parameter::Digits(at));
                let text = &mut machine.text;
                let digits = words.iter().map(|word| {
                    let digit = text.word("sub.u32", &[word, &least]);
                    let in_range = text.predicate("setp.lt.u32", &[&digit, &values]);
                    Digit {
                        digit,
                        in_range: Some(in_range),
                    }
                });
                digits.collect()
            }
            Rows::Longs(longs) => {
                let least = machine.parameter(Parameter::Least(at));
                let values = machine.parameter(Parameter::Digits(at));
                let text = &mut machine.text;
                let digits = longs.iter().map(|long| {
                    let distance = text.long("sub.s64", &[long, &least]);
                    let in_range = text.predicate("setp.lt.u64", &[&distance, &values]);
                    Digit {
                        digit: text.word("cvt.u32.u64", &[&distance]),
                        in_range: Some(in_range),
                    }
                });
                digits.collect()
            }
            Rows::Decimals(_) => return None,
        };
        let Some(null) = null else {
            return Some(digits);
        };
        let of_null = match self.null_equal {
            true => Some(parameter(machine, Parameter::NullDigit(at))),
            false => None,
        };
        let text = &mut machine.text;
        for (k, Digit { digit, in_range }) in (0u32..).zip(&mut digits) {
            let is_null = text.bit(null, k);
            match of_null {
                Some(of_null) => {
                    *digit = text.word("selp.b32", &[&of_null, digit, &is_null]);
                    if let Some(in_range) = in_range {
                        *in_range = text.predicate("or.pred", &[in_range, &is_null]);
                    }
                }
                None => {
                    let is_valid = text.predicate("not.pred", &[&is_null]);
                    *in_range = both(text, *in_range, Some(is_valid));
                }
            }
        }
        Some(digits)
    }
}

/// A parameter as 32 bits.
fn parameter(machine: &mut Machine<'_>, parameter: Parameter) -> Word {
    let long = machine.parameter(parameter);
    machine.text.word("cvt.u32.u64", &[&long])
}

fn both(text: &mut Text, a: Option<Predicate>, b: Option<Predicate>) -> Option<Predicate> {
    match (a, b) {
        (Some(a), Some(b)) => Some(text.predicate("and.pred", &[&a, &b])),
        (one, other) => one.or(other),
    }
}
