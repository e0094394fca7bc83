//! Plans that are sent to another process and back: to this one.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use datafusion::prelude::SessionContext;
use datafusion_bowtie::BowtieCodec;
use datafusion_proto::physical_plan::AsExecutionPlan;
use datafusion_proto::protobuf::PhysicalPlanNode;

type Plan = Arc<dyn ExecutionPlan>;

/// Whether all queries of sessions with `with_bowtie` are sent before they run: BOWTIE_TEST_CODEC is set.
pub(crate) fn is_wanted() -> bool {
    std::env::var_os("BOWTIE_TEST_CODEC").is_some()
}

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
