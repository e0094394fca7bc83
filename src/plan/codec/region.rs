//! A region: a download with the device nodes below it. It is sent as the nodes of DataFusion that it stands for, above its numbered inputs,
//! with the options that it was planned with.

use std::sync::Arc;

use datafusion::common::config::{ConfigOptions, ExtensionOptions};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{ScalarValue, exec_datafusion_err, exec_err, not_impl_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use serde_json::{Map, Value, json};

use crate::compat::repeated_rules::with_requirements_and_limits;
use crate::exec::node::DeviceNode;
use crate::exec::stage::input::{Reads, StageInputExec};
use crate::exec::transfer::download::BowtieDownloadExec;
use crate::exec::transfer::upload::UploadOperator;
use crate::exec::transfer::way_back::united;
use crate::options::{BowtieOptions, Offload};
use crate::plan::codec::message::{Kind, Message};
use crate::plan::codec::sent_inputs::SentInputsExec;
use crate::plan::codec::{clusters, extended_join};
use crate::plan::rule::BowtieRule;
use crate::plan::snapshots::scans::without_snapshots;
use crate::plan::sources::extended_join::{ExtendedJoinExec, of_datafusion};
use crate::plan::statistics::statistics_cache::StatisticsCache;
use crate::runtime::session_devices::SessionDevices;

type Plan = Arc<dyn ExecutionPlan>;

/// The nodes that a region stands for.
#[derive(Debug)]
pub(super) struct RegionCodec {
    /// Where a region is decoded: its inputs.
    inputs: Vec<Plan>,
    devices: Arc<SessionDevices>,
}

/// The rows that a region uploads, from left to right: DataFusion's node, and the plan that it became.
fn uploads(node: &Plan) -> Vec<(Plan, Plan)> {
    if let (Some((_, upload)), [rows]) = (
        DeviceNode::find::<UploadOperator>(node),
        &node.children()[..],
    ) {
        return vec![(Arc::clone(&upload.of), Arc::clone(rows))];
    }
    node.children().into_iter().flat_map(uploads).collect()
}

pub(super) fn encoded(
    node: &Plan,
    devices: &Arc<SessionDevices>,
    converter: &dyn PhysicalProtoConverterExtension,
) -> Result<Message> {
    let download = node.downcast_ref::<BowtieDownloadExec>();
    let of = download.and_then(BowtieDownloadExec::of);
    let of = of.ok_or_else(|| {
        exec_datafusion_err!("bowtie: a node cannot be sent: it is not known what it stands for")
    })?;
    let uploads = uploads(node);
    let mut open: Vec<Option<&(Plan, Plan)>> = uploads.iter().map(Some).collect();
    let statistics = StatisticsCache::default();
    let nodes = Arc::clone(&of.node).transform_down(|node| {
        let (node, is_below) = without_download(node);
        let uploaded = |upload: &&(Plan, Plan)| Arc::ptr_eq(&upload.0, &node);
        let number = open
            .iter()
            .position(|open| open.as_ref().is_some_and(uploaded));
        let Some(number) = number else {
            return Ok(Transformed::new(
                node,
                is_below,
                TreeNodeRecursion::Continue,
            ));
        };
        open[number] = None;
        let known = statistics.statistics(&node);
        let input: Plan = Arc::new(StageInputExec::new(number, node, Reads::All, known));
        Ok(Transformed::new(input, true, TreeNodeRecursion::Jump))
    });
    let nodes = without_snapshots(nodes.data()?)?;
    if nodes.exists(|node| Ok(groups_by_nothing(node)))? {
        return not_impl_err!(
            "bowtie: GROUPING SETS without a key cannot be sent: DataFusion's message of an aggregation has no form of them"
        );
    }
    // DataFusion would send them in the plans of the inputs, too.
    let mut sent = uploads.iter().map(|(_, rows)| rows).chain([&nodes]);
    if sent.try_fold(false, |found, plan| {
        Ok::<_, DataFusionError>(found || plan.exists(has_half_literal)?)
    })? {
        return not_impl_err!(
            "bowtie: a literal of the type Float16 cannot be sent: DataFusion's message of it has another type; cast a Float32 literal instead"
        );
    }
    if open.iter().any(Option::is_some) {
        return exec_err!("bowtie: a node cannot be sent: an input of it is not known");
    }
    let options = of.options.entries().into_iter();
    let options = options.filter_map(|entry| Some((entry.key, json!(entry.value?))));
    let options: Map<String, Value> = options.collect();
    let mut message = Message::new(
        Kind::Region,
        json!({
            "options": options,
            "is_limited": of.limit.is_some(),
            "limit": of.limit.flatten(),
        }),
    );
    let codec = RegionCodec {
        inputs: vec![],
        devices: Arc::clone(devices),
    };
    message.add(&nodes, &codec, converter)?;
    Ok(message)
}

/// What a download of another region stands for: the plan below clusters was offloaded by itself, and its rows do not leave the device any more.
fn without_download(node: Plan) -> (Plan, bool) {
    let download = node.downcast_ref::<BowtieDownloadExec>();
    let below = download.and_then(BowtieDownloadExec::of);
    let below = below.filter(|below| below.limit.is_none());
    match below.map(|below| Arc::clone(&below.node)) {
        Some(below) => (without_download(below).0, true),
        None => (node, false),
    }
}

/// Whether an expression of a node has a literal of the type Float16.
fn has_half_literal(node: &Plan) -> Result<bool> {
    let mut found = false;
    node.apply_expressions(&mut |expr| {
        found |= expr.exists(|expr| {
            let literal = expr.downcast_ref::<Literal>();
            Ok(literal.is_some_and(|l| matches!(l.value(), ScalarValue::Float16(_))))
        })?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// Whether a node has grouping sets of no expression at all.
fn groups_by_nothing(node: &Plan) -> bool {
    let aggregate = node.downcast_ref::<AggregateExec>();
    let keys = aggregate.map(AggregateExec::group_expr);
    keys.is_some_and(|keys| keys.has_grouping_set() && keys.expr().is_empty())
}

/// Whether a node is a join in whose place there are no nodes of DataFusion.
fn runs_on_device_only(node: &Plan) -> bool {
    let extended = node.downcast_ref::<ExtendedJoinExec>();
    extended.is_some_and(ExtendedJoinExec::runs_on_device_only)
}

pub(super) fn decoded(
    message: &Message,
    below: &[Plan],
    (context, converter): (&TaskContext, &dyn PhysicalProtoConverterExtension),
    devices: &Arc<SessionDevices>,
) -> Result<Plan> {
    let inputs = SentInputsExec::of(below).inputs;
    let codec = RegionCodec {
        inputs,
        devices: Arc::clone(devices),
    };
    let nodes = message.plan(0, &codec, (context, converter))?;
    let mut config = ConfigOptions::clone(context.session_config().options());
    let mut options = BowtieOptions::default();
    for (name, value) in message.header["options"].as_object().into_iter().flatten() {
        let name = name.strip_prefix("bowtie.").unwrap_or(name);
        options.set(name, value.as_str().unwrap_or_default())?;
    }
    // DataFusion's nodes in place of an as-of join are not sent: their inputs are not those of the join. The sender offloaded all nodes of the
    // region, and so does the receiver, whatever it estimates.
    if nodes.exists(|node| Ok(runs_on_device_only(node)))? {
        options.offload = Offload::Force;
    }
    config.extensions.insert(options);
    let rule = BowtieRule::new(Arc::clone(devices));
    let (mut planned, _) = rule.offloaded(nodes, &config)?;
    // A plan that the rule left alone has joins that stand for several nodes.
    if planned.exists(|node| Ok(node.is::<ExtendedJoinExec>()))? {
        let missing =
            || exec_datafusion_err!("bowtie: a node that arrived has no plan of DataFusion");
        planned = of_datafusion(&planned)?.ok_or_else(missing)?;
    }
    planned = with_requirements_and_limits(planned, &config)?;
    if message.flag("is_limited") {
        let limit = message.number("limit");
        planned = match planned.with_fetch(limit) {
            Some(limited) => limited,
            None => Arc::new(GlobalLimitExec::new(united(planned), 0, limit)),
        };
    }
    Ok(united(planned))
}

impl PhysicalExtensionCodec for RegionCodec {
    fn try_encode(
        &self,
        node: Plan,
        buffer: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let message = match node.downcast_ref::<StageInputExec>() {
            Some(input) => Message::new(Kind::Input, json!({ "number": input.source().0 })),
            None if node.is::<ExtendedJoinExec>() => {
                extended_join::encoded(&node, self, converter)?
            }
            // Below clusters there is a plan of its own.
            None if node.is::<BowtieDownloadExec>() => encoded(&node, &self.devices, converter)?,
            None if node.is::<DeviceNode>() => Message::new(Kind::Part, json!({})),
            None => clusters::encoded(&node)?,
        };
        message.write(buffer)
    }

    fn try_decode(
        &self,
        buffer: &[u8],
        inputs: &[Plan],
        context: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Plan> {
        let message = Message::read(buffer)?;
        match message.kind {
            Kind::Input => {
                let input = message.number("number").and_then(|n| self.inputs.get(n));
                let missing = || exec_datafusion_err!("bowtie: an input of a node did not arrive");
                Ok(Arc::clone(input.ok_or_else(missing)?))
            }
            Kind::ExtendedJoin => {
                let sides = Self {
                    inputs: inputs.to_vec(),
                    devices: Arc::clone(&self.devices),
                };
                extended_join::decoded(&message, &sides, (context, converter))
            }
            Kind::Clusters => clusters::decoded(&message, inputs),
            Kind::Region => decoded(&message, inputs, (context, converter), &self.devices),
            Kind::Part => Ok(Arc::new(SentInputsExec::of(inputs))),
        }
    }
}
