//! A plan as choosing sees it: for each node what it costs in DataFusion, the ways to have it on a GPU, and what these cost.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::union::UnionExec;

use crate::exec::aggregate::resident::are_results;
use crate::exec::partition::grace_join::Oversized;
use crate::options::BowtieOptions;
use crate::plan::choose::address::{Plan, address};
use crate::plan::choose::cardinality::{Cardinalities, columns_of, columns_of_fused, is_text};
use crate::plan::choose::cost::{Flow, Gpu, Host, Work};
use crate::plan::choose::fusion::apart;
use crate::plan::choose::placement::{Border, Step, Way};
use crate::plan::choose::statistics::StatisticsCache;
use crate::plan::choose::strategy::Taking;
use crate::plan::compile::row_program;
use crate::plan::recognise::aggregate::{group_above_join, group_spec};
use crate::plan::recognise::aggregate_source::{GroupSource, group_source};
use crate::plan::recognise::join::join_spec;
use crate::plan::recognise::join_aggregate::{aggregate_source, join_aggregate_spec};
use crate::plan::recognise::source::{JoinSource, join_source};
use crate::spec::aggregate::GroupState;

/// A side with so many rows pays for the other one too, whose rows nobody knows.
const MANY_ROWS: f64 = (1 << 22) as f64;
/// Groups of so many rows each, where nothing is known of the keys.
const ROWS_OF_A_GROUP: f64 = 10.0;

/// The nodes of a plan, inputs first.
pub(crate) struct Candidates<'a> {
    options: &'a BowtieOptions,
    gpu: Gpu,
    host: Host,
    flows: Cardinalities<'a>,
    pub steps: Vec<Step>,
    /// Of each step the share of rows that filters below it left, those of both sides of a join.
    kept: Vec<f64>,
    /// The step of each node, by its address.
    pub known: HashMap<usize, usize>,
    /// Nodes that a GPU could take where that pays.
    pub candidates: Vec<Candidate>,
}

/// A join or an aggregation that a GPU could take.
pub(crate) struct Candidate {
    pub address: usize,
    /// Why its costs cannot be told.
    pub unknown: Option<&'static str>,
}

impl<'a> Candidates<'a> {
    pub(crate) fn of(
        plan: &Plan,
        options: &'a BowtieOptions,
        statistics: &'a StatisticsCache,
        gpu: Gpu,
        host: Host,
    ) -> Self {
        let mut steps = Self {
            options,
            gpu,
            host,
            flows: Cardinalities(statistics),
            steps: vec![],
            kept: vec![],
            known: HashMap::new(),
            candidates: vec![],
        };
        steps.add(plan);
        steps
    }

    fn add(&mut self, plan: &Plan) -> usize {
        if let Some(known) = self.known.get(&address(plan)) {
            return *known;
        }
        let step = self.join(plan).or_else(|| self.group(plan));
        let step = step.unwrap_or_else(|| self.other(plan));
        let kept = self.kept_by(plan, &step);
        self.steps.push(step);
        self.kept.push(kept);
        let at = self.steps.len() - 1;
        self.known.insert(address(plan), at);
        at
    }

    fn candidate(&mut self, plan: &Plan, unknown: Option<&'static str>) {
        self.candidates.push(Candidate {
            address: address(plan),
            unknown,
        });
    }

    /// The share of rows that filters left, of a node that is to be added.
    fn kept_by(&self, plan: &Plan, step: &Step) -> f64 {
        let below = step.inputs.iter().map(|input| self.kept[*input]);
        let below = below.product::<f64>();
        match step.inputs[..] {
            // Groups are rows of a table of their own.
            _ if group_source(plan).is_some() => 1.0,
            [input] => match (step.rows, self.steps[input].rows) {
                (Some(rows), Some(of)) if of > 0.0 => below * (rows / of).min(1.0),
                _ => below,
            },
            _ => below,
        }
    }

