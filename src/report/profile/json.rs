//! A profile as JSON, which its page reads.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arrow::temporal_conversions::timestamp_s_to_datetime;
use serde_json::{Value, json};

use crate::device::trace::{Lane, Span};
use crate::report::profile::node_profile::NodeProfile;
use crate::report::profile::run::Profile;

/// The version of the form.
const VERSION: u32 = 1;

fn ms(time: Duration) -> f64 {
    // Microseconds are precise enough, and short.
    (time.as_secs_f64() * 1e6).round() / 1e3
}

impl Profile {
    /// The figures of the page as JSON: the plan's nodes with their metrics, spans, memory. Times are milliseconds from
    /// the start of execution.
    pub fn to_json(&self) -> String {
        let all: Duration = self.nodes.iter().filter_map(NodeProfile::compute).sum();
        let nodes: Vec<Value> = self
            .nodes
            .iter()
            .enumerate()
            .map(|(id, node)| of_node(id, node, all))
            .collect();
        let summary = &self.summary;
        json!({
            "version": VERSION,
            "title": self.title,
            "sql": self.sql,
            "created": now(),
            "engine": {"bowtie": env!("CARGO_PKG_VERSION"), "datafusion": datafusion::DATAFUSION_VERSION},
            "device": self.device.as_ref().map(|device| json!({
                "name": device.device,
                "card": device.name,
                "memory_bytes": device.memory_bytes,
                "budget_bytes": device.budget_bytes,
            })),
            "options": self.options,
            "planning_ms": ms(self.planning),
            "execution_ms": ms(self.execution),
            "rows": self.rows,
            "bytes": self.bytes,
            "summary": {
                "text": summary.to_string(),
                "offloaded": summary.offloaded,
                "operators": summary.operators,
                "uploads": summary.uploads,
                "upload_bytes": summary.upload_bytes,
                "downloads": summary.downloads,
                "download_bytes": summary.download_bytes,
                "estimated_ms": summary.estimated_ms,
                "datafusion_ms": summary.datafusion_ms,
            },
            "nodes": nodes,
            "timeline": self.timeline(),
            "memory": self.memory.as_ref().map(|memory| json!({
                "device": summary.device,
                "limit_bytes": memory.limit,
                "samples": memory.samples.iter().map(|(at, bytes)| json!([ms(*at), bytes])).collect::<Vec<_>>(),
            })),
            "notes": self.notes(),
        })
        .to_string()
    }

    fn timeline(&self) -> Value {
        let device = self.summary.device.as_deref().unwrap_or("the device");
        let ids: HashMap<usize, usize> = self
            .nodes
            .iter()
            .enumerate()
            .map(|(id, node)| (node.address, id))
            .collect();
        let used = |lane: &Lane| self.spans.iter().any(|span| span.lane == *lane);
        let lanes = Lane::ALL.iter().filter(|lane| used(lane));
        let lanes: Vec<Value> = lanes
            .map(|lane| {
                let title = match lane {
                    Lane::Host => "Steps on the host".to_string(),
                    Lane::Wait => format!("Waits for {device}"),
                    Lane::ToDevice => format!("Copies to {device}"),
                    Lane::Kernels => format!("Kernels on {device}"),
                    Lane::FromDevice => format!("Copies from {device}"),
                };
                json!({"id": lane_id(*lane), "title": title})
            })
            .collect();
        let spans: Vec<Value> = self
            .spans
            .iter()
            .map(|span| self.of_span(span, &ids))
            .collect();
        json!({
            "duration_ms": ms(self.execution),
            "lanes": lanes,
            "spans": spans,
            "dropped": self.dropped,
        })
    }

    /// A span without the members that it does not have: there are up to 20,000 of them.
    fn of_span(&self, span: &Span, ids: &HashMap<usize, usize>) -> Value {
        let node = ids.get(&span.node).copied();
        let name = match (span.lane, node) {
            (Lane::Host, Some(id)) => &self.nodes[id].report.node,
            _ => &span.name,
        };
        let mut of_span = json!({
            "lane": lane_id(span.lane),
            "name": name,
            "start_ms": ms(span.start),
            "ms": ms(span.took),
        });
        if let Some(id) = node {
            of_span["node"] = json!(id);
        }
        if let Some(bytes) = span.bytes {
            of_span["bytes"] = json!(bytes);
        }
        of_span
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = vec!["The rows of the result were counted and dropped.".to_string()];
        if self.spans.iter().any(|span| span.lane == Lane::Kernels) {
            notes.push(
                "Times of kernels and copies are the card's. Events around each of them make the query a little slower."
                    .into(),
            );
        }
        notes
    }
}

fn lane_id(lane: Lane) -> &'static str {
    match lane {
        Lane::Host => "host",
        Lane::Wait => "wait",
        Lane::ToDevice => "to_device",
        Lane::Kernels => "kernels",
        Lane::FromDevice => "to_host",
    }
}

fn of_node(id: usize, node: &NodeProfile, all: Duration) -> Value {
    let report = &node.report;
    let time = node.compute();
    let device_time = (!node.device_time.is_zero()).then(|| ms(node.device_time));
    json!({
        "id": id,
        "parent": node.parent,
        "depth": report.depth,
        "name": report.node,
        "detail": report.detail,
        "runs_on": report.runs_on,
        "decision": report.verdict.to_string(),
        "replaces": report.replaces,
        "strategy": report.strategy,
        "reason": report.reason,
        "estimated_rows": report.output_rows,
        "rows": node.rows(),
        "bytes": node.bytes(),
        "batches": node.batches(),
        "compute_ms": time.map(ms),
        "share": time.filter(|_| !all.is_zero()).map(|time| time.as_secs_f64() / all.as_secs_f64()),
        "device_ms": device_time,
        "sent_bytes": node.sent(),
        "received_bytes": node.received(),
        "resident_bytes": node.resident(),
        "spilled_bytes": node.spilled(),
        "peak_device_bytes": node.peak_device(),
        "metrics": node.shown(),
    })
}

/// The time of day, in UTC.
fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = since.map_or(0, |since| since.as_secs());
    let time = timestamp_s_to_datetime(i64::try_from(seconds).unwrap_or_default());
    time.map_or(String::new(), |time| {
        time.format("%Y-%m-%dT%H:%M:%SZ").to_string()
    })
}
