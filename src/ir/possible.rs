//! [`may_pass`]: whether a predicate can be TRUE for a row of a block, by the least and the greatest values of the block's columns.
//!
//! A program is run on intervals in place of values. NULLs are left out: what is NULL is not TRUE.

use crate::ir::program::{Instruction, Kind, Op};
use crate::ir::row_program::RowProgram;

/// The values that a register may have in the rows of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PossibleValues {
    /// Values are integers or decimals from the first to the second.
    Interval(i128, i128),
    /// A Boolean: whether it may be TRUE, and whether it may be FALSE.
    Truth(bool, bool),
    Any,
}

/// Whether the only output of `program`, a Boolean, can be TRUE for a row of a block whose column `i` has values between `extent(i)`; `None` where
/// nothing is known of them. True wherever a row of the block may be a fault, which DataFusion would raise.
pub(crate) fn may_pass(
    program: &RowProgram,
    extent: impl Fn(usize) -> Option<(i128, i128)>,
) -> bool {
    let mut registers = vec![PossibleValues::Any; program.registers()];
    for instruction in &program.instructions {
        let of = |register: u8| registers.get(usize::from(register)).copied();
        if instruction.op == Op::Store {
            return !matches!(of(instruction.a), Some(PossibleValues::Truth(false, _)));
        }
        let [a, b, c] = [instruction.a, instruction.b, instruction.c]
            .map(|register| of(register).unwrap_or(PossibleValues::Any));
        let Some(known) = run(instruction, [a, b, c], &extent) else {
            return true;
        };
        if let Some(register) = registers.get_mut(usize::from(instruction.out)) {
            *register = known;
        }
    }
    true
}

/// What is known of the result; `None` where it may be a fault.
fn run(
    instruction: &Instruction,
    [a, b, c]: [PossibleValues; 3],
    extent: &impl Fn(usize) -> Option<(i128, i128)>,
) -> Option<PossibleValues> {
    use PossibleValues::*;
    let kind = instruction.kind;
    let is_number = !kind.is_float() && kind != Kind::Bool;
    Some(match instruction.op {
        Op::Load if is_number => match extent(usize::from(instruction.column)) {
            Some((least, most)) => Interval(least, most),
            None => Any,
        },
        Op::Load | Op::LoadRight | Op::IsNull | Op::IsNotNull | Op::Distinct | Op::NotDistinct => {
            Any
        }
        Op::Constant if instruction.b == 1 || kind.is_float() => Any,
        Op::Constant => {
            let word = instruction.constant as u64;
            match kind {
                Kind::Bool => Truth(word == 1, word == 0),
                Kind::Decimal => Interval(instruction.constant, instruction.constant),
                Kind::I8 | Kind::I16 | Kind::I32 | Kind::I64 => {
                    Interval((word as i64).into(), (word as i64).into())
                }
                _ => Interval(word.into(), word.into()),
            }
        }
        Op::Eq | Op::NotEq | Op::Lt | Op::LtEq | Op::Gt | Op::GtEq => match (a, b) {
            (Interval(a, most_a), Interval(b, most_b)) => {
                let same = a == most_a && (a, most_a) == (b, most_b);
                let apart = most_a < b || most_b < a;
                match instruction.op {
                    Op::Eq => Truth(!apart, !same),
                    Op::NotEq => Truth(!same, !apart),
                    Op::Lt => Truth(a < most_b, most_a >= b),
                    Op::LtEq => Truth(a <= most_b, most_a > b),
                    Op::Gt => Truth(most_a > b, a <= most_b),
                    _ => Truth(most_a >= b, a < most_b),
                }
            }
            _ => Truth(true, true),
        },
        Op::And => {
            let ((at, af), (bt, bf)) = (truth(a), truth(b));
            Truth(at && bt, af || bf)
        }
        Op::Or => {
            let ((at, af), (bt, bf)) = (truth(a), truth(b));
            Truth(at || bt, af && bf)
        }
        Op::Not => {
            let (is_true, is_false) = truth(a);
            Truth(is_false, is_true)
        }
        Op::Select => match (b, c) {
            (Interval(least, most), Interval(other, greatest)) => {
                Interval(least.min(other), most.max(greatest))
            }
            _ if kind == Kind::Bool => {
                let ((bt, bf), (ct, cf)) = (truth(b), truth(c));
                Truth(bt || ct, bf || cf)
            }
            _ => Any,
        },
        Op::Add | Op::Sub | Op::Mul if is_number => {
            let (Interval(a, most_a), Interval(b, most_b)) = (a, b) else {
                // Decimals beyond 128 bits are faults; integers wrap.
                return (kind != Kind::Decimal).then_some(Any);
            };
            let of = |x: i128, y: i128| match instruction.op {
                Op::Add => x.checked_add(y),
                Op::Sub => x.checked_sub(y),
                _ => x.checked_mul(y),
            };
            let ends = [of(a, b), of(a, most_b), of(most_a, b), of(most_a, most_b)];
            let Some(ends) = ends.into_iter().collect::<Option<Vec<i128>>>() else {
                return (kind != Kind::Decimal).then_some(Any);
            };
            let least = ends.iter().copied().min().unwrap_or_default();
            let most = ends.iter().copied().max().unwrap_or_default();
            match kind.range() {
                Some((low, high)) if least < low || most > high => Any,
                _ => Interval(least, most),
            }
        }
        Op::Cast if kind.holds_all_of(instruction.from) => match a {
            Truth(..) | Any => Any,
            interval => interval,
        },
        Op::Scale => {
            let Interval(least, most) = a else {
                return None;
            };
            let by = instruction.constant;
            let (least, most) = (least.checked_mul(by)?, most.checked_mul(by)?);
            let digits = instruction.b;
            let fits =
                |value: i128| digits == 0 || value.unsigned_abs() < 10u128.pow(digits.into());
            match fits(least) && fits(most) {
                true => Interval(least.min(most), least.max(most)),
                false => return None,
            }
        }
        // They may be faults, or are rare.
        _ => return None,
    })
}

