//! A [`PlanReport`] of a plan and of what was decided on its nodes.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;

use crate::exec::node::DeviceNode;
use crate::exec::scan::node::ScanOperator;
use crate::exec::scan::table::Table;
use crate::exec::transfer::download::BowtieDownloadExec;
use crate::plan::choose::cardinality::Cardinalities;
use crate::plan::explain::decision::Decision;
use crate::plan::explain::node_kind::NodeKind;
use crate::plan::explain::recorder::OriginalNode;
use crate::plan::statistics::statistics_cache::StatisticsCache;
use crate::report::align::align;
use crate::report::plan_report::{NodeReport, PlanReport, PlanSummary, Verdict};
use crate::report::why::{self, Surroundings};
use crate::runtime::process::BowtieRuntime;

type Plan = Arc<dyn ExecutionPlan>;

/// Where nodes run that no device has.
const DATAFUSION: &str = "datafusion";

/// A node of the plan that will run.
struct Node<'a> {
    plan: &'a Plan,
    depth: usize,
    parent: Option<usize>,
    kind: NodeKind,
    /// Where it runs, unless in DataFusion.
    device: Option<String>,
}

/// The nodes of a plan, each before its inputs.
fn nodes_of(plan: &Plan) -> Vec<Node<'_>> {
    let mut nodes: Vec<Node<'_>> = vec![];
    let mut rest = vec![(plan, 0, None)];
    while let Some((plan, depth, parent)) = rest.pop() {
        let id = nodes.len();
        let inputs = plan.children().into_iter().rev();
        rest.extend(inputs.map(|input| (input, depth + 1, Some(id))));
        nodes.push(Node {
            plan,
            depth,
            parent,
            kind: NodeKind::of(plan),
            device: device_of(plan),
        });
    }
    nodes
}

fn device_of(plan: &Plan) -> Option<String> {
    if let Some(node) = plan.downcast_ref::<DeviceNode>() {
        return Some(node.device_name().into());
    }
    let download = plan.downcast_ref::<BowtieDownloadExec>()?;
    Some(download.device().name().into())
}

/// The node that reads a node's rows, past those that only move them.
fn reader_of(nodes: &[Node<'_>], node: &Node<'_>) -> Option<usize> {
    let mut above = node.parent?;
    while nodes[above].kind.only_moves() {
        above = nodes[above].parent?;
    }
    Some(above)
}

/// The report of a plan; `original` are the nodes that it was made of, `imagined` says why its device is not there.
pub(crate) fn report(
    plan: &Plan,
    original: &[OriginalNode],
    runtime: &BowtieRuntime,
    imagined: Option<String>,
) -> PlanReport {
    let nodes = nodes_of(plan);
    let before: Vec<&NodeKind> = original.iter().map(|node| &node.kind).collect();
    let after: Vec<&NodeKind> = nodes.iter().map(|node| &node.kind).collect();
    let was = align(&before, &after);
    let decided = decisions_of(&nodes, original, &was);
    let statistics = StatisticsCache::default();
    let device = nodes.iter().find_map(|node| node.device.clone());
    let inputs = (0..nodes.len()).map(|id| input_rows(&nodes, &decided, id));
    let inputs: Vec<Option<u64>> = inputs.collect();
    let reports = nodes.iter().zip(decided).enumerate();
    let reports: Vec<NodeReport> = reports
        .map(|(id, (node, decided))| {
            let around = Surroundings {
                above: reader_of(&nodes, node).map(|above| &nodes[above].kind),
                has_device: device.is_some(),
                is_gpu: device.as_deref().is_some_and(|device| device != "host"),
            };
            let report = node_report(id, (node, inputs[id]), &decided, &around, &statistics);
            match DeviceNode::find::<ScanOperator>(node.plan) {
                Some((on, scan)) => of_scan(report, runtime, on.device_name(), &scan.table),
                None => report,
            }
        })
        .collect();
    PlanReport {
        summary: summary(&reports, device, imagined),
        nodes: reports,
    }
}

/// The decisions that led to each node. One node may stand for several of before, as an aggregation fused with its join.
fn decisions_of<'a>(
    nodes: &[Node<'_>],
    original: &'a [OriginalNode],
    was: &[Option<usize>],
) -> Vec<Vec<&'a Decision>> {
    let mut decided: Vec<Vec<&Decision>> = vec![vec![]; nodes.len()];
    let mut by_original = vec![None; original.len()];
    for (id, was) in was.iter().enumerate() {
        if let Some(was) = was {
            by_original[*was] = Some(id);
        }
    }
    let is_operator = |id: &usize| {
        let node = &nodes[*id];
        node.device.is_some() && !matches!(node.kind, NodeKind::Upload | NodeKind::Download)
    };
    let (mut last, mut on_device) = (None, None);
    // Limits that became the node's below.
    let mut limits: Vec<&Decision> = vec![];
    for (was, node) in original.iter().enumerate() {
        let now = by_original[was];
        last = now.or(last);
        on_device = now.filter(is_operator).or(on_device);
        // A node that is gone is one with the one above it: a join with its aggregation, a projection with another one.
        let id = node.decision.as_ref().and_then(|decision| {
            let own = now.filter(|id| is_operator(id) == decision.offloaded);
            own.or_else(|| match decision.offloaded {
                true => on_device,
                false => last.filter(|above| nodes[*above].kind == node.kind),
            })
        });
        match (id, &node.decision) {
            (Some(id), Some(decision)) => decided[id].push(decision),
            (None, Some(decision)) if node.kind == NodeKind::Limit => limits.push(decision),
            _ => {}
        }
        if let Some(id) = now {
            let of_node = std::mem::take(&mut limits);
            decided[id].extend(of_node.into_iter().filter(|_| is_operator(&id)));
        }
    }
    for (id, node) in nodes.iter().enumerate() {
        let above = node
            .parent
            .filter(|above| nodes[*above].kind == NodeKind::Upload);
        if let (Some(above), Some(was)) = (above, was[id])
            && let Some(upload) = &original[was].upload
        {
            decided[above].push(upload);
        }
    }
    decided
}

