//! Cuts a stage to pipelines, and plans each of them.

use std::sync::Arc;

use datafusion::common::Statistics;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNode;
use datafusion::error::Result;
use datafusion::physical_expr::{LexOrdering, OrderingRequirements, Partitioning};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, PlanProperties, replace_children_if_necessary,
};

use crate::compat::repeated_rules::with_requirements_and_filters;
use crate::exec::node::DeviceNode;
use crate::exec::stage::fused::BowtieFusedExec;
use crate::exec::stage::input::{Reads, StageInputExec};
use crate::exec::stage::node::{BowtieStageExec, Pipeline};
use crate::plan::rule::BowtieRule;
use crate::plan::sources::lone_stage::LoneStageExec;
use crate::plan::stage::aggregates::aggregates_in_order;
use crate::plan::stage::hidden_order::{hides_order, keeps_order};
use crate::plan::stage::members::{
    Membership, hands_on, has_first_rows_of_partitions, is_collected, may_compute, moves_rows,
    unites_partitions, works_by_partition,
};
use crate::plan::stage::part_scan::with_own_statistics;
use crate::plan::stage::unplanned::unplanned;
use crate::plan::statistics::statistics_cache::StatisticsCache;

type Plan = Arc<dyn ExecutionPlan>;

/// Rows of an exchange, for all partitions of a task, where nothing is known of them.
const EXCHANGED_ROWS: usize = 1 << 22;
/// Rows of a side that an engine sends to all tasks, as it does with short ones.
const COLLECTED_ROWS: usize = 1 << 16;

/// Plans a stage.
pub(crate) struct Stage<'a> {
    pub(crate) rule: &'a BowtieRule,
    pub(crate) config: &'a ConfigOptions,
    pub(crate) statistics: StatisticsCache,
}

/// What a node's rows must keep for those above.
#[derive(Debug, Clone)]
pub(crate) struct Needs {
    /// The order that the node says they have.
    pub(crate) order: bool,
    /// The order that they have, whether the node says so or not.
    hidden: bool,
    /// An order that the node above asks for.
    required: Option<OrderingRequirements>,
    /// The partition in which each row is.
    pub(crate) place: bool,
}

impl Needs {
    /// At the head of a stage, whose reader is elsewhere.
    pub(crate) fn all() -> Self {
        Self {
            order: true,
            hidden: true,
            required: None,
            place: true,
        }
    }

    /// Of the rows of a node's input.
    fn of_input(&self, node: &Plan, child: usize) -> Self {
        let mut required = node.required_input_ordering();
        let required = (child < required.len()).then(|| required.swap_remove(child));
        let required = required.flatten();
        // It selects rows by their order.
        let is_limit = node.is::<GlobalLimitExec>()
            || node.fetch().is_some() && !node.is::<CoalescePartitionsExec>();
        let is_kept = keeps_order(node, child);
        let is_one = node.output_partitioning().partition_count() <= 1;
        Self {
            order: required.is_some()
                || aggregates_in_order(node)
                || (self.order || is_limit) && is_kept,
            hidden: (self.hidden && is_one || is_limit) && is_kept,
            required,
            place: match hands_on(node) {
                true => self.place,
                false => !moves_rows(node) && node.output_partitioning().partition_count() > 1,
            },
        }
    }
}

/// A node of a pipeline, and all that is below it.
struct Member {
    /// With stages planned below the pipeline.
    original: Plan,
    /// The same, with each node of the pipeline in its wrapping.
    wrapped: Plan,
    /// What the rule reads.
    unplanned: Plan,
}