    /// Rows that come out of a join. Where nobody knows how many keys there are, the longer side's rows refer to one row each of the shorter
    /// one, if filters left that: DataFusion takes the keys of both for unique, and so the shorter side's rows for all that come out.
    fn joined_rows(
        &self,
        plan: &Plan,
        source: &JoinSource,
        inputs: [usize; 2],
        (left, right): (f64, f64),
    ) -> f64 {
        let counted = self.flows.0.counts_keys(source);
        if let (true, Some(known)) = (counted, self.flows.rows(plan)) {
            return known;
        }
        let found = match left <= right {
            true => right * self.kept[inputs[0]],
            false => left * self.kept[inputs[1]],
        };
        match source.kind {
            JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => left,
            JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => right,
            JoinType::Inner => found,
            JoinType::Left => found.max(left),
            JoinType::Right => found.max(right),
            JoinType::Full => found.max(left).max(right),
        }
    }

    /// Rows of a node that was added, as its step says or the plan knows.
    fn rows(&self, plan: &Plan, step: usize) -> Option<f64> {
        self.steps[step].rows.or_else(|| self.flows.rows(plan))
    }

    fn up(&self, flow: Flow, times: f64) -> Border {
        Border {
            seconds: self.gpu.up(flow, times, self.host),
            bytes: flow.bytes * times,
        }
    }

    fn down(&self, flow: Flow) -> Border {
        Border {
            seconds: self.gpu.down(flow),
            bytes: flow.bytes,
        }
    }

    /// Borders below a join, whose left side comes up so often.
    fn sides(
        &self,
        inputs: [usize; 2],
        (left, right): (Flow, Flow),
        left_times: f64,
    ) -> Vec<(usize, Option<Border>)> {
        vec![
            (inputs[0], Some(self.up(left, left_times))),
            (inputs[1], Some(self.up(right, 1.0))),
        ]
    }

    /// Rows of both sides; of one that nobody knows as many as of the other one, if these are many.
    fn side_rows(&self, source: &JoinSource, inputs: [usize; 2]) -> Option<(f64, f64)> {
        let left = self.rows(&source.left, inputs[0]);
        let right = self.rows(&source.right, inputs[1]);
        match (left, right) {
            (Some(left), Some(right)) => Some((left, right)),
            (Some(many), None) | (None, Some(many)) if many >= MANY_ROWS => Some((many, many)),
            _ => None,
        }
    }

    /// `None` for what is no join that a device could take.
    fn join(&mut self, plan: &Plan) -> Option<Step> {
        let source = join_source(plan)?.ok()?;
        let estimates = self.flows.0.sides(&source);
        let spec = |taking| join_spec(&source, self.options, estimates, taking).ok();
        let gains = spec(Taking::Gains);
        let always = gains.is_some();
        let spec = gains.or_else(|| spec(Taking::All))?;
        let inputs = [self.add(&source.left), self.add(&source.right)];
        let rows = self.side_rows(&source, inputs);
        if !always {
            let unknown = "how many rows one of its inputs has is not known, so neither is whether transfers pay";
            self.candidate(plan, rows.is_none().then_some(unknown));
        }
        let Some(rows) = rows else {
            return Some(Step {
                inputs: inputs.to_vec(),
                host: (!always).then_some(0.0),
                // What is taken anyway is taken at no known price.
                ways: match always {
                    true => vec![Way {
                        inputs: inputs.map(|i| (i, Some(Border::default()))).to_vec(),
                        ..Way::default()
                    }],
                    false => vec![],
                },
                ..Step::default()
            });
        };
        let output = self.joined_rows(plan, &source, inputs, rows);
        let output = self.flows.output(plan, output);
        let (left, right) = self.flows.sides(&source, &spec, rows, &[]);
        let work = Work::Join {
            left,
            right,
            output,
            collected: plan
                .downcast_ref::<HashJoinExec>()
                .is_some_and(|join| *join.partition_mode() == PartitionMode::CollectLeft),
        };
        let meeting = self
            .gpu
            .meeting(Oversized::of(&spec), left, right, self.host);
        Some(Step {
            inputs: inputs.to_vec(),
            host: (!always).then(|| self.host.seconds(&work)),
            ways: vec![Way {
                seconds: self.gpu.seconds(&work) + meeting.seconds,
                along: None,
                inputs: self.sides(inputs, (left, right), meeting.left_times),
            }],
            down: self.down(output),
            stay: self.gpu.output_on_device(output, self.host),
            rows: Some(output.rows),
        })
    }