/// Whether a Boolean may be TRUE, and whether it may be FALSE.
fn truth(known: PossibleValues) -> (bool, bool) {
    match known {
        PossibleValues::Truth(is_true, is_false) => (is_true, is_false),
        _ => (true, true),
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::DataType;

    use super::*;
    use crate::ir::row_program::RowSource;

    const INT: Kind = Kind::I32;

    fn constant(out: u8, value: i64) -> Instruction {
        Instruction {
            constant: (value as u64).into(),
            ..Instruction::of(Op::Constant, INT, [out, 0, 0])
        }
    }

    fn program(code: Vec<Instruction>, output: u8) -> RowProgram {
        let store = Instruction::of(Op::Store, Kind::Bool, [0, output, 0]);
        RowProgram {
            instructions: code.into_iter().chain([store]).collect(),
            columns: vec![RowSource::Column(0)],
            outputs: vec![DataType::Boolean],
        }
    }

    /// `column OP value` for a block of these values.
    fn passes(op: Op, value: i64, extent: (i128, i128)) -> bool {
        let load = Instruction::of(Op::Load, INT, [0, 0, 0]);
        let code = vec![
            load,
            constant(1, value),
            Instruction::of(op, INT, [2, 0, 1]),
        ];
        may_pass(&program(code, 2), |_| Some(extent))
    }

    /// As a search of all values says.
    #[test]
    fn comparisons_are_as_for_all_values() {
        for op in [Op::Eq, Op::NotEq, Op::Lt, Op::LtEq, Op::Gt, Op::GtEq] {
            for least in -3..3 {
                for most in least..3 {
                    for value in -4..4 {
                        let is_true = |v: i128| match op {
                            Op::Eq => v == value,
                            Op::NotEq => v != value,
                            Op::Lt => v < value,
                            Op::LtEq => v <= value,
                            Op::Gt => v > value,
                            _ => v >= value,
                        };
                        let any = (least..=most).any(is_true);
                        let what = format!("{op:?} {value} in {least}..={most}");
                        assert_eq!(passes(op, value as i64, (least, most)), any, "{what}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_may_be_a_fault_is_not_skipped() {
        let load = Instruction::of(Op::Load, INT, [0, 0, 0]);
        let never = vec![
            load,
            constant(1, 9),
            Instruction::of(Op::Gt, INT, [2, 0, 1]),
        ];
        let of = |code: Vec<Instruction>, out| may_pass(&program(code, out), |_| Some((0, 5)));
        assert!(!of(never.clone(), 2));
        // `never AND column / 1 > 9`.
        let divided = [
            Instruction::of(Op::Div, INT, [3, 0, 1]),
            Instruction::of(Op::Gt, INT, [3, 3, 1]),
            Instruction::of(Op::And, Kind::Bool, [2, 2, 3]),
        ];
        assert!(of(never.iter().copied().chain(divided).collect(), 2));
        // `never AND column + 1 > 9`, and `never OR column + 5 > 9`.
        let more = |by, op| {
            let code = [
                constant(4, by),
                Instruction::of(Op::Add, INT, [3, 0, 4]),
                Instruction::of(Op::Gt, INT, [3, 3, 1]),
                Instruction::of(op, Kind::Bool, [2, 2, 3]),
            ];
            of(never.iter().copied().chain(code).collect(), 2)
        };
        assert!(!more(1, Op::And) && !more(4, Op::Or) && more(5, Op::Or));
        // Integers that wrap.
        assert!(more(i32::MAX.into(), Op::Or));
        let unknown = may_pass(&program(never, 2), |_| None);
        assert!(unknown);
    }
}