impl Stage<'_> {
    /// A node with all that is below it.
    pub(crate) fn planned(&self, node: &Plan, needs: &Needs) -> Result<Plan> {
        // A stage that was planned already.
        if BowtieStageExec::of(node).is_some() || BowtieFusedExec::of(node).is_some() {
            return Ok(Arc::clone(node));
        }
        let hides = needs.hidden && hides_order(node)?;
        if may_compute(node)? && !hides && !node.boundedness().is_unbounded() {
            return self.pipeline(node, needs);
        }
        self.above_stages(node, needs)
    }

    /// A node as it is, above stages.
    fn above_stages(&self, node: &Plan, needs: &Needs) -> Result<Plan> {
        let children = node.children().into_iter().enumerate();
        let children = children.map(|(i, child)| self.planned(child, &needs.of_input(node, i)));
        replace_children_if_necessary(Arc::clone(node), children.collect::<Result<_>>()?)
    }

    fn pipeline(&self, top: &Plan, needs: &Needs) -> Result<Plan> {
        let partitions = top.output_partitioning();
        let is_ordered = needs.order && top.output_ordering().is_some();
        let has_places = needs.place
            && !matches!(
                partitions,
                Partitioning::UnknownPartitioning(_) | Partitioning::RoundRobinBatch(_)
            );
        let by_partition = partitions.partition_count() > 1 && (is_ordered || has_places);
        let stays = match by_partition {
            true => !works_by_partition(top) || unites_partitions(top),
            false => has_first_rows_of_partitions(top),
        };
        if stays {
            return self.above_stages(top, needs);
        }
        let mut inputs = 0;
        let members = self.children(top, needs, by_partition, &mut inputs)?;
        let original = above(top, &members, |member| &member.original)?;
        let pipeline = unplanned(top, inputs_of(&members), by_partition)?;
        let Some((executed, properties)) =
            self.executed(&original, pipeline, needs, by_partition)?
        else {
            return Ok(original);
        };
        Ok(Arc::new(BowtieStageExec::new(Pipeline {
            original: above(top, &members, |member| &member.wrapped)?,
            executed,
            by_partition,
            properties,
        })))
    }

    /// The inputs of a pipeline's node. `inputs`: the pipeline's own so far.
    fn children(
        &self,
        node: &Plan,
        needs: &Needs,
        by_partition: bool,
        inputs: &mut usize,
    ) -> Result<Vec<Member>> {
        let children = node.children().into_iter().enumerate();
        let children = children.map(|(i, child)| {
            let below = needs.of_input(node, i);
            match Membership::of(child, (node, i), by_partition)? {
                Membership::Member => self.member(child, &below, by_partition, inputs),
                Membership::Scan => {
                    *inputs += 1;
                    Ok(Member {
                        original: Arc::clone(child),
                        wrapped: Arc::clone(child),
                        unplanned: with_own_statistics(child),
                    })
                }
                Membership::Input => {
                    let planned = self.planned(child, &below)?;
                    let reads = match () {
                        () if !by_partition => Reads::All,
                        () if is_collected(node, i) => Reads::Collected(Arc::default()),
                        () => Reads::Partition(0),
                    };
                    let statistics = self.statistics_of(&planned, &reads, is_collected(node, i));
                    let input =
                        StageInputExec::new(*inputs, Arc::clone(&planned), reads, statistics);
                    *inputs += 1;
                    Ok(Member {
                        original: Arc::clone(&planned),
                        wrapped: planned,
                        unplanned: Arc::new(input),
                    })
                }
            }
        });
        children.collect()
    }

    fn member(
        &self,
        node: &Plan,
        needs: &Needs,
        by_partition: bool,
        inputs: &mut usize,
    ) -> Result<Member> {
        let members = self.children(node, needs, by_partition, inputs)?;
        let wrapped = above(node, &members, |member| &member.wrapped)?;
        Ok(Member {
            original: above(node, &members, |member| &member.original)?,
            wrapped: BowtieFusedExec::of_node(wrapped),
            unplanned: unplanned(node, inputs_of(&members), by_partition)?,
        })
    }

    /// The statistics of an input's rows. Where an engine says nothing of what it sends, they are assumed to be many, so that costs decide
    /// about the rest.
    fn statistics_of(&self, plan: &Plan, reads: &Reads, collected: bool) -> Arc<Statistics> {
        let mut known = self.statistics.statistics(plan);
        if known.num_rows == Precision::Absent {
            let assumed = match collected {
                true => COLLECTED_ROWS,
                false => EXCHANGED_ROWS,
            };
            Arc::make_mut(&mut known).num_rows = Precision::Inexact(assumed);
        }
        let Reads::Partition(_) = reads else {
            return known;
        };
        let partitions = plan.output_partitioning().partition_count().max(1);
        let mut part = Arc::unwrap_or_clone(known).to_inexact();
        part.num_rows = part.num_rows.map(|rows| rows.div_ceil(partitions));
        part.total_byte_size = part.total_byte_size.map(|bytes| bytes.div_ceil(partitions));
        Arc::new(part)
    }

    /// What executes `pipeline`, with properties of `original`; `None` if nothing in it is offloaded, or if the rows would not have the order
    /// that they need.
    fn executed(
        &self,
        original: &Plan,
        pipeline: Plan,
        needs: &Needs,
        by_partition: bool,
    ) -> Result<Option<(Plan, Arc<PlanProperties>)>> {
        let Some(executed) = self.offloaded(Arc::clone(&pipeline), by_partition)? else {
            return Ok(None);
        };
        let keeps_order = has_order_of(original, &executed, needs, by_partition);
        if keeps_order || !needs.order {
            let properties = properties_of(original, &executed, by_partition);
            return Ok(Some((executed, properties)));
        }
        let Some(ordering) = original.output_ordering() else {
            return Ok(None);
        };
        // Groups whose keys come in order are emitted as they end, in no memory to speak of: a sort would cost more than it saves.
        if original.is::<AggregateExec>() {
            return Ok(None);
        }
        let sorted: Plan = Arc::new(SortExec::new(LexOrdering::clone(ordering), pipeline));
        let Some(executed) = self.offloaded(sorted, by_partition)? else {
            return Ok(None);
        };
        let keeps_order = has_order_of(original, &executed, needs, by_partition);
        let properties = properties_of(original, &executed, by_partition);
        Ok(keeps_order.then_some((executed, properties)))
    }

    /// `pipeline` with nodes on a device; `None` if there are none.
    fn offloaded(&self, pipeline: Plan, by_partition: bool) -> Result<Option<Plan>> {
        let schema = pipeline.schema();
        // Partitions that run by themselves take turns on a card, while each has a core of its own: the costs are those of one partition on a
        // card of its own, and on all cores.
        let (offloaded, _) = self.rule.offloaded(pipeline, self.config)?;
        let mut config = self.config.clone();
        // Merges became sorts, which become merges again.
        config.optimizer.repartition_sorts = true;
        if by_partition {
            config.execution.target_partitions = 1;
        }
        let offloaded = LoneStageExec::unmarked(offloaded)?;
        let on_device = offloaded.exists(|node| Ok(node.is::<DeviceNode>()))?;
        if !on_device {
            return Ok(None);
        }
        if offloaded.schema() != schema {
            log::debug!(
                "a pipeline stays DataFusion's: its columns would be {}, and are {schema}",
                offloaded.schema()
            );
            return Ok(None);
        }
        let mut planned = with_requirements_and_filters(offloaded, &config)?;
        if by_partition && planned.output_partitioning().partition_count() > 1 {
            planned = Arc::new(CoalescePartitionsExec::new(planned));
        }
        Ok(Some(planned))
    }
}

