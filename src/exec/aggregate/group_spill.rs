//! Spills the groups of a [`GroupTable`] to files, and merges and finishes them file by file.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use datafusion::logical_expr::EmitTo;

use crate::error::{BowtieError, Result};
use crate::exec::aggregate::group_table::{CancelCheck, Finishing, GroupTable};
use crate::exec::aggregate::group_values::{GroupStates, Partial, as_types};
use crate::exec::memory::spilled_groups::{GroupFile, SpilledGroups};

impl GroupTable {
    /// Whether groups can be spilled.
    pub(crate) fn can_spill(&self) -> bool {
        self.spilling.is_some() && self.keys > 0
    }

    /// Reserves the table's memory and `others` bytes besides in the memory pool. False if the table must be spilled.
    pub(crate) fn account(&self, others: usize) -> Result<bool> {
        let bytes = others + self.bytes();
        match &self.spilling {
            Some(spilling) if self.keys > 0 => {
                // Other readers need memory too: a table with a sixteenth of the pool is spilled once the pool is half
                // full.
                let in_the_way = spilling.pool_is_full() && bytes > spilling.most / 8;
                let fits = bytes <= spilling.most && self.reservation.try_resize(bytes).is_ok();
                Ok(fits && !in_the_way)
            }
            _ => {
                self.reservation.try_resize(bytes)?;
                Ok(true)
            }
        }
    }

    /// The memory of the table in bytes.
    fn bytes(&self) -> usize {
        let bytes = match &self.groups {
            GroupStates::One(accumulators) => accumulators.iter().map(|a| a.size()).sum(),
            GroupStates::Many {
                values,
                accumulators,
            } => values.size() + accumulators.iter().map(|a| a.size()).sum::<usize>(),
        };
        bytes + self.first.as_ref().map_or(0, Partial::bytes)
    }

    /// Spills all groups. Group numbers change.
    pub(crate) fn spill(&mut self) -> Result<()> {
        let mut spilled = self.spilled.take();
        self.spill_to(&mut spilled, 0)?;
        self.spilled = spilled;
        Ok(())
    }

    /// Spills all groups to files by level `level` of the bits of their hashes, and frees their reservation.
    fn spill_to(&mut self, spilled: &mut Option<SpilledGroups>, level: u32) -> Result<()> {
        let Some(columns) = self.take_states()? else {
            return Ok(());
        };
        let spilling = self
            .spilling
            .clone()
            .ok_or_else(|| BowtieError::Internal("spilling is disabled".into()))?;
        let schema = self.state_schema()?;
        let columns = as_types(columns, &schema)?;
        let keys = self.keys;
        spilled
            .get_or_insert_with(|| SpilledGroups::new(spilling, schema, keys, level))
            .write(columns)?;
        self.reservation.free();
        Ok(())
    }

    /// The schema of a file: keys, then the states of each aggregate.
    fn state_schema(&self) -> Result<SchemaRef> {
        let mut fields: Vec<FieldRef> = self.schema.fields()[..self.keys].to_vec();
        for aggregate in &self.aggregates {
            for field in aggregate.state_fields()? {
                fields.push(Arc::new(field.as_ref().clone().with_nullable(true)));
            }
        }
        Ok(Arc::new(Schema::new(fields)))
    }

    /// Takes the keys and states of all groups out of the table; `None` if it has none.
    pub(crate) fn take_states(&mut self) -> Result<Option<Vec<ArrayRef>>> {
        let GroupStates::Many {
            values,
            accumulators,
        } = &mut self.groups
        else {
            return Ok(None);
        };
        let columns = match self.first.take() {
            Some(first) => {
                let states = first.states.into_iter().flatten();
                first.keys.into_iter().chain(states).collect()
            }
            None if values.is_empty() => return Ok(None),
            None => {
                let mut columns = values.emit(EmitTo::All)?;
                for accumulator in accumulators {
                    columns.extend(accumulator.state(EmitTo::All)?);
                }
                columns
            }
        };
        // Emptied group values and accumulators do not free their memory.
        self.groups = GroupStates::new(&self.schema, self.keys, &self.aggregates)?;
        Ok(Some(columns))
    }

    /// The next groups: all of them if none were spilled, otherwise those of one file; `None` at the end. The caller
    /// reserves their memory. `check_cancelled` fails when the query was cancelled.
    pub(crate) fn next(&mut self, check_cancelled: CancelCheck<'_>) -> Result<Option<RecordBatch>> {
        let files = match std::mem::replace(&mut self.finishing, Finishing::Done) {
            Finishing::Done => return Ok(None),
            Finishing::Files(files) => files,
            Finishing::NotYet => {
                if self.spilled.is_none() {
                    let groups = self.finish()?;
                    self.reservation.free();
                    return Ok(Some(groups));
                }
                self.spill()?;
                match self.spilled.take() {
                    Some(spilled) => spilled.finish()?,
                    None => vec![],
                }
            }
        };
        self.next_of(files, check_cancelled)
    }

    /// Merges and finishes the groups of the next file. A file that does not fit is spilled again to files of the next
    /// level.
    fn next_of(
        &mut self,
        mut files: Vec<GroupFile>,
        check_cancelled: CancelCheck<'_>,
    ) -> Result<Option<RecordBatch>> {
        let schema = self.state_schema()?;
        while let Some(file) = files.pop() {
            let mut again = None;
            let Some(spilling) = self.spilling.clone() else {
                break;
            };
            for batch in file.batches(&spilling, &schema)? {
                check_cancelled()?;
                self.merge_columns(batch?.columns())?;
                if self.account(0)? {
                    continue;
                }
                match file.next_level() {
                    Some(level) => self.spill_to(&mut again, level)?,
                    None => self.reservation.try_resize(self.bytes())?,
                }
            }
            if let Some(mut again) = again {
                if let Some(columns) = self.take_states()? {
                    again.write(as_types(columns, &schema)?)?;
                }
                files.extend(again.finish()?);
                continue;
            }
            let groups = self.finish()?;
            self.groups = GroupStates::new(&self.schema, self.keys, &self.aggregates)?;
            self.reservation.free();
            self.finishing = Finishing::Files(files);
            return Ok(Some(groups));
        }
        Ok(None)
    }

    /// Merges spilled keys and states.
    fn merge_columns(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let rows = columns.first().map_or(0, |column| column.len());
        let groups = self.intern(&columns[..self.keys], rows)?;
        let mut from = self.keys;
        for i in 0..self.aggregates.len() {
            let states = self.aggregates[i].state_fields()?.len();
            self.merge(i, &columns[from..from + states], &groups)?;
            from += states;
        }
        Ok(())
    }
}
