//! Sorts and limits above device nodes: the rows stay on the device, and only those of the result are downloaded.
//!
//! ```text
//! SortExec                            BowtieDownloadExec
//!   ProjectionExec, FilterExec, … ──►   BowtieSortExec
//!     BowtieDownloadExec                  BowtieProjectionExec, BowtieFilterExec, …
//!       …                                   …
//! ```

use std::sync::Arc;

use arrow::datatypes::{FieldRef, Schema};
use datafusion::common::tree_node::TreeNode;
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::sorts::sort::SortExec;

use crate::error::Decline;
use crate::exec::aggregate::node::AggregateOperator;
use crate::exec::aggregate::resident::are_results;
use crate::exec::chunk::chunk_limits::Role;
use crate::exec::node::DeviceNode;
use crate::exec::rows::projection::ProjectionOperator;
use crate::exec::scan::table::Table;
use crate::exec::sort::limit::LimitOperator;
use crate::exec::sort::node::SortOperator;
use crate::exec::transfer::download::BowtieDownloadExec;
use crate::options::Offload;
use crate::plan::device_plan::{device_node, downloaded};
use crate::plan::explain::decision::Decision;
use crate::plan::recognise::candidate::{Candidate, NodeId, SortCandidate};
use crate::plan::recognise::sort::limit_spec;
use crate::plan::rewrite::{Rewrite, log_declined};
use crate::plan::sources::partitions::only_partitions;
use crate::plan::statistics::distinct::are_few;
use crate::plan::transfers::{HostStep, Why};
use crate::runtime::planned_device::PlannedDevice;
use crate::spec::operator_kind::OperatorKind;
use crate::spec::rows::{Projected, ProjectionSpec};
use crate::spec::sort::{LimitSpec, SortSpec, shown};

type Plan = Arc<dyn ExecutionPlan>;

/// Why a sort or a limit stays where its rows are.
const NOT_ON_DEVICE: &str =
    "its input is not on the device, and an upload only to sort gains nothing";

/// Why a node at the end of a query stays DataFusion's.
#[derive(Debug)]
pub(crate) struct EndDecline {
    pub(crate) decline: Decline,
    /// Whether bowtie would run it on the device, if it could.
    pub(crate) is_unsupported: bool,
}

impl EndDecline {
    /// It gains nothing.
    pub(crate) fn because<T>(reason: impl Into<String>) -> Result<T, Self> {
        Err(Decline(reason.into()).into())
    }
}

impl From<Decline> for EndDecline {
    fn from(decline: Decline) -> Self {
        Self {
            decline,
            is_unsupported: false,
        }
    }
}

/// Where the rows of a chain of device nodes come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    /// They are on the host first: uploaded, or finished there.
    Host,
    /// From columns of a table.
    Table,
    /// From joins alone.
    Join,
    /// They exist on the device alone.
    Device,
}

pub(crate) fn origin_of(node: &Plan) -> Origin {
    let of_inputs = || {
        let inputs = node.children().into_iter();
        inputs.map(origin_of).min().unwrap_or(Origin::Host)
    };
    let Some(of_device) = node.downcast_ref::<DeviceNode>() else {
        return of_inputs();
    };
    match of_device.operator().kind() {
        OperatorKind::Scan => Origin::Table,
        OperatorKind::Upload | OperatorKind::JoinAggregate => Origin::Host,
        OperatorKind::Aggregate => match DeviceNode::find::<AggregateOperator>(node) {
            Some((_, aggregate)) if are_results(&aggregate.0) => Origin::Device,
            _ => Origin::Host,
        },
        OperatorKind::Join => Origin::Join,
        OperatorKind::Sort | OperatorKind::Clusters => Origin::Device,
        OperatorKind::Filter
        | OperatorKind::Projection
        | OperatorKind::Union
        | OperatorKind::Limit => of_inputs(),
    }
}

