//! What aggregations cost, alone and above joins.

use std::sync::Arc;

use datafusion::physical_expr::PhysicalExpr;

use crate::exec::aggregate::resident::are_results;
use crate::exec::join::grace_join::Oversized;
use crate::exec::scan::table::Table;
use crate::plan::choose::cardinality::{columns_of, columns_of_fused};
use crate::plan::choose::cost::{Flow, Work};
use crate::plan::choose::node_costs::{MANY_ROWS, NodeCosts};
use crate::plan::choose::placement::{Alternative, NodeCost, Transfer};
use crate::plan::choose::short_text::{has_few_values, is_short};
use crate::plan::recognise::candidate::{AboveJoin, AggregateCandidate, Candidate, NodeId};
use crate::plan::recognise::gain::Gain;
use crate::plan::recognise::recognised_plan::Node;
use crate::plan::sources::aggregate_source::{GroupSource, group_source};
use crate::plan::statistics::distinct::{is_text, values_of};
use crate::spec::aggregate::{GroupSpec, GroupState};

/// Rows of a group, where the distinct counts of the keys are unknown.
const ROWS_OF_A_GROUP: f64 = 10.0;

/// What an aggregation can do with the join that it reads.
enum WithJoin {
    /// Both are one node.
    Fused {
        /// The join gains on any device.
        always: bool,
        join: NodeId,
        inputs: [NodeId; 2],
        flows: (Flow, Flow),
        oversized: Oversized,
    },
    /// It reads the join's rows on the device.
    Resident(NodeId),
}

