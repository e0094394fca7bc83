//! Decimals: two halves of 64 bits for each row. A result beyond 128 bits is a fault: DataFusion has to evaluate the
//! row. The interpreter's counterparts in `kernels/expr`: `decimal_arithmetic` and `multiply`.

use crate::device::cuda::codegen::ptx::{Long, Predicate, Text, Word};
use crate::device::cuda::codegen::registers::{is_signed, lengthened};
use crate::ir::program::{Kind, Op};

/// A decimal of 128 bits: its lower and its upper half.
pub(crate) type Halves = [Long; 2];

/// ADD, SUB or MUL: the values, and a predicate for each fault.
pub(crate) fn arithmetic(
    text: &mut Text,
    op: Op,
    a: Halves,
    b: Halves,
) -> Option<(Halves, Predicate)> {
    Some(match op {
        Op::Add => sum(text, ["add.cc.u64", "addc.u64"], a, b),
        Op::Sub => sum(text, ["sub.cc.u64", "subc.u64"], a, b),
        Op::Mul => product(text, a, b),
        _ => return None,
    })
}

fn sum(text: &mut Text, [lower, upper]: [&str; 2], a: Halves, b: Halves) -> (Halves, Predicate) {
    let made = [
        text.long(lower, &[&a[0], &b[0]]),
        text.long(upper, &[&a[1], &b[1]]),
    ];
    // Overflow: the sign of a sum differs from both operands' signs. The sign of a difference differs from the first
    // operand's sign, and the operands' signs differ.
    let of_a = text.long("xor.b64", &[&a[1], &made[1]]);
    let of_b = match lower.starts_with("add") {
        true => text.long("xor.b64", &[&b[1], &made[1]]),
        false => text.long("xor.b64", &[&a[1], &b[1]]),
    };
    let both = text.long("and.b64", &[&of_a, &of_b]);
    let fault = text.predicate("setp.lt.s64", &[&both, &0]);
    (made, fault)
}

/// The absolute value, as an unsigned number.
fn distance(text: &mut Text, a: Halves) -> Halves {
    let opposite = [
        text.long("sub.cc.u64", &[&0, &a[0]]),
        text.long("subc.u64", &[&0, &a[1]]),
    ];
    let negative = text.predicate("setp.lt.s64", &[&a[1], &0]);
    [0, 1].map(|half| text.long("selp.b64", &[&opposite[half], &a[half], &negative]))
}

/// The product, and the predicate of a fault.
pub(crate) fn product(text: &mut Text, a: Halves, b: Halves) -> (Halves, Predicate) {
    let lower = text.long("mul.lo.u64", &[&a[0], &b[0]]);
    let upper = text.long("mul.hi.u64", &[&a[0], &b[0]]);
    let upper = text.long("mad.lo.u64", &[&a[0], &b[1], &upper]);
    let upper = text.long("mad.lo.u64", &[&a[1], &b[0], &upper]);
    // The product of the absolute values must be below 2^127, or equal to it if the result is negative. Of its four
    // partial products one is beyond 128 bits unless it is 0, and two begin at bit 64.
    let [x, y] = [distance(text, a), distance(text, b)];
    let some = text.predicate("setp.ne.u64", &[&x[1], &0]);
    let beyond = text.predicate("setp.ne.and.u64", &[&y[1], &0, &some]);
    let high = text.long("mul.hi.u64", &[&x[1], &y[0]]);
    let beyond = text.predicate("setp.ne.or.u64", &[&high, &0, &beyond]);
    let high = text.long("mul.hi.u64", &[&x[0], &y[1]]);
    let beyond = text.predicate("setp.ne.or.u64", &[&high, &0, &beyond]);
    let of_lower = text.long("mul.hi.u64", &[&x[0], &y[0]]);
    let part = text.long("mul.lo.u64", &[&x[1], &y[0]]);
    let middle = text.long("add.u64", &[&of_lower, &part]);
    let beyond = text.predicate("setp.lt.or.u64", &[&middle, &part, &beyond]);
    let part = text.long("mul.lo.u64", &[&x[0], &y[1]]);
    let middle = text.long("add.u64", &[&middle, &part]);
    let beyond = text.predicate("setp.lt.or.u64", &[&middle, &part, &beyond]);
    let large = text.predicate("setp.lt.s64", &[&middle, &0]);
    // 2^127 is its own negative.
    let signs = text.long("xor.b64", &[&a[1], &b[1]]);
    let negative = text.predicate("setp.lt.s64", &[&signs, &0]);
    let least = text.predicate(
        "setp.eq.and.u64",
        &[&middle, &"0x8000000000000000", &negative],
    );
    let least = text.predicate("setp.eq.and.u64", &[&lower, &0, &least]);
    let not_least = text.predicate("not.pred", &[&least]);
    let large = text.predicate("and.pred", &[&large, &not_least]);
    (
        [lower, upper],
        text.predicate("or.pred", &[&beyond, &large]),
    )
}

/// `fault`, or an absolute value of at least ten to the power of `digits`.
pub(crate) fn too_long(text: &mut Text, value: Halves, digits: u8, fault: Predicate) -> Predicate {
    let bound = 10u128.pow(digits.into());
    let (lower, upper) = (bound as u64, (bound >> 64) as u64);
    let [low, high] = distance(text, value);
    let same = text.predicate("setp.eq.u64", &[&high, &upper]);
    let reached = text.predicate("setp.ge.and.u64", &[&low, &lower, &same]);
    let reached = text.predicate("setp.gt.or.u64", &[&high, &upper, &reached]);
    text.predicate("or.pred", &[&fault, &reached])
}

/// A decimal from an integer.
pub(crate) fn of_word(text: &mut Text, kind: Kind, word: Word) -> Halves {
    let long = lengthened(text, kind, word);
    of_long(text, kind, long)
}

/// A decimal from a 64-bit integer.
pub(crate) fn of_long(text: &mut Text, kind: Kind, long: Long) -> Halves {
    let upper = match is_signed(kind) {
        true => text.long("shr.s64", &[&long, &63]),
        false => text.long("mov.u64", &[&0]),
    };
    [long, upper]
}
