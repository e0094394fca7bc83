//! Calls and arithmetic on dates and times, compiled into existing instructions: selections, comparisons and integers.

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::functions::core::greatest::GreatestFunc;
use datafusion::functions::core::least::LeastFunc;
use datafusion::functions::core::nullif::NullIfFunc;
use datafusion::functions::datetime::date_part::DatePartFunc;
use datafusion::functions::datetime::date_trunc::DateTruncFunc;
use datafusion::functions::math::abs::AbsFunc;
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::expressions::{CastExpr, Literal};

use crate::ir::program::{FAR_DAYS, Kind, Op};
use crate::plan::compile::compiler::{Compiler, Expr, is_of};
use crate::plan::compile::date_parts::in_a_second;
use crate::plan::compile::fallible::{may_be_scalar, might_fail};
use crate::plan::compile::row_program::Rows;

impl Compiler<'_, Rows> {
    /// Whether DataFusion's evaluation may fail on a value.
    pub(crate) fn may_fail(&self, expr: &Expr) -> bool {
        let call = |expr: &Expr| {
            is_of::<AbsFunc>(expr) || is_of::<DateTruncFunc>(expr) || is_of::<DatePartFunc>(expr)
        };
        let to_time = |expr: &Expr| {
            let cast = expr.downcast_ref::<CastExpr>();
            cast.is_some_and(|cast| matches!(cast.cast_type(), DataType::Timestamp(..)))
        };
        might_fail(expr, self.schema)
            || call(expr)
            || to_time(expr)
            || expr.children().iter().any(|child| self.may_fail(child))
    }

    pub(crate) fn function(&mut self, expr: &Expr, data_type: &DataType) -> Option<u8> {
        let call = expr.downcast_ref::<ScalarFunctionExpr>()?;
        if let (true, [part, of]) = (is_of::<DatePartFunc>(expr), call.args()) {
            return self.date_part(part, of);
        }
        // DataFusion's functions may treat a value that all rows have in another way.
        if call.args().iter().any(may_be_scalar) {
            return None;
        }
        match call.args() {
            [of] if is_of::<AbsFunc>(expr) => self.abs(of, data_type),
            [of, other] if is_of::<NullIfFunc>(expr) => self.nullif(of, other, data_type),
            [part, of] if is_of::<DateTruncFunc>(expr) => self.date_trunc(part, of, data_type),
            all if is_of::<GreatestFunc>(expr) => self.outermost(all, Op::Gt, data_type),
            all if is_of::<LeastFunc>(expr) => self.outermost(all, Op::Lt, data_type),
            _ => None,
        }
    }

    /// Makes the host decide on values of a register outside `low ..= high`.
    pub(crate) fn within(&mut self, out: u8, kind: Kind, low: i64, high: i64) -> Option<()> {
        let far = self.word(kind, low)?;
        self.emit(Op::Lt, kind, [far, out, far])?;
        let above = self.word(kind, high)?;
        self.emit(Op::Gt, kind, [above, out, above])?;
        self.emit(Op::Or, Kind::Bool, [far, far, above])?;
        // A division by zero is the host's.
        let host = self.word(kind, 1)?;
        let zero = self.word(kind, 0)?;
        self.emit(Op::Div, kind, [host, host, zero])?;
        self.select(kind, out, [far, host, out])
    }

    /// Register `out` and a constant, as 64-bit integers.
    pub(crate) fn with(&mut self, op: Op, out: u8, value: i64) -> Option<()> {
        let constant = self.word(Kind::I64, value)?;
        self.emit(op, Kind::I64, [out, out, constant]).map(|_| ())
    }

    /// `a / by`, rounded down.
    pub(crate) fn floor(&mut self, out: u8, a: u8, by: i64) -> Option<()> {
        let floor = self.emit(Op::Floor, Kind::I64, [out, a, 0])?;
        floor.constant = by.into();
        Some(())
    }

    fn nullif(&mut self, of: &Expr, other: &Expr, data_type: &DataType) -> Option<u8> {
        // Floats are compared bit by bit.
        if data_type.is_floating() || self.type_of(other)? != *data_type {
            return None;
        }
        let kind = Kind::of(data_type)?;
        let out = self.value(of)?;
        let equal = self.value(other)?;
        self.emit(Op::Eq, kind, [equal, out, equal])?;
        let null = self.constant(kind, &ScalarValue::Null)?;
        self.select(kind, out, [equal, null, out])?;
        Some(out)
    }

    /// The greatest or the least value that is not NULL.
    fn outermost(&mut self, all: &[Expr], beats: Op, data_type: &DataType) -> Option<u8> {
        let (first, others) = all.split_first()?;
        let other_type = |expr| self.type_of(expr).is_none_or(|of| of != *data_type);
        // The order of zeros and NaN depends on whether there are NULLs.
        if data_type.is_floating() || all.iter().any(other_type) {
            return None;
        }
        let kind = Kind::of(data_type)?;
        let out = self.value(first)?;
        for other in others {
            let value = self.value(other)?;
            let better = value + 1;
            self.emit(beats, kind, [better, value, out])?;
            let best = better + 1;
            self.select(kind, best, [better, value, out])?;
            self.emit(Op::IsNull, Kind::Bool, [better, out, 0])?;
            self.select(kind, out, [better, value, best])?;
        }
        Some(out)
    }

    /// Dates less dates, and dates and times more or less a constant interval; `None` also where it is neither.
    pub(crate) fn date_arithmetic(
        &mut self,
        op: Op,
        (left, of_left): (&Expr, DataType),
        (right, of_right): (&Expr, DataType),
    ) -> Option<u8> {
        match (op, &of_left, &of_right) {
            (Op::Sub, DataType::Date32, DataType::Date32) => {
                let a = self.value(left)?;
                self.convert(a, Kind::I32, Kind::I64)?;
                let b = self.value(right)?;
                self.convert(b, Kind::I32, Kind::I64)?;
                self.emit(Op::Sub, Kind::I64, [a, a, b])?;
                Some(a)
            }
            (Op::Add, time, DataType::Interval(_)) => self.shift(left, time, right, 1),
            (Op::Sub, time, DataType::Interval(_)) => self.shift(left, time, right, -1),
            (Op::Add, DataType::Interval(_), time) => self.shift(right, time, left, 1),
            _ => None,
        }
    }

    fn shift(&mut self, time: &Expr, of: &DataType, interval: &Expr, sign: i64) -> Option<u8> {
        let interval = interval.downcast_ref::<Literal>()?.value();
        let (days, nanos) = match interval {
            ScalarValue::IntervalMonthDayNano(Some(by)) if by.months == 0 => {
                (by.days, by.nanoseconds)
            }
            ScalarValue::IntervalDayTime(Some(by)) => {
                (by.days, i64::from(by.milliseconds) * 1_000_000)
            }
            _ => return None,
        };
        let (kind, in_a_day) = match of {
            DataType::Date32 if nanos == 0 => (Kind::I32, 1),
            DataType::Timestamp(unit, None) => (Kind::I64, 86_400 * in_a_second(*unit)),
            _ => return None,
        };
        let in_a_unit = 86_400_000_000_000 / in_a_day;
        if nanos % in_a_unit != 0 {
            return None;
        }
        let by = i64::from(days)
            .checked_mul(in_a_day)?
            .checked_add(nanos / in_a_unit)?
            .checked_mul(sign)?;
        let far = FAR_DAYS.checked_mul(in_a_day).unwrap_or(i64::MAX);
        let most = far
            .checked_sub(by.checked_abs()?)
            .filter(|most| *most > 0)?;
        let out = self.value(time)?;
        self.within(out, kind, -most, most)?;
        let constant = self.word(kind, by)?;
        self.emit(Op::Add, kind, [out, out, constant])?;
        Some(out)
    }

    /// Between dates, and timestamps without a zone of all units, of the value in register `out`; `None` where it is between others.
    pub(crate) fn cast_time(&mut self, out: u8, from: &DataType, to: &DataType) -> Option<()> {
        match (from, to) {
            (DataType::Date32, DataType::Timestamp(unit, None)) => {
                let in_a_day = 86_400 * in_a_second(*unit);
                let most = (i64::MAX / in_a_day).min(FAR_DAYS);
                self.within(out, Kind::I32, -most, most)?;
                self.convert(out, Kind::I32, Kind::I64)?;
                self.with(Op::Mul, out, in_a_day)
            }
            (DataType::Timestamp(unit, None), DataType::Date32) => {
                let in_a_day = 86_400 * in_a_second(*unit);
                let most = FAR_DAYS.checked_mul(in_a_day).unwrap_or(i64::MAX);
                self.within(out, Kind::I64, -most, most)?;
                self.floor(out, out, in_a_day)?;
                self.convert(out, Kind::I64, Kind::I32)
            }
            (DataType::Timestamp(from, None), DataType::Timestamp(to, None)) => {
                let (from, to) = (in_a_second(*from), in_a_second(*to));
                match to > from {
                    true => {
                        let most = i64::MAX / (to / from);
                        self.within(out, Kind::I64, -most, most)?;
                        self.with(Op::Mul, out, to / from)
                    }
                    // Towards zero.
                    false => self.with(Op::Div, out, from / to),
                }
            }
            _ => None,
        }
    }
}
