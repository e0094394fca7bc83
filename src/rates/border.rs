//! Rates of transfers in both directions, through staging memory.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array};

use crate::device::primitives::device::Device;
use crate::error::BowtieError;
use crate::rates::{Rate, numbers, open, scattered, timed};

/// A kind of transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transfer {
    /// Upload of one array.
    Upload,
    /// Upload of batches of 8192 rows, as in-memory tables have them.
    UploadOfBatches,
    /// The same with small values of 8 bytes.
    UploadOfWords,
    /// The same with small decimals, of 16 bytes.
    UploadOfDecimals,
    /// Download into untouched memory.
    Download,
}

impl Transfer {
    /// All kinds.
    pub const ALL: [Self; 5] = [
        Self::Upload,
        Self::UploadOfBatches,
        Self::UploadOfWords,
        Self::UploadOfDecimals,
        Self::Download,
    ];

    /// The bytes of a value.
    pub fn width(self) -> usize {
        match self {
            Self::Upload | Self::UploadOfBatches | Self::Download => 4,
            Self::UploadOfWords => 8,
            Self::UploadOfDecimals => 16,
        }
    }
}

impl fmt::Display for Transfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Upload => "upload",
            Self::UploadOfBatches => "upload of batches",
            Self::UploadOfWords => "upload of small words",
            Self::UploadOfDecimals => "upload of small decimals",
            Self::Download => "download",
        })
    }
}

/// A column of pseudo-random values of at most 31 bits.
#[derive(Debug)]
pub struct BorderRows {
    device: Arc<dyn Device>,
    transfer: Transfer,
    rows: usize,
    parts: Vec<ArrayRef>,
}

/// The rows of one of DataFusion's batches.
const BATCH_ROWS: usize = 8192;

impl BorderRows {
    /// Generates `rows` rows for a device, named as in `bowtie.device`.
    ///
    /// # Errors
    /// If there is no such device.
    pub fn new(device: &str, transfer: Transfer, rows: usize) -> datafusion::error::Result<Self> {
        let device = open(device)?;
        let batches = |rows_of: usize| {
            let rows_from = |from: usize| {
                let rows = rows_of.min(rows - from);
                let small = |i| scattered(from as u64 + i) >> 33;
                match transfer.width() {
                    16 => {
                        let values = (0..rows as u64).map(|i| i128::from(small(i)));
                        Arc::new(Decimal128Array::from_iter_values(values)) as ArrayRef
                    }
                    width => numbers(rows, width, small),
                }
            };
            (0..rows).step_by(rows_of).map(rows_from).collect()
        };
        let parts = match transfer {
            Transfer::Upload => batches(rows.max(1)),
            Transfer::UploadOfBatches | Transfer::UploadOfWords | Transfer::UploadOfDecimals => {
                batches(BATCH_ROWS)
            }
            Transfer::Download => vec![],
        };
        Ok(Self {
            device,
            transfer,
            rows,
            parts,
        })
    }

    /// The bytes of all values; fewer may be transferred.
    pub fn bytes(&self) -> usize {
        self.transfer.width() * self.rows
    }

    /// Transfers the column `runs` times.
    ///
    /// # Errors
    /// If memory does not suffice, or other rows arrive.
    pub fn measure(&self, runs: usize) -> datafusion::error::Result<Rate> {
        let device = self.device.as_ref();
        let (ms, rows) = match self.transfer {
            Transfer::Upload
            | Transfer::UploadOfBatches
            | Transfer::UploadOfWords
            | Transfer::UploadOfDecimals => {
                timed(device, runs, || Ok(device.upload(&self.parts)?.rows()))?
            }
            Transfer::Download => {
                let words = device.sequence(0, self.rows)?;
                timed(device, runs, || Ok(device.read(&words)?.len()))?
            }
        };
        let strategy = self.transfer.to_string();
        match rows == self.rows {
            true => Ok(Rate { ms, rows, strategy }),
            false => Err(BowtieError::Internal(format!("{rows} rows of {}", self.rows)).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_rows_cross() {
        for transfer in Transfer::ALL {
            let rows = BorderRows::new("host", transfer, 100_000).unwrap();
            assert_eq!(rows.measure(1).unwrap().rows, 100_000, "{transfer}");
        }
    }
}