    /// `None` for what is no aggregation that a device could take.
    fn group(&mut self, plan: &Plan) -> Option<Step> {
        let source = group_source(plan)?;
        let below = source.bottom.input();
        let input = self.add(below);
        let grouped = group_spec(&source, self.options, Taking::All).ok();
        let joined = self.above_join(plan, &source);
        let Some(rows) = self.rows(below, input) else {
            if grouped.is_some() {
                let unknown =
                    "how many rows its input has is not known, so neither is whether transfers pay";
                self.candidate(plan, Some(unknown));
            }
            return Some(self.passing(plan, vec![input]));
        };
        let known = self.known_groups(plan, &source, rows);
        let groups = known.unwrap_or((rows / ROWS_OF_A_GROUP).max(1.0));
        let aggregates = source.bottom.aggr_expr().len();
        let mut ways = vec![];
        let (mut finish, mut stay) = (self.gpu.finish(groups, aggregates), f64::INFINITY);
        let output = self.flows.output(plan, groups);
        let of_keys = source.bottom.group_expr().expr().iter();
        let of_keys = of_keys.filter_map(|(key, _)| key.data_type(&below.schema()).ok());
        let text_keys = of_keys.filter(is_text).count();
        let work = |flow| Work::Group {
            input: flow,
            groups,
            aggregates,
            text_keys,
            // Of few rows, groups that nobody counted may be few too.
            twice: !std::ptr::eq(source.top, source.bottom)
                && (known.is_some() || rows >= MANY_ROWS),
        };
        let larger = |of: &Self, flow| of.gpu.chunks_of_groups(flow, groups, of.host);
        if let Some(spec) = &grouped {
            let flow = self.flows.of(below, &spec.input, rows, columns_of(spec));
            ways.push(Way {
                seconds: self.gpu.seconds(&work(flow)) + larger(self, flow),
                along: None,
                inputs: vec![(input, Some(self.up(flow, 1.0)))],
            });
            let lists = spec
                .aggregates
                .iter()
                .filter(|a| a.state != GroupState::Folds);
            finish += self.gpu.finish(rows, 1) * lists.count() as f64;
            stay = match are_results(spec) {
                true => self.gpu.output_on_device(output, self.host),
                false => finish + self.down(output).seconds + self.up(output, 1.0).seconds,
            };
        }
        let always = matches!(&joined, Some(Joined::Fused { always: true, .. }));
        match joined {
            Some(Joined::Fused {
                step,
                inputs,
                flows,
                larger,
                ..
            }) => {
                let meeting = self.gpu.meeting(larger, flows.0, flows.1, self.host);
                let work = Work::JoinGroup {
                    left: flows.0,
                    right: flows.1,
                    groups,
                    aggregates,
                };
                ways.push(Way {
                    seconds: self.gpu.seconds(&work) + meeting.seconds,
                    along: Some(step),
                    inputs: self.sides(inputs, flows, meeting.left_times),
                });
            }
            Some(Joined::Above(step)) => {
                let flow = self.flows.output(below, rows);
                ways.push(Way {
                    seconds: self.gpu.seconds(&work(flow)) + larger(self, flow),
                    along: None,
                    inputs: vec![(step, None)],
                });
            }
            None => {}
        }
        if grouped.is_none() && !ways.is_empty() {
            stay = finish + self.down(output).seconds + self.up(output, 1.0).seconds;
        }
        if !ways.is_empty() && !always {
            self.candidate(plan, None);
        }
        let flow = self.flows.output(below, rows);
        let down = self.down(output);
        Some(Step {
            inputs: vec![input],
            host: (!always).then(|| self.host.seconds(&work(flow))),
            ways,
            down: Border {
                seconds: down.seconds + finish,
                ..down
            },
            stay,
            rows: Some(groups),
        })
    }

