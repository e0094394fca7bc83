//! The result of a query, reduced to what two engines can be compared by.

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::compute::{cast, sum};
use arrow::datatypes::{DataType, Int64Type};
use arrow::error::ArrowError;

use super::Result;

/// In the error of a result that differs from the expected one, or from run to run.
pub const WRONG: &str = "WRONG RESULT";

/// The known properties of a result, computed before any engine ran.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// Rows of the result.
    pub rows: u64,
    /// The sum of the column that the round names, if it names one.
    pub sum: Option<i64>,
}

/// What is computed from the batches as they stream by.
#[derive(Clone, Copy, Debug)]
pub struct Consume {
    /// A column to sum.
    pub sum: Option<usize>,
    /// A digest of all columns of all rows, independent of their order. It takes nanoseconds for a row: not for timed
    /// runs.
    pub digest: bool,
}

/// A result's rows, sum and digest, as far as [`Consume`] asked for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub rows: u64,
    pub sum: Option<i64>,
    pub digest: Option<u64>,
}

impl Answer {
    /// Adds a batch.
    pub fn add(&mut self, batch: &RecordBatch, consume: Consume) -> Result<()> {
        self.rows += batch.num_rows() as u64;
        if let Some(column) = consume.sum {
            let values = cast(batch.column(column), &DataType::Int64)?;
            let batch_sum = sum(values.as_primitive::<Int64Type>()).unwrap_or(0);
            self.sum = Some(self.sum.unwrap_or(0).wrapping_add(batch_sum));
        }
        if consume.digest {
            let batch_digest = digest(batch)?;
            self.digest = Some(self.digest.unwrap_or(0).wrapping_add(batch_digest));
        }
        Ok(())
    }

    /// Describes the difference from the expected result, if there is one.
    pub fn contradicts(&self, expected: Expected) -> Option<String> {
        if self.rows != expected.rows {
            return Some(format!("{} rows, expected {}", self.rows, expected.rows));
        }
        // An empty result has no batch with a sum.
        match (self.sum, expected.sum) {
            (Some(ours), Some(right)) if ours != right => {
                Some(format!("sum {ours}, expected {right}"))
            }
            _ => None,
        }
    }
}

/// The sum of one hash for each row: rows may be in any order, but the values of a row belong together. The benches'
/// results hold integers without NULL.
fn digest(batch: &RecordBatch) -> Result<u64> {
    let columns = batch
        .columns()
        .iter()
        .map(|column| cast(column, &DataType::Int64))
        .collect::<std::result::Result<Vec<ArrayRef>, ArrowError>>()?;
    let columns: Vec<&[i64]> = columns
        .iter()
        .map(|column| &column.as_primitive::<Int64Type>().values()[..])
        .collect();

    let mut total = 0u64;
    for row in 0..batch.num_rows() {
        let mut hash = 0u64;
        for column in &columns {
            hash = (hash ^ column[row] as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            hash ^= hash >> 29;
        }
        total = total.wrapping_add(hash);
    }
    Ok(total)
}
