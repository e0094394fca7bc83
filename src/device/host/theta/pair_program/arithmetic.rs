//! Instructions that depend on the kind of their words: arithmetic, comparisons, casts.

use pulp::Arch;

use crate::device::host::keys::order_keys::{float_word, float32_word};
use crate::device::host::theta::pair_program::register::Register;
use crate::ir::program::{Instruction, Kind, Op};

/// A value of a kind, stored in a 64-bit word.
trait Word: Copy {
    fn of(word: u64) -> Self;
    fn word(self) -> u64;
}

macro_rules! words {
    ($($t:ty, $word:ident => $of:expr, $value:ident => $to:expr;)*) => {$(
        impl Word for $t {
            #[inline(always)]
            fn of($word: u64) -> Self {
                $of
            }

            #[inline(always)]
            fn word(self) -> u64 {
                let $value = self;
                $to
            }
        }
    )*};
}

words! {
    i8, w => w as i8, v => i64::from(v) as u64;
    i16, w => w as i16, v => i64::from(v) as u64;
    i32, w => w as i32, v => i64::from(v) as u64;
    i64, w => w as i64, v => v as u64;
    u8, w => w as u8, v => v.into();
    u16, w => w as u16, v => v.into();
    u32, w => w as u32, v => v.into();
    u64, w => w, v => v;
    f32, w => f32::from_bits(w as u32), v => v.to_bits().into();
    f64, w => f64::from_bits(w), v => v.to_bits();
    bool, w => w != 0, v => v.into();
}

/// `out[i] = f(a[i])`.
#[inline(always)]
fn map<T: Word, U: Word>(arch: Arch, a: &[u64], out: &mut [u64], f: impl Fn(T) -> U) {
    arch.dispatch(
        #[inline(always)]
        || {
            for (out, a) in out.iter_mut().zip(a) {
                *out = f(T::of(*a)).word();
            }
        },
    );
}

/// `out[i] = f(a[i], b[i])`.
#[inline(always)]
fn zip<T: Word, U: Word>(
    arch: Arch,
    (a, b): (&[u64], &[u64]),
    out: &mut [u64],
    f: impl Fn(T, T) -> U,
) {
    arch.dispatch(
        #[inline(always)]
        || {
            for (out, (a, b)) in out.iter_mut().zip(a.iter().zip(b)) {
                *out = f(T::of(*a), T::of(*b)).word();
            }
        },
    );
}

/// Expands a macro with the Rust type of an integer kind.
macro_rules! by_integer {
    ($kind:expr, $integer:ident, $otherwise:expr) => {
        match $kind {
            Kind::I8 => $integer!(i8),
            Kind::I16 => $integer!(i16),
            Kind::I32 => $integer!(i32),
            Kind::I64 => $integer!(i64),
            Kind::U8 => $integer!(u8),
            Kind::U16 => $integer!(u16),
            Kind::U32 => $integer!(u32),
            Kind::U64 => $integer!(u64),
            Kind::F32 | Kind::F64 | Kind::Bool | Kind::Decimal => $otherwise,
        }
    };
}

/// Arithmetic or a comparison. `out` already has the states of the operands.
pub(crate) fn binary(
    arch: Arch,
    op: Op,
    kind: Kind,
    a: &Register,
    b: &Register,
    out: &mut Register,
    len: usize,
) {
    let operands = (&a.words[..len], &b.words[..len]);
    match op {
        Op::Add | Op::Sub | Op::Mul | Op::Div | Op::Rem => match kind {
            Kind::F32 => {
                let words = &mut out.words[..len];
                match op {
                    Op::Add => zip(arch, operands, words, |a: f32, b| a + b),
                    Op::Sub => zip(arch, operands, words, |a: f32, b| a - b),
                    Op::Mul => zip(arch, operands, words, |a: f32, b| a * b),
                    Op::Div => zip(arch, operands, words, |a: f32, b| a / b),
                    _ => zip(arch, operands, words, |a: f32, b| a % b),
                }
                settle_nans::<f32>(arch, operands, out, len);
            }
            Kind::F64 => {
                let words = &mut out.words[..len];
                match op {
                    Op::Add => zip(arch, operands, words, |a: f64, b| a + b),
                    Op::Sub => zip(arch, operands, words, |a: f64, b| a - b),
                    Op::Mul => zip(arch, operands, words, |a: f64, b| a * b),
                    Op::Div => zip(arch, operands, words, |a: f64, b| a / b),
                    _ => zip(arch, operands, words, |a: f64, b| a % b),
                }
                settle_nans::<f64>(arch, operands, out, len);
            }
            _ => integers(arch, op, kind, operands, out, len),
        },
        _ => compare(arch, op, kind, operands, &mut out.words[..len]),
    }
}