/// Rows of a node's first input, where they were estimated.
fn input_rows(nodes: &[Node<'_>], decided: &[Vec<&Decision>], id: usize) -> Option<u64> {
    // An input stands behind the node that reads it. A projection has the rows of its own one.
    let mut input = id + 1;
    while nodes.get(input)?.kind == NodeKind::Projection && decided[input].is_empty() {
        input += 1;
    }
    decided[input].first()?.estimate?.rows
}

/// The report of a node, whose first input was estimated at `input_rows`.
fn node_report(
    id: usize,
    (node, input_rows): (&Node<'_>, Option<u64>),
    decided: &[&Decision],
    around: &Surroundings<'_>,
    statistics: &StatisticsCache,
) -> NodeReport {
    let first = decided.first();
    let is_transfer = matches!(node.kind, NodeKind::Upload | NodeKind::Download);
    let verdict = match (&node.device, first) {
        (Some(_), _) if is_transfer => Verdict::Transfer,
        (Some(_), _) => Verdict::Offloaded,
        (None, Some(_)) => Verdict::Declined,
        (None, None) => Verdict::DataFusion,
    };
    let mut reasons: Vec<&str> = decided.iter().map(|d| d.reason.as_str()).collect();
    reasons.dedup();
    let reason = match (reasons.is_empty(), &node.device) {
        (false, _) => reasons.join("; "),
        (true, Some(_)) => why::of_device(&node.kind, around).into(),
        (true, None) => why::of_datafusion(&node.kind, around),
    };
    let replaces: Vec<&str> = decided.iter().map(|d| d.node.as_str()).collect();
    let estimate = first.and_then(|decision| decision.estimate);
    let known = || statistics.rows(node.plan).rows();
    let rows = match is_transfer {
        true => input_rows,
        false => estimate.and_then(|estimate| estimate.rows),
    };
    let rows = rows.or_else(known);
    // The CPU backend copies nothing.
    let sent = rows.filter(|_| is_transfer && around.is_gpu);
    let sent = sent.map(|rows| {
        let flow = Cardinalities(statistics).output(node.plan, rows as f64);
        flow.bytes as u64
    });
    let (bytes_up, bytes_down) = match node.kind {
        NodeKind::Upload => (sent, None),
        NodeKind::Download => (None, sent),
        _ => (
            estimate.map(|estimate| estimate.bytes_up),
            estimate.map(|estimate| estimate.bytes_down),
        ),
    };
    NodeReport {
        id,
        depth: node.depth,
        node: node.plan.name().into(),
        replaces: (verdict == Verdict::Offloaded && !replaces.is_empty())
            .then(|| replaces.join(" + ")),
        runs_on: node.device.clone().unwrap_or_else(|| DATAFUSION.into()),
        verdict,
        strategy: first.and_then(|decision| decision.strategy.clone()),
        detail: match first.map(|decision| &decision.detail) {
            _ if is_transfer => String::new(),
            Some(detail) if !detail.is_empty() => detail.clone(),
            _ => why::detail(node.plan.as_ref()),
        },
        left_rows: first.and_then(|decision| decision.left_rows),
        right_rows: first.and_then(|decision| decision.right_rows),
        output_rows: rows,
        resident_bytes: None,
        bytes_up,
        bytes_down,
        device_ms: estimate.map(|estimate| estimate.device_ms),
        host_ms: estimate.map(|estimate| estimate.host_ms),
        reason,
    }
}

/// The report of a scan whose columns stay on the device.
fn of_scan(report: NodeReport, runtime: &BowtieRuntime, device: &str, table: &Table) -> NodeReport {
    let (resident, missing) = stored_share(runtime, device, table);
    let fields = table.schema().fields().iter();
    let columns: Vec<&str> = fields.map(|field| field.name().as_str()).collect();
    NodeReport {
        detail: columns.join(", "),
        resident_bytes: Some(resident),
        bytes_up: Some(missing),
        reason: match (resident, missing) {
            (_, 0) => "its columns are on the device",
            (0, _) => "its columns are sent, and stay on the device as far as bowtie.cache allows",
            _ => "a part of its columns is on the device, and the rest is sent",
        }
        .into(),
        ..report
    }
}

/// What a device's store has of a table's columns, as they are stored, and the bytes of the values that are not there, approximately.
fn stored_share(runtime: &BowtieRuntime, device: &str, table: &Table) -> (u64, u64) {
    let stores = runtime.stores().into_iter();
    let mut of_device = stores.filter(|(name, _)| name == device);
    let (resident, values) = of_device
        .next()
        .map_or((0, 0), |(_, store)| store.share_of(&table.stored_as()));
    let rows = table.statistics().num_rows;
    let rows = rows.get_value().copied().unwrap_or_default();
    let all = rows.saturating_mul(table.schema().fields().len()) as u64;
    let bytes = table.bytes().unwrap_or_default();
    let missing = u128::from(all.saturating_sub(values)) * u128::from(bytes);
    let missing = missing.checked_div(all.into()).unwrap_or_default();
    (resident, missing as u64)
}

fn summary(nodes: &[NodeReport], device: Option<String>, imagined: Option<String>) -> PlanSummary {
    let count = |verdict| nodes.iter().filter(|node| node.verdict == verdict).count();
    let transfers = count(Verdict::Transfer);
    let downloads = nodes
        .iter()
        .filter(|node| node.node == BowtieDownloadExec::NAME)
        .count();
    // What an operator's transfers bring is theirs, or a scan's.
    let total = |of: fn(&NodeReport) -> Option<u64>| {
        let send = nodes
            .iter()
            .filter(|node| node.verdict == Verdict::Transfer || node.resident_bytes.is_some());
        let known = send.filter_map(of);
        known.reduce(u64::saturating_add)
    };
    let times = nodes.iter().filter_map(|node| {
        let (planned, datafusion) = (node.device_ms?, node.host_ms?);
        Some(match node.verdict {
            Verdict::Offloaded => (planned, datafusion),
            _ => (datafusion, datafusion),
        })
    });
    let times = times.reduce(|a, b| (a.0 + b.0, a.1 + b.1));
    PlanSummary {
        imagined: imagined.filter(|_| device.is_some()),
        device,
        offloaded: count(Verdict::Offloaded),
        operators: nodes.len() - transfers,
        uploads: transfers - downloads,
        upload_bytes: total(|node| node.bytes_up),
        downloads,
        download_bytes: total(|node| node.bytes_down),
        estimated_ms: times.map(|(planned, _)| planned),
        datafusion_ms: times.map(|(_, datafusion)| datafusion),
    }
}
