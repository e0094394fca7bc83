//! [`GroupRun`]: one execution of an aggregation, a chunk at a time.
//!
//! Each chunk is grouped and folded on the device. What comes down are its groups' keys and partial states, which
//! DataFusion's own accumulators finish, and merge when there is more than one chunk: overflow, NULL and the result types
//! are DataFusion's.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt64Array, new_empty_array, new_null_array};
use arrow::compute::cast;
use datafusion::common::utils::normalize_float_zero;
use datafusion::execution::memory_pool::MemoryReservation;

use super::ahead::Arriving;
use super::distinct::DistinctValues;
use super::group_table::{GroupTable, Partial};
use super::metrics::DeviceMetrics;
use super::partial_states::mergeable_states;
use crate::column::DeviceBatch;
use crate::device::{Column, Device, Need};
use crate::error::{BowtieError, Result};
use crate::spec::{Fold, GroupSpec, GroupingSet};
use crate::stream::StagedChunk;

pub(super) struct GroupRun {
    spec: Arc<GroupSpec>,
    device: Arc<dyn Device>,
    needed: Vec<Need>,
    table: GroupTable,
    metrics: DeviceMetrics,
}

impl GroupRun {
    pub(super) fn new(
        device: Arc<dyn Device>,
        spec: Arc<GroupSpec>,
        reservation: MemoryReservation,
        metrics: DeviceMetrics,
    ) -> Result<Self> {
        let mut needed = vec![Need::Never; spec.input.columns()];
        let arguments = spec.aggregates.iter().filter_map(|a| a.argument);
        for column in spec.keys.iter().copied().chain(arguments) {
            needed[column] = Need::Now;
        }
        let aggregates = spec.aggregates.iter().map(|a| &a.aggregate);
        let table = GroupTable::new(&spec.schema, spec.key_columns(), aggregates, reservation)?;
        Ok(Self {
            spec,
            device,
            needed,
            table,
            metrics,
        })
    }

    /// Columns that the device needs.
    pub(super) fn needed(&self) -> &[Need] {
        &self.needed
    }

    pub(super) fn push(&mut self, arriving: Arriving) -> Result<()> {
        let Arriving { chunk, uploaded } = arriving;
        if let Some((_, error)) = chunk.failures.first() {
            return Err(BowtieError::DataFusion(Arc::clone(error)));
        }
        let rows = 0..chunk.rows();
        let grouped = match uploaded {
            Some(batch) => batch
                .receive(self.device.as_ref())
                .and_then(|batch| self.group(&batch)),
            None => self.group_rows(&chunk, &rows),
        };
        match grouped {
            Err(error) if error.is_out_of_device_memory() => self.halves(&chunk, rows, error),
            grouped => grouped,
        }?;
        self.metrics
            .peak_device_bytes
            .set_max(self.device.budget().peak() as usize);
        self.table.account()
    }

    /// Rows that lie on the device.
    pub(super) fn push_resident(&mut self, batch: &DeviceBatch) -> Result<()> {
        self.resident(batch)?;
        self.metrics
            .peak_device_bytes
            .set_max(self.device.budget().peak() as usize);
        self.table.account()
    }

    /// In halves where there is no room.
    fn resident(&mut self, batch: &DeviceBatch) -> Result<()> {
        let rows = batch.rows();
        match self.group(batch) {
            Err(error) if error.is_out_of_device_memory() && rows > 1 => {}
            grouped => return grouped,
        }
        let middle = rows / 2;
        for half in [0..middle, middle..rows] {
            let device = self.device.as_ref();
            let kept = device.sequence(half.start as u32, half.len())?;
            let columns = (0..self.spec.input.columns())
                .map(|i| Ok(Some(Arc::new(device.gather(batch.column(i)?, &kept)?))))
                .collect::<Result<_>>()?;
            self.resident(&DeviceBatch::new(half.len(), columns))?;
        }
        Ok(())
    }

    fn group_rows(&mut self, chunk: &StagedChunk, rows: &Range<usize>) -> Result<()> {
        let timer = self.metrics.upload_time.timer();
        let batch = chunk.upload(self.device.as_ref(), rows, &self.needed)?;
        timer.done();
        self.metrics.uploaded_bytes.add(batch.bytes() as usize);
        self.group(&batch)
    }

