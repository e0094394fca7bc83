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

use crate::device::batches::batch::DeviceBatch;
use crate::device::lazy_column::Need;
use crate::device::primitives::device::Device;
use crate::error::BowtieError;
use crate::exec::blocking::blocking_task;
use crate::exec::chunk::{DeviceChunk, DeviceStream};
use crate::exec::input::chunk::{Input, InputChunk, InputStream};
use crate::exec::input::coalesce::pieces;
use crate::exec::memory::shrink::{Answer, Halving, Part, next_parts};
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

/// The rows of a chunk that are not processed yet.
pub(crate) struct Unprocessed {
    chunk: InputChunk,
    /// The next part last.
    parts: Vec<Range<usize>>,
    /// Whether the chunk was evicted, if it could be.
    evicted: bool,
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
        let made = stream::try_unfold(
            (input, self, None),
            |(mut input, pieces, rest)| async move {
                let unprocessed = match rest {
                    Some(rest) => rest,
                    None => match input.try_next().await? {
                        Some(Input::Chunk(chunk)) => pieces.begin(chunk)?,
                        Some(Input::MemoryPressure) => {
                            let told = stream::iter(vec![Ok(DeviceChunk::MemoryPressure)]);
                            return Ok(Some((told, (input, pieces, None))));
                        }
                        None => {
                            pieces.done();
                            return Ok::<_, DataFusionError>(None);
                        }
                    },
                };
                let work = move || {
                    let processed = pieces.process(unprocessed);
                    processed.map(|(made, rest)| (pieces, made, rest))
                };
                let (pieces, made, rest) = blocking_task(work).await?;
                let made = made.into_iter();
                let made = made.map(|batch| Ok(DeviceChunk::Resident(batch)));
                Ok(Some((
                    stream::iter(made.collect::<Vec<_>>()),
                    (input, pieces, rest),
                )))
            },
        );
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

    /// Begins to process the rows of a chunk.
    pub(crate) fn begin(&self, chunk: InputChunk) -> crate::error::Result<Unprocessed> {
        chunk.check_evaluated(|_| true)?;
        for step in &self.steps {
            step.metrics.chunks.add(1);
        }
        let all = 0..chunk.rows();
        Ok(Unprocessed {
            parts: vec![all],
            chunk,
            evicted: false,
        })
    }

    /// Processes the rows of a chunk, together if memory allows, otherwise in parts. Where memory is short, it returns before the end, with the
    /// rest: the reader can free the batches so far before it goes on.
    pub(crate) fn process(
        &self,
        mut rest: Unprocessed,
    ) -> crate::error::Result<(Vec<DeviceBatch>, Option<Unprocessed>)> {
        type Run<'a> = (&'a mut InputChunk, Vec<DeviceBatch>, &'a mut bool);
        let device = self.device.as_ref();
        let work = |(chunk, made, evicted): &mut Run<'_>, part: &Part| {
            let waits = part.is_last && made.is_empty();
            let attempt = |made: &mut Vec<_>, _: &Step<'_>| self.attempt(chunk, &part.rows, made);
            // The memory of a chunk that can still be evicted is not waited for.
            match waits && (**evicted || chunk.resident().is_none()) {
                true => step::retried(device, made, attempt, |_| true),
                false => step::shared(device, OnRefusal::Shrink, |step| attempt(made, step)),
            }
        };
        let answer = |(chunk, made, evicted): &mut Run<'_>, error: &BowtieError| {
            if !error.is_divisible() && !error.is_out_of_host_memory() {
                return Ok(Answer::Fail);
            }
            if error.is_transient() && !made.is_empty() {
                return Ok(Answer::Pause);
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
        let mut run = (&mut rest.chunk, vec![], &mut rest.evicted);
        next_parts(&mut run, &mut rest.parts, HALVING, work, answer)?;
        let made = run.1;
        let peak = self.device.budget().peak();
        for step in &self.steps {
            step.metrics.peak_device_bytes.set_max(peak as usize);
        }
        let rest = (!rest.parts.is_empty()).then_some(rest);
        Ok((made, rest))
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
