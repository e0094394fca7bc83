//! What a query returned, boiled down to what two engines can be held to.

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::compute::{cast, sum};
use arrow::datatypes::{DataType, Int64Type};
use arrow::error::ArrowError;

use super::Result;

/// What is known of a result before any engine ran.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// Rows of the result.
    pub rows: u64,
    /// Sum over the column that the round names, if it names one.
    pub sum: Option<i64>,
}

/// What to take from the batches while they stream by.
#[derive(Clone, Copy, Debug)]
pub struct Consume {
    /// A column to add up.
    pub sum: Option<usize>,
    /// A digest over all columns of all rows, whatever their order. It costs nanoseconds a row: not for timed runs.
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
    /// Takes in one batch.
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

    /// Says what differs from the expected result, if anything does.
    pub fn contradicts(&self, expected: Expected) -> Option<String> {
        if self.rows != expected.rows {
            return Some(format!("{} rows, expected {}", self.rows, expected.rows));
        }
        // An empty result has no batch from which a sum could have been taken.
        match (self.sum, expected.sum) {
            (Some(ours), Some(right)) if ours != right => {
                Some(format!("sum {ours}, expected {right}"))
            }
            _ => None,
        }
    }
}

/// Adds up one hash per row, so that rows may come in any order but the values of a row must belong together.
/// The benches' tables hold integers without NULL.
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
