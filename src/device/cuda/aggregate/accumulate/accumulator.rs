//! Accumulators: what they read, what they do with a row, and how wide their results are.

use std::iter;

use arrow::datatypes::DataType;

use crate::device::cuda::runtime::memory::Memory;
use crate::ir::physical_type::{Stored, TypeRow};

/// What an accumulator does with a row (`Update` of `kernels/aggregate/block/group_codes.cuh`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Update {
    Count = 0,
    Sum = 1,
    Sum128 = 2,
    Sum256 = 3,
    SumF64 = 4,
    /// The sum of differences from the group's center.
    Deviation = 5,
    SquaredDeviation = 6,
    And = 9,
    Or = 10,
    Xor = 11,
    FirstRow = 12,
    ArgMin = 14,
    ArgMax = 15,
}

impl Update {
    /// Words of 32 bits per group in shared memory.
    pub(crate) fn shared_words(self) -> usize {
        match self {
            Self::Count | Self::FirstRow | Self::ArgMin | Self::ArgMax => 1,
            Self::Sum
            | Self::SumF64
            | Self::Deviation
            | Self::SquaredDeviation
            | Self::And
            | Self::Or
            | Self::Xor => 2,
            Self::Sum128 => 4,
            Self::Sum256 => 8,
        }
    }

    /// Bytes of the result per group.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::FirstRow | Self::ArgMin | Self::ArgMax => 4,
            Self::Sum128 => 16,
            Self::Sum256 => 32,
            _ => 8,
        }
    }

    /// Whether it adds floats.
    pub(crate) fn is_of_floats(self) -> bool {
        matches!(
            self,
            Self::SumF64 | Self::Deviation | Self::SquaredDeviation
        )
    }

    /// Whether its result is a row id.
    pub(crate) fn is_row(self) -> bool {
        matches!(self, Self::FirstRow | Self::ArgMin | Self::ArgMax)
    }

    /// Whether a result shows that some row was added to it.
    pub(crate) fn shows_rows(self) -> Presence {
        match self {
            Self::Count | Self::FirstRow | Self::ArgMin | Self::ArgMax => Presence::Surely,
            Self::And => Presence::Nothing,
            _ => Presence::UnlessZero,
        }
    }

    /// The byte that fills a result to which nothing was added.
    pub(crate) fn neutral(self) -> u8 {
        match self {
            Self::And | Self::FirstRow | Self::ArgMin | Self::ArgMax => 0xFF,
            _ => 0,
        }
    }
}

/// Whether a result tells a group with rows from one without.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Presence {
    /// Always.
    Surely,
    /// Unless the result is zero: values may add up to zero.
    UnlessZero,
    /// Never.
    Nothing,
}

/// How values are read (`Kind` of `kernels/aggregate/block/group_codes.cuh`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Bit = 0,
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    /// Read by run keys only.
    F32 = 9,
    /// Read by sums and run keys only: MIN and MAX of floats use order keys.
    F64 = 10,
    I128,
    I256,
}

impl Kind {
    /// The kind of integers and times that compare as their words do; `None` for other types.
    pub(crate) fn of(data_type: &DataType) -> Option<Self> {
        let row = TypeRow::of(data_type);
        Some(match row.stored {
            Stored::I128 => Self::I128,
            Stored::I256 => Self::I256,
            _ if !row.is_integer => return None,
            Stored::Bit => Self::Bit,
            Stored::U8 => Self::U8,
            Stored::U16 => Self::U16,
            Stored::U32 => Self::U32,
            Stored::U64 => Self::U64,
            Stored::I8 => Self::I8,
            Stored::I16 => Self::I16,
            Stored::I32 => Self::I32,
            Stored::I64 => Self::I64,
            _ => return None,
        })
    }

    /// Bytes of a value, 0 for a bit.
    pub(crate) fn width(self) -> usize {
        match self {
            Self::Bit => 0,
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
            Self::I128 => 16,
            Self::I256 => 32,
        }
    }
}

/// An accumulator: the columns it reads, and what it does with each row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Accumulator<'a> {
    pub(crate) update: Update,
    pub(crate) kind: Kind,
    /// `None` where values are not read.
    pub(crate) values: Option<&'a Memory>,
    /// A bitmap of the rows that count; `None`: all rows.
    pub(crate) valid: Option<&'a Memory>,
    /// For deviations: one center per group.
    pub(crate) centers: Option<&'a Memory>,
}

impl<'a> Accumulator<'a> {
    /// An accumulator that reads no values.
    pub(crate) fn of_rows(update: Update, valid: Option<&'a Memory>) -> Self {
        Self {
            update,
            kind: Kind::U64,
            values: None,
            valid,
            centers: None,
        }
    }
}

/// The columns that an accumulator reads, each with the bytes of a value (0 for bits).
pub(crate) fn reads<'a>(
    of: &Accumulator<'a>,
) -> impl Iterator<Item = (&'a Memory, usize)> + use<'a> {
    let values = of.values.map(|values| (values, of.kind.width()));
    values.into_iter().chain(of.valid.map(|valid| (valid, 0)))
}

/// The columns of all accumulators without repeats, each with the bytes of a value.
pub(crate) fn columns_of<'a>(all: &[Accumulator<'a>]) -> Vec<(&'a Memory, usize)> {
    let mut columns: Vec<(&Memory, usize)> = vec![];
    for (column, width) in all.iter().flat_map(reads) {
        if columns
            .iter()
            .all(|(known, _)| known.pointer() != column.pointer())
        {
            columns.push((column, width));
        }
    }
    columns
}

/// The most accumulators of one launch.
pub(crate) const MOST_ACCUMULATORS: usize = 16;

/// Words of 32 bits of shared memory per group, in the launch that needs most.
pub(crate) fn shared_words(all: &[Accumulator<'_>]) -> usize {
    let of_launch = |all: &[Accumulator<'_>]| all.iter().map(|of| of.update.shared_words()).sum();
    all.chunks(MOST_ACCUMULATORS)
        .map(of_launch)
        .max()
        .unwrap_or(0)
}

/// The accumulators, after one that finds the first row of each group.
pub(crate) fn with_first_row<'a>(all: &[Accumulator<'a>]) -> Vec<Accumulator<'a>> {
    let first_row = Accumulator::of_rows(Update::FirstRow, None);
    iter::once(first_row).chain(all.iter().copied()).collect()
}