/// `node` above other inputs.
fn above(node: &Plan, members: &[Member], of: impl Fn(&Member) -> &Plan) -> Result<Plan> {
    let inputs = members.iter().map(|member| Arc::clone(of(member)));
    replace_children_if_necessary(Arc::clone(node), inputs.collect())
}

fn inputs_of(members: &[Member]) -> Vec<Plan> {
    let inputs = members.iter().map(|member| Arc::clone(&member.unplanned));
    inputs.collect()
}

/// Whether each partition of what is executed is one of `original`'s.
fn has_partitions_of(original: &Plan, executed: &Plan, by_partition: bool) -> bool {
    let partitions = match by_partition {
        true => 1,
        false => original.output_partitioning().partition_count(),
    };
    executed.output_partitioning().partition_count() == partitions
}

/// Whether the rows of each partition come in the order of `original`'s, and in one that is required.
fn has_order_of(original: &Plan, executed: &Plan, needs: &Needs, by_partition: bool) -> bool {
    let of_executed = executed.equivalence_properties();
    let satisfied = original.output_ordering().is_none_or(|ordering| {
        let satisfied = of_executed.ordering_satisfy(ordering.clone());
        satisfied.unwrap_or(false)
    });
    let required = needs.required.as_ref().is_none_or(|required| {
        let required = required.clone().into_single();
        let satisfied = of_executed.ordering_satisfy_requirement(required);
        satisfied.unwrap_or(false)
    });
    let is_ordered = original.output_ordering().is_some() || needs.required.is_some();
    let apart = has_partitions_of(original, executed, by_partition);
    satisfied && required && (apart || !is_ordered)
}

/// The properties of `original`, with those orders alone that the rows still have.
fn properties_of(original: &Plan, executed: &Plan, by_partition: bool) -> Arc<PlanProperties> {
    let known = original.properties();
    let apart = has_partitions_of(original, executed, by_partition);
    let of_executed = executed.equivalence_properties();
    let mut equivalences = known.equivalence_properties().clone();
    let orderings: Vec<LexOrdering> = equivalences.oeq_class().iter().cloned().collect();
    let kept = orderings.into_iter().filter(|ordering| {
        let satisfied = of_executed.ordering_satisfy(ordering.clone());
        apart && satisfied.unwrap_or(false)
    });
    let kept: Vec<LexOrdering> = kept.collect();
    equivalences.clear_orderings();
    equivalences.add_orderings(kept);
    if !by_partition && known.output_partitioning().partition_count() > 1 {
        equivalences.clear_per_partition_constants();
    }
    Arc::new(PlanProperties::new(
        equivalences,
        known.output_partitioning().clone(),
        original.pipeline_behavior(),
        original.boundedness(),
    ))
}