impl NodeCosts<'_> {
    fn with_join(&self, above: &AboveJoin) -> Option<WithJoin> {
        let (join, source) = self.plan.join(above.join)?;
        let inputs: [NodeId; 2] = self.plan.node(above.join).inputs[..].try_into().ok()?;
        let always = matches!(join.gain, Gain::OnAnyDevice | Gain::OnAnyGpu(_));
        match &above.fused {
            Ok(fused) if above.separate.is_none() => {
                let rows = self.side_rows(inputs);
                // It is offloaded anyway, at an unknown price.
                let rows = rows.or(always.then_some((0.0, 0.0)))?;
                let columns = columns_of_fused(fused);
                let flows = self
                    .cardinalities
                    .sides(source, &fused.join, rows, &columns);
                Some(WithJoin::Fused {
                    always,
                    join: above.join,
                    inputs,
                    flows,
                    oversized: Oversized::of(&fused.join),
                })
            }
            _ => {
                let resident = matches!(above.resident, Some(Ok(_)));
                resident.then_some(WithJoin::Resident(above.join))
            }
        }
    }

    /// Whether all rows of a node may be columns of tables that stay on the device.
    fn reads_stored_tables(&self, node: NodeId) -> bool {
        let node = self.plan.node(node);
        match &node.candidate {
            Candidate::Other => self.cache.on_device > 0.0 && Table::of(&node.plan).is_some(),
            _ => node.inputs.iter().all(|i| self.reads_stored_tables(*i)),
        }
    }

    /// The number of groups, where the statistics tell it.
    fn known_groups(&self, node: &Node, source: &GroupSource<'_>, rows: f64) -> Option<f64> {
        if source.bottom.group_expr().is_true_no_grouping() {
            return Some(1.0);
        }
        let of = self.cardinalities.rows(source.bottom.input());
        let groups = self.cardinalities.rows(&node.plan)?;
        of.is_some_and(|of| groups < of).then(|| groups.min(rows))
    }

    /// The number of groups of keys each of which has few values, as far as statistics and files tell.
    fn few_groups(&self, source: &GroupSource<'_>, rows: f64) -> Option<f64> {
        let (keys, below) = (source.bottom.group_expr(), source.bottom.input());
        if !keys.is_single() {
            return None;
        }
        let values = keys.expr().iter();
        let values = values.map(|(key, _)| values_of(below, self.cardinalities.0, key));
        let groups: f64 = values.product::<Option<f64>>()?;
        (groups < rows / ROWS_OF_A_GROUP).then(|| groups.max(1.0))
    }

    pub(crate) fn aggregate(
        &mut self,
        id: NodeId,
        node: &Node,
        aggregate: &AggregateCandidate,
    ) -> NodeCost {
        let input = aggregate.input;
        let Some(source) = group_source(&node.plan) else {
            return self.other(node, &node.inputs);
        };
        let below = source.bottom.input();
        let grouped = aggregate.spec.as_ref().ok();
        let with_join = aggregate.above.as_ref();
        let with_join = with_join.and_then(|above| self.with_join(above));
        let Some(rows) = self.rows(input) else {
            if grouped.is_some() {
                let unknown = "the cardinality of its input is unknown, so its cost cannot be estimated: collect statistics, or SET bowtie.offload = 'force'";
                self.optional(id, Some(unknown));
            }
            return self.other(node, &[input]);
        };
        let known = self.known_groups(node, &source, rows);
        let known = known.or_else(|| self.few_groups(&source, rows));
        let groups = known.unwrap_or((rows / ROWS_OF_A_GROUP).max(1.0));
        let aggregates = source.bottom.aggr_expr().len();
        let mut alternatives = vec![];
        let (mut finish, mut resident) = (self.host.finish(groups, aggregates), f64::INFINITY);
        let output = self.cardinalities.output(&node.plan, groups);
        let keys = source.bottom.group_expr().expr().iter();
        let are_stored = self.reads_stored_tables(input);
        let is_long_text = |key: &&(Arc<dyn PhysicalExpr>, String)| {
            let data_type = key.0.data_type(&below.schema());
            data_type.is_ok_and(|data_type| is_text(&data_type))
                && !is_short(below, &key.0)
                && !(are_stored && has_few_values(below, &key.0))
        };
        let text_keys = keys.filter(is_long_text).count();
        let work = |flow| Work::Group {
            input: flow,
            groups,
            aggregates,
            text_keys,
            // Few rows may have few groups, where their number is unknown.
            twice: !std::ptr::eq(source.top, source.bottom)
                && (known.is_some() || rows >= MANY_ROWS),
        };
        let chunks = |flow| self.gpu.chunks_of_groups(flow, groups, self.host);
        if let Some(spec) = grouped {
            let columns = columns_of(spec);
            let flow = self.cardinalities.of(below, &spec.input, rows, columns);
            alternatives.push(Alternative {
                seconds: self.gpu.seconds(&work(flow)) + chunks(flow),
                fused: None,
                inputs: vec![(input, Some(self.upload(flow, 1.0)))],
            });
            let lists = spec.aggregates.iter();
            let lists = lists.filter(|a| a.state != GroupState::Folds);
            finish += self.host.finish(rows, 1) * lists.count() as f64;
            let spec = GroupSpec {
                views_are_text: self.reads_stored_tables(input),
                ..spec.clone()
            };
            resident = match are_results(&spec) {
                true => self.gpu.output_on_device(output, self.host),
                false => finish + self.download(output).seconds + self.upload(output, 1.0).seconds,
            };
        }
        let always = matches!(&with_join, Some(WithJoin::Fused { always: true, .. }));
        match with_join {
            Some(WithJoin::Fused {
                join,
                inputs,
                flows,
                oversized,
                ..
            }) => {
                let (left, right) = flows;
                let oversized = self.gpu.oversized(oversized, left, right, self.host);
                let work = Work::JoinGroup {
                    left,
                    right,
                    groups,
                    aggregates,
                };
                alternatives.push(Alternative {
                    seconds: self.gpu.seconds(&work) + oversized.seconds,
                    fused: Some(join),
                    inputs: self.sides(inputs, flows, oversized.left_uploads),
                });
            }
            Some(WithJoin::Resident(join)) => {
                let flow = self.cardinalities.output(below, rows);
                alternatives.push(Alternative {
                    seconds: self.gpu.seconds(&work(flow)) + chunks(flow),
                    fused: None,
                    inputs: vec![(join, None)],
                });
            }
            None => {}
        }
        if grouped.is_none() && !alternatives.is_empty() {
            resident = finish + self.download(output).seconds + self.upload(output, 1.0).seconds;
        }
        let flow = self.cardinalities.output(below, rows);
        let download = self.download(output);
        let host = (!always).then(|| self.host.seconds(&work(flow)));
        if !alternatives.is_empty() && !always {
            self.optional(id, None);
        }
        NodeCost {
            inputs: vec![input],
            host,
            alternatives,
            download: Transfer {
                seconds: download.seconds + finish,
                ..download
            },
            resident,
            rows: Some(groups),
        }
    }
}
