//! [`RecognisedPlan`]: one pass over DataFusion's plan, which makes a [`Candidate`] of each node.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::Arc;

use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::error::Decline;
use crate::exec::clusters::exec::ClustersExec;
use crate::exec::scan::table::Table;
use crate::options::{BowtieOptions, Offload};
use crate::plan::recognise::aggregate::{group_above_join, group_spec};
use crate::plan::recognise::candidate::{
    AboveJoin, AggregateCandidate, Candidate, JoinCandidate, NodeId, OWN_AGGREGATION, RowsCandidate,
};
use crate::plan::recognise::fusion::prefers_separate_nodes;
use crate::plan::recognise::gain::Gain;
use crate::plan::recognise::join::join_candidate;
use crate::plan::recognise::join_aggregate::{aggregate_source, join_aggregate_spec};
use crate::plan::recognise::sort::{limit_spec, sort_candidate};
use crate::plan::sources::aggregate_source::group_source;
use crate::plan::sources::join_nodes::join_source;
use crate::plan::sources::join_source::JoinSource;
use crate::plan::sources::partitions::only_partitions;
use crate::plan::statistics::statistics_cache::StatisticsCache;

type Plan = Arc<dyn ExecutionPlan>;

/// A node of DataFusion's plan.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) plan: Plan,
    /// The nodes of its children.
    pub(crate) inputs: Vec<NodeId>,
    pub(crate) candidate: Candidate,
    /// Found when it is first asked for.
    table: OnceCell<Option<Table>>,
}

impl Node {
    /// The table that it scans, if its columns may stay on the device.
    pub(crate) fn table(&self) -> Option<&Table> {
        let table = self.table.get_or_init(|| match self.inputs[..] {
            [] => Table::of(&self.plan),
            _ => None,
        });
        table.as_ref()
    }
}

/// The nodes of a plan by their numbers: inputs before what reads them, the root last. A node that several others read is there once.
#[derive(Debug, Default)]
pub(crate) struct RecognisedPlan {
    nodes: Vec<Node>,
    /// Whether a node above may depend on the order of a node's rows.
    order_matters: Vec<bool>,
    /// Found when they are first asked for.
    readers: OnceCell<Vec<Readers>>,
}

/// What filters and projections do with rows.
#[derive(Debug, Clone, Copy, Default)]
struct RowWork {
    filters: bool,
    computes: bool,
    /// All rows come from tables whose columns may stay on the device.
    of_tables: bool,
}

impl RowWork {
    /// Whether a device may do it for the host: it drops rows, or computes values of columns that the device has.
    fn may_end(self) -> bool {
        self.filters || self.computes && self.of_tables
    }
}

/// Which nodes read a node's rows, past those that only rename, divide or unite rows.
#[derive(Debug, Clone, Copy, Default)]
struct Readers {
    /// One that a device may run.
    may_be_on_device: bool,
    /// One that may stop after the first rows.
    may_stop: bool,
}

/// What a plan is recognised for.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'a> {
    pub(crate) options: &'a BowtieOptions,
    pub(crate) statistics: &'a StatisticsCache,
    /// Whether offloaded nodes would run on a GPU.
    pub(crate) on_gpu: bool,
}

