//! Clusters of pairs.

use std::sync::Arc;

use datafusion::common::not_impl_err;
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use serde_json::json;

use crate::exec::clusters::exec::ClustersExec;
use crate::plan::codec::message::{Kind, Message};
use crate::spec::clusters::ClustersSpec;

type Plan = Arc<dyn ExecutionPlan>;

/// Clusters of pairs, which the receiver makes on its host.
pub(super) fn encoded(node: &Plan) -> Result<Message> {
    let Some(clusters) = node.downcast_ref::<ClustersExec>() else {
        return not_impl_err!("bowtie's codec has no form of {}", node.name());
    };
    let spec = clusters.spec();
    let header = json!({ "columns": spec.columns, "fetch": spec.fetch });
    Ok(Message::new(Kind::Clusters, header))
}

pub(super) fn decoded(message: &Message, inputs: &[Plan]) -> Result<Plan> {
    let [input] = inputs else {
        return message.is_misplaced();
    };
    let schema = input.schema();
    let Some(ids) = schema.fields().first() else {
        return message.is_misplaced();
    };
    let spec = ClustersSpec {
        data_type: ids.data_type().clone(),
        columns: message.numbers("columns")?,
        fetch: message.number("fetch"),
    };
    Ok(Arc::new(ClustersExec::try_new(Arc::clone(input), spec)?))
}