    /// What an aggregation can do with the join that it reads.
    fn above_join(&mut self, plan: &Plan, source: &GroupSource<'_>) -> Option<Joined> {
        let above = aggregate_source(plan)?;
        let join = join_source(above.join)?.ok()?;
        let step = *self.known.get(&address(above.join))?;
        let inputs = [
            *self.known.get(&address(&join.left))?,
            *self.known.get(&address(&join.right))?,
        ];
        let rows = self.flows.0.sides(&join);
        let spec = |taking| join_spec(&join, self.options, rows, taking).ok();
        let gains = spec(Taking::Gains);
        let always = gains.is_some();
        let spec = gains.or_else(|| spec(Taking::All))?;
        let statistics = self.flows.0;
        let apart = |fused: &_| {
            apart(
                source,
                &above,
                self.options,
                spec.clone(),
                fused,
                &join,
                statistics,
            )
        };
        if let Ok(fused) = join_aggregate_spec(&above, spec.clone())
            && apart(&fused).is_none()
        {
            let rows = self.side_rows(&join, inputs);
            // Taken anyway, at no known price.
            let rows = rows.or(always.then_some((0.0, 0.0)))?;
            let columns = columns_of_fused(&fused);
            let flows = self.flows.sides(&join, &fused.join, rows, &columns);
            return Some(Joined::Fused {
                always,
                step,
                inputs,
                flows,
                larger: Oversized::of(&fused.join),
            });
        }
        let output_on_device = group_above_join(source, &above, self.options, spec).is_ok();
        output_on_device.then_some(Joined::Above(step))
    }

    /// Groups that come out, where the plan knows it.
    fn known_groups(&self, plan: &Plan, source: &GroupSource<'_>, rows: f64) -> Option<f64> {
        if source.bottom.group_expr().is_true_no_grouping() {
            return Some(1.0);
        }
        let of = self.flows.rows(source.bottom.input());
        let groups = self.flows.rows(plan)?;
        of.is_some_and(|of| groups < of).then(|| groups.min(rows))
    }

    fn passing(&self, plan: &Plan, inputs: Vec<usize>) -> Step {
        let known = self.flows.rows(plan);
        let of_input = match (&inputs[..], &plan.children()[..]) {
            // As many as the plan expects of its input's.
            ([input], [child]) => {
                let rows = self.steps[*input].rows;
                let share = match (known, self.flows.rows(child)) {
                    (Some(rows), Some(of)) if of > 0.0 => rows / of,
                    _ => 1.0,
                };
                rows.map(|rows| rows * share)
            }
            _ => None,
        };
        Step {
            rows: of_input.or(known),
            inputs,
            host: Some(0.0),
            ..Step::default()
        }
    }

    /// Any other node: between two device nodes some can be on the device too.
    fn other(&mut self, plan: &Plan) -> Step {
        let inputs: Vec<usize> = plan
            .children()
            .iter()
            .map(|input| self.add(input))
            .collect();
        let mut step = self.passing(plan, inputs);
        if let (true, Some(rows)) = (stays_between(plan), step.rows) {
            let output = self.flows.output(plan, rows);
            let input = match plan.children()[..] {
                [only] => self
                    .flows
                    .output(only, self.steps[step.inputs[0]].rows.unwrap_or(rows)),
                _ => output,
            };
            step.ways.push(Way {
                seconds: self.gpu.seconds(&Work::Rows { input }),
                along: None,
                inputs: step.inputs.iter().map(|input| (*input, None)).collect(),
            });
            // It is there for another device node alone.
            step.down.seconds = f64::INFINITY;
            step.stay = self.gpu.output_on_device(output, self.host);
        }
        step
    }
}

/// What an aggregation can do with the join that it reads: both are one node, or it reads the join's rows on the device.
enum Joined {
    Fused {
        /// The join gains on any device.
        always: bool,
        step: usize,
        inputs: [usize; 2],
        flows: (Flow, Flow),
        larger: Oversized,
    },
    Above(usize),
}

/// Whether a node between two device nodes is one too (`plan/transfers.rs`).
fn stays_between(plan: &Plan) -> bool {
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let expressions = projection.expr().iter().map(|projected| &projected.expr);
        let made = expressions.filter(|e| e.downcast_ref::<Column>().is_none());
        let made: Vec<_> = made.cloned().collect();
        return made.is_empty()
            || row_program::compile(&made, &projection.input().schema()).is_some();
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let predicate = [Arc::clone(filter.predicate())];
        return filter.fetch().is_none()
            && row_program::compile(&predicate, &filter.input().schema()).is_some();
    }
    plan.downcast_ref::<UnionExec>().is_some()
}
