//! The common part of filters and projections: reads the input piece by piece, uploads it if needed, and evaluates
//! expressions on the device, or [on the host](crate::exec::rows::on_host) where the device cannot decide.

use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_expr::expressions::Column as PlanColumn;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::{StreamExt, TryStreamExt, stream};

use crate::device::data::batch::DeviceBatch;
use crate::device::data::column::Column;
use crate::device::lazy_column::Need;
use crate::device::primitives::device::Device;
use crate::error::BowtieError;
use crate::exec::blocking::blocking_task;
use crate::exec::chunk::{DeviceChunk, DeviceStream};
use crate::exec::input::chunk::{Input, InputChunk};
use crate::exec::input::coalesce::pieces;
use crate::exec::memory::shrink::{Answer, Halving, Part, by_halves};
use crate::exec::memory::spill::Spilling;
use crate::exec::memory::step::{self, OnRefusal, Step};
use crate::exec::metrics::DeviceMetrics;
use crate::exec::node::{DeviceNode, Execution, OnBatch};
use crate::exec::rows::choice::chosen;
use crate::exec::rows::distinct::with_results;
use crate::exec::rows::on_host::on_host;
use crate::ir::row_program::{RowProgram, RowSource};
use crate::spec::rows::{ExpressionColumn, RowExpressions};

/// Parts of a piece are halved down to 64 rows.
const HALVING: Halving = Halving {
    least: 32,
    aligned: 1,
};

/// Applies `on_batch` to each piece of the execution's input. Filters and projections below are applied in the same step, so that a piece
/// passes all of them without waiting between.
pub(crate) fn piecewise(execution: Execution<'_>, on_batch: OnBatch) -> Result<DeviceStream> {
    let [node] = execution.inputs()?;
    let Execution {
        device,
        context,
        metrics,
        ..
    } = execution;
    let mut steps = vec![BatchStep {
        on_batch,
        metrics: DeviceMetrics::new(metrics),
    }];
    let mut below = vec![];
    let mut next = node;
    while let Some(step) = DeviceNode::of(next)?.on_batch(&device) {
        next = step.input;
        below.push(step);
    }
    // Columns that the lowest steps do not select are not uploaded.
    while below.pop_if(|step| step.only_selects).is_some() {}
    let node = below.last().map_or(node, |step| step.input);
    steps.extend(below.into_iter().map(|step| BatchStep {
        on_batch: step.on_batch,
        metrics: DeviceMetrics::new(step.metrics),
    }));
    steps.reverse();
    let spilling = Spilling::of(&context, metrics);
    let input = pieces(node, &device, &context, spilling.as_ref())?;
    let pieces = Pieces {
        device,
        spilling,
        needs: vec![Need::Now; node.schema().fields().len()],
        steps,
    };
    let made = stream::try_unfold((input, pieces), |(mut input, pieces)| async move {
        let Some(chunk) = input.try_next().await? else {
            for step in &pieces.steps {
                step.metrics.baseline.done();
            }
            return Ok::<_, DataFusionError>(None);
        };
        let chunk = match chunk {
            Input::Chunk(chunk) => chunk,
            Input::MemoryPressure => {
                let told = stream::iter(vec![Ok(DeviceChunk::MemoryPressure)]);
                return Ok(Some((told, (input, pieces))));
            }
        };
        let work = move || pieces.of(chunk).map(|made| (pieces, made));
        let (pieces, made) = blocking_task(work).await?;
        let made = made.into_iter();
        let made = made.map(|batch| Ok(DeviceChunk::Resident(batch)));
        Ok(Some((
            stream::iter(made.collect::<Vec<_>>()),
            (input, pieces),
        )))
    });
    Ok(made.try_flatten().boxed())
}

/// What one node does with each batch.
struct BatchStep {
    on_batch: OnBatch,
    metrics: DeviceMetrics,
}

/// What a piece is processed with.
struct Pieces {
    device: Arc<dyn Device>,
    spilling: Option<Spilling>,
    needs: Vec<Need>,
    /// The lowest node's first.
    steps: Vec<BatchStep>,
}

impl Pieces {
    /// Processes the rows of a chunk, together if memory allows, otherwise in parts.
    fn of(&self, mut chunk: InputChunk) -> crate::error::Result<Vec<DeviceBatch>> {
        chunk.check_evaluated(|_| true)?;
        for step in &self.steps {
            step.metrics.chunks.add(1);
        }
        let rows = 0..chunk.rows();
        let device = self.device.as_ref();
        let mut made = vec![];
        // Whether the chunk was evicted, if it could be.
        let mut evicted = false;
        let work = |(chunk, made, evicted): &mut (&mut InputChunk, &mut Vec<_>, &mut bool),
                    part: &Part| {
            let attempt =
                |made: &mut &mut Vec<_>, _: &Step<'_>| self.attempt(chunk, &part.rows, made);
            // The memory of a chunk that can still be evicted is not waited for.
            match part.is_last && (**evicted || chunk.resident().is_none()) {
                true => step::retried(device, made, attempt, |_| true),
                false => step::shared(device, OnRefusal::Shrink, |step| attempt(made, step)),
            }
        };
        let answer = |(chunk, _, evicted): &mut (&mut InputChunk, &mut Vec<_>, &mut bool),
                      error: &BowtieError| {
            if !error.is_divisible() && !error.is_out_of_host_memory() {
                return Ok(Answer::Fail);
            }
            let is_first = error.is_out_of_device_memory() && !std::mem::replace(*evicted, true);
            if is_first && chunk.resident().is_some() {
                step::shared(device, OnRefusal::Shrink, |_| {
                    chunk.evict(self.spilling.as_ref());
                    Ok(())
                })?;
                return Ok(Answer::Repeat);
            }
            Ok(Answer::Halve)
        };
        let mut run = (&mut chunk, &mut made, &mut evicted);
        by_halves(&mut run, rows, HALVING, work, answer)?;
        let peak = self.device.budget().peak();
        for step in &self.steps {
            step.metrics.peak_device_bytes.set_max(peak as usize);
        }
        Ok(made)
    }

