//! Plans that are sent to another process and back: to this one.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use datafusion::prelude::SessionContext;
use datafusion_bowtie::BowtieCodec;
use datafusion_proto::physical_plan::AsExecutionPlan;
use datafusion_proto::protobuf::PhysicalPlanNode;

type Plan = Arc<dyn ExecutionPlan>;

/// The bytes of a plan.
pub(crate) fn encoded(plan: &Plan) -> Result<Vec<u8>> {
    let codec = BowtieCodec::default();
    let node = PhysicalPlanNode::try_from_physical_plan(Arc::clone(plan), &codec)?;
    let mut bytes = vec![];
    node.try_encode(&mut bytes)?;
    Ok(bytes)
}

/// The plan that bytes are.
pub(crate) fn decoded(ctx: &SessionContext, bytes: &[u8]) -> Result<Plan> {
    let codec = BowtieCodec::default();
    let node = PhysicalPlanNode::try_decode(bytes)?;
    node.try_into_physical_plan(&ctx.task_ctx(), &codec)
}

/// A plan as it arrives.
pub(crate) fn sent(ctx: &SessionContext, plan: &Plan) -> Result<Plan> {
    decoded(ctx, &encoded(plan)?)
}

/// What DataFusion's own messages cannot say, as errors name it.
const NOT_SENT: [&str; 5] = [
    // Computed apart from the plan that reads it.
    "ScalarSubqueryExpr can only be deserialized",
    // Nodes without a message, such as those of recursive queries.
    "bowtie's codec has no form of",
    "GROUPING SETS without a key",
    "a literal of the type Float16",
    // A table in memory whose projection drops a column by which its rows are ordered.
    "is not found in the original schema of the MemorySourceConfig",
];

/// Nodes that arrive as others: those of generated rows without the columns that nobody reads, those of asynchronous functions without their names.
const NOT_AS_SENT: [&str; 2] = ["LazyMemoryExec", "AsyncFuncExec"];

/// A plan as it is executed. If BOWTIE_TEST_CODEC is set, plans of sessions with `with_bowtie` are sent before, unless DataFusion has no message for a
/// part of them.
pub(crate) fn as_executed(ctx: &SessionContext, plan: Plan) -> Result<Plan> {
    let text = displayable(plan.as_ref()).indent(false).to_string();
    let is_of_one_machine = text.contains("Bowtie") && !text.contains("Stage");
    let arrives = !NOT_AS_SENT.iter().any(|node| text.contains(node));
    if std::env::var_os("BOWTIE_TEST_CODEC").is_none() || !is_of_one_machine || !arrives {
        return Ok(plan);
    }
    match sent(ctx, &plan) {
        Err(error)
            if NOT_SENT
                .iter()
                .any(|known| error.to_string().contains(known)) =>
        {
            Ok(plan)
        }
        sent => sent,
    }
}

/// Checks that a plan arrives with the same nodes.
pub(crate) fn assert_same_nodes(sql: &str, plan: &Plan, sent: &Plan) {
    let nodes = |plan: &Plan| {
        let text = displayable(plan.as_ref()).indent(false).to_string();
        let lines = text.lines().map(|line| {
            let end = line.find(':').unwrap_or(line.len());
            line[..end].to_string()
        });
        lines.collect::<Vec<_>>()
    };
    let shown = |plan: &Plan| displayable(plan.as_ref()).indent(false).to_string();
    assert!(
        nodes(plan) == nodes(sent),
        "{sql}\n{}\narrives as\n{}",
        shown(plan),
        shown(sent)
    );
}