impl Rewrite<'_> {
    /// A sort above its input.
    pub(crate) fn sort(&mut self, id: NodeId, sort: &SortCandidate) -> Result<Plan> {
        let below = self.unchanged(id)?;
        let sorted = self.sort_on_device(id, sort, &below)?;
        let sorted = self.declined_end(id, sorted)?;
        self.record_end(id, &sorted, "sorted on the device");
        Ok(sorted.unwrap_or(below))
    }

    /// A limit above its input.
    pub(crate) fn limit(&mut self, id: NodeId, limit: LimitSpec) -> Result<Plan> {
        let below = self.unchanged(id)?;
        let limited = self.limit_on_device(id, limit, &below)?;
        // Wherever it is, it costs nothing.
        let limited = limited.map_err(|declined| declined.decline);
        self.record_end(
            id,
            &limited,
            "only the rows within the limit are downloaded",
        );
        Ok(limited.unwrap_or(below))
    }

    /// What became of a node at the end of a query.
    ///
    /// # Errors
    /// Under `bowtie.strict`, of one that is not supported.
    pub(crate) fn declined_end(
        &self,
        id: NodeId,
        outcome: Result<Plan, EndDecline>,
    ) -> Result<Result<Plan, Decline>> {
        match outcome {
            Ok(plan) => Ok(Ok(plan)),
            Err(declined) => {
                self.refuse_if_strict(id, declined.is_unsupported, &declined.decline)?;
                Ok(Err(declined.decline))
            }
        }
    }

    /// Whether bowtie would run a node on the device that reads the rows of `rewritten`, which node `input` became, if it could: they come
    /// from a device, past nodes alone that may be there, too.
    pub(crate) fn reads_downloaded(&self, input: NodeId, rewritten: &Plan) -> bool {
        if let Some(download) = rewritten.downcast_ref::<BowtieDownloadExec>() {
            return self.policy.by_itself && origin_of(download.input()) != Origin::Host;
        }
        let node = self.plan.node(input);
        let may_be = matches!(node.candidate, Candidate::Rows(_) | Candidate::Union);
        let mut inputs = node.inputs.iter().zip(rewritten.children());
        (may_be || only_partitions(rewritten))
            && inputs.any(|(input, below)| self.reads_downloaded(*input, below))
    }

    /// Why the rows of `rewritten`, which node `input` became, are not on a device; `otherwise`: where no expression on the way keeps them
    /// on the host.
    pub(crate) fn not_on_device(
        &self,
        steps: &[HostStep],
        (input, rewritten): (NodeId, &Plan),
        otherwise: &str,
    ) -> EndDecline {
        let Some(HostStep {
            expression, why, ..
        }) = steps.first()
        else {
            return Decline(otherwise.into()).into();
        };
        match why {
            Why::NotCompiled => EndDecline {
                decline: Decline(format!(
                    "its input is on the host, as {expression} is not supported on the device"
                )),
                is_unsupported: self.reads_downloaded(input, rewritten),
            },
            Why::ManyValues => Decline(format!(
                "its input is on the host, as {expression} cannot be compiled, and its column may have many distinct values"
            ))
            .into(),
        }
    }

    /// Records what became of node `id`, for `bowtie_explain`.
    fn record_end(&self, id: NodeId, outcome: &Result<Plan, Decline>, reason: &str) {
        let plan = &self.plan.node(id).plan;
        log_declined(plan.name(), outcome.as_ref().err());
        self.recorder.decided(id, || {
            let children = plan.children();
            Decision::of_end(
                plan.name(),
                end_detail(plan).unwrap_or_default(),
                outcome.as_ref().map(|_| reason),
                children.first().map(|input| self.statistics.rows(input)),
                self.policy.estimate(id),
            )
        });
    }

    fn sort_on_device(
        &mut self,
        id: NodeId,
        sort: &SortCandidate,
        above: &Plan,
    ) -> Result<Result<Plan, EndDecline>> {
        let spec = match &sort.spec {
            Ok(spec) => spec,
            Err(decline) => {
                let is_seen = self.plan.order_matters(id) || above.fetch().is_some();
                let is_unsupported = match (&self.plan.node(id).inputs[..], &above.children()[..]) {
                    ([input], [rewritten]) if is_seen => self.reads_downloaded(*input, rewritten),
                    _ => false,
                };
                return Ok(Err(EndDecline {
                    decline: decline.clone(),
                    is_unsupported,
                }));
            }
        };
        if spec.fetch.is_none() && !self.plan.order_matters(id) {
            return Ok(EndDecline::because("no node above needs its order"));
        }
        let (device, below) = match self.input_on_device(id, above)? {
            Ok(below) => below,
            Err(decline) => return Ok(Err(decline)),
        };
        if origin_of(&below) == Origin::Host {
            return Ok(EndDecline::because(FINISHED_ON_HOST));
        }
        if let (Some(keys), [input]) = (&sort.computed, &above.children()[..])
            && self.policy.options.offload != Offload::Force
            && !are_few(input, self.statistics, keys)
        {
            let HostStep { expression, .. } = HostStep::of_many_values(id, "SortExec", keys);
            return Ok(EndDecline::because(format!(
                "its key {expression} cannot be compiled, and its column may have many distinct values"
            )));
        }
        let sorted = sort_plan(below, sort, spec.clone(), &device)?;
        Ok(Ok(downloaded(sorted, &device)))
    }

    fn limit_on_device(
        &mut self,
        id: NodeId,
        limit: LimitSpec,
        above: &Plan,
    ) -> Result<Result<Plan, EndDecline>> {
        let (device, below) = match self.input_on_device(id, above)? {
            Ok(below) => below,
            Err(decline) => return Ok(Err(decline)),
        };
        match origin_of(&below) {
            Origin::Host => return Ok(EndDecline::because(FINISHED_ON_HOST)),
            Origin::Table => {
                return Ok(EndDecline::because(
                    "few rows of a table are read on the host",
                ));
            }
            Origin::Join => {
                return Ok(EndDecline::because(
                    "a join ends by itself once there are enough rows",
                ));
            }
            Origin::Device => {}
        }
        let below = without_weaker_limit(below, limit);
        let operator = LimitOperator {
            spec: limit,
            schema: below.schema(),
        };
        let limited = device_node(operator, vec![below], &device)?;
        Ok(Ok(downloaded(limited, &device)))
    }

    /// The input of DataFusion's sort or limit `above` on the device, if all nodes that make it can be there.
    fn input_on_device(
        &mut self,
        id: NodeId,
        above: &Plan,
    ) -> Result<Result<(Arc<PlannedDevice>, Plan), EndDecline>> {
        if let Err(decline) = self.policy.end(id) {
            return Ok(Err(decline.into()));
        }
        let ([input], [rewritten]) = (&self.plan.node(id).inputs[..], &above.children()[..]) else {
            return Ok(EndDecline::because("it does not have exactly one input"));
        };
        // The device is asked for only if there may be something on it.
        let may_be = |node: &Plan| Ok(node.is::<BowtieDownloadExec>() || Table::of(node).is_some());
        if !rewritten.exists(may_be)? {
            return Ok(EndDecline::because(NOT_ON_DEVICE));
        }
        let device = self.device()?;
        let mut steps = vec![];
        let below =
            self.transfers(&device, &mut steps)
                .resident(*input, rewritten, Role::Sorted)?;
        Ok(match below {
            Some(below) => Ok((device, below)),
            None => Err(self.not_on_device(&steps, (*input, rewritten), NOT_ON_DEVICE)),
        })
    }
}

