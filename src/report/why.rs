//! Why a node runs where it does that nothing was decided on: it is no join, aggregation, sort, limit or clusters.

use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};

use crate::compat::node_names;
use crate::plan::explain::node_kind::NodeKind;

/// What is around a node of the plan that will run.
pub(super) struct Surroundings<'a> {
    /// The node above, if there is one.
    pub(super) above: Option<&'a NodeKind>,
    /// Whether the plan has nodes on a device.
    pub(super) has_device: bool,
    /// Whether that is a GPU.
    pub(super) is_gpu: bool,
}

/// Why a node of a device is there that came with others.
pub(super) fn of_device(kind: &NodeKind, around: &Surroundings<'_>) -> &'static str {
    match (kind, around.is_gpu) {
        (NodeKind::Upload, true) => {
            "sends rows to the GPU; columns of tables in memory and of Parquet files stay there between queries, as far as bowtie.cache allows"
        }
        (NodeKind::Upload, false) => {
            "gives rows to the CPU backend: columns are shared, not copied"
        }
        (NodeKind::Download, true) => "copies rows from the GPU for the node above",
        (NodeKind::Download, false) => {
            "gives rows back to DataFusion: columns are shared, not copied"
        }
        _ => "its rows are on the device, and so is what it computes",
    }
}

/// Why a node stays DataFusion's.
pub(super) fn of_datafusion(kind: &NodeKind, around: &Surroundings<'_>) -> String {
    let fixed = match kind {
        NodeKind::Scan => match around.above {
            Some(NodeKind::Upload) if around.is_gpu => {
                "DataFusion reads it, and its rows are sent with each query: only columns of tables in memory and of Parquet files can stay on the GPU, within bowtie.cache"
            }
            Some(NodeKind::Upload) => "DataFusion reads it for the CPU backend",
            _ => "DataFusion reads it, as the node above is DataFusion's",
        },
        NodeKind::Filter | NodeKind::Projection | NodeKind::Union => match around.has_device {
            true => {
                "it runs on a device only above stored tables and offloaded operators, where that gains"
            }
            false => "no node around it runs on a device",
        },
        NodeKind::Sort => "sorts run on a device above offloaded operators and stored tables alone",
        NodeKind::Limit => "it keeps the first rows, which costs nothing",
        NodeKind::Clusters => "clusters are made on a device only of pairs that are there",
        NodeKind::PartialAggregate => "it is the first stage of the aggregation above",
        NodeKind::Join | NodeKind::Aggregate => "nothing in the plan gains from a device",
        NodeKind::Upload | NodeKind::Download => "it is a transfer",
        NodeKind::Merged => "it is a part of the node above",
        NodeKind::Other(name) => return of_name(kind, name),
    };
    fixed.into()
}

/// Of a node of DataFusion that no device has.
fn of_name(kind: &NodeKind, name: &str) -> String {
    if kind.only_moves() {
        return "it only moves rows between the host's threads".into();
    }
    match node_names::why_not_offloaded(name) {
        Some(why) => why.into(),
        None => format!("{name} runs in DataFusion: no device has such an operator"),
    }
}

/// What EXPLAIN shows of a node, without its name.
pub(super) fn detail(plan: &dyn ExecutionPlan) -> String {
    struct Line<'a>(&'a dyn ExecutionPlan);
    impl std::fmt::Display for Line<'_> {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            self.0.fmt_as(DisplayFormatType::Default, f)
        }
    }
    let line = Line(plan).to_string();
    let rest = line.strip_prefix(plan.name()).unwrap_or(&line);
    rest.trim_start_matches(':').trim().to_string()
}
