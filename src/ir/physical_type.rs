//! [`TypeRow`]: what devices do with each Arrow type, in one table, from which widths, order keys, folds, programs and codes derive.
//!
//! | Arrow types | stored as | order keys | integers | in programs | SUM | codes |
//! |---|---|---|---|---|---|---|
//! | Boolean | bit | natural | yes | Bool | | |
//! | Int8 to Int64, UInt8 to UInt64 | I8 to I64, U8 to U64 | natural | yes | yes | 64 bits | from 16 bits |
//! | Float16 | F16 | natural | | | | |
//! | Float32, Float64 | F32, F64 | natural | | yes | F64 | |
//! | Date32, Time32 | I32 | natural | yes | I32 | | yes |
//! | Date64, Time64, Timestamp | I64 | natural | yes | I64 | | yes |
//! | Duration | I64 | natural | yes | I64 | yes | yes |
//! | Interval(YearMonth) | I32 | natural | | | | |
//! | Interval(DayTime) | two I32 | natural | | | | |
//! | Interval(MonthDayNano) | I32, I32, I64 | ranked | | | | |
//! | Decimal32, Decimal64 | I32, I64 | natural | yes | | yes | |
//! | Decimal128 | I128 | by distance, else ranked | | Decimal | yes | yes |
//! | Decimal256 | I256 | ranked | | | on the CPU | |
//! | FixedSizeBinary | bytes | ranked | | | | |
//! | text and binary with offsets | offsets, bytes | ranked | | | | by a dictionary |
//! | views | 16 bytes, and what they refer to | ranked | | | | by a dictionary |
//! | dictionaries | keys, and values | those of the values | | | | |
//! | anything else | on the CPU | | | | | |
//!
//! *Integers*: values whose differences are addresses, of at most 64 bits. `device/cuda/tests/types.txt` has what each primitive does with each type.

use arrow::datatypes::{DataType, IntervalUnit};

use crate::ir::program::Kind;

/// How values are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stored {
    Bit,
    I8,
    I16,
    I32,
    I64,
    I128,
    I256,
    U8,
    U16,
    U32,
    U64,
    F16,
    F32,
    F64,
    /// Days and milliseconds, 32 bits each.
    DayTime,
    /// Months and days of 32 bits, nanoseconds of 64.
    MonthDayNano,
    /// A fixed number of bytes.
    Bytes,
    /// Offsets and bytes.
    Text,
    /// Views of 16 bytes, and what they refer to.
    Views,
    /// Keys, and the values that they refer to.
    Dictionary,
    /// As arrays of the host alone.
    OnHost,
}

/// How values become order keys, which are words of 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyOrder {
    /// Each value by itself, bit by bit.
    Natural,
    /// As the distance from a column's minimum where its values span less than 64 bits, as their ranks otherwise.
    Distance,
    /// As their ranks among the distinct values of a column.
    Ranked,
}

/// How SUM adds values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Summed {
    /// As integers of their own width, wrapping.
    Integers,
    /// As `f64`, in an order that depends on the rows alone.
    Floats,
}

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TypeRow {
    pub(crate) stored: Stored,
    /// `None`: a column of the type is no key by order.
    pub(crate) order: Option<KeyOrder>,
    /// Whether values are integers of at most 64 bits (or Booleans), whose differences are addresses.
    pub(crate) is_integer: bool,
    /// The registers of programs.
    pub(crate) program: Option<Kind>,
    /// SUM of the type itself. DataFusion casts other numbers to one of these types first.
    pub(crate) sum: Option<Summed>,
    /// Whether stored columns may have codes: distances from a minimum.
    pub(crate) has_codes: bool,
}

impl TypeRow {
    const ON_HOST: Self = Self {
        stored: Stored::OnHost,
        order: None,
        is_integer: false,
        program: None,
        sum: None,
        has_codes: false,
    };

    /// Types with order keys alone.
    const fn ordered(stored: Stored, order: KeyOrder) -> Self {
        Self {
            stored,
            order: Some(order),
            ..Self::ON_HOST
        }
    }

    const fn integer(stored: Stored) -> Self {
        Self {
            is_integer: true,
            ..Self::ordered(stored, KeyOrder::Natural)
        }
    }

    /// Integers, and times that are stored as such.
    const fn number(stored: Stored, program: Kind) -> Self {
        Self {
            program: Some(program),
            has_codes: true,
            ..Self::integer(stored)
        }
    }

    const fn float(stored: Stored, program: Kind) -> Self {
        Self {
            program: Some(program),
            ..Self::ordered(stored, KeyOrder::Natural)
        }
    }

    const fn summed(self, sum: Summed) -> Self {
        Self {
            sum: Some(sum),
            ..self
        }
    }