    /// Processes some rows of a chunk, and adds the batch to `made` unless it is empty.
    fn attempt(
        &self,
        chunk: &InputChunk,
        rows: &Range<usize>,
        made: &mut Vec<DeviceBatch>,
    ) -> crate::error::Result<()> {
        let [first, ..] = self.steps.as_slice() else {
            return Err(BowtieError::Internal("a piece without a step".into()));
        };
        let timer = first.metrics.baseline.elapsed_compute().timer();
        let device = self.device.as_ref();
        let mut batch = chunk.upload(device, rows, &self.needs, &first.metrics)?;
        timer.done();
        let mut made_by_steps = vec![];
        for step in &self.steps {
            let _timers = [
                step.metrics.baseline.elapsed_compute().timer(),
                step.metrics.output_time.timer(),
            ];
            batch = (step.on_batch)(&batch)?;
            made_by_steps.push(batch.rows());
            if batch.rows() == 0 {
                break;
            }
        }
        for (step, rows) in self.steps.iter().zip(made_by_steps) {
            step.metrics.baseline.record_output(rows);
        }
        if batch.rows() > 0 {
            made.push(batch);
        }
        Ok(())
    }
}

/// One column for each expression, over the rows of `batch`. The device evaluates them, or DataFusion if the device
/// finds a row that it cannot decide.
pub(crate) fn evaluate(
    device: &dyn Device,
    of: &RowExpressions,
    batch: &DeviceBatch,
) -> crate::error::Result<Vec<Arc<Column>>> {
    match on_device(device, of, batch) {
        Err(BowtieError::NeedsDataFusion) => on_host(device, of, batch),
        made => made,
    }
}

/// One column for each expression, by the device.
///
/// # Errors
/// [`BowtieError::NeedsDataFusion`] where DataFusion has to evaluate a row.
pub(crate) fn on_device(
    device: &dyn Device,
    of: &RowExpressions,
    batch: &DeviceBatch,
) -> crate::error::Result<Vec<Arc<Column>>> {
    let batch = with_results(device, of, batch)?;
    let outputs = match of.program.outputs.is_empty() {
        true => vec![],
        false => {
            let columns = read_by(device, &of.program, &batch)?;
            let columns: Vec<&Column> = columns.iter().map(AsRef::as_ref).collect();
            device.map(batch.rows(), &of.program, &columns)?
        }
    };
    let mut outputs: Vec<Option<Column>> = outputs.into_iter().map(Some).collect();
    let mut output = |at: usize| {
        let output = outputs.get_mut(at).and_then(Option::take);
        output.ok_or_else(|| BowtieError::Internal(format!("output {at} is missing")))
    };
    let made = of.columns.iter().map(|made| {
        let column = match made {
            ExpressionColumn::Column(column) => return batch.column(*column).cloned(),
            ExpressionColumn::Program(at) => output(*at)?,
            ExpressionColumn::Choice {
                output: at,
                sources,
            } => chosen(device, &batch, output(*at)?, sources)?,
            ExpressionColumn::Slice { column, slice } => {
                device.slice_text(batch.column(*column)?, *slice)?
            }
        };
        Ok(Arc::new(column))
    });
    made.collect()
}

/// The columns that a program loads, in the order in which it numbers them: columns of `batch`, and results of string
/// predicates, which are evaluated here.
pub(crate) fn read_by(
    device: &dyn Device,
    program: &RowProgram,
    batch: &DeviceBatch,
) -> crate::error::Result<Vec<Arc<Column>>> {
    let sources = program.columns.iter().map(|source| {
        let test = match source {
            RowSource::Column(i) => return batch.column(*i).cloned(),
            RowSource::Test(test) => test,
        };
        let other = test.other().map(|other| batch.column(other)).transpose()?;
        let tested = batch.column(test.column)?;
        let truths = device.test_text(tested, other.map(AsRef::as_ref), test)?;
        Ok(Arc::new(truths))
    });
    sources.collect()
}

/// The order of the input, as far as its columns are in the output: column `i` at `place(i)`.
pub(crate) fn ordering_of(
    inputs: &[Arc<dyn ExecutionPlan>],
    output: &SchemaRef,
    place: impl Fn(usize) -> Option<usize>,
) -> Option<LexOrdering> {
    let ordering = inputs.first()?.output_ordering()?;
    let kept = ordering.iter().map_while(|sorted| {
        let column = sorted.expr.downcast_ref::<PlanColumn>()?;
        let place = place(column.index())?;
        let column = PlanColumn::new(output.field(place).name(), place);
        Some(PhysicalSortExpr::new(Arc::new(column), sorted.options))
    });
    LexOrdering::new(kept.collect::<Vec<_>>())
}

/// The emission of the input.
pub(crate) fn emission_of(inputs: &[Arc<dyn ExecutionPlan>]) -> (EmissionType, Boundedness) {
    inputs
        .first()
        .map_or((EmissionType::Incremental, Boundedness::Bounded), |input| {
            (
                input.properties().emission_type,
                input.properties().boundedness,
            )
        })
}
