//! What is recognised of one node of DataFusion's plan: its spec, made once, or the reason why there is none. Costs, placement, the
//! rewritten plan and `bowtie_explain` read it.

use std::cell::OnceCell;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;

use crate::error::Decline;
use crate::plan::compile::row_program::{self, NotCompiled};
use crate::plan::recognise::gain::Gain;
use crate::plan::recognise::refusal::Refusal;
use crate::plan::sources::join_source::JoinSource;
use crate::spec::aggregate::GroupSpec;
use crate::spec::join::JoinSpec;
use crate::spec::join_aggregate::JoinAggregateSpec;
use crate::spec::rows::RowExpressions;
use crate::spec::sort::{LimitSpec, SortSpec};

/// A node's number in its [`RecognisedPlan`](crate::plan::recognise::recognised_plan::RecognisedPlan): inputs have smaller ones.
pub(crate) type NodeId = usize;

/// What bowtie can make of a node.
#[derive(Debug)]
pub(crate) enum Candidate {
    Join(Box<JoinCandidate>),
    Aggregate(Box<AggregateCandidate>),
    /// A filter or a projection. It is offloaded between two device nodes.
    Rows(RowsCandidate),
    /// It is offloaded between device nodes.
    Union,
    /// ORDER BY. It is offloaded above a device node.
    Sort(Box<SortCandidate>),
    /// LIMIT. It is offloaded above a device node.
    Limit(LimitSpec),
    /// Clusters of pairs. They are offloaded above a device node.
    Clusters,
    /// It stays DataFusion's.
    Other,
}

/// A join.
#[derive(Debug)]
pub(crate) struct JoinCandidate {
    /// `Err`: a field of the node has no counterpart in bowtie.
    pub(crate) source: Result<JoinSource, Decline>,
    /// Whether `auto` offloads it, if it has a spec.
    pub(crate) gain: Gain,
    pub(crate) spec: Result<JoinSpec, Refusal>,
}

impl JoinCandidate {
    /// Whether it would be offloaded, if it could be. `by_itself`: equi-joins are, where they gain.
    pub(crate) fn is_unsupported(&self, by_itself: bool) -> bool {
        let is_equi = match &self.source {
            Ok(source) => !source.tests_all_pairs && source.filter.is_none(),
            Err(_) => true,
        };
        let gains = match self.gain {
            Gain::Nowhere(_) => false,
            Gain::ByEstimate(_) | Gain::OnAnyGpu(_) => by_itself,
            Gain::OnAnyDevice => by_itself || !is_equi,
        };
        gains && matches!(self.spec, Err(Refusal::Decline(_)))
    }
}

/// An aggregation from rows to results.
#[derive(Debug)]
pub(crate) struct AggregateCandidate {
    /// The node whose rows it reads: below the Partial, where there are two stages.
    pub(crate) input: NodeId,
    /// By itself.
    pub(crate) spec: Result<GroupSpec, Refusal>,
    /// Together with the join whose rows it reads, where that join has a spec.
    pub(crate) above: Option<AboveJoin>,
}

impl AggregateCandidate {
    /// Whether it would be offloaded, if it could be.
    pub(crate) fn is_unsupported(&self) -> bool {
        match &self.spec {
            Err(Refusal::Decline(decline)) => decline.0 != OWN_AGGREGATION,
            _ => false,
        }
    }
}

/// Why `auto` leaves an aggregation that no estimate is in favour of.
pub(crate) const OWN_AGGREGATION: &str = "its input is not resident on a GPU: it stays DataFusion's; bowtie.offload = 'force' offloads it";

/// An aggregation above a join, with nothing but projections between.
#[derive(Debug)]
pub(crate) struct AboveJoin {
    pub(crate) join: NodeId,
    /// Both as one node.
    pub(crate) fused: Result<JoinAggregateSpec, Refusal>,
    /// Why two nodes are better, though one could do it.
    pub(crate) separate: Option<Decline>,
    /// Two nodes, of which the aggregation reads the join's rows on the device. Made where they are not fused.
    pub(crate) resident: Option<Result<(JoinSpec, GroupSpec), Refusal>>,
}

/// ORDER BY.
#[derive(Debug)]
pub(crate) struct SortCandidate {
    /// Its keys that are not columns of the input; their columns are behind those of the input.
    pub(crate) computed: Option<RowExpressions>,
    pub(crate) spec: Result<SortSpec, Decline>,
}

/// A filter or a projection.
#[derive(Debug)]
pub(crate) struct RowsCandidate {
    /// Expressions that are not columns of the input.
    expressions: Vec<Arc<dyn PhysicalExpr>>,
    input: SchemaRef,
    compiled: OnceCell<Result<RowExpressions, NotCompiled>>,
}

impl RowsCandidate {
    fn new(expressions: Vec<Arc<dyn PhysicalExpr>>, input: SchemaRef) -> Self {
        Self {
            expressions,
            input,
            compiled: OnceCell::new(),
        }
    }

    pub(crate) fn of_projection(projection: &ProjectionExec) -> Self {
        let expressions = projection.expr().iter().map(|projected| &projected.expr);
        let computed = expressions.filter(|e| e.downcast_ref::<Column>().is_none());
        Self::new(computed.cloned().collect(), projection.input().schema())
    }

    /// `None` for a filter with a limit.
    pub(crate) fn of_filter(filter: &FilterExec) -> Option<Self> {
        let predicate = vec![Arc::clone(filter.predicate())];
        let unlimited = filter.fetch().is_none();
        unlimited.then(|| Self::new(predicate, filter.input().schema()))
    }

    pub(crate) fn expressions(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.expressions
    }

    /// Its expressions for the device, compiled when they are first asked for; `None` where there are none.
    pub(crate) fn compiled(&self) -> Result<Option<&RowExpressions>, NotCompiled> {
        if self.expressions.is_empty() {
            return Ok(None);
        }
        let compile = || row_program::compile(&self.expressions, &self.input);
        let compiled = self.compiled.get_or_init(compile);
        compiled.as_ref().map(Some).map_err(|error| *error)
    }
}
