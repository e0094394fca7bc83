//! Parts of dates and times: `date_part`, and `date_trunc`, which goes back to where one begins.

use std::str::FromStr;

use arrow::compute::kernels::cast_utils::IntervalUnit;
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::physical_expr::expressions::Literal;

use crate::ir::program::{FAR_DAYS, Kind, Op};
use crate::plan::compile::compiler::{Compiler, Expr};
use crate::plan::compile::row_program::Rows;

/// Days from 0001-01-01 to 1970-01-01.
const DAYS_TO_1970: i64 = 719_162;

/// What Op::Part knows.
const YEAR: u8 = 0;
const MONTH: u8 = 1;
const DAY: u8 = 2;

/// What `date_part` is asked for.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    /// The year, month or day of the month, by its number in a program.
    OfDate(u8),
    Quarter,
    /// The year that the week belongs to.
    IsoYear,
    Week,
    DayOfYear,
    /// From 0, or 1 from Monday on.
    DayOfWeek,
    IsoDayOfWeek,
    Hour,
    Minute,
    /// The second of the minute, in this many units a second.
    Second(i64),
    /// Seconds since 1970.
    Epoch,
}

impl Part {
    /// By DataFusion's names, which are those of intervals' units, and some besides.
    fn named(name: &str) -> Option<Self> {
        if let Ok(unit) = IntervalUnit::from_str(name) {
            return Some(match unit {
                IntervalUnit::Year => Self::OfDate(YEAR),
                IntervalUnit::Month => Self::OfDate(MONTH),
                IntervalUnit::Day => Self::OfDate(DAY),
                IntervalUnit::Week => Self::Week,
                IntervalUnit::Hour => Self::Hour,
                IntervalUnit::Minute => Self::Minute,
                IntervalUnit::Second => Self::Second(1),
                IntervalUnit::Millisecond => Self::Second(1_000),
                IntervalUnit::Microsecond => Self::Second(1_000_000),
                IntervalUnit::Nanosecond => Self::Second(1_000_000_000),
                _ => return None,
            });
        }
        Some(match name.to_lowercase().as_str() {
            "isoyear" => Self::IsoYear,
            "qtr" | "quarter" => Self::Quarter,
            "doy" => Self::DayOfYear,
            "dow" => Self::DayOfWeek,
            "isodow" => Self::IsoDayOfWeek,
            "epoch" => Self::Epoch,
            _ => return None,
        })
    }

    fn is_of_time(self) -> bool {
        matches!(self, Self::Hour | Self::Minute | Self::Second(_))
    }
}

/// What a type's values count, as far as their parts are those of UTC.
#[derive(Clone, Copy, PartialEq)]
enum Clock {
    Days,
    /// Milliseconds since 1970, which count as whole days in parts smaller than a day.
    Date64,
    /// Units since 1970, this many a second.
    Timestamp(i64),
    /// Units since midnight, this many a second.
    Time(i64),
}

impl Clock {
    fn of(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Date32 => Self::Days,
            DataType::Date64 => Self::Date64,
            DataType::Timestamp(unit, None) => Self::Timestamp(in_a_second(*unit)),
            DataType::Timestamp(unit, Some(zone)) if matches!(&**zone, "UTC" | "+00:00") => {
                Self::Timestamp(in_a_second(*unit))
            }
            DataType::Time32(unit) | DataType::Time64(unit) => Self::Time(in_a_second(*unit)),
            _ => return None,
        })
    }

    /// Units of it in a second; none of days.
    fn in_a_second(self) -> Option<i64> {
        match self {
            Self::Days => None,
            Self::Date64 => Some(1_000),
            Self::Timestamp(second) | Self::Time(second) => Some(second),
        }
    }
}

