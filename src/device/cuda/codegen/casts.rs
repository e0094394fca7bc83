//! Casts between numbers and Booleans, and negations. The interpreter's counterparts in `kernels/expr`: `cast` and
//! `negative`. Faults are rows that DataFusion has to evaluate.

use crate::device::cuda::codegen::ptx::{Long, Predicate, Text, Word};
use crate::device::cuda::codegen::registers::{
    Register, Rows, bits, extended, is_signed, lengthened, zeros_and_ones,
};
use crate::device::cuda::codegen::row_masks::Mask;
use crate::ir::program::Kind;

/// The negated values; integers wrap.
pub(crate) fn negative(text: &mut Text, kind: Kind, a: &Register) -> Option<Rows> {
    Some(match (&a.rows, kind) {
        (Rows::Words(words), Kind::F32) => {
            let words = words
                .iter()
                .map(|word| text.word("xor.b32", &[word, &"0x80000000"]));
            Rows::Words(words.collect())
        }
        (Rows::Longs(longs), Kind::F64) => {
            let longs = longs
                .iter()
                .map(|long| text.long("xor.b64", &[long, &"0x8000000000000000"]));
            Rows::Longs(longs.collect())
        }
        (Rows::Words(words), kind) => {
            let words = words.iter().map(|word| {
                let word = text.word("neg.s32", &[word]);
                extended(text, kind, word)
            });
            Rows::Words(words.collect())
        }
        (Rows::Longs(longs), _) => {
            let longs = longs.iter().map(|long| text.long("neg.s64", &[long]));
            Rows::Longs(longs.collect())
        }
        _ => return None,
    })
}

/// One value, by the width of its register.
#[derive(Clone, Copy)]
enum One {
    Word(Word),
    Long(Long),
}

/// Casts the values of `a` from kind `from` to kind `to`. Returns the values, and the faults: values that `to` does not
/// have.
pub(crate) fn cast(
    text: &mut Text,
    from: Kind,
    to: Kind,
    a: &Register,
    rows: u32,
) -> Option<(Rows, Mask)> {
    if from == to {
        return Some((a.rows.clone(), None));
    }
    let ones: Vec<One> = match &a.rows {
        Rows::Bools(mask) => {
            let words = zeros_and_ones(text, *mask, rows).into_iter();
            words.map(One::Word).collect()
        }
        Rows::Words(words) => words.iter().copied().map(One::Word).collect(),
        Rows::Longs(longs) => longs.iter().copied().map(One::Long).collect(),
        Rows::Decimals(_) => return None,
    };
    if to == Kind::Bool {
        let set: Vec<Predicate> = ones
            .iter()
            .map(|one| is_not_zero(text, from, *one))
            .collect();
        return Some((Rows::Bools(text.mask(&set)), None));
    }
    let mut faults = vec![];
    let made: Vec<One> = ones
        .into_iter()
        .map(|one| match (from.is_float(), to.is_float()) {
            (true, true) => float_to_float(text, one),
            (true, false) => {
                let (made, fault) = float_to_integer(text, to, one);
                faults.push(fault);
                made
            }
            (false, true) => integer_to_float(text, from, to, one),
            (false, false) if to.holds_all_of(from) => match one {
                One::Word(word) if bits(to) == 64 => One::Long(lengthened(text, from, word)),
                one => one,
            },
            (false, false) => {
                let (made, fault) = integer_to_integer(text, from, to, one);
                faults.push(fault);
                made
            }
        })
        .collect();
    let rows = match bits(to) {
        64 => Rows::Longs(
            made.into_iter()
                .filter_map(|one| match one {
                    One::Long(long) => Some(long),
                    One::Word(_) => None,
                })
                .collect(),
        ),
        _ => Rows::Words(
            made.into_iter()
                .filter_map(|one| match one {
                    One::Word(word) => Some(word),
                    One::Long(_) => None,
                })
                .collect(),
        ),
    };
    let faults = (!faults.is_empty()).then(|| text.mask(&faults));
    Some((rows, faults))
}

fn is_not_zero(text: &mut Text, from: Kind, one: One) -> Predicate {
    // A NaN is not zero.
    match (one, from.is_float()) {
        (One::Word(word), true) => text.predicate("setp.neu.f32", &[&word, &"0f00000000"]),
        (One::Word(word), false) => text.predicate("setp.ne.u32", &[&word, &0]),
        (One::Long(long), true) => text.predicate("setp.neu.f64", &[&long, &"0d0000000000000000"]),
        (One::Long(long), false) => text.predicate("setp.ne.u64", &[&long, &0]),
    }
}

