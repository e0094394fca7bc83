//! Rates of the operators of relational algebra except JOIN.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::DataType;

use crate::device::data::column::Column;
use crate::device::data::key_bitmap::{KeyBitmap, KeyRange};
use crate::device::data::matches::Matches;
use crate::device::data::structures::Flags;
use crate::device::presorted::PresortedKeys;
use crate::device::primitives::device::Device;
use crate::error::{BowtieError, Result};
use crate::ir::program::{Instruction, Kind, Op};
use crate::ir::row_program::{RowProgram, RowSource};
use crate::ir::strategies::Grouping;
use crate::rates::{Rate, numbers, open, permuted, scattered, timed};

/// An operator of \[D\] table 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// A filter of two columns by one of them; half of the rows pass.
    Select,
    /// A sum of two columns.
    Project,
    /// A cross product of one column of each input.
    Product,
    /// The rows of two inputs, with duplicates.
    UnionAll,
    /// The distinct values of a column in which each value occurs twice.
    Distinct,
    /// A semi join of columns without duplicates; half of the left values are in the right column.
    Intersect,
    /// An anti join of the same.
    Except,
}

impl Operator {
    /// All operators.
    pub const ALL: [Self; 7] = [
        Self::Select,
        Self::Project,
        Self::Product,
        Self::UnionAll,
        Self::Distinct,
        Self::Intersect,
        Self::Except,
    ];

    /// Whether it compares rows with one another, so that their order matters.
    pub fn is_of_sets(self) -> bool {
        matches!(self, Self::Distinct | Self::Intersect | Self::Except)
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Select => "select",
            Self::Project => "project",
            Self::Product => "product",
            Self::UnionAll => "union_all",
            Self::Distinct => "distinct",
            Self::Intersect => "intersect",
            Self::Except => "except",
        })
    }
}

/// The inputs of an operator on a device: columns of values of 4 bytes.
#[derive(Debug)]
pub struct AlgebraRows {
    operator: Operator,
    rows: usize,
    device: Arc<dyn Device>,
    left: Arc<Column>,
    right: Arc<Column>,
}

/// The bytes of a value.
const BYTES: usize = 4;
const INT: Kind = Kind::I32;

fn step(op: Op, out: u8, [a, b]: [u8; 2], column: u16) -> Instruction {
    Instruction {
        op,
        kind: INT,
        out,
        a,
        b,
        c: 0,
        column,
        constant: 0,
        from: INT,
    }
}

/// `column[0] OP column[1]`, or `column[0] OP 0`.
fn program(op: Op, of_two: bool, output: DataType) -> RowProgram {
    let second = match of_two {
        true => step(Op::Load, 1, [0, 0], 1),
        false => step(Op::Constant, 1, [0, 0], 0),
    };
    let stored = Kind::of(&output).unwrap_or(INT);
    RowProgram {
        instructions: vec![
            step(Op::Load, 0, [0, 0], 0),
            second,
            step(op, 0, [0, 1], 0),
            Instruction {
                kind: stored,
                ..step(Op::Store, 0, [0, 0], 0)
            },
        ],
        columns: (0..=usize::from(of_two)).map(RowSource::Column).collect(),
        outputs: vec![output],
    }
}

impl AlgebraRows {
    /// Generates inputs of about `rows` rows, a power of two of at least four, and uploads them to a device, named as
    /// in `bowtie.device`. Inputs of [set operators](Operator::is_of_sets) are sorted if `ascending`, as in \[D\], or
    /// in no order.
    ///
    /// # Errors
    /// If there is no such device, or not enough memory.
    pub fn new(
        device: &str,
        operator: Operator,
        ascending: bool,
        rows: usize,
    ) -> datafusion::error::Result<Self> {
        let device = open(device)?;
        let half = (rows / 2) as u64;
        let (left, right) = match operator {
            // The output has as many rows as the inputs of other operators.
            Operator::Product => {
                let left = 1 << (rows.ilog2() / 2);
                (left, rows / left)
            }
            _ => (rows, rows),
        };
        let each_once = |i| match ascending {
            true => i,
            false => permuted(i, 2 * half),
        };
        let left = numbers(left, BYTES, |i| match operator {
            Operator::Distinct => each_once(i) / 2,
            Operator::Intersect | Operator::Except => each_once(i),
            _ => scattered(i),
        });
        let right = numbers(right, BYTES, |i| match operator {
            Operator::Intersect | Operator::Except => each_once(i) + half,
            _ => scattered(i ^ 1 << 40),
        });
        Ok(Self {
            operator,
            rows,
            left: device.upload(&[left])?,
            right: device.upload(&[right])?,
            device,
        })
    }

    /// The number of rows read.
    pub fn input_rows(&self) -> usize {
        match self.operator {
            Operator::Select | Operator::Project | Operator::Distinct => self.rows,
            _ => self.left.rows() + self.right.rows(),
        }
    }

    /// The bytes that must be read, and written for `rows` output rows: each input and output value once, as \[D\]
    /// counts.
    pub fn least_bytes(&self, rows: usize) -> usize {
        let (read, written) = match self.operator {
            Operator::Select => (2 * self.rows, 2 * rows),
            Operator::Project => (2 * self.rows, rows),
            Operator::Product => (self.input_rows(), 2 * rows),
            _ => (self.input_rows(), rows),
        };
        BYTES * (read + written)
    }

