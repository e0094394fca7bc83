//! [`PlanReport`]: every node of a query's plan with where it runs, and why.

use std::fmt;

use datafusion::common::human_readable_size;

/// What is done with a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// It runs on a device in place of DataFusion's node.
    Offloaded,
    /// It could run on a device, and stays DataFusion's.
    Declined,
    /// It brings rows to a device, or from there.
    Transfer,
    /// It is DataFusion's: no device has such a node.
    DataFusion,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Offloaded => "offloaded",
            Self::Declined => "declined",
            Self::Transfer => "transfer",
            Self::DataFusion => "datafusion",
        })
    }
}

/// A node of the plan that will run. Estimates are `None` where nothing is known, or costs do not decide.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct NodeReport {
    /// Its place in the order of the plan, from 0.
    pub id: usize,
    /// How many nodes are above it.
    pub depth: usize,
    /// Its name, as in EXPLAIN.
    pub node: String,
    /// The nodes of DataFusion that it stands for, if it is not DataFusion's.
    pub replaces: Option<String>,
    /// `datafusion`, or the device: `host` for the CPU backend, `cuda:0`, …
    pub runs_on: String,
    /// What was decided.
    pub verdict: Verdict,
    /// How a replaced node runs.
    pub strategy: Option<String>,
    /// Its condition, its aggregates, its keys or its columns.
    pub detail: String,
    /// Estimated rows of its first input.
    pub left_rows: Option<u64>,
    /// Estimated rows of its second input.
    pub right_rows: Option<u64>,
    /// Estimated rows that come out.
    pub output_rows: Option<u64>,
    /// Of a scan on a device: bytes of its columns that are there already, as they are stored.
    pub resident_bytes: Option<u64>,
    /// Estimated bytes that are sent to a GPU: of a transfer its rows, of an operator what its transfers bring, of a scan what is not there.
    pub bytes_up: Option<u64>,
    /// Estimated bytes that come from a GPU.
    pub bytes_down: Option<u64>,
    /// Estimated milliseconds on the device, with its transfers.
    pub device_ms: Option<f64>,
    /// Estimated milliseconds of DataFusion's node.
    pub host_ms: Option<f64>,
    /// Why it runs where it does: one sentence, which names what is missing and what changes it.
    pub reason: String,
}

/// A plan in figures.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PlanSummary {
    /// The device that runs replaced nodes; `None` if there are none.
    pub device: Option<String>,
    /// Why this plan is not the one that runs, if it is not: its device is not this machine's, or its session offloads on workers.
    pub imagined: Option<String>,
    /// Nodes on the device, without transfers.
    pub offloaded: usize,
    /// All nodes, without transfers.
    pub operators: usize,
    /// Transfers to the device, without columns of scans.
    pub uploads: usize,
    /// Estimated bytes of them, and of what scans send, where known.
    pub upload_bytes: Option<u64>,
    /// Transfers from the device.
    pub downloads: usize,
    /// Estimated bytes of them, where known.
    pub download_bytes: Option<u64>,
    /// Estimated milliseconds of all nodes with an estimate, where they run.
    pub estimated_ms: Option<f64>,
    /// Estimated milliseconds of the same nodes in DataFusion.
    pub datafusion_ms: Option<f64>,
}

impl fmt::Display for PlanSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(device) = &self.device else {
            return write!(
                f,
                "none of {} runs on a device",
                counted(self.operators, "operator")
            );
        };
        let verb = if self.operators == 1 { "runs" } else { "run" };
        write!(
            f,
            "{} of {} {verb} on {device}",
            self.offloaded,
            counted(self.operators, "operator")
        )?;
        for (count, what, bytes) in [
            (self.uploads, "upload", self.upload_bytes),
            (self.downloads, "download", self.download_bytes),
        ] {
            let bytes = bytes.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
            match bytes.map(human_readable_size) {
                // Scans send them.
                Some(bytes) if count == 0 => write!(f, "; {bytes} of columns to send")?,
                Some(bytes) => write!(f, "; {}, estimated at {bytes}", counted(count, what))?,
                None => write!(f, "; {}", counted(count, what))?,
            }
        }
        if let (Some(planned), Some(datafusion)) = (self.estimated_ms, self.datafusion_ms) {
            write!(
                f,
                "; joins, aggregations and sorts are estimated at {planned:.1} ms, in DataFusion at {datafusion:.1} ms"
            )?;
        }
        match &self.imagined {
            Some(why) => write!(f, "; planned only: {why}"),
            None => Ok(()),
        }
    }
}

fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// Every node of a query's plan with where it runs, and why. It prints as a table with the nodes indented.
///
/// [`explain`](crate::explain) makes one.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PlanReport {
    /// The plan in figures.
    pub summary: PlanSummary,
    /// In the order of EXPLAIN: each node before its inputs.
    pub nodes: Vec<NodeReport>,
}

impl fmt::Display for PlanReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.summary)?;
        let name = |node: &NodeReport| format!("{}{}", "  ".repeat(node.depth), node.node);
        let width = |of: &dyn Fn(&NodeReport) -> usize| self.nodes.iter().map(of).max();
        let names = width(&|node| name(node).chars().count()).unwrap_or_default();
        let places = width(&|node| node.runs_on.len()).unwrap_or_default();
        for node in &self.nodes {
            write!(f, "{:names$}  {:places$}  ", name(node), node.runs_on)?;
            if !node.detail.is_empty() {
                write!(f, "{}: ", node.detail)?;
            }
            f.write_str(&node.reason)?;
            if let Some(rows) = node.output_rows {
                write!(f, "; estimated at {rows} rows")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