fn integers(
    arch: Arch,
    op: Op,
    kind: Kind,
    (a, b): (&[u64], &[u64]),
    out: &mut Register,
    len: usize,
) {
    macro_rules! integer {
        ($t:ty) => {{
            let words = &mut out.words[..len];
            match op {
                Op::Add => zip(arch, (a, b), words, |a: $t, b| a.wrapping_add(b)),
                Op::Sub => zip(arch, (a, b), words, |a: $t, b| a.wrapping_sub(b)),
                Op::Mul => zip(arch, (a, b), words, |a: $t, b| a.wrapping_mul(b)),
                _ => {
                    for i in 0..len {
                        let (a, b) = (<$t>::of(a[i]), <$t>::of(b[i]));
                        let quotient = match op {
                            Op::Div => a.checked_div(b),
                            _ => a.checked_rem(b),
                        };
                        match quotient {
                            Some(quotient) => out.words[i] = quotient.word(),
                            None => out.set_fault(i, len),
                        }
                    }
                }
            }
        }};
    }
    by_integer!(kind, integer, (0..len).for_each(|i| out.set_fault(i, len)));
}

fn compare(arch: Arch, op: Op, kind: Kind, operands: (&[u64], &[u64]), out: &mut [u64]) {
    macro_rules! ordered {
        ($t:ty, $key:expr) => {{
            let key = $key;
            match op {
                Op::Eq => zip(arch, operands, out, |a: $t, b| key(a) == key(b)),
                Op::NotEq => zip(arch, operands, out, |a: $t, b| key(a) != key(b)),
                Op::Lt => zip(arch, operands, out, |a: $t, b| key(a) < key(b)),
                Op::LtEq => zip(arch, operands, out, |a: $t, b| key(a) <= key(b)),
                Op::Gt => zip(arch, operands, out, |a: $t, b| key(a) > key(b)),
                _ => zip(arch, operands, out, |a: $t, b| key(a) >= key(b)),
            }
        }};
    }
    // Sign- or zero-extended words have the order of their values.
    match kind {
        Kind::F32 => ordered!(f32, float32_word),
        Kind::F64 => ordered!(f64, float_word),
        Kind::I8 | Kind::I16 | Kind::I32 | Kind::I64 => ordered!(i64, |v: i64| v),
        // No word is a decimal.
        Kind::U8 | Kind::U16 | Kind::U32 | Kind::U64 | Kind::Bool | Kind::Decimal => {
            ordered!(u64, |v: u64| v);
        }
    }
}

/// NaNs of a float type. NaNs are ordered by their bits, which depend on the CPU unless an operand was NaN.
trait Float: Word {
    /// The bit that makes a NaN quiet.
    const QUIET: u64;

    fn is_nan(self) -> bool;
}

impl Float for f32 {
    const QUIET: u64 = 1 << 22;

    #[inline(always)]
    fn is_nan(self) -> bool {
        self.is_nan()
    }
}

impl Float for f64 {
    const QUIET: u64 = 1 << 51;

    #[inline(always)]
    fn is_nan(self) -> bool {
        self.is_nan()
    }
}

/// Settles NaN results of arithmetic: the operand that is NaN, made quiet. The value is left to DataFusion if no
/// operand is NaN, or if both are and differ.
fn settle_nans<T: Float>(arch: Arch, (a, b): (&[u64], &[u64]), out: &mut Register, len: usize) {
    let any = arch.dispatch(
        #[inline(always)]
        || {
            let words = out.words[..len].iter();
            words.fold(false, |any, word| any | T::of(*word).is_nan())
        },
    );
    if !any {
        return;
    }
    let quiet = |word: u64| T::of(word).is_nan().then_some(word | T::QUIET);
    for i in 0..len {
        if !T::of(out.words[i]).is_nan() {
            continue;
        }
        match (quiet(a[i]), quiet(b[i])) {
            (Some(nan), None) | (None, Some(nan)) => out.words[i] = nan,
            (Some(one), Some(other)) if one == other => out.words[i] = one,
            _ => out.set_fault(i, len),
        }
    }
}