impl RecognisedPlan {
    pub(crate) fn of(plan: &Plan, scope: Scope<'_>) -> Self {
        let mut pass = Pass {
            scope,
            nodes: vec![],
            ids: HashMap::new(),
        };
        pass.add(plan);
        let order_matters = order_matters(&pass.nodes);
        Self {
            nodes: pass.nodes,
            order_matters,
            readers: OnceCell::new(),
        }
    }

    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id]
    }

    /// The root; `None` of no plan at all.
    pub(crate) fn root(&self) -> Option<NodeId> {
        self.nodes.len().checked_sub(1)
    }

    /// Whether the order of a node's rows can be seen in the result. DataFusion drops sorts of which it cannot.
    pub(crate) fn order_matters(&self, id: NodeId) -> bool {
        self.order_matters[id]
    }

    /// Whether a device may run the filters and projections up to node `id` for a host that reads its rows: these are worth it, all are wanted, and
    /// in no order, which they would lose.
    pub(crate) fn may_end_rows(&self, id: NodeId) -> bool {
        let is_ordered = self.nodes[id].plan.output_ordering().is_some();
        !is_ordered && !self.may_stop(id) && self.row_work(id).may_end()
    }

    /// Whether nodes that no device runs read all rows of a node.
    pub(crate) fn is_read_on_host(&self, id: NodeId) -> bool {
        !self.readers(id).may_be_on_device && !self.may_stop(id)
    }

    /// Whether a node above may need the first rows of a node alone.
    fn may_stop(&self, id: NodeId) -> bool {
        self.readers(id).may_stop
    }

    fn readers(&self, id: NodeId) -> Readers {
        self.readers.get_or_init(|| readers(&self.nodes))[id]
    }

    /// What filters and projections do with rows, from those that they come from to those of node `id`.
    fn row_work(&self, id: NodeId) -> RowWork {
        let node = &self.nodes[id];
        let is_rows = matches!(node.candidate, Candidate::Rows(_) | Candidate::Union);
        if !is_rows && !only_partitions(&node.plan) {
            return RowWork {
                filters: node.table().and_then(Table::filter).is_some(),
                computes: false,
                of_tables: node.table().is_some(),
            };
        }
        let own = match &node.candidate {
            Candidate::Rows(rows) => !rows.expressions().is_empty(),
            _ => false,
        };
        let is_filter = node.plan.is::<FilterExec>();
        let mut inputs = node.inputs.iter().map(|input| self.row_work(*input));
        let below = inputs.next().unwrap_or_default();
        let below = inputs.fold(below, |a, b| RowWork {
            filters: a.filters || b.filters,
            computes: a.computes || b.computes,
            of_tables: a.of_tables && b.of_tables,
        });
        RowWork {
            filters: below.filters || own && is_filter,
            computes: below.computes || own && !is_filter,
            ..below
        }
    }

    /// A join that can be read, with its fields.
    pub(crate) fn join(&self, id: NodeId) -> Option<(&JoinCandidate, &JoinSource)> {
        join_of(&self.nodes[id])
    }
}

fn join_of(node: &Node) -> Option<(&JoinCandidate, &JoinSource)> {
    match &node.candidate {
        Candidate::Join(join) => Some((join, join.source.as_ref().ok()?)),
        _ => None,
    }
}

/// The rows of a plan may be ordered, and those that a node reads which keeps an order, or of which nothing is known.
fn order_matters(nodes: &[Node]) -> Vec<bool> {
    let mut matters = vec![false; nodes.len()];
    if let Some(root) = matters.last_mut() {
        *root = true;
    }
    for (id, node) in nodes.iter().enumerate().rev() {
        let passes = match node.candidate {
            Candidate::Join(_) | Candidate::Aggregate(_) => false,
            Candidate::Union | Candidate::Sort(_) | Candidate::Clusters => false,
            Candidate::Other if node.plan.is::<AggregateExec>() => false,
            Candidate::Rows(_) => matters[id],
            // The first rows are other ones in another order.
            Candidate::Limit(_) | Candidate::Other => true,
        };
        for input in &node.inputs {
            matters[*input] |= passes;
        }
    }
    matters
}

/// Whether a node has rows before it read all of its input.
fn streams(node: &Node) -> bool {
    node.plan.properties().emission_type != EmissionType::Final
}

fn readers(nodes: &[Node]) -> Vec<Readers> {
    let mut readers = vec![Readers::default(); nodes.len()];
    for (id, node) in nodes.iter().enumerate().rev() {
        let of_input = match &node.candidate {
            Candidate::Limit(_) => Readers {
                may_be_on_device: true,
                may_stop: true,
            },
            Candidate::Rows(rows) => Readers {
                may_be_on_device: readers[id].may_be_on_device || rows.compiled().is_ok(),
                ..readers[id]
            },
            Candidate::Union => readers[id],
            Candidate::Other if only_partitions(&node.plan) => readers[id],
            Candidate::Other => Readers {
                may_be_on_device: false,
                may_stop: node.plan.fetch().is_some() || readers[id].may_stop && streams(node),
            },
            Candidate::Join(_) => Readers {
                may_be_on_device: true,
                ..readers[id]
            },
            Candidate::Aggregate(_) | Candidate::Sort(_) | Candidate::Clusters => Readers {
                may_be_on_device: true,
                may_stop: false,
            },
        };
        for input in &node.inputs {
            let readers = &mut readers[*input];
            readers.may_be_on_device |= of_input.may_be_on_device;
            readers.may_stop |= of_input.may_stop;
        }
    }
    readers
}

