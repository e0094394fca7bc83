//! [`FinalValue`]: how the result of an aggregate is made of its folded states on the device. In: an aggregate's states. Out: its column.
//!
//! ```text
//! SUM, COUNT, MIN, …      the only state
//! SUM of floats           sum + 0.0
//! AVG of floats           (sum + 0.0) / count
//! AVG of decimals         sum * 10^digits / count, towards zero
//! ```

use arrow::datatypes::DataType;

use crate::device::data::column::Column;
use crate::device::primitives::device::Device;
use crate::error::{BowtieError, Result};
use crate::exec::memory::compact_views::has_views;
use crate::ir::program::{Instruction, Kind, Op};
use crate::ir::row_program::{RowProgram, RowSource};
use crate::spec::aggregate::{AggregateFunction, GroupAggregate, GroupSpec, GroupState};

/// How a result is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FinalValue {
    /// The only state has its words.
    State,
    /// A program over the states computes it.
    Computed(RowProgram),
}

impl FinalValue {
    /// How the device makes the result of `aggregate`; `None` where DataFusion's accumulator has to finish it. It compares floats in its own
    /// way, so their least and greatest value are left to it.
    pub(crate) fn of(aggregate: &GroupAggregate, spec: &GroupSpec) -> Option<Self> {
        if aggregate.state != GroupState::Folds {
            return None;
        }
        // The last state of a sum or an average is its sum.
        let argument = aggregate.columns().last();
        let argument = argument.map(|column| spec.input.data_type(column));
        match (aggregate.function, argument) {
            (AggregateFunction::Count, _) => Some(Self::State),
            (AggregateFunction::Variance, _) | (_, None) => None,
            (AggregateFunction::Sum, Some(DataType::Float64)) => Some(Self::Computed(sum())),
            (AggregateFunction::Avg, Some(DataType::Float64)) => Some(Self::Computed(average())),
            (AggregateFunction::Avg, Some(DataType::Decimal128(_, scale))) => {
                let states = aggregate.aggregate.state_fields().ok()?;
                // DataFusion adds some decimals in 256 bits.
                let DataType::Decimal128(_, of_sum) = *states.get(1)?.data_type() else {
                    return None;
                };
                let result = aggregate.aggregate.field().data_type().clone();
                (of_sum == *scale).then_some(())?;
                Some(Self::Computed(decimal_average(of_sum, result)?))
            }
            (AggregateFunction::Avg, _) => None,
            (_, Some(data_type)) => is_exact(spec, data_type).then_some(Self::State),
        }
    }

    /// The result; `None` where it is the only state. `NeedsDataFusion` if a group's result is an error of DataFusion's.
    pub(crate) fn computed(
        &self,
        device: &dyn Device,
        rows: usize,
        states: &[Column],
    ) -> Result<Option<Column>> {
        let Self::Computed(program) = self else {
            return Ok(None);
        };
        // In the order of the program's loads: the sum is the last state.
        let read: Vec<&Column> = states.iter().rev().collect();
        let mut made = device.map(rows, program, &read)?;
        match made.pop() {
            Some(column) => Ok(Some(column)),
            None => Err(BowtieError::Internal("a result without a column".into())),
        }
    }
}

/// Whether values of a type are the same words on the device and in DataFusion, and do not keep buffers of their chunks alive: not floats,
/// nor views whose bytes are on the host.
pub(crate) fn is_exact(spec: &GroupSpec, data_type: &DataType) -> bool {
    let is_view = matches!(data_type, DataType::Utf8View | DataType::BinaryView);
    let keeps_buffers = has_views(data_type) && !(is_view && spec.views_are_text);
    !data_type.is_floating() && !keeps_buffers
}

/// Adds to zero, as DataFusion does: a sum of -0.0 is 0.0.
fn sum() -> RowProgram {
    let mut program = Program::default();
    program.load(SUM, Kind::F64);
    program.constant(TEMPORARY, Kind::F64, Some(0));
    program.binary(Op::Add, Kind::F64, SUM, TEMPORARY);
    program.finish(SUM, Kind::F64, DataType::Float64)
}

fn average() -> RowProgram {
    let mut program = Program::default();
    program.load(SUM, Kind::F64);
    program.constant(TEMPORARY, Kind::F64, Some(0));
    program.binary(Op::Add, Kind::F64, SUM, TEMPORARY);
    program.load(COUNT, Kind::I64);
    program.convert_count(Op::Cast, Kind::F64, 0);
    program.null_for_zero(Kind::F64);
    program.binary(Op::Div, Kind::F64, SUM, COUNT);
    program.finish(SUM, Kind::F64, DataType::Float64)
}

/// As DataFusion's `DecimalAverager`. Sums have `scale` decimals; `None` if the result has fewer.
fn decimal_average(scale: i8, result: DataType) -> Option<RowProgram> {
    let DataType::Decimal128(digits, of_result) = result else {
        return None;
    };
    let more = u32::try_from(i32::from(of_result) - i32::from(scale)).ok()?;
    let factor = 10_i128.checked_pow(more)?;
    let mut program = Program::default();
    program.load(SUM, Kind::Decimal);
    program.scale(SUM, factor, 0);
    program.load(COUNT, Kind::I64);
    program.convert_count(Op::Scale, Kind::Decimal, 1);
    program.null_for_zero(Kind::Decimal);
    program.binary(Op::Div, Kind::Decimal, SUM, COUNT);
    program.scale(SUM, 1, digits);
    Some(program.finish(SUM, Kind::Decimal, result))
}

// Registers.
const SUM: u8 = 0;
const COUNT: u8 = 1;
const TEMPORARY: u8 = 2;
const IS_ZERO: u8 = 3;