/// A NaN keeps its sign and the part of its payload that fits.
fn float_to_float(text: &mut Text, one: One) -> One {
    match one {
        One::Word(word) => {
            let is_nan = text.predicate("setp.nan.f32", &[&word, &word]);
            let value = text.long("cvt.f64.f32", &[&word]);
            let sign = text.word("and.b32", &[&word, &"0x80000000"]);
            let sign = text.long("cvt.u64.u32", &[&sign]);
            let sign = text.long("shl.b64", &[&sign, &32]);
            let payload = text.word("and.b32", &[&word, &"0x003fffff"]);
            let payload = text.long("cvt.u64.u32", &[&payload]);
            let payload = text.long("shl.b64", &[&payload, &29]);
            let nan = text.long("or.b64", &[&sign, &payload]);
            let nan = text.long("or.b64", &[&nan, &"0x7ff8000000000000"]);
            One::Long(text.long("selp.b64", &[&nan, &value, &is_nan]))
        }
        One::Long(long) => {
            let is_nan = text.predicate("setp.nan.f64", &[&long, &long]);
            let value = text.word("cvt.rn.f32.f64", &[&long]);
            let sign = text.long("shr.u64", &[&long, &32]);
            let sign = text.word("cvt.u32.u64", &[&sign]);
            let sign = text.word("and.b32", &[&sign, &"0x80000000"]);
            let payload = text.long("shr.u64", &[&long, &29]);
            let payload = text.word("cvt.u32.u64", &[&payload]);
            let payload = text.word("and.b32", &[&payload, &"0x003fffff"]);
            let nan = text.word("or.b32", &[&sign, &payload]);
            let nan = text.word("or.b32", &[&nan, &"0x7fc00000"]);
            One::Word(text.word("selp.b32", &[&nan, &value, &is_nan]))
        }
    }
}

/// Rounds towards zero. A fault if the kind does not have the number, or the value is NaN.
fn float_to_integer(text: &mut Text, to: Kind, one: One) -> (One, Predicate) {
    let value = match one {
        One::Word(word) => text.long("cvt.f64.f32", &[&word]),
        One::Long(long) => long,
    };
    let whole = text.long("cvt.rzi.f64.f64", &[&value]);
    // 2 to the number of bits without the sign.
    let above = f64::from(bits(to) - u32::from(is_signed(to))).exp2();
    let least = if is_signed(to) { -above } else { 0.0 };
    let least = format!("0d{:016x}", least.to_bits());
    let above = format!("0d{:016x}", above.to_bits());
    let enough = text.predicate("setp.ge.f64", &[&whole, &least]);
    let fits = text.predicate("setp.lt.and.f64", &[&whole, &above, &enough]);
    let fault = text.predicate("not.pred", &[&fits]);
    let made = match is_signed(to) {
        true => text.long("cvt.rzi.s64.f64", &[&whole]),
        false => text.long("cvt.rzi.u64.f64", &[&whole]),
    };
    let made = match bits(to) {
        64 => One::Long(made),
        _ => One::Word(text.word("cvt.u32.u64", &[&made])),
    };
    (made, fault)
}

fn integer_to_float(text: &mut Text, from: Kind, to: Kind, one: One) -> One {
    let of = if is_signed(from) { "s" } else { "u" };
    match (one, to) {
        (One::Word(word), Kind::F32) => {
            One::Word(text.word(&format!("cvt.rn.f32.{of}32"), &[&word]))
        }
        (One::Word(word), _) => One::Long(text.long(&format!("cvt.rn.f64.{of}32"), &[&word])),
        (One::Long(long), Kind::F32) => {
            One::Word(text.word(&format!("cvt.rn.f32.{of}64"), &[&long]))
        }
        (One::Long(long), _) => One::Long(text.long(&format!("cvt.rn.f64.{of}64"), &[&long])),
    }
}

/// Casts to a kind that lacks some values of `from`.
fn integer_to_integer(text: &mut Text, from: Kind, to: Kind, one: One) -> (One, Predicate) {
    let long = match one {
        One::Word(word) => lengthened(text, from, word),
        One::Long(long) => long,
    };
    if bits(to) == 64 {
        // The other signedness: a value that is negative in one of the two kinds does not fit.
        return (One::Long(long), text.predicate("setp.lt.s64", &[&long, &0]));
    }
    let word = text.word("cvt.u32.u64", &[&long]);
    let word = extended(text, to, word);
    let again = lengthened(text, to, word);
    let differs = text.predicate("setp.ne.s64", &[&again, &long]);
    let fault = match is_signed(from) {
        true => differs,
        // After sign extension a value that does not fit may look equal.
        false => text.predicate("setp.lt.or.s64", &[&long, &0, &differs]),
    };
    (One::Word(word), fault)
}