    /// Runs the operator `runs` times.
    ///
    /// # Errors
    /// If memory does not suffice, or the number of output rows is wrong.
    pub fn measure(&self, runs: usize) -> datafusion::error::Result<Rate> {
        let (ms, rows) = timed(self.device.as_ref(), runs, || self.made())?;
        let half = self.rows / 2;
        let right = match self.operator {
            // Signs are random.
            Operator::Select => rows.abs_diff(half) <= half / 4,
            Operator::Project | Operator::Product => rows == self.rows,
            Operator::UnionAll => rows == 2 * self.rows,
            Operator::Distinct | Operator::Intersect | Operator::Except => rows == half,
        };
        match right {
            true => Ok(Rate {
                ms,
                rows,
                strategy: self.operator.to_string(),
            }),
            false => {
                let what = format!("{} made {rows} rows of {}", self.operator, self.rows);
                Err(BowtieError::Internal(what).into())
            }
        }
    }

    /// The number of output rows of one run.
    fn made(&self) -> Result<usize> {
        let device = self.device.as_ref();
        let (left, right) = (self.left.as_ref(), self.right.as_ref());
        match self.operator {
            Operator::Select => {
                let program = program(Op::Lt, false, DataType::Boolean);
                let kept =
                    device.select(self.rows, 0..self.rows, &program, &[left], &[left, right])?;
                Ok(kept.map_or(self.rows, |(rows, _)| rows))
            }
            Operator::Project => {
                let program = program(Op::Add, true, DataType::Int32);
                let made = device.map(self.rows, &program, &[left, right])?;
                Ok(made[0].rows())
            }
            Operator::Product => self.product(),
            Operator::UnionAll => Ok(device.concat(&[left, right])?.rows()),
            Operator::Distinct => Ok(device
                .aggregate(self.rows, &[left], &[], Grouping::AUTO)?
                .groups),
            Operator::Intersect => self.found(true),
            Operator::Except => self.found(false),
        }
    }

    /// Every position is in the range of every row.
    fn product(&self) -> Result<usize> {
        let device = self.device.as_ref();
        let rows = self.right.rows();
        let repeated = device.cross_product(&self.left, true, rows, 0, self.rows)?;
        let again = device.cross_product(&self.right, false, rows, 0, self.rows)?;
        if let (Some(repeated), Some(_)) = (repeated, again) {
            return Ok(repeated.rows());
        }
        let build = device.sort(self.right.rows(), None, None, &[])?;
        let probe = device.sort(self.left.rows(), None, None, &[])?;
        let ranges = device.range_bounds(&build, &probe, &[], None)?;
        let matches = Matches {
            build: &build,
            probe: &probe,
            ranges: &ranges,
            tests: &[],
            program: None,
        };
        let offsets = device.scan(&device.count_matches(matches, false)?.counts)?;
        let total = device.total(&offsets)?;
        let pairs = device.expand(matches, &offsets, 0, total as usize)?;
        device.gather(&self.right, &pairs.build)?;
        Ok(device.gather(&self.left, &pairs.probe)?.rows())
    }

    /// The left values that the right side has (`wanted`), or those that it lacks: a semi or anti join with the right
    /// side as the build side.
    fn found(&self, wanted: bool) -> Result<usize> {
        let device = self.device.as_ref();
        let (left, right) = ([self.left.as_ref()], [self.right.as_ref()]);
        let rows = self.left.rows();
        let keys = PresortedKeys {
            build: right[0],
            probe: left[0],
            known: false,
        };
        if let Some(kept) = device.merge_keep(keys, wanted, &left)? {
            return Ok(kept.map_or(rows, |(rows, _)| rows));
        }
        let is_narrow = |range: &KeyRange| range.is_narrow(true, rows as u64, None);
        let bits = KeyBitmap::of(device, &right, true, &is_narrow)?;
        let kept = match bits {
            Some(bits) => device.select_keys(&bits, &left, wanted, &left)?,
            None => {
                let flags = device.flags(rows)?;
                self.flag_matched(&flags)?;
                let flags = device.flag_column(&flags, 0, rows, wanted)?;
                device.keep(&flags, &left)?
            }
        };
        Ok(kept.map_or(rows, |(rows, _)| rows))
    }

    /// Sets the flags of the left values that the right side has.
    fn flag_matched(&self, flags: &Flags) -> Result<()> {
        let device = self.device.as_ref();
        let index = device.equi_index(&[&self.right], true, None)?;
        let (probe, ranges) = device.equi_search(&index, &[&self.left])?;
        let matches = Matches {
            build: &index.rows,
            probe: &probe,
            ranges: &ranges,
            tests: &[],
            program: None,
        };
        let counts = device.count_matches(matches, true)?.counts;
        let counts = device.row_counts(&probe, &counts, self.left.rows())?;
        device.set_flags_counted(flags, 0, &counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operator_makes_its_rows() {
        for operator in Operator::ALL {
            for ascending in [false, true] {
                let rows = AlgebraRows::new("host", operator, ascending, 1 << 12).unwrap();
                let rate = rows.measure(1).unwrap();
                assert!(
                    rate.rows > 0 && rows.least_bytes(rate.rows) > 0,
                    "{operator}"
                );
            }
        }
    }
}
