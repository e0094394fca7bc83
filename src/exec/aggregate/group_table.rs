//! [`GroupTable`]: DataFusion's own group values and accumulators, which merge partial states and finish them, so that
//! overflow, NULL and result types are DataFusion's.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use arrow::compute::take;
use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::EmitTo;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;

use crate::device::data::structures::Flags;
use crate::device::primitives::device::Device;
use crate::error::{BowtieError, Result};
use crate::exec::aggregate::group_values::{Groups, Partial, as_types, group_columns};
use crate::exec::input::chunk::InputChunk;
use crate::exec::memory::spill::Spilling;
use crate::exec::memory::spilled_groups::{GroupFile, SpilledGroups};
use crate::ir::side::Side;
use crate::spec::join_aggregate::JoinAggregateSpec;

/// An error when the work is not wanted any more.
pub(crate) type GoOn<'a> = &'a dyn Fn() -> Result<()>;

/// Rows without a partner that are merged at once.
const UNMATCHED_ROWS: usize = 8192;

pub(crate) struct GroupTable {
    groups: Groups,
    reservation: MemoryReservation,
    /// Partial states of distinct groups, which come first and may stay the only ones: then they are finished as they are.
    first: Option<Partial>,
    /// That of the output.
    schema: SchemaRef,
    keys: usize,
    aggregates: Vec<Arc<AggregateFunctionExpr>>,
    spilling: Option<Spilling>,
    /// Groups that left the memory.
    spilled: Option<SpilledGroups>,
    finishing: Finishing,
}

/// How far the groups came out.
enum Finishing {
    NotYet,
    /// What is left of those that were spilled.
    Files(Vec<GroupFile>),
    Done,
}