/// The same NaN in the other precision, quiet, with its sign and the upper bits of its payload.
fn nan_of_f32(value: f32) -> f64 {
    let bits = u64::from(value.to_bits());
    f64::from_bits((bits >> 31) << 63 | 0x7ff8 << 48 | (bits & 0x7f_ffff) << 29)
}

fn nan_of_f64(value: f64) -> f32 {
    let bits = value.to_bits();
    f32::from_bits((bits >> 63 << 31 | 0x7fc0_0000 | (bits >> 29 & 0x7f_ffff)) as u32)
}

/// NOT, a negation or a cast; `out` has the operand's states already.
pub(crate) fn unary(
    arch: Arch,
    instruction: &Instruction,
    a: &Register,
    out: &mut Register,
    len: usize,
) {
    let words = (&a.words[..len], &mut out.words[..len]);
    match (instruction.op, instruction.kind) {
        (Op::Not, _) => map(arch, words.0, words.1, |v: bool| !v),
        (Op::Neg, Kind::F32) => map(arch, words.0, words.1, |v: f32| -v),
        (Op::Neg, Kind::F64) => map(arch, words.0, words.1, |v: f64| -v),
        (Op::Neg, kind) => {
            macro_rules! integer {
                ($t:ty) => {
                    map(arch, words.0, words.1, |v: $t| v.wrapping_neg())
                };
            }
            by_integer!(kind, integer, (0..len).for_each(|i| out.set_fault(i, len)));
        }
        (_, kind) => cast(arch, instruction.from, kind, a, out, len),
    }
}

fn cast(arch: Arch, from: Kind, to: Kind, a: &Register, out: &mut Register, len: usize) {
    let words = (&a.words[..len], &mut out.words[..len]);
    let unsigned = matches!(
        from,
        Kind::U8 | Kind::U16 | Kind::U32 | Kind::U64 | Kind::Bool
    );
    match (from, to) {
        (from, to) if from == to || to.holds_all_of(from) => words.1.copy_from_slice(words.0),
        (Kind::F32, Kind::Bool) => map(arch, words.0, words.1, |v: f32| v != 0.0),
        (Kind::F64, Kind::Bool) => map(arch, words.0, words.1, |v: f64| v != 0.0),
        (_, Kind::Bool) => map(arch, words.0, words.1, |v: u64| v != 0),
        (Kind::F32, Kind::F64) => {
            let widen = |v: f32| if v.is_nan() { nan_of_f32(v) } else { v.into() };
            map(arch, words.0, words.1, widen);
        }
        (Kind::F64, Kind::F32) => {
            let narrow = |v: f64| if v.is_nan() { nan_of_f64(v) } else { v as f32 };
            map(arch, words.0, words.1, narrow);
        }
        (_, Kind::F32) if unsigned => map(arch, words.0, words.1, |v: u64| v as f32),
        (_, Kind::F32) => map(arch, words.0, words.1, |v: i64| v as f32),
        (_, Kind::F64) if unsigned => map(arch, words.0, words.1, |v: u64| v as f64),
        (_, Kind::F64) => map(arch, words.0, words.1, |v: i64| v as f64),
        _ => {
            let (least, most) = to.range().unwrap_or_default();
            for i in 0..len {
                let word = a.words[i];
                // A float beyond 128 bits saturates, and so does not fit the target either.
                let value = match from {
                    Kind::F32 if f32::of(word).is_nan() => i128::MAX,
                    Kind::F64 if f64::of(word).is_nan() => i128::MAX,
                    Kind::F32 => f32::of(word) as i128,
                    Kind::F64 => f64::of(word) as i128,
                    _ if unsigned => i128::from(word),
                    _ => i128::from(word as i64),
                };
                match (least..=most).contains(&value) {
                    // The lower half is the extended word.
                    true => out.words[i] = value as u64,
                    false => out.set_fault(i, len),
                }
            }
        }
    }
}
