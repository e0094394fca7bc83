//! What crosses the border, both ways, through staging memory.

use std::fmt;
use std::sync::Arc;

use arrow::array::ArrayRef;

use super::{Rate, numbers, scattered, timed};
use crate::device::Device;
use crate::device::open::Devices;
use crate::error::BowtieError;
use crate::options::DeviceChoice;

/// A way across the border.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crossing {
    /// From one array.
    Up,
    /// From batches of 8192 rows, as tables in memory have them.
    UpOfBatches,
    /// Into memory that nobody has touched before.
    Down,
}

impl Crossing {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Up, Self::UpOfBatches, Self::Down];
}

impl fmt::Display for Crossing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Up => "upload",
            Self::UpOfBatches => "upload of batches",
            Self::Down => "download",
        })
    }
}

/// A column of values of 4 bytes that look random.
#[derive(Debug)]
pub struct BorderRows {
    device: Arc<dyn Device>,
    crossing: Crossing,
    rows: usize,
    parts: Vec<ArrayRef>,
}

/// Rows of a batch of DataFusion.
const BATCH_ROWS: usize = 8192;

impl BorderRows {
    /// Makes so many rows for a device, as `bowtie.device` names it.
    ///
    /// # Errors
    /// When there is no such device.
    pub fn new(device: &str, crossing: Crossing, rows: usize) -> datafusion::error::Result<Self> {
        let device = Devices::default().open(device.parse::<DeviceChoice>()?, None)?;
        let batches = |rows_of: usize| {
            let rows_from = |from: usize| {
                let rows = rows_of.min(rows - from);
                numbers(rows, 4, |i| scattered(from as u64 + i))
            };
            (0..rows).step_by(rows_of).map(rows_from).collect()
        };
        let parts = match crossing {
            Crossing::Up => batches(rows.max(1)),
            Crossing::UpOfBatches => batches(BATCH_ROWS),
            Crossing::Down => vec![],
        };
        Ok(Self {
            device,
            crossing,
            rows,
            parts,
        })
    }

    /// Bytes that cross.
    pub fn bytes(&self) -> usize {
        4 * self.rows
    }

    /// Crosses so many times.
    ///
    /// # Errors
    /// When there is no room, or other rows arrive.
    pub fn measure(&self, runs: usize) -> datafusion::error::Result<Rate> {
        let device = self.device.as_ref();
        let (ms, rows) = match self.crossing {
            Crossing::Up | Crossing::UpOfBatches => {
                timed(device, runs, || Ok(device.upload(&self.parts)?.rows()))?
            }
            Crossing::Down => {
                let words = device.sequence(0, self.rows)?;
                timed(device, runs, || Ok(device.read(&words)?.len()))?
            }
        };
        let strategy = self.crossing.to_string();
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
        for crossing in Crossing::ALL {
            let rows = BorderRows::new("host", crossing, 100_000).unwrap();
            assert_eq!(rows.measure(1).unwrap().rows, 100_000, "{crossing}");
        }
    }
}
