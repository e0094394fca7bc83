//! [`Compared`]: the comparisons of a theta join from its build side, and the order keys of the columns that they read. In: a build chunk.
//! Out: the column to sort by, bounds of ranges in it, and tests in order of their selectivity.

use std::sync::Arc;

use arrow::array::{ArrayRef, UInt32Array};

use crate::device::batches::batch::DeviceBatch;
use crate::device::data::buffer::Buffer;
use crate::device::data::keys::{KeyDomain, Keys};
use crate::device::primitives::device::Device;
use crate::error::{BowtieError, Result};
use crate::ir::comparison::Comparison;
use crate::spec::join::MatchSpec;

/// Rows sampled on each side to order the comparisons by selectivity.
const SAMPLE: usize = 512;

/// A comparison as the probe evaluates it: `build.column OP probe.column`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Oriented {
    /// The build column, as an index into `key_columns`.
    pub key: usize,
    pub op: Comparison,
    /// The column of the probe side's batch.
    pub probe: usize,
}

/// The order keys of a build column.
pub(crate) struct ComparedColumn {
    /// In the batch.
    column: usize,
    pub(crate) keys: Keys,
    pub(crate) domain: KeyDomain,
}

/// The comparisons, over the columns that they read.
pub(crate) struct Compared {
    pub(crate) columns: Vec<ComparedColumn>,
    pub(crate) comparisons: Vec<Oriented>,
}

impl Compared {
    /// Makes the keys of the compared columns of `batch`, after that by which partners are kept.
    pub(crate) fn of(device: &dyn Device, spec: &MatchSpec, batch: &DeviceBatch) -> Result<Self> {
        let mut compared = Self {
            columns: vec![],
            comparisons: vec![],
        };
        if let Some(partners) = spec.partners() {
            compared.key_of(device, batch, partners.column)?;
        }
        for comparison in &spec.comparisons {
            let oriented = Oriented {
                key: compared.key_of(device, batch, comparison.column(spec.build))?,
                op: comparison.op_from(spec.build),
                probe: comparison.column(spec.build.other()),
            };
            compared.comparisons.push(oriented);
        }
        Ok(compared)
    }

    /// The number of a column among the columns with keys, which are made at its first use.
    fn key_of(&mut self, device: &dyn Device, batch: &DeviceBatch, column: usize) -> Result<usize> {
        let known = self.columns.iter().position(|known| known.column == column);
        if let Some(known) = known {
            return Ok(known);
        }
        let (keys, domain) = device.order_keys(batch.column(column)?)?;
        self.columns.push(ComparedColumn {
            column,
            keys,
            domain,
        });
        Ok(self.columns.len() - 1)
    }

    /// The keys of all columns.
    pub(crate) fn keys(&self) -> Vec<&Keys> {
        self.columns.iter().map(|column| &column.keys).collect()
    }

    /// The column of the first comparison that is a range.
    pub(crate) fn first_range(&self) -> Option<usize> {
        let first = self.comparisons.iter().find(|c| c.op.is_range());
        first.map(|c| c.key)
    }

    /// The comparisons that narrow a range of the column `sort_key`, and the others, the most selective first.
    pub(crate) fn bounds_and_tests(
        &self,
        sort_key: Option<usize>,
        selectivity: &[f64],
    ) -> (Vec<Oriented>, Vec<Oriented>) {
        let comparisons = self.comparisons.iter().zip(selectivity);
        let (bounds, mut tests): (Vec<_>, Vec<_>) =
            comparisons.partition(|(c, _)| Some(c.key) == sort_key && c.op.is_range());
        tests.sort_by(|(_, a), (_, b)| a.total_cmp(b));
        let comparisons = |of: Vec<(&Oriented, _)>| of.into_iter().map(|(c, _)| *c).collect();
        (comparisons(bounds), comparisons(tests))
    }

    /// The selectivity of each comparison, by a sample of both sides. Probe keys are made of the sample alone.
    pub(crate) fn sampled_selectivity(
        &self,
        device: &dyn Device,
        probe: &DeviceBatch,
    ) -> Result<Vec<f64>> {
        let sample = sampled_rows(device, probe.rows())?;
        let others = self.comparisons.iter().map(|c| {
            let (domain, column) = (&self.columns[c.key].domain, probe.column(c.probe)?);
            match &sample {
                Some(rows) => device.order_keys_in(domain, &device.gather(column, rows)?),
                None => device.order_keys_in(domain, column),
            }
        });
        let others = others.collect::<Result<Vec<_>>>()?;
        let tests: Vec<_> = self
            .comparisons
            .iter()
            .zip(&others)
            .map(|(c, other)| (&self.columns[c.key].keys, c.op, other))
            .collect();
        device.sample_selectivity(&tests, SAMPLE)
    }

    /// The column whose comparisons together are the most selective, assuming independence.
    pub(crate) fn most_selective_column(&self, selectivity: &[f64]) -> Option<usize> {
        let ranges = || {
            let comparisons = self.comparisons.iter().zip(selectivity);
            comparisons.filter(|(c, _)| c.op.is_range())
        };
        let share = |column: usize| -> f64 {
            let of_column = ranges().filter(|(c, _)| c.key == column);
            of_column.map(|(_, selectivity)| *selectivity).product()
        };
        let columns = ranges().map(|(c, _)| c.key);
        columns.min_by(|a, b| share(*a).total_cmp(&share(*b)))
    }
}

/// Row ids spread evenly over `rows` rows; `None` if they are no more than a sample.
fn sampled_rows(device: &dyn Device, rows: usize) -> Result<Option<Buffer<u32>>> {
    if rows <= SAMPLE {
        return Ok(None);
    }
    let ids = (0..SAMPLE as u64).map(|i| (i * rows as u64 / SAMPLE as u64) as u32);
    let ids: ArrayRef = Arc::new(UInt32Array::from_iter_values(ids));
    let ids = Arc::into_inner(device.upload(&[ids])?);
    let ids = ids.ok_or_else(|| BowtieError::Internal("the device kept row ids".into()))?;
    ids.into_row_ids().map(Some)
}
