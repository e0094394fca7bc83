//! [`UploadOperator`]: makes device chunks of record batches. In: all partitions of a DataFusion node. Out: chunks
//! staged on the host, which their reader uploads.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::Statistics;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr_common::physical_expr::fmt_sql;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::BaselineMetrics;
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};
use futures::{StreamExt, TryStreamExt};

use crate::exec::chunk::chunk_limits::{ChunkLimits, Role};
use crate::exec::chunk::{DeviceChunk, DeviceStream};
use crate::exec::node::{DeviceOperator, Execution};
use crate::exec::transfer::chunker::Chunker;
use crate::exec::transfer::evaluator::Evaluator;
use crate::exec::transfer::partitions;
use crate::options::BowtieOptions;
use crate::spec::join::SideInput;
use crate::spec::operator_kind::OperatorKind;

/// Gathers all partitions of its input into chunks for a device, and evaluates key expressions on them.
///
/// ```text
/// input partition 0 ─► evaluate ──┐
/// input partition 1 ─► evaluate ──┼─► Chunker ─► chunks, staged on the host
/// input partition 2 ─► evaluate ──┘
/// ```
///
/// The node that reads a chunk uploads the columns that it needs when device memory allows. So a chunk may be uploaded
/// in parts, or twice. Staged chunks are reserved in DataFusion's memory pool.
#[derive(Debug)]
pub(crate) struct UploadOperator {
    pub(crate) columns: SideInput,
    /// What the reader does with the chunks.
    pub(crate) role: Role,
    /// The node of DataFusion's plan whose rows these are.
    #[cfg_attr(
        not(feature = "codec"),
        expect(dead_code, reason = "sent by the codec")
    )]
    pub(crate) of: Arc<dyn ExecutionPlan>,
}

impl UploadOperator {
    /// The expressions as SQL.
    fn shown(&self) -> Vec<String> {
        let expressions = self.columns.expressions.iter();
        expressions
            .map(|e| fmt_sql(e.as_ref()).to_string())
            .collect()
    }
}

impl DeviceOperator for UploadOperator {
    fn kind(&self) -> OperatorKind {
        OperatorKind::Upload
    }

    fn display(
        &self,
        device: &str,
        t: DisplayFormatType,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        let evaluated = self.shown();
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "device={device}")?;
                if !evaluated.is_empty() {
                    write!(f, ", evaluate=[{}]", evaluated.join(", "))?;
                }
                Ok(())
            }
            DisplayFormatType::TreeRender => {
                writeln!(f, "device={device}")?;
                if !evaluated.is_empty() {
                    writeln!(f, "evaluate={}", evaluated.join(", "))?;
                }
                Ok(())
            }
        }
    }

    fn schema(&self) -> Result<SchemaRef> {
        Ok(self.columns.schema())
    }

    fn emission(&self, _: &[Arc<dyn ExecutionPlan>]) -> (EmissionType, Boundedness) {
        (EmissionType::Incremental, Boundedness::Bounded)
    }

    fn expressions(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.columns.expressions.iter().collect()
    }

    fn reads_partitions(&self) -> bool {
        true
    }

    fn statistics(&self, input: Option<&Statistics>) -> Option<Result<Statistics>> {
        let input = input?;
        let mut statistics = Statistics::new_unknown(&self.columns.schema());
        let columns = statistics.column_statistics.iter_mut();
        for (column, input) in columns.zip(&input.column_statistics) {
            *column = input.clone();
        }
        statistics.num_rows = input.num_rows;
        Some(Ok(statistics))
    }

    /// The reader uploads the chunks, in the order of its own stream.
    fn execute(&self, execution: Execution<'_>) -> Result<DeviceStream> {
        let [input] = execution.inputs()?;
        let schema = self.columns.schema();
        let options = BowtieOptions::of(execution.context.session_config().options());
        let limits = ChunkLimits::new(
            execution.device.as_ref(),
            &schema,
            options.chunk_rows.0,
            self.role,
            execution.context.memory_pool().as_ref(),
        );
        let metrics = BaselineMetrics::new(execution.metrics, 0);
        let device = execution.device.as_ref();
        let evaluator = Evaluator::new(&schema, &self.columns.expressions, device);
        let chunker = Chunker::new(
            format!("BowtieUpload[{}]", self.role),
            &evaluator,
            device,
            limits,
            execution.context.memory_pool(),
        );
        // Readers of streamed chunks have little to spill, but they drop the current chunk before they ask for the next
        // one.
        let spills = execution
            .context
            .runtime_env()
            .disk_manager
            .tmp_files_enabled();
        let chunker = chunker.told_of_memory_pressure(spills || self.role.is_streamed());
        let input = partitions::evaluated(input, &execution.context, &evaluator, &metrics)?;
        // The state is (input, chunker, metrics); the input is `None` at its end.
        let chunks = futures::stream::try_unfold(
            (Some(input), chunker, metrics),
            |(mut input, mut chunker, metrics)| async move {
                while let Some(batches) = &mut input {
                    let rest = chunker.has_rest();
                    let batch = match rest {
                        true => None,
                        false => batches.next().await.transpose()?,
                    };
                    let timer = metrics.elapsed_compute().timer();
                    let chunks = match batch {
                        Some(batch) => chunker.push(batch)?,
                        None if rest => chunker.push_rest()?,
                        None => {
                            input = None;
                            chunker.flush()?
                        }
                    };
                    timer.done();
                    if !chunks.is_empty() {
                        let rows: usize = chunks.iter().map(DeviceChunk::rows).sum();
                        metrics.record_output(rows);
                        let chunks = futures::stream::iter(chunks.into_iter().map(Ok));
                        return Ok::<_, DataFusionError>(Some((chunks, (input, chunker, metrics))));
                    }
                }
                metrics.done();
                Ok(None)
            },
        );
        Ok(chunks.try_flatten().boxed())
    }
}