impl Compiler<'_, Rows> {
    pub(crate) fn date_part(&mut self, part: &Expr, of: &Expr) -> Option<u8> {
        let part = match part.downcast_ref::<Literal>()?.value() {
            // DataFusion takes no others.
            ScalarValue::Utf8(Some(part)) | ScalarValue::Utf8View(Some(part)) => Part::named(part)?,
            _ => return None,
        };
        let data_type = self.type_of(of)?;
        let clock = Clock::of(&data_type)?;
        let out = self.value(of)?;
        match part {
            Part::Epoch => self.epoch(out, Kind::of(&data_type)?, clock)?,
            part if part.is_of_time() => self.part_of_time(out, part, clock)?,
            part => self.part_of_date(out, part, clock)?,
        }
        Some(out)
    }

    fn part_of_date(&mut self, out: u8, part: Part, clock: Clock) -> Option<()> {
        match clock {
            Clock::Days if matches!(part, Part::OfDate(_)) => {}
            Clock::Days => self.convert(out, Kind::I32, Kind::I64)?,
            Clock::Date64 | Clock::Timestamp(_) => {
                self.floor(out, out, 86_400 * clock.in_a_second()?)?;
            }
            // Has none, as DataFusion says.
            Clock::Time(_) => return None,
        }
        if let Part::OfDate(part) = part {
            return self.emit(Op::Part, Kind::I32, [out, out, part]).map(|_| ());
        }
        // Of days further away DataFusion has no parts.
        self.within(out, Kind::I64, -FAR_DAYS, FAR_DAYS)?;
        match part {
            Part::Quarter => {
                self.part_of_days(out, out, MONTH)?;
                self.with(Op::Add, out, 2)?;
                self.floor(out, out, 3)?;
            }
            Part::DayOfYear => {
                self.since_new_year(out)?;
                self.with(Op::Add, out, 1)?;
            }
            // 1970 began on a Thursday.
            Part::DayOfWeek => {
                self.with(Op::Add, out, 4)?;
                self.modulo(out, 7)?;
            }
            Part::IsoDayOfWeek => {
                self.with(Op::Add, out, 3)?;
                self.modulo(out, 7)?;
                self.with(Op::Add, out, 1)?;
            }
            Part::IsoYear => {
                self.thursday(out)?;
                self.part_of_days(out, out, YEAR)?;
            }
            Part::Week => {
                self.thursday(out)?;
                self.since_new_year(out)?;
                self.floor(out, out, 7)?;
                self.with(Op::Add, out, 1)?;
            }
            _ => return None,
        }
        self.convert(out, Kind::I64, Kind::I32)
    }

    /// The Thursday of a day's week, whose year is the week's.
    fn thursday(&mut self, out: u8) -> Option<()> {
        self.with(Op::Add, out, 3)?;
        self.floor(out, out, 7)?;
        self.with(Op::Mul, out, 7)
    }

    /// Days since the first one of the year.
    fn since_new_year(&mut self, out: u8) -> Option<()> {
        let new_year = out + 1;
        self.new_year(new_year, out)?;
        self.emit(Op::Sub, Kind::I64, [out, out, new_year])
            .map(|_| ())
    }

    /// The first day of the year of the day in register `a`.
    fn new_year(&mut self, out: u8, a: u8) -> Option<()> {
        self.part_of_days(out, a, YEAR)?;
        self.with(Op::Sub, out, 1)?;
        // Leap years before it.
        let leap = out + 1;
        self.floor(leap, out, 4)?;
        for (op, years) in [(Op::Sub, 100), (Op::Add, 400)] {
            let of_years = leap + 1;
            self.floor(of_years, out, years)?;
            self.emit(op, Kind::I64, [leap, leap, of_years])?;
        }
        let year = self.word(Kind::I64, 365)?;
        self.emit(Op::Mul, Kind::I64, [year, out, year])?;
        self.emit(Op::Add, Kind::I64, [out, year, leap])?;
        self.with(Op::Sub, out, DAYS_TO_1970)
    }

    /// The first day of the month of the day in register `a`.
    fn first_of_month(&mut self, out: u8, a: u8) -> Option<()> {
        let day = out + 1;
        self.part_of_days(day, a, DAY)?;
        self.emit(Op::Sub, Kind::I64, [out, a, day])?;
        self.with(Op::Add, out, 1)
    }

    fn part_of_time(&mut self, out: u8, part: Part, clock: Clock) -> Option<()> {
        let is_whole = match (clock, part) {
            (Clock::Days, _) => true,
            (Clock::Date64, Part::Second(units)) => units > 1,
            _ => false,
        };
        if let (Clock::Days, _) | (Clock::Time(1 | 1_000), _) = (clock, part) {
            self.convert(out, Kind::I32, Kind::I64)?;
        }
        if is_whole {
            self.with(Op::Mul, out, 0)?;
        } else {
            let second = clock.in_a_second()?;
            let in_a_day = 86_400 * second;
            match (clock, FAR_DAYS.checked_mul(in_a_day)) {
                (Clock::Time(_), _) => self.within(out, Kind::I64, 0, in_a_day - 1)?,
                (_, Some(far)) => self.within(out, Kind::I64, -far, far)?,
                // All nanoseconds are near.
                (_, None) => {}
            }
            match part {
                Part::Hour => {
                    self.modulo(out, in_a_day)?;
                    self.floor(out, out, 3_600 * second)?;
                }
                Part::Minute => {
                    self.modulo(out, 3_600 * second)?;
                    self.floor(out, out, 60 * second)?;
                }
                Part::Second(units) => {
                    self.modulo(out, 60 * second)?;
                    match units >= second {
                        true => self.with(Op::Mul, out, units / second)?,
                        false => self.floor(out, out, second / units)?,
                    }
                }
                _ => return None,
            }
        }
        match part {
            // These are of 64 bits.
            Part::Second(1_000_000_000) => Some(()),
            _ => self.convert(out, Kind::I64, Kind::I32),
        }
    }

    fn epoch(&mut self, out: u8, kind: Kind, clock: Clock) -> Option<()> {
        self.emit(Op::Cast, Kind::F64, [out, out, 0])?.from = kind;
        let (op, by) = match clock.in_a_second() {
            None => (Op::Mul, 86_400.0),
            Some(1) => return Some(()),
            Some(second) => (Op::Div, second as f64),
        };
        let by = self.constant(Kind::F64, &ScalarValue::Float64(Some(by)))?;
        self.emit(op, Kind::F64, [out, out, by]).map(|_| ())
    }

    /// What is left over of register `out` beside multiples of `by`, from 0 on.
    fn modulo(&mut self, out: u8, by: i64) -> Option<()> {
        let whole = out + 1;
        self.floor(whole, out, by)?;
        self.with(Op::Mul, whole, by)?;
        self.emit(Op::Sub, Kind::I64, [out, out, whole]).map(|_| ())
    }

    /// A part of the days in register `a`, as 64-bit integer.
    fn part_of_days(&mut self, out: u8, a: u8, part: u8) -> Option<()> {
        self.emit(Op::Part, Kind::I32, [out, a, part])?;
        self.convert(out, Kind::I32, Kind::I64)
    }

    /// Of a timestamp without a zone.
    pub(crate) fn date_trunc(
        &mut self,
        part: &Expr,
        of: &Expr,
        data_type: &DataType,
    ) -> Option<u8> {
        let literal = part.downcast_ref::<Literal>()?;
        let part = literal.value().try_as_str()??.to_lowercase();
        let DataType::Timestamp(unit, None) = data_type else {
            return None;
        };
        let second = in_a_second(*unit);
        let in_a_day = 86_400 * second;
        let length = match part.as_str() {
            "microsecond" => second / 1_000_000,
            "millisecond" => second / 1_000,
            "second" => second,
            "minute" => 60 * second,
            "hour" => 3_600 * second,
            "day" => in_a_day,
            "week" | "month" | "quarter" | "year" => 0,
            _ => return None,
        };
        let out = self.value(of)?;
        match (part.as_str(), length) {
            ("microsecond" | "millisecond" | "second", 0 | 1) => return Some(out),
            ("week" | "month" | "quarter" | "year", _) => {}
            _ => {
                self.within(out, Kind::I64, i64::MIN + length, i64::MAX)?;
                self.floor(out, out, length)?;
                self.with(Op::Mul, out, length)?;
                return Some(out);
            }
        }
        // DataFusion counts nanoseconds, before and after.
        let most = i64::MAX / (1_000_000_000 / second) - 367 * in_a_day;
        self.within(out, Kind::I64, -most, most)?;
        self.floor(out, out, in_a_day)?;
        match part.as_str() {
            "week" => {
                self.thursday(out)?;
                self.with(Op::Sub, out, 3)?;
            }
            "month" => self.first_of_month(out, out)?,
            "quarter" => self.first_of_quarter(out)?,
            _ => self.new_year(out, out)?,
        }
        self.with(Op::Mul, out, in_a_day)?;
        Some(out)
    }

    /// The first day of the quarter of a day: that of its month, or of one of the two months before.
    fn first_of_quarter(&mut self, out: u8) -> Option<()> {
        let (months, first) = (out + 1, out + 2);
        self.part_of_days(months, out, MONTH)?;
        self.with(Op::Sub, months, 1)?;
        self.modulo(months, 3)?;
        self.first_of_month(first, out)?;
        for (back, to) in [(0, first), (1, out)] {
            let earlier = self.word(Kind::I64, 1)?;
            self.emit(Op::Sub, Kind::I64, [earlier, first, earlier])?;
            self.first_of_month(earlier, earlier)?;
            let further = self.word(Kind::I64, back)?;
            self.emit(Op::Gt, Kind::I64, [further, months, further])?;
            self.select(Kind::I64, to, [further, earlier, first])?;
        }
        Some(())
    }
}

pub(crate) fn in_a_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}