struct Pass<'a> {
    scope: Scope<'a>,
    nodes: Vec<Node>,
    /// By the addresses of nodes, which `nodes` holds, so that no other one gets its address meanwhile.
    ids: HashMap<*const (), NodeId>,
}

impl Pass<'_> {
    fn add(&mut self, plan: &Plan) -> NodeId {
        let address = Arc::as_ptr(plan).cast::<()>();
        if let Some(id) = self.ids.get(&address) {
            return *id;
        }
        let inputs: Vec<NodeId> = plan.children().into_iter().map(|c| self.add(c)).collect();
        let candidate = self.candidate(plan, &inputs);
        self.nodes.push(Node {
            plan: Arc::clone(plan),
            inputs,
            candidate,
            table: OnceCell::new(),
        });
        let id = self.nodes.len() - 1;
        self.ids.insert(address, id);
        id
    }

    fn candidate(&self, plan: &Plan, inputs: &[NodeId]) -> Candidate {
        let Scope {
            options,
            statistics,
            ..
        } = self.scope;
        if let Some(source) = join_source(plan) {
            return Candidate::Join(Box::new(join_candidate(source, options, statistics)));
        }
        if let (Some(aggregate), [input]) = (self.aggregate(plan, inputs), inputs) {
            debug_assert!(aggregate.input <= *input);
            return Candidate::Aggregate(Box::new(aggregate));
        }
        if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
            return Candidate::Rows(RowsCandidate::of_projection(projection));
        }
        if let Some(filter) = plan.downcast_ref::<FilterExec>() {
            return RowsCandidate::of_filter(filter).map_or(Candidate::Other, Candidate::Rows);
        }
        if let Some(sort) = sort_candidate(plan) {
            return Candidate::Sort(Box::new(sort));
        }
        if let Some(limit) = limit_spec(plan) {
            return Candidate::Limit(limit);
        }
        if plan.is::<ClustersExec>() {
            return Candidate::Clusters;
        }
        match plan.is::<UnionExec>() {
            true => Candidate::Union,
            false => Candidate::Other,
        }
    }

    fn aggregate(&self, plan: &Plan, inputs: &[NodeId]) -> Option<AggregateCandidate> {
        let source = group_source(plan)?;
        let below = *inputs.first()?;
        let input = match std::ptr::eq(source.top, source.bottom) {
            true => below,
            false => *self.nodes[below].inputs.first()?,
        };
        let options = self.scope.options;
        // On the host `auto` leaves them to DataFusion, unless they are one node with a join.
        let by_itself = options.offload == Offload::Force || self.scope.on_gpu;
        let spec = match by_itself {
            true => group_spec(&source, options, self.scope.on_gpu),
            false => Err(Decline(OWN_AGGREGATION.into()).into()),
        };
        let above = self.above_join(plan, input, by_itself);
        Some(AggregateCandidate { input, spec, above })
    }

    fn above_join(&self, plan: &Plan, input: NodeId, by_itself: bool) -> Option<AboveJoin> {
        let (source, above) = (group_source(plan)?, aggregate_source(plan)?);
        let mut join = input;
        while self.nodes[join].plan.is::<ProjectionExec>() {
            join = *self.nodes[join].inputs.first()?;
        }
        let (candidate, sides) = join_of(&self.nodes[join])?;
        let spec = candidate.spec.as_ref().ok()?;
        if !by_itself && !matches!(candidate.gain, Gain::OnAnyDevice) {
            return None;
        }
        let fused = join_aggregate_spec(&above, spec.clone());
        let separate = match &fused {
            Ok(fused) if self.scope.on_gpu => {
                prefers_separate_nodes(fused, &self.nodes[join].plan, sides, self.scope.statistics)
            }
            _ => false,
        };
        let resident = (by_itself && (fused.is_err() || separate)).then(|| {
            let options = (self.scope.options, self.scope.on_gpu);
            group_above_join(&source, &above, options, spec.clone())
        });
        let separate = (separate && matches!(resident, Some(Ok(_))))
            .then(|| Decline("the grouped side has many rows, and a GPU aggregates the join's rows faster than DataFusion merges partial states".into()));
        Some(AboveJoin {
            join,
            fused,
            separate,
            resident,
        })
    }
}
