//! [`FusedRows`]: reads a scan for an aggregation that is fused with the filters and projections between.

use std::sync::Arc;

use datafusion::common::internal_datafusion_err;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool};
use datafusion::physical_plan::ExecutionPlan;
use futures::{StreamExt, TryStreamExt, stream};

use crate::device::batches::batch::DeviceBatch;
use crate::device::data::column::Column;
use crate::device::primitives::device::Device;
use crate::error::BowtieError;
use crate::exec::aggregate::fused::compose::{Composer, FusedProgram};
use crate::exec::aggregate::fused::words::PieceGroups;
use crate::exec::aggregate::grace_aggregate::GroupPartitioner;
use crate::exec::aggregate::run::GroupRun;
use crate::exec::blocking::blocking;
use crate::exec::chunk::DeviceStream;
use crate::exec::input::chunk::{Input, InputChunk};
use crate::exec::input::coalesce::pieces;
use crate::exec::memory::on_request::await_or_evict;
use crate::exec::node::DeviceNode;
use crate::exec::rows::filter::FilterOperator;
use crate::exec::rows::piecewise::Pieces;
use crate::exec::rows::projection::ProjectionOperator;
use crate::exec::rows::skip::possible_rows;
use crate::exec::scan::node::ScanOperator;
use crate::spec::aggregate::GroupSpec;
use crate::spec::rows::{FilterSpec, ProjectionSpec};

type Plan = Arc<dyn ExecutionPlan>;

/// The rows of a scan, with the filters and projections between it and an aggregation.
pub(crate) struct FusedRows {
    program: FusedProgram,
    /// The filters and projections one by one.
    steps: Pieces,
    scan: Plan,
    pool: Arc<dyn MemoryPool>,
}

/// What comes of the rows.
pub(crate) enum FusedOutput {
    /// The groups of all rows.
    Groups(Box<GroupRun>),
    /// The rows that pass the filters and projections.
    Rows(DeviceStream),
}