    /// The row of a type.
    pub(crate) fn of(data_type: &DataType) -> Self {
        use DataType::*;
        use KeyOrder::*;
        // No arm for all others: a new type of Arrow has to be judged.
        match data_type {
            Boolean => Self {
                program: Some(Kind::Bool),
                ..Self::integer(Stored::Bit)
            },
            Int8 | UInt8 => Self {
                has_codes: false,
                ..match data_type {
                    Int8 => Self::number(Stored::I8, Kind::I8),
                    _ => Self::number(Stored::U8, Kind::U8),
                }
            },
            Int16 => Self::number(Stored::I16, Kind::I16),
            Int32 => Self::number(Stored::I32, Kind::I32),
            Int64 => Self::number(Stored::I64, Kind::I64).summed(Summed::Integers),
            UInt16 => Self::number(Stored::U16, Kind::U16),
            UInt32 => Self::number(Stored::U32, Kind::U32),
            UInt64 => Self::number(Stored::U64, Kind::U64).summed(Summed::Integers),
            Float16 => Self::ordered(Stored::F16, Natural),
            Float32 => Self::float(Stored::F32, Kind::F32),
            Float64 => Self::float(Stored::F64, Kind::F64).summed(Summed::Floats),
            Date32 | Time32(_) => Self::number(Stored::I32, Kind::I32),
            Date64 | Time64(_) | Timestamp(..) => Self::number(Stored::I64, Kind::I64),
            Duration(_) => Self::number(Stored::I64, Kind::I64).summed(Summed::Integers),
            Interval(IntervalUnit::YearMonth) => Self::ordered(Stored::I32, Natural),
            Interval(IntervalUnit::DayTime) => Self::ordered(Stored::DayTime, Natural),
            Interval(IntervalUnit::MonthDayNano) => Self::ordered(Stored::MonthDayNano, Ranked),
            Decimal32(..) => Self::integer(Stored::I32).summed(Summed::Integers),
            Decimal64(..) => Self::integer(Stored::I64).summed(Summed::Integers),
            Decimal128(..) => Self {
                program: Some(Kind::Decimal),
                has_codes: true,
                ..Self::ordered(Stored::I128, Distance).summed(Summed::Integers)
            },
            Decimal256(..) => Self::ordered(Stored::I256, Ranked).summed(Summed::Integers),
            FixedSizeBinary(_) => Self::ordered(Stored::Bytes, Ranked),
            Utf8 | LargeUtf8 | Binary | LargeBinary => Self::ordered(Stored::Text, Ranked),
            Utf8View | BinaryView => Self::ordered(Stored::Views, Ranked),
            Dictionary(_, values) => Self {
                stored: Stored::Dictionary,
                order: Self::of(values).order,
                ..Self::ON_HOST
            },
            Null | List(_) | ListView(_) | FixedSizeList(..) | LargeList(_) | LargeListView(_)
            | Struct(_) | Union(..) | Map(..) | RunEndEncoded(..) => Self::ON_HOST,
        }
    }
}

impl Kind {
    /// The kind of a type's values, if programs compute with the type. Dates, times and timestamps are integers.
    pub(crate) fn of(data_type: &DataType) -> Option<Self> {
        TypeRow::of(data_type).program
    }

    /// The kind of a type whose values have at most 64 bits.
    pub(crate) fn of_word(data_type: &DataType) -> Option<Self> {
        Self::of(data_type).filter(|kind| *kind != Self::Decimal)
    }
}

impl Stored {
    /// Bytes of a value; `None` for bits, and for values of several widths.
    pub(crate) const fn bytes(self) -> Option<usize> {
        Some(match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 | Self::F16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 | Self::DayTime => 8,
            Self::I128 | Self::MonthDayNano => 16,
            Self::I256 => 32,
            Self::Bit
            | Self::Bytes
            | Self::Text
            | Self::Views
            | Self::Dictionary
            | Self::OnHost => return None,
        })
    }

    /// The sign bit of integers of at most 64 bits, 0 of unsigned ones; `None` of others.
    pub(crate) const fn sign_bit(self) -> Option<u64> {
        match self {
            Self::I8 => Some(1 << 7),
            Self::I16 => Some(1 << 15),
            Self::I32 => Some(1 << 31),
            Self::I64 => Some(1 << 63),
            Self::U8 | Self::U16 | Self::U32 | Self::U64 => Some(0),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::TimeUnit;

    use super::*;

    #[test]
    fn widths_are_those_of_arrow() {
        for data_type in [
            DataType::Int8,
            DataType::UInt16,
            DataType::Float16,
            DataType::Float64,
            DataType::Date32,
            DataType::Timestamp(TimeUnit::Second, None),
            DataType::Interval(IntervalUnit::DayTime),
            DataType::Interval(IntervalUnit::MonthDayNano),
            DataType::Decimal32(5, 2),
            DataType::Decimal128(20, 2),
            DataType::Decimal256(60, 2),
        ] {
            let row = TypeRow::of(&data_type);
            assert_eq!(
                row.stored.bytes(),
                data_type.primitive_width(),
                "{data_type}"
            );
        }
        assert_eq!(TypeRow::of(&DataType::Boolean).stored.bytes(), None);
    }

    #[test]
    fn keys_of_dictionaries_are_those_of_their_values() {
        let of = |values| {
            let keys = Box::new(DataType::Int32);
            TypeRow::of(&DataType::Dictionary(keys, Box::new(values)))
        };
        assert_eq!(of(DataType::Utf8).order, Some(KeyOrder::Ranked));
        assert_eq!(of(DataType::Int32).order, Some(KeyOrder::Natural));
        assert!(!of(DataType::Int32).is_integer);
    }
}