    /// Rows for which there was no room, in halves; what had room before is not merged yet.
    fn halves(
        &mut self,
        chunk: &StagedChunk,
        rows: Range<usize>,
        refused: BowtieError,
    ) -> Result<()> {
        if rows.len() < 2 {
            return Err(refused);
        }
        let middle = rows.start + rows.len() / 2;
        for half in [rows.start..middle, middle..rows.end] {
            match self.group_rows(chunk, &half) {
                Err(error) if error.is_out_of_device_memory() => {
                    self.halves(chunk, half, error)?;
                }
                grouped => grouped?,
            }
        }
        Ok(())
    }

    /// Groups a batch by each grouping set. Nothing is merged before all sets had room.
    fn group(&mut self, batch: &DeviceBatch) -> Result<()> {
        self.metrics.chunks.add(1);
        let timer = self.metrics.output_time.timer();
        let partials = self
            .spec
            .sets
            .iter()
            .map(|set| self.partial(batch, set))
            .collect::<Result<Vec<_>>>()?;
        timer.done();
        for partial in partials {
            self.table.merge_distinct(partial)?;
        }
        Ok(())
    }

    fn partial(&self, batch: &DeviceBatch, set: &GroupingSet) -> Result<Partial> {
        let device = self.device.as_ref();
        let mut keys: Vec<&Column> = vec![];
        for (column, null) in self.spec.keys.iter().zip(&set.nulls) {
            if !null {
                keys.push(batch.column(*column)?);
            }
        }
        let mut folds: Vec<(Fold, Option<&Column>)> = vec![];
        for aggregate in self.spec.aggregates.iter().filter(|a| !a.distinct) {
            let argument = match aggregate.argument {
                Some(column) => Some(batch.column(column)?.as_ref()),
                None => None,
            };
            folds.extend(
                aggregate
                    .function
                    .folds()
                    .iter()
                    .map(|fold| (*fold, argument)),
            );
        }
        let groups = device.aggregate(batch.rows(), &keys, &folds)?;
        let rows = groups.firsts.len();
        let mut key_arrays = vec![];
        for (column, null) in self.spec.keys.iter().zip(&set.nulls) {
            let array = match null {
                true => new_null_array(self.spec.input.data_type(*column), rows),
                false => {
                    let key = batch.column(*column)?;
                    device.download(&device.gather(key, &groups.firsts)?)?
                }
            };
            // As DataFusion's own aggregation: −0.0 and 0.0 are one group.
            key_arrays.push(normalize_float_zero(&array));
        }
        if let Some(id) = set.id {
            let ids: ArrayRef = Arc::new(UInt64Array::from(vec![id; rows]));
            let field = self.spec.schema.field(self.spec.keys.len());
            key_arrays.push(cast(&ids, field.data_type())?);
        }
        let mut columns = groups.states.iter();
        let states = self
            .spec
            .aggregates
            .iter()
            .map(|aggregate| {
                if let (true, Some(column)) = (aggregate.distinct, aggregate.argument) {
                    let values = DistinctValues::of(device, batch, &keys, column, &groups.firsts)?;
                    return values
                        .lists(&aggregate.aggregate, rows)
                        .map(|list| vec![list]);
                }
                let states = columns
                    .by_ref()
                    .take(aggregate.function.folds().len())
                    .map(|state| device.download(state))
                    .collect::<Result<_>>()?;
                mergeable_states(aggregate.function, &aggregate.aggregate, states)
            })
            .collect::<Result<_>>()?;
        Ok(Partial {
            rows,
            keys: key_arrays,
            states,
        })
    }

    /// All groups.
    pub(super) fn finish(&mut self) -> Result<RecordBatch> {
        // A grouping set without keys has a group of no rows too.
        if self.metrics.chunks.value() == 0 && !self.spec.keys.is_empty() {
            let columns = self.spec.input.schema();
            let columns = columns.fields().iter().map(|field| {
                let empty = new_empty_array(field.data_type());
                Ok(Some(self.device.upload(&[empty])?))
            });
            let batch = DeviceBatch::new(0, columns.collect::<Result<_>>()?);
            self.group(&batch)?;
        }
        self.table.finish(&self.spec.schema)
    }
}