/// Instructions of a program over the sum (column 0) and the count (column 1).
#[derive(Default)]
struct Program(Vec<Instruction>);

impl Program {
    fn push(&mut self, op: Op, kind: Kind, [out, a, b, c]: [u8; 4], constant: i128, from: Kind) {
        self.0.push(Instruction {
            op,
            kind,
            out,
            a,
            b,
            c,
            column: u16::from(if op == Op::Load { out } else { 0 }),
            constant,
            from,
        });
    }

    fn load(&mut self, register: u8, kind: Kind) {
        self.push(Op::Load, kind, [register, 0, 0, 0], 0, kind);
    }

    /// The bits of a constant; `None`: NULL.
    fn constant(&mut self, register: u8, kind: Kind, bits: Option<i128>) {
        let is_null = u8::from(bits.is_none());
        let constant = bits.unwrap_or(0);
        self.push(
            Op::Constant,
            kind,
            [register, 0, is_null, 0],
            constant,
            kind,
        );
    }

    /// `a = a op b`
    fn binary(&mut self, op: Op, kind: Kind, a: u8, b: u8) {
        self.push(op, kind, [a, a, b, 0], 0, kind);
    }

    fn scale(&mut self, register: u8, factor: i128, digits: u8) {
        let registers = [register, register, digits, 0];
        self.push(Op::Scale, Kind::Decimal, registers, factor, Kind::Decimal);
    }

    /// The count as another kind.
    fn convert_count(&mut self, op: Op, kind: Kind, constant: i128) {
        self.push(op, kind, [COUNT, COUNT, 0, 0], constant, Kind::I64);
    }

    /// NULL in place of a count of zero.
    fn null_for_zero(&mut self, kind: Kind) {
        self.constant(TEMPORARY, kind, Some(0));
        self.push(Op::Eq, kind, [IS_ZERO, COUNT, TEMPORARY, 0], 0, kind);
        self.constant(TEMPORARY, kind, None);
        self.push(
            Op::Select,
            kind,
            [COUNT, IS_ZERO, TEMPORARY, COUNT],
            0,
            kind,
        );
    }

    fn finish(mut self, register: u8, kind: Kind, result: DataType) -> RowProgram {
        self.push(Op::Store, kind, [0, register, 0, 0], 0, kind);
        let loads = self.0.iter().filter(|i| i.op == Op::Load).count();
        RowProgram {
            instructions: self.0,
            columns: (0..loads).map(RowSource::Column).collect(),
            outputs: vec![result],
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Float64Array, Int64Array};
    use arrow::datatypes::{Decimal128Type, Float64Type};

    use super::*;
    use crate::device::budget::Budget;
    use crate::device::host::device::HostDevice;
    use crate::device::primitives::transfer::TransferPrimitives as _;

    fn run(program: RowProgram, sums: ArrayRef, counts: Vec<i64>) -> Result<ArrayRef> {
        let device = HostDevice::new(Budget::new(u64::MAX)).unwrap();
        let rows = sums.len();
        let counts: ArrayRef = Arc::new(Int64Array::from(counts));
        let with_count = program.columns.len() > 1;
        let arrays = if with_count {
            vec![counts, sums]
        } else {
            vec![sums]
        };
        let states = arrays.into_iter().map(|array| {
            let column = device.upload(&[array])?;
            Ok(Arc::into_inner(column).expect("it has one owner"))
        });
        let states = states.collect::<Result<Vec<Column>>>()?;
        let made = FinalValue::Computed(program).computed(&device, rows, &states)?;
        device.download(&made.unwrap())
    }

    #[test]
    fn floats() {
        let sums: ArrayRef = Arc::new(Float64Array::from(vec![
            Some(-0.0),
            Some(7.0),
            None,
            Some(f64::INFINITY),
            Some(f64::NAN),
        ]));
        let counts = vec![1, 2, 0, 3, 4];
        let made = run(sum(), Arc::clone(&sums), counts.clone()).unwrap();
        let made = made.as_primitive::<Float64Type>();
        assert!(made.value(0).is_sign_positive() && made.is_null(2));
        assert_eq!(made.value(1), 7.0);
        let made = run(average(), sums, counts).unwrap();
        let made = made.as_primitive::<Float64Type>();
        assert!(made.value(0).is_sign_positive() && made.is_null(2));
        assert_eq!((made.value(1), made.value(3)), (3.5, f64::INFINITY));
        assert!(made.value(4).is_nan());
    }

    #[test]
    fn decimals() {
        let decimals = |values: Vec<Option<i128>>| -> ArrayRef {
            let array = Decimal128Array::from(values);
            Arc::new(array.with_precision_and_scale(38, 2).unwrap())
        };
        let program = || decimal_average(2, DataType::Decimal128(19, 6)).unwrap();
        let sums = decimals(vec![Some(100), Some(-100), None, Some(0)]);
        let made = run(program(), sums, vec![3, 3, 0, 9]).unwrap();
        assert_eq!(made.data_type(), &DataType::Decimal128(19, 6));
        let made = made.as_primitive::<Decimal128Type>();
        assert_eq!(
            made.iter().collect::<Vec<_>>(),
            [Some(333_333), Some(-333_333), None, Some(0)]
        );
        // Beyond 128 bits, and beyond 19 digits: DataFusion raises its error.
        for sum in [i128::MAX / 10, 10_i128.pow(16)] {
            let made = run(program(), decimals(vec![Some(sum)]), vec![1]);
            assert!(matches!(made, Err(BowtieError::NeedsDataFusion)), "{sum}");
        }
        let made = run(
            program(),
            decimals(vec![Some(10_i128.pow(15) - 1)]),
            vec![1],
        );
        assert!(made.is_ok());
        assert!(decimal_average(6, DataType::Decimal128(19, 2)).is_none());
    }
}
