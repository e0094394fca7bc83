//! The common part of filters and projections: reads the input piece by piece, uploads it if needed, and applies one node after the other to
//! it.

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
use crate::device::lazy_column::Need;
use crate::device::primitives::device::Device;
use crate::error::BowtieError;
use crate::exec::blocking::blocking_task;
use crate::exec::chunk::{DeviceChunk, DeviceStream};
use crate::exec::input::chunk::{Input, InputChunk, InputStream};
use crate::exec::input::coalesce::pieces;
use crate::exec::memory::shrink::{Answer, Halving, Part, by_halves};
use crate::exec::memory::spill::Spilling;
use crate::exec::memory::step::{self, OnRefusal, Step};
use crate::exec::metrics::DeviceMetrics;
use crate::exec::node::{DeviceNode, Execution, OnBatch};

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
        of_uploads: DeviceMetrics::new(metrics),
    };
    Ok(pieces.stream(input))
}

/// What one node does with each batch.
struct BatchStep {
    on_batch: OnBatch,
    metrics: DeviceMetrics,
}

/// What a piece is processed with: filters and projections, one after the other.
pub(crate) struct Pieces {
    device: Arc<dyn Device>,
    spilling: Option<Spilling>,
    needs: Vec<Need>,
    /// The lowest node's first.
    steps: Vec<BatchStep>,
    /// Of uploads, where there is no step.
    of_uploads: DeviceMetrics,
}

impl Pieces {
    /// The steps from `top` down to the node `below`, which is none of them.
    pub(crate) fn between(
        top: &Arc<dyn ExecutionPlan>,
        below: &Arc<dyn ExecutionPlan>,
        device: &Arc<dyn Device>,
        spilling: Option<Spilling>,
        of_uploads: DeviceMetrics,
    ) -> Result<Self> {
        let (mut steps, mut next) = (vec![], top);
        while !Arc::ptr_eq(next, below) {
            let Some(step) = DeviceNode::of(next)?.on_batch(device) else {
                return Err(DataFusionError::Internal(format!(
                    "bowtie: {} is no step of a piece",
                    next.name()
                )));
            };
            next = step.input;
            steps.push(BatchStep {
                on_batch: step.on_batch,
                metrics: DeviceMetrics::new(step.metrics),
            });
        }
        steps.reverse();
        Ok(Self {
            device: Arc::clone(device),
            spilling,
            needs: vec![Need::Now; below.schema().fields().len()],
            steps,
            of_uploads,
        })
    }

    /// The batches that the steps make of each chunk.
    pub(crate) fn stream(self, input: InputStream) -> DeviceStream {
        let made = stream::try_unfold((input, self), |(mut input, pieces)| async move {
            let Some(chunk) = input.try_next().await? else {
                pieces.done();
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
        made.try_flatten().boxed()
    }

    /// Counts a piece that was processed without these steps, and its `rows` rows that pass all of them.
    pub(crate) fn passed(&self, rows: usize) {
        for step in &self.steps {
            step.metrics.chunks.add(1);
            step.metrics.baseline.record_output(rows);
        }
    }

    /// After the last piece.
    pub(crate) fn done(&self) {
        for step in &self.steps {
            step.metrics.baseline.done();
        }
    }

    /// Processes the rows of a chunk, together if memory allows, otherwise in parts.
    pub(crate) fn of(&self, mut chunk: InputChunk) -> crate::error::Result<Vec<DeviceBatch>> {
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
        let first = self.steps.first().map(|step| &step.metrics);
        let metrics = first.unwrap_or(&self.of_uploads);
        let timer = metrics.baseline.elapsed_compute().timer();
        let device = self.device.as_ref();
        let mut batch = chunk.upload(device, rows, &self.needs, metrics)?;
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