/// A filter or a projection.
enum Step<'a> {
    Filter(&'a FilterSpec),
    Projection(&'a ProjectionSpec),
}

impl FusedRows {
    /// The rows that `input` gives an aggregation; `None` if they cannot be fused with it.
    pub(crate) fn of(
        grouping: &GroupPartitioner,
        spec: &GroupSpec,
        input: &Plan,
    ) -> Result<Option<Self>> {
        let (mut steps, mut node) = (vec![], input);
        let scan = loop {
            if let Some((_, FilterOperator(spec))) = DeviceNode::find(node) {
                steps.push(Step::Filter(spec));
            } else if let Some((_, ProjectionOperator(spec))) = DeviceNode::find(node) {
                steps.push(Step::Projection(spec));
            } else if DeviceNode::find::<ScanOperator>(node).is_some() {
                break node;
            } else {
                return Ok(None);
            }
            let [below] = node.children()[..] else {
                return Ok(None);
            };
            node = below;
        };
        let schema = scan.schema();
        let types = schema.fields().iter();
        let mut composer = Composer::new(types.map(|field| field.data_type().clone()).collect());
        for step in steps.iter().rev() {
            let composed = match step {
                Step::Filter(spec) => composer.filter(&FilterSpec {
                    predicate: spec.predicate.with_subqueries(),
                    ..(*spec).clone()
                }),
                Step::Projection(spec) => composer.projection(&ProjectionSpec {
                    computed: spec.computed.as_ref().map(|of| of.with_subqueries()),
                    ..(*spec).clone()
                }),
            };
            if composed.is_none() {
                return Ok(None);
            }
        }
        let Some(program) = composer.aggregation(spec) else {
            return Ok(None);
        };
        let GroupPartitioner {
            device,
            spilling,
            context,
            metrics,
            ..
        } = grouping;
        Ok(Some(Self {
            program,
            steps: Pieces::between(input, scan, device, spilling.clone(), metrics.clone())?,
            scan: Arc::clone(scan),
            pool: Arc::clone(context.memory_pool()),
        }))
    }

    /// Groups all rows in one pass; where the first piece has no keys of few values, or the device has no form of the program, only the steps are
    /// applied.
    pub(crate) async fn run(self, grouping: &GroupPartitioner) -> Result<FusedOutput> {
        let GroupPartitioner {
            device,
            context,
            spilling,
            metrics,
            ..
        } = grouping;
        let mut chunks = pieces(&self.scan, device, context, spilling.as_ref())?;
        let fused = Arc::new(self);
        let mut run = grouping.make_run()?;
        loop {
            let next;
            (run, next) = await_or_evict(device, run, chunks.try_next()).await?;
            let Some(input) = next else {
                break;
            };
            let rows = Arc::clone(&fused);
            let push = move |run: &mut GroupRun| match input {
                Input::MemoryPressure => run.leave_pool().map(|()| None),
                Input::Chunk(chunk) => rows.push(run, chunk),
            };
            let (pushed, left) = blocking(metrics, run, push).await?;
            run = pushed;
            if let Some(chunk) = left {
                let first = stream::once(async { Ok(Input::Chunk(chunk)) });
                let fused = Arc::into_inner(fused);
                let fused =
                    fused.ok_or_else(|| internal_datafusion_err!("a piece in two hands"))?;
                return Ok(FusedOutput::Rows(
                    fused.steps.stream(first.chain(chunks).boxed()),
                ));
            }
        }
        fused.steps.done();
        Ok(FusedOutput::Groups(Box::new(run)))
    }

    /// Groups the rows of a piece. Gives it back if it is the first and the steps are not fused for it.
    fn push(
        &self,
        run: &mut GroupRun,
        chunk: InputChunk,
    ) -> crate::error::Result<Option<InputChunk>> {
        let groups = match chunk.resident() {
            None => None,
            Some(batch) => {
                let device = Arc::clone(&run.device);
                let groups = run.shared_step(|run| self.groups(device.as_ref(), &run.spec, batch));
                match groups {
                    Err(BowtieError::NeedsDataFusion) => None,
                    Err(error) if error.is_divisible() => None,
                    groups => groups?,
                }
            }
        };
        if let Some(groups) = groups {
            self.steps.passed(groups.rows);
            run.metrics.chunks.add(1);
            run.metrics.fused_piece();
            run.add(groups.partial)?;
            return Ok(None);
        }
        if run.metrics.chunks.value() == 0 {
            return Ok(Some(chunk));
        }
        let mut rest = Some(self.steps.begin(chunk)?);
        while let Some(unprocessed) = rest.take() {
            let batches;
            (batches, rest) = self.steps.process(unprocessed)?;
            for batch in batches {
                let schema = run.spec.input.plan();
                let consumer = MemoryConsumer::new("BowtieAggregate[evicted]");
                let evicted = consumer.register(&self.pool);
                let chunk = InputChunk::of_batch(batch, &run.device, schema, evicted);
                run.push(chunk)?;
            }
        }
        Ok(None)
    }

    /// The groups of a piece in one pass; `None` if the steps are not fused for it.
    fn groups(
        &self,
        device: &dyn Device,
        spec: &GroupSpec,
        batch: &DeviceBatch,
    ) -> crate::error::Result<Option<PieceGroups>> {
        let within = match &self.program.lowest {
            Some(predicate) => possible_rows(predicate, batch)?,
            None => 0..batch.rows(),
        };
        let Some(bound) = self.program.bind(device, batch)? else {
            return Ok(None);
        };
        let columns: Vec<&Column> = bound.columns.iter().map(AsRef::as_ref).collect();
        let words = match within.is_empty() {
            // No row passes.
            true => bound
                .program
                .groups()
                .map(|groups| vec![0; groups as usize * bound.program.words()]),
            false => device.fold_groups(within, &bound.program, &columns)?,
        };
        let groups = words.map(|words| bound.groups(&self.program, spec, &words));
        groups.transpose()
    }
}