impl GroupTable {
    /// `schema` is that of the output: `keys` columns, then one for each aggregate.
    pub(crate) fn new<'a>(
        schema: &SchemaRef,
        keys: usize,
        aggregates: impl Iterator<Item = &'a Arc<AggregateFunctionExpr>>,
        reservation: MemoryReservation,
        spilling: Option<Spilling>,
    ) -> Result<Self> {
        let aggregates: Vec<_> = aggregates.cloned().collect();
        Ok(Self {
            groups: Groups::new(schema, keys, &aggregates)?,
            reservation,
            first: None,
            schema: Arc::clone(schema),
            keys,
            aggregates,
            spilling,
            spilled: None,
            finishing: Finishing::NotYet,
        })
    }

    /// Merges partial states of distinct groups.
    pub(crate) fn merge_distinct(&mut self, partial: Partial) -> Result<()> {
        if partial.rows == 0 {
            return Ok(());
        }
        if let Groups::Many { values, .. } = &self.groups
            && values.is_empty()
            && self.first.is_none()
        {
            self.first = Some(partial);
            return Ok(());
        }
        if let Some(first) = self.first.take() {
            self.merge_partial(&first)?;
        }
        self.merge_partial(&partial)
    }

    fn merge_partial(&mut self, partial: &Partial) -> Result<()> {
        let groups = self.intern(&partial.keys, partial.rows)?;
        for (i, states) in partial.states.iter().enumerate() {
            self.merge(i, states, &groups)?;
        }
        Ok(())
    }

    /// Groups of `rows` rows, by their group columns.
    pub(crate) fn intern(&mut self, columns: &[ArrayRef], rows: usize) -> Result<Vec<usize>> {
        match &mut self.groups {
            Groups::One(_) => Ok(vec![0; rows]),
            Groups::Many { values, .. } => {
                let mut groups = Vec::with_capacity(rows);
                values.intern(columns, &mut groups)?;
                Ok(groups)
            }
        }
    }

    /// Merges partial states of aggregate `i`, one a row, into the rows' groups.
    pub(crate) fn merge(&mut self, i: usize, states: &[ArrayRef], groups: &[usize]) -> Result<()> {
        match &mut self.groups {
            Groups::One(accumulators) => accumulators[i].merge_batch(states)?,
            Groups::Many {
                values,
                accumulators,
            } => accumulators[i].merge_batch(states, groups, values.len())?,
        }
        Ok(())
    }

    /// Adds arguments of aggregate `i`, one a row, to the rows' groups.
    pub(crate) fn update(&mut self, i: usize, argument: &ArrayRef, groups: &[usize]) -> Result<()> {
        let argument = std::slice::from_ref(argument);
        match &mut self.groups {
            Groups::One(accumulators) => accumulators[i].update_batch(argument)?,
            Groups::Many {
                values,
                accumulators,
            } => accumulators[i].update_batch(argument, groups, None, values.len())?,
        }
        Ok(())
    }

    /// Rows of the preserved side without a partner, from row `next` on: their partner's columns are NULL. Where the device has no room, it
    /// can go on from there.
    pub(crate) fn merge_unmatched(
        &mut self,
        spec: &JoinAggregateSpec,
        device: &dyn Device,
        side: Side,
        chunk: &InputChunk,
        flags: &Flags,
        next: &mut usize,
    ) -> Result<()> {
        while *next < chunk.rows() {
            let (first, len) = (*next, (chunk.rows() - *next).min(UNMATCHED_ROWS));
            let rows = device.read(&device.flagged_rows(flags, first, len, false)?)?;
            let rows = UInt32Array::new(rows, None);
            let columns = group_columns(spec, chunk, first, len, &rows)?;
            let arguments = spec.aggregates.iter().map(|aggregate| {
                Ok(match aggregate.argument {
                    None => Arc::new(rows.clone()) as ArrayRef,
                    Some((of, column)) if of == side => {
                        take(&chunk.some(column, &(first..first + len))?, &rows, None)?
                    }
                    Some((other, column)) => {
                        new_null_array(spec.join.input(other).data_type(column), rows.len())
                    }
                })
            });
            let arguments = arguments.collect::<Result<Vec<_>>>()?;
            let groups = self.intern(&columns, rows.len())?;
            for (i, values) in arguments.iter().enumerate() {
                self.update(i, values, &groups)?;
            }
            *next = first + len;
        }
        Ok(())
    }

    /// Whether groups may leave the memory.
    pub(crate) fn can_spill(&self) -> bool {
        self.spilling.is_some() && self.keys > 0
    }

    /// Reserves what the table takes now, and `others` bytes beside it. False where there is no room, but the table can be spilled.
    pub(crate) fn account(&self, others: usize) -> Result<bool> {
        let bytes = others + self.bytes();
        match &self.spilling {
            Some(spilling) if self.keys > 0 => {
                // Others need room too: who holds a sixteenth of a pool that is half full makes it.
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

    fn bytes(&self) -> usize {
        let bytes = match &self.groups {
            Groups::One(accumulators) => accumulators.iter().map(|a| a.size()).sum(),
            Groups::Many {
                values,
                accumulators,
            } => values.size() + accumulators.iter().map(|a| a.size()).sum::<usize>(),
        };
        bytes + self.first.as_ref().map_or(0, Partial::bytes)
    }

    /// Takes all groups out of the memory. Groups have other numbers from now on.
    pub(crate) fn spill(&mut self) -> Result<()> {
        let mut spilled = self.spilled.take();
        self.spill_to(&mut spilled, 0)?;
        self.spilled = spilled;
        Ok(())
    }

    fn spill_to(&mut self, spilled: &mut Option<SpilledGroups>, level: u32) -> Result<()> {
        let Some(columns) = self.take_states()? else {
            return Ok(());
        };
        let spilling = self.spilling.clone().ok_or_else(|| {
            BowtieError::Internal("groups are spilled where no files are allowed".into())
        })?;
        let schema = self.state_schema()?;
        let columns = as_types(columns, &schema)?;
        let keys = self.keys;
        spilled
            .get_or_insert_with(|| SpilledGroups::new(spilling, schema, keys, level))
            .write(columns)?;
        self.reservation.free();
        Ok(())
    }

    /// Keys, then the states of each aggregate.
    fn state_schema(&self) -> Result<SchemaRef> {
        let mut fields: Vec<FieldRef> = self.schema.fields()[..self.keys].to_vec();
        for aggregate in &self.aggregates {
            for field in aggregate.state_fields()? {
                fields.push(Arc::new(field.as_ref().clone().with_nullable(true)));
            }
        }
        Ok(Arc::new(Schema::new(fields)))
    }

    /// Keys and states of all groups, which the table has no longer; `None` where it had none.
    fn take_states(&mut self) -> Result<Option<Vec<ArrayRef>>> {
        let Groups::Many {
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
        // Those give none of their memory back.
        self.groups = Groups::new(&self.schema, self.keys, &self.aggregates)?;
        Ok(Some(columns))
    }

    /// The next groups: all of them where they had room, those of one file where they were spilled; `None` when all came out.
    /// What they take is for the caller to reserve. `go_on` fails when nobody wants them any more.
    pub(crate) fn next(&mut self, go_on: GoOn<'_>) -> Result<Option<RecordBatch>> {
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
        self.next_of(files, go_on)
    }

    fn next_of(
        &mut self,
        mut files: Vec<GroupFile>,
        go_on: GoOn<'_>,
    ) -> Result<Option<RecordBatch>> {
        let schema = self.state_schema()?;
        while let Some(file) = files.pop() {
            let mut again = None;
            let Some(spilling) = self.spilling.clone() else {
                break;
            };
            for batch in file.batches(&spilling, &schema)? {
                go_on()?;
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
            self.groups = Groups::new(&self.schema, self.keys, &self.aggregates)?;
            self.reservation.free();
            self.finishing = Finishing::Files(files);
            return Ok(Some(groups));
        }
        Ok(None)
    }

    /// Merges keys and states that were spilled.
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

    /// All groups: their columns, then the aggregates.
    fn finish(&mut self) -> Result<RecordBatch> {
        let schema = &self.schema;
        let (rows, columns) = match &mut self.groups {
            Groups::One(accumulators) => {
                let values = accumulators
                    .iter_mut()
                    .map(|a| Ok(a.evaluate()?.to_array()?))
                    .collect::<Result<Vec<_>>>()?;
                (1, values)
            }
            Groups::Many {
                values,
                accumulators,
            } => {
                let (rows, mut columns) = match self.first.take() {
                    Some(first) => {
                        let groups: Vec<usize> = (0..first.rows).collect();
                        for (accumulator, states) in accumulators.iter_mut().zip(&first.states) {
                            accumulator.merge_batch(states, &groups, first.rows)?;
                        }
                        (first.rows, first.keys)
                    }
                    // Accumulators of one group each have nothing to say then.
                    None if values.is_empty() => {
                        return Ok(RecordBatch::new_empty(Arc::clone(schema)));
                    }
                    None => (values.len(), values.emit(EmitTo::All)?),
                };
                for accumulator in accumulators {
                    columns.push(accumulator.evaluate(EmitTo::All)?);
                }
                (rows, columns)
            }
        };
        let columns = as_types(columns, schema)?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(
            Arc::clone(schema),
            columns,
            &options,
        )?)
    }
}