/// The input of a limit; the one below a limit of each partition, of which a device node has one, that keeps no fewer rows.
fn without_weaker_limit(below: Plan, limit: LimitSpec) -> Plan {
    let Some((node, inner)) = DeviceNode::find::<LimitOperator>(&below) else {
        return below;
    };
    let last = limit.fetch.map(|fetch| limit.skip.saturating_add(fetch));
    let keeps = match (inner.spec.fetch, last) {
        (Some(kept), Some(last)) => kept >= last,
        (None, _) => true,
        (Some(_), None) => false,
    };
    match (inner.spec.skip, keeps, node.children()[..].first()) {
        (0, true, Some(input)) => Arc::clone(input),
        _ => below,
    }
}

pub(crate) const FINISHED_ON_HOST: &str =
    "the groups below are finished on the host, so its rows are there";

/// What EXPLAIN shows of a sort or a limit; `None` for other nodes.
pub(crate) fn end_detail(plan: &Plan) -> Option<String> {
    if let Some(sort) = plan.downcast_ref::<SortExec>() {
        let keys = shown(sort.expr());
        return Some(match sort.fetch() {
            Some(fetch) => format!("{keys}, fetch={fetch}"),
            None => keys,
        });
    }
    limit_spec(plan).map(|limit| limit.to_string())
}

/// A sort above a device node, whose keys are computed where they are no columns.
fn sort_plan(
    below: Plan,
    sort: &SortCandidate,
    spec: SortSpec,
    device: &Arc<PlannedDevice>,
) -> Result<Plan> {
    let mut input = below;
    if let Some(computed) = &sort.computed {
        let schema = input.schema();
        let columns = (0..schema.fields().len()).map(Projected::Input);
        let keys = computed.expressions.iter().enumerate();
        let keys = keys.map(|(i, key)| {
            let field = key.return_field(&schema)?;
            Ok(Arc::new(
                field.as_ref().clone().with_name(format!("key {i}")),
            ))
        });
        let keys = keys.collect::<Result<Vec<FieldRef>>>()?;
        let fields = schema.fields().iter().cloned().chain(keys);
        let projection = ProjectionSpec {
            columns: columns
                .chain((0..computed.expressions.len()).map(Projected::Computed))
                .collect(),
            computed: Some(computed.clone()),
            schema: Arc::new(Schema::new_with_metadata(
                fields.collect::<Vec<_>>(),
                schema.metadata().clone(),
            )),
        };
        let operator = ProjectionOperator(Arc::new(projection));
        input = device_node(operator, vec![input], device)?;
    }
    device_node(SortOperator(Arc::new(spec)), vec![input], device)
}
