//! [`AggregateOperator`]: grouped aggregation on a device. In: device chunks. Out: chunks of groups, once all rows were
//! read.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};
use futures::{StreamExt, TryFutureExt};

use crate::exec::aggregate::fused::run::{FusedOutput, FusedRows};
use crate::exec::aggregate::grace_aggregate::{GroupPartitioner, GroupingPath, PartitionedGroups};
use crate::exec::aggregate::output::GroupOutput;
use crate::exec::aggregate::resident::are_results;
use crate::exec::aggregate::run::GroupRun;
use crate::exec::blocking::blocking;
use crate::exec::chunk::DeviceStream;
use crate::exec::chunk::chunk_limits::Role;
use crate::exec::input::chunk::{Input, InputStream};
use crate::exec::input::coalesce::{coalesced, inputs};
use crate::exec::input::prefetch::Prefetch;
use crate::exec::memory::on_request::await_or_evict;
use crate::exec::node::{DeviceOperator, Execution, OneInput, OutputOnDevice};
use crate::spec::aggregate::GroupSpec;
use crate::spec::operator_kind::OperatorKind;

/// Groups rows and folds or collects the values of each group (\[W\] 3.2 and 4.2 to 4.4): COUNT, SUM, AVG, MIN, MAX,
/// BOOL_AND, BOOL_OR, BIT_AND, BIT_OR, BIT_XOR, variances, medians, percentiles, first and last values. Groups are by
/// columns of any orderable type, by grouping sets, or all rows are one group.
///
/// It replaces a partial and a final aggregation, or a single one. All groups are emitted at the end.
#[derive(Debug)]
pub(crate) struct AggregateOperator(pub(crate) Arc<GroupSpec>);

impl DeviceOperator for AggregateOperator {
    fn kind(&self) -> OperatorKind {
        OperatorKind::Aggregate
    }

    fn display(
        &self,
        device: &str,
        t: DisplayFormatType,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        let spec = &self.0;
        let groups = spec.group_display.join(", ");
        let aggregates = spec.aggregate_display.join(", ");
        let sets = spec.sets.len();
        let strategy = spec.strategy();
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "gby=[{groups}], aggr=[{aggregates}]")?;
                if sets > 1 {
                    write!(f, ", grouping_sets={sets}")?;
                }
                if let Some(strategy) = strategy {
                    write!(f, ", strategy={strategy}")?;
                }
                write!(f, ", device={device}")?;
                match spec.output_on_device && !are_results(spec) {
                    true => write!(f, ", finish=host"),
                    false => Ok(()),
                }
            }
            DisplayFormatType::TreeRender => {
                if !groups.is_empty() {
                    writeln!(f, "group_by={groups}")?;
                }
                if sets > 1 {
                    writeln!(f, "grouping_sets={sets}")?;
                }
                writeln!(f, "aggr={aggregates}")?;
                if let Some(strategy) = strategy {
                    writeln!(f, "strategy={strategy}")?;
                }
                writeln!(f, "device={device}")
            }
        }
    }

    fn schema(&self) -> Result<SchemaRef> {
        Ok(Arc::clone(&self.0.schema))
    }

    fn emission(&self, _: &[Arc<dyn ExecutionPlan>]) -> (EmissionType, Boundedness) {
        (EmissionType::Final, Boundedness::Bounded)
    }

    fn with_output_on_device(&self) -> OutputOnDevice {
        OutputOnDevice::By(Arc::new(Self(Arc::new(GroupSpec {
            output_on_device: true,
            is_downloaded: false,
            ..self.0.as_ref().clone()
        }))))
    }

    fn execute(&self, execution: Execution<'_>) -> Result<DeviceStream> {
        let OneInput {
            input,
            device,
            context,
            spilling,
            metrics,
        } = execution.of_one_input()?;
        let grouping = GroupPartitioner {
            spec: Arc::clone(&self.0),
            device,
            context,
            spilling,
            metrics,
        };
        let fused = FusedRows::of(&grouping, &self.0, input)?;
        let input = Arc::clone(input);
        Ok(groups(grouping, fused, input).try_flatten_stream().boxed())
    }
}

/// The stream of all groups.
async fn groups(
    grouping: GroupPartitioner,
    fused: Option<FusedRows>,
    input: Arc<dyn ExecutionPlan>,
) -> Result<DeviceStream> {
    let pool = grouping.context.memory_pool();
    let output = GroupOutput::new("BowtieAggregate", pool, grouping.metrics.clone());
    let (device, context) = (&grouping.device, &grouping.context);
    let (role, spilling) = (Role::Grouped, grouping.spilling.as_ref());
    let made = match fused {
        Some(fused) => Some(fused.run(&grouping).await?),
        None => None,
    };
    let input = match made {
        Some(FusedOutput::Groups(run)) => return Ok(output.stream(*run)),
        Some(FusedOutput::Rows(rows)) => {
            coalesced(rows, &input.schema(), device, role, context, spilling)
        }
        None => inputs(&input, device, role, context, spilling)?,
    };
    let path = grouping.choose_path(input).await?;
    match path {
        GroupingPath::ByPartition(partitioner) => {
            Ok(PartitionedGroups::stream(partitioner, grouping, output))
        }
        GroupingPath::ByChunk(chunks) => Ok(output.stream(by_chunk(grouping, chunks).await?)),
    }
}

/// Groups all chunks in one run, without partitions.
async fn by_chunk(grouping: GroupPartitioner, chunks: InputStream) -> Result<GroupRun> {
    let mut run = grouping.make_run()?;
    let GroupPartitioner {
        device,
        spilling,
        metrics,
        ..
    } = grouping;
    let on = Arc::clone(&device);
    let mut chunks = Prefetch::new(chunks, on, run.needed(), spilling, metrics.clone());
    loop {
        let next;
        (run, next) = await_or_evict(&device, run, chunks.next()).await?;
        let Some(input) = next else {
            return Ok(run);
        };
        let step = |run: &mut GroupRun| match input {
            Input::Chunk(chunk) => run.push(chunk),
            Input::MemoryPressure => run.leave_pool(),
        };
        run = blocking(&metrics, run, step).await?.0;
    }
}
