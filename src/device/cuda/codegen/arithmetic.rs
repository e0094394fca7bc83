//! Arithmetic and comparisons on the values of a kind, row by row. The interpreter's counterparts in `kernels/expr`:
//! `arithmetic`, `divide` and `compare_words`. Faults are rows that DataFusion has to evaluate.

use crate::device::cuda::codegen::ptx::{Long, Operand, Predicate, Text, Word};
use crate::device::cuda::codegen::registers::{Register, Rows, bits, extended, is_signed};
use crate::device::cuda::codegen::row_masks::Mask;
use crate::ir::program::{Kind, Op};

/// The name of a comparison's condition. For DISTINCT and NOT DISTINCT, that of two values.
pub(crate) fn condition(op: Op) -> Option<&'static str> {
    Some(match op {
        Op::Eq | Op::NotDistinct => "eq",
        Op::NotEq | Op::Distinct => "ne",
        Op::Lt => "lt",
        Op::LtEq => "le",
        Op::Gt => "gt",
        Op::GtEq => "ge",
        _ => return None,
    })
}

/// ADD, SUB and MUL; DIV, and REM of integers. Returns the values and the faults; `None` if the interpreter has to run
/// the operation.
pub(crate) fn arithmetic(
    text: &mut Text,
    op: Op,
    kind: Kind,
    a: &Register,
    b: &Register,
) -> Option<(Rows, Mask)> {
    let name = match op {
        Op::Add => "add",
        Op::Sub => "sub",
        Op::Mul if kind.is_float() => "mul",
        Op::Mul => "mul.lo",
        Op::Div => "div",
        // The remainder of floats is a division in many steps.
        Op::Rem if !kind.is_float() => "rem",
        _ => return None,
    };
    let of = match (kind.is_float(), is_signed(kind)) {
        (true, _) => "rn.f",
        (_, true) => "s",
        (_, false) => "u",
    };
    let divides = matches!(op, Op::Div | Op::Rem);
    let mut faults = vec![];
    let rows = match (&a.rows, &b.rows) {
        (Rows::Words(a), Rows::Words(b)) => {
            let name = format!("{name}.{of}32");
            let mut words = vec![];
            for (a, b) in a.iter().zip(b) {
                let word = text.word(&name, &[a, b]);
                words.push(match kind {
                    Kind::F32 => {
                        let (word, fault) = text.settled_f32(word, *a, *b);
                        faults.push(fault);
                        word
                    }
                    _ => extended(text, kind, word),
                });
                if divides && !kind.is_float() {
                    let least = (-1i64 << (bits(kind) - 1)) as i32;
                    faults.push(division_faults(
                        text,
                        "32",
                        is_signed(kind).then_some(&least),
                        a,
                        b,
                    ));
                }
            }
            Rows::Words(words)
        }
        (Rows::Longs(a), Rows::Longs(b)) => {
            let name = format!("{name}.{of}64");
            let mut longs = vec![];
            for (a, b) in a.iter().zip(b) {
                let long = text.long(&name, &[a, b]);
                longs.push(match kind {
                    Kind::F64 => {
                        let (long, fault) = text.settled_f64(long, *a, *b);
                        faults.push(fault);
                        long
                    }
                    _ => long,
                });
                if divides && !kind.is_float() {
                    let least = is_signed(kind).then_some(&"0x8000000000000000" as Operand<'_>);
                    faults.push(division_faults(text, "64", least, a, b));
                }
            }
            Rows::Longs(longs)
        }
        _ => return None,
    };
    let faults = (!faults.is_empty()).then(|| text.mask(&faults));
    Some((rows, faults))
}

/// The predicate of a fault: a zero divisor, or `least` by -1 for signed kinds.
fn division_faults(
    text: &mut Text,
    bits: &str,
    least: Option<Operand<'_>>,
    a: Operand<'_>,
    b: Operand<'_>,
) -> Predicate {
    let zero = text.predicate(&format!("setp.eq.s{bits}"), &[b, &0]);
    let Some(least) = least else { return zero };
    let by_minus_one = text.predicate(&format!("setp.eq.s{bits}"), &[b, &-1]);
    let passes = text.predicate(&format!("setp.eq.and.s{bits}"), &[a, least, &by_minus_one]);
    text.predicate("or.pred", &[&zero, &passes])
}

impl Text {
    /// Replaces a NaN result by the operand that is NaN, made quiet. A fault if no operand is NaN, or if both are and
    /// differ.
    fn settled_f32(&mut self, result: Word, a: Word, b: Word) -> (Word, Predicate) {
        let is_nan = self.predicate("setp.nan.f32", &[&result, &result]);
        let of_a = self.predicate("setp.nan.f32", &[&a, &a]);
        let of_b = self.predicate("setp.nan.f32", &[&b, &b]);
        let quiet_a = self.word("or.b32", &[&a, &"0x00400000"]);
        let quiet_b = self.word("or.b32", &[&b, &"0x00400000"]);
        let differ = self.predicate("setp.ne.b32", &[&quiet_a, &quiet_b]);
        let nan = self.word("selp.b32", &[&quiet_a, &quiet_b, &of_a]);
        let settled = self.word("selp.b32", &[&nan, &result, &is_nan]);
        (settled, self.undecided_nan(is_nan, of_a, of_b, differ))
    }

    fn settled_f64(&mut self, result: Long, a: Long, b: Long) -> (Long, Predicate) {
        let is_nan = self.predicate("setp.nan.f64", &[&result, &result]);
        let of_a = self.predicate("setp.nan.f64", &[&a, &a]);
        let of_b = self.predicate("setp.nan.f64", &[&b, &b]);
        let quiet_a = self.long("or.b64", &[&a, &"0x0008000000000000"]);
        let quiet_b = self.long("or.b64", &[&b, &"0x0008000000000000"]);
        let differ = self.predicate("setp.ne.b64", &[&quiet_a, &quiet_b]);
        let nan = self.long("selp.b64", &[&quiet_a, &quiet_b, &of_a]);
        let settled = self.long("selp.b64", &[&nan, &result, &is_nan]);
        (settled, self.undecided_nan(is_nan, of_a, of_b, differ))
    }

    fn undecided_nan(
        &mut self,
        is_nan: Predicate,
        of_a: Predicate,
        of_b: Predicate,
        differ: Predicate,
    ) -> Predicate {
        let some = self.predicate("or.pred", &[&of_a, &of_b]);
        let none = self.predicate("not.pred", &[&some]);
        let two = self.predicate("and.pred", &[&of_a, &of_b]);
        let two = self.predicate("and.pred", &[&two, &differ]);
        let fault = self.predicate("or.pred", &[&none, &two]);
        self.predicate("and.pred", &[&fault, &is_nan])
    }

    /// A signed integer in the order of floats: IEEE 754's total order, except that -0.0 is 0.0.
    fn key_f32(&mut self, word: Word) -> Word {
        let is_zero = self.predicate("setp.eq.b32", &[&word, &"0x80000000"]);
        let word = self.word("selp.b32", &[&0, &word, &is_zero]);
        let sign = self.word("shr.s32", &[&word, &31]);
        let flip = self.word("and.b32", &[&sign, &"0x7fffffff"]);
        self.word("xor.b32", &[&word, &flip])
    }

    fn key_f64(&mut self, long: Long) -> Long {
        let is_zero = self.predicate("setp.eq.b64", &[&long, &"0x8000000000000000"]);
        let long = self.long("selp.b64", &[&0, &long, &is_zero]);
        let sign = self.long("shr.s64", &[&long, &63]);
        let flip = self.long("and.b64", &[&sign, &"0x7fffffffffffffff"]);
        self.long("xor.b64", &[&long, &flip])
    }
}

/// The rows whose values satisfy a comparison, whatever their states.
pub(crate) fn compare(
    text: &mut Text,
    op: Op,
    kind: Kind,
    a: &Register,
    b: &Register,
) -> Option<Word> {
    let condition = condition(op)?;
    // Floats are compared by their integer keys.
    let of = if is_signed(kind) || kind.is_float() {
        "s"
    } else {
        "u"
    };
    let rows: Vec<Predicate> = match (&a.rows, &b.rows) {
        (Rows::Bools(a), Rows::Bools(b)) => return Some(compare_bools(text, op, *a, *b)),
        (Rows::Words(a), Rows::Words(b)) => {
            let name = format!("setp.{condition}.{of}32");
            let rows = a.iter().zip(b).map(|(a, b)| match kind {
                Kind::F32 => {
                    let (a, b) = (text.key_f32(*a), text.key_f32(*b));
                    text.predicate(&name, &[&a, &b])
                }
                _ => text.predicate(&name, &[a, b]),
            });
            rows.collect()
        }
        (Rows::Longs(a), Rows::Longs(b)) => {
            let name = format!("setp.{condition}.{of}64");
            let rows = a.iter().zip(b).map(|(a, b)| match kind {
                Kind::F64 => {
                    let (a, b) = (text.key_f64(*a), text.key_f64(*b));
                    text.predicate(&name, &[&a, &b])
                }
                _ => text.predicate(&name, &[a, b]),
            });
            rows.collect()
        }
        (Rows::Decimals(a), Rows::Decimals(b)) => {
            let rows = a
                .iter()
                .zip(b)
                .map(|(a, b)| compare_decimals(text, condition, *a, *b));
            rows.collect()
        }
        _ => return None,
    };
    Some(text.mask(&rows))
}

fn compare_bools(text: &mut Text, op: Op, a: Word, b: Word) -> Word {
    let (name, a, b) = match op {
        Op::Eq | Op::NotDistinct => ("xor.b32", text.not(a), b),
        Op::NotEq | Op::Distinct => ("xor.b32", a, b),
        Op::Lt => ("and.b32", text.not(a), b),
        Op::LtEq => ("or.b32", text.not(a), b),
        Op::Gt => ("and.b32", a, text.not(b)),
        _ => ("or.b32", a, text.not(b)),
    };
    text.word(name, &[&a, &b])
}

/// Compares the upper halves, and the lower ones if those are equal.
fn compare_decimals(text: &mut Text, condition: &str, a: [Long; 2], b: [Long; 2]) -> Predicate {
    let same = text.predicate("setp.eq.s64", &[&a[1], &b[1]]);
    let lower = text.predicate(&format!("setp.{condition}.and.u64"), &[&a[0], &b[0], &same]);
    match condition {
        "eq" => lower,
        // If the halves differ, `lt` and `le` agree; so do the others.
        "ne" => text.predicate("setp.ne.or.s64", &[&a[1], &b[1], &lower]),
        other => {
            let strict = if other.starts_with('l') { "lt" } else { "gt" };
            text.predicate(&format!("setp.{strict}.or.s64"), &[&a[1], &b[1], &lower])
        }
    }
}
