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

use crate::exec::partition::grace_join::Oversized;
use crate::options::BowtieOptions;
use crate::plan::choose::address::{Plan, address};
use crate::plan::choose::cardinality::Cardinalities;
use crate::plan::choose::cost::{Flow, Gpu, Host, Work};
use crate::plan::choose::placement::{Border, Step, Way};
use crate::plan::choose::statistics::StatisticsCache;
use crate::plan::choose::strategy::Taking;
use crate::plan::compile::row_program;
use crate::plan::recognise::aggregate_source::group_source;
use crate::plan::recognise::join::join_spec;
use crate::plan::recognise::source::{JoinSource, join_source};

/// A side with so many rows pays for the other one too, whose rows nobody knows.
pub(crate) const MANY_ROWS: f64 = (1 << 22) as f64;
/// Groups of so many rows each, where nothing is known of the keys.
pub(crate) const ROWS_OF_A_GROUP: f64 = 10.0;

/// The nodes of a plan, inputs first.
pub(crate) struct Candidates<'a> {
    pub(crate) options: &'a BowtieOptions,
    pub(crate) gpu: Gpu,
    pub(crate) host: Host,
    pub(crate) flows: Cardinalities<'a>,
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

    pub(crate) fn add(&mut self, plan: &Plan) -> usize {
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

    pub(crate) fn candidate(&mut self, plan: &Plan, unknown: Option<&'static str>) {
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
    pub(crate) fn rows(&self, plan: &Plan, step: usize) -> Option<f64> {
        self.steps[step].rows.or_else(|| self.flows.rows(plan))
    }

    pub(crate) fn up(&self, flow: Flow, times: f64) -> Border {
        Border {
            seconds: self.gpu.up(flow, times, self.host),
            bytes: flow.bytes * times,
        }
    }

    pub(crate) fn down(&self, flow: Flow) -> Border {
        Border {
            seconds: self.gpu.down(flow),
            bytes: flow.bytes,
        }
    }

    /// Borders below a join, whose left side comes up so often.
    pub(crate) fn sides(
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
    pub(crate) fn side_rows(&self, source: &JoinSource, inputs: [usize; 2]) -> Option<(f64, f64)> {
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

    pub(crate) fn passing(&self, plan: &Plan, inputs: Vec<usize>) -> Step {
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
pub(crate) enum Joined {
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
