//! What each node of a plan costs: in DataFusion, and by each alternative on a GPU.

use std::collections::HashMap;

use datafusion::common::JoinType;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};

use crate::exec::join::grace_join::Oversized;
use crate::exec::scan::table::Table;
use crate::plan::choose::cardinality::Cardinalities;
use crate::plan::choose::cost::{Flow, Gpu, Host, Work};
use crate::plan::choose::placement::{Alternative, NodeCost, Transfer};
use crate::plan::recognise::candidate::{Candidate, JoinCandidate, NodeId, RowsCandidate};
use crate::plan::recognise::gain::Gain;
use crate::plan::recognise::recognised_plan::{Node, RecognisedPlan};
use crate::plan::sources::join_source::JoinSource;
use crate::plan::statistics::distinct::are_few;
use crate::plan::statistics::share::share_of;
use crate::plan::statistics::statistics_cache::StatisticsCache;

/// Rows of a side that make a join worth offloading, even if the cardinality of the other side is unknown.
pub(crate) const MANY_ROWS: f64 = (1 << 22) as f64;

/// The share of one query in the upload of a column that stays on the device: it is likely to serve some others.
const SHARE_OF_A_QUERY: f64 = 0.25;

/// Bytes of codes, of the bytes of their values.
const SHARE_OF_CODES: f64 = 0.5;

/// The most bytes of tables that stay between queries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cache {
    pub on_device: f64,
    /// In the form in which the device stores them.
    pub on_host: f64,
}

impl Cache {
    /// The times that a query uploads these bytes, on average; `None` if they do not stay.
    fn times(self, bytes: f64) -> Option<f64> {
        let stays = self.on_device > 0.0 && bytes <= self.on_device + self.on_host;
        let sent = (bytes - self.on_device).max(0.0) / bytes.max(1.0);
        stays.then_some(SHARE_OF_A_QUERY * (1.0 - sent) + SHARE_OF_CODES * sent)
    }
}

/// The costs of a plan's nodes, by their numbers.
pub(crate) struct NodeCosts<'a> {
    pub(crate) plan: &'a RecognisedPlan,
    pub(crate) gpu: Gpu,
    pub(crate) host: Host,
    pub(crate) cache: Cache,
    pub(crate) cardinalities: Cardinalities<'a>,
    pub(crate) nodes: Vec<NodeCost>,
    /// Of each node the share of rows that filters below it kept; of a join, of both sides.
    kept: Vec<f64>,
    /// Rows of nodes by samples of tables in memory, as far as they were asked for.
    sampled: HashMap<NodeId, Option<f64>>,
    /// Joins, aggregations and the ends of what runs on a GPU, which runs them if that is cheaper.
    pub(crate) optional: Vec<Optional>,
}

/// A node that a GPU runs if that is cheaper.
pub(crate) struct Optional {
    pub(crate) node: NodeId,
    /// Why its costs cannot be estimated.
    pub(crate) unknown: Option<&'static str>,
}

impl<'a> NodeCosts<'a> {
    pub(crate) fn of(
        plan: &'a RecognisedPlan,
        statistics: &'a StatisticsCache,
        gpu: Gpu,
        host: Host,
        cache: Cache,
    ) -> Self {
        let mut costs = Self {
            plan,
            gpu,
            host,
            cache,
            cardinalities: Cardinalities(statistics),
            nodes: Vec::with_capacity(plan.nodes().len()),
            kept: vec![],
            sampled: HashMap::new(),
            optional: vec![],
        };
        for (id, node) in plan.nodes().iter().enumerate() {
            let cost = costs.node(id, node);
            costs.kept.push(costs.kept_by(node, &cost));
            costs.nodes.push(cost);
        }
        costs
    }

    fn node(&mut self, id: NodeId, node: &Node) -> NodeCost {
        match &node.candidate {
            Candidate::Join(join) => match self.join(id, node, join) {
                Some(cost) => cost,
                None => self.other(node, &node.inputs),
            },
            Candidate::Aggregate(aggregate) => self.aggregate(id, node, aggregate),
            Candidate::Rows(rows) if self.can_be_between(node, rows) => {
                let cost = self.between(id, node);
                self.downloadable(id, node, cost)
            }
            Candidate::Union => self.between(id, node),
            Candidate::Sort(sort) => self.sort(id, node, sort),
            Candidate::Limit(limit) => self.limit(id, node, *limit),
            Candidate::Other if node.table().is_some() => {
                let cost = self.scan(node);
                self.downloadable(id, node, cost)
            }
            Candidate::Rows(_) | Candidate::Clusters | Candidate::Other => {
                self.other(node, &node.inputs)
            }
        }
    }

    pub(crate) fn optional(&mut self, node: NodeId, unknown: Option<&'static str>) {
        self.optional.push(Optional { node, unknown });
    }

    /// The share of rows that filters kept, of a node whose costs are known.
    fn kept_by(&self, node: &Node, cost: &NodeCost) -> f64 {
        let below = cost.inputs.iter().map(|input| self.kept[*input]);
        let below = below.product::<f64>();
        match cost.inputs[..] {
            // Groups are rows of a table of their own.
            _ if matches!(node.candidate, Candidate::Aggregate(_)) => 1.0,
            [input] => match (cost.rows, self.nodes[input].rows) {
                (Some(rows), Some(of)) if of > 0.0 => below * (rows / of).min(1.0),
                _ => below,
            },
            _ => below,
        }
    }

    /// Rows of a node, as its costs say or the statistics.
    pub(crate) fn rows(&self, node: NodeId) -> Option<f64> {
        let plan = &self.plan.node(node).plan;
        self.nodes[node]
            .rows
            .or_else(|| self.cardinalities.rows(plan))
    }

    pub(crate) fn upload(&self, flow: Flow, times: f64) -> Transfer {
        Transfer {
            seconds: self.gpu.up(flow, times, self.host),
            bytes: flow.bytes * times,
        }
    }

    pub(crate) fn download(&self, flow: Flow) -> Transfer {
        Transfer {
            seconds: self.gpu.down(flow),
            bytes: flow.bytes,
        }
    }

    /// Inputs of a join with the transfers of their rows. The left side is uploaded `left_times` times.
    pub(crate) fn sides(
        &self,
        inputs: [NodeId; 2],
        (left, right): (Flow, Flow),
        left_times: f64,
    ) -> Vec<(NodeId, Option<Transfer>)> {
        vec![
            (inputs[0], Some(self.upload(left, left_times))),
            (inputs[1], Some(self.upload(right, 1.0))),
        ]
    }

    /// Rows of both sides; a side of unknown cardinality has as many as the other one, if these are many.
    pub(crate) fn side_rows(&self, inputs: [NodeId; 2]) -> Option<(f64, f64)> {
        match inputs.map(|input| self.rows(input)) {
            [Some(left), Some(right)] => Some((left, right)),
            [Some(many), None] | [None, Some(many)] if many >= MANY_ROWS => Some((many, many)),
            _ => None,
        }
    }

    /// The cardinality of a join. Where the distinct counts of the keys are unknown, each row of the longer side refers to one row of the
    /// shorter one, if filters kept that: DataFusion takes the keys of both sides for unique, and so the shorter side's rows for the
    /// join's.
    fn joined_rows(
        &self,
        node: &Node,
        source: &JoinSource,
        inputs: [NodeId; 2],
        (left, right): (f64, f64),
    ) -> f64 {
        let counted = self.cardinalities.0.counts_keys(source);
        if let (true, Some(known)) = (counted, self.cardinalities.rows(&node.plan)) {
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

    /// `None` for a join without a spec.
    fn join(&mut self, id: NodeId, node: &Node, join: &JoinCandidate) -> Option<NodeCost> {
        let (Ok(source), Ok(spec)) = (&join.source, &join.spec) else {
            return None;
        };
        let inputs: [NodeId; 2] = node.inputs[..].try_into().ok()?;
        let always = matches!(join.gain, Gain::OnAnyDevice | Gain::OnAnyGpu(_));
        let rows = self.side_rows(inputs);
        if !always {
            let unknown = "the cardinality of an input is unknown, so its cost cannot be estimated: collect statistics, or SET bowtie.offload = 'force'";
            self.optional(id, rows.is_none().then_some(unknown));
        }
        let Some(rows) = rows else {
            return Some(NodeCost {
                inputs: inputs.to_vec(),
                host: (!always).then_some(0.0),
                // A join that gains on any device is offloaded at an unknown price.
                alternatives: match always {
                    true => vec![Alternative {
                        inputs: inputs.map(|i| (i, Some(Transfer::default()))).to_vec(),
                        ..Alternative::default()
                    }],
                    false => vec![],
                },
                ..NodeCost::default()
            });
        };
        let output = self.joined_rows(node, source, inputs, rows);
        let output = self.cardinalities.output(&node.plan, output);
        let (left, right) = self.cardinalities.sides(source, spec, rows, &[]);
        let work = Work::Join {
            left,
            right,
            output,
            collected: node
                .plan
                .downcast_ref::<HashJoinExec>()
                .is_some_and(|join| *join.partition_mode() == PartitionMode::CollectLeft),
        };
        let oversized = self
            .gpu
            .oversized(Oversized::of(spec), left, right, self.host);
        Some(NodeCost {
            inputs: inputs.to_vec(),
            host: (!always).then(|| self.host.seconds(&work)),
            alternatives: vec![Alternative {
                seconds: self.gpu.seconds(&work) + oversized.seconds,
                fused: None,
                inputs: self.sides(inputs, (left, right), oversized.left_uploads),
            }],
            download: self.download(output),
            resident: self.gpu.output_on_device(output, self.host),
            rows: Some(output.rows),
        })
    }

    /// A node that stays in DataFusion: its rows, and those of its inputs.
    pub(crate) fn other(&self, node: &Node, inputs: &[NodeId]) -> NodeCost {
        let known = self.cardinalities.rows(&node.plan);
        let of_input = match (inputs, &node.plan.children()[..]) {
            // The share that the statistics expect of its input's rows.
            ([input], [child]) => {
                let rows = self.nodes[*input].rows;
                let share = match (known, self.cardinalities.rows(child)) {
                    (Some(rows), Some(of)) if of > 0.0 => rows / of,
                    _ => 1.0,
                };
                rows.map(|rows| rows * share)
            }
            _ => None,
        };
        NodeCost {
            rows: of_input.or(known),
            inputs: inputs.to_vec(),
            host: Some(0.0),
            ..NodeCost::default()
        }
    }

    /// A scan of a table whose columns stay on the device if they fit.
    fn scan(&self, node: &Node) -> NodeCost {
        let mut cost = self.other(node, &[]);
        let flow = cost
            .rows
            .map(|rows| self.cardinalities.output(&node.plan, rows));
        let is_in_files = node.table().is_some_and(Table::is_in_files);
        let reading = flow.filter(|_| is_in_files);
        let reading = reading.map_or(0.0, |flow| self.host.decode(flow));
        cost.host = Some(reading);
        let stored = flow.and_then(|flow| Some((flow, self.cache.times(flow.bytes)?)));
        if let Some((flow, times)) = stored {
            let pieces = node.table().and_then(|t| t.pieces_on(self.gpu.memory).ok());
            let pieces = self.gpu.of_pieces(pieces.unwrap_or(1), flow);
            cost.alternatives.push(Alternative {
                // What stays is read once.
                seconds: self.gpu.up(flow, times, self.host) + pieces + SHARE_OF_A_QUERY * reading,
                ..Alternative::default()
            });
            // Its rows are read by another device node alone.
            cost.download.seconds = f64::INFINITY;
        }
        cost
    }

    /// The rows of filters and projections of a table in memory, by a sample of it. DataFusion without statistics takes a fifth of the rows for
    /// each filter.
    fn sampled_rows(&mut self, id: NodeId) -> Option<f64> {
        if let Some(known) = self.sampled.get(&id) {
            return *known;
        }
        let node = self.plan.node(id);
        let rows = match (&node.candidate, &node.inputs[..]) {
            (Candidate::Rows(rows), [input]) => {
                let below = match self.plan.node(*input).table() {
                    Some(_) => self.nodes[*input].rows,
                    None => self.sampled_rows(*input),
                };
                match node.plan.downcast_ref::<FilterExec>() {
                    Some(filter) => below.and_then(|below| {
                        // What compiles is no function of a user.
                        let is_plain =
                            matches!(rows.compiled(), Ok(Some(of)) if of.distinct.is_empty());
                        let table = self.plan.node(*input).table().filter(|_| is_plain)?;
                        Some(below * share_of(table, filter.predicate())?)
                    }),
                    None => below,
                }
            }
            _ => None,
        };
        self.sampled.insert(id, rows);
        rows
    }

    /// The cost of a filter, a projection or a scan, whose rows the host may read if they are filtered or computed, and all are wanted.
    fn downloadable(&mut self, id: NodeId, node: &Node, cost: NodeCost) -> NodeCost {
        let Some(rows) = cost.rows.filter(|_| !cost.alternatives.is_empty()) else {
            return cost;
        };
        if !self.plan.may_end_rows(id) {
            return cost;
        }
        self.optional(id, None);
        let rows = self.sampled_rows(id).unwrap_or(rows);
        let output = self.cardinalities.downloaded(&node.plan, rows);
        NodeCost {
            download: Transfer {
                seconds: self.gpu.down_rows(output),
                bytes: output.bytes,
            },
            ..cost
        }
    }

    /// Whether a filter or a projection can be on the device, and loses nothing by that.
    fn can_be_between(&self, node: &Node, rows: &RowsCandidate) -> bool {
        match (rows.compiled(), &node.plan.children()[..]) {
            (Ok(Some(compiled)), [input]) => are_few(input, self.cardinalities.0, compiled),
            (compiled, _) => compiled.is_ok(),
        }
    }

    /// A node that can be on the device too, between two device nodes.
    fn between(&mut self, id: NodeId, node: &Node) -> NodeCost {
        let mut cost = self.other(node, &node.inputs);
        let Some(rows) = cost.rows else {
            return cost;
        };
        let output = self.cardinalities.output(&node.plan, rows);
        let input = match (&cost.inputs[..], &node.plan.children()[..]) {
            ([input], [child]) => {
                let rows = self.nodes[*input].rows.unwrap_or(rows);
                self.cardinalities.output(child, rows)
            }
            _ => output,
        };
        let work = Work::Rows { input };
        // DataFusion reads the columns of a predicate alone, and copies what is kept.
        let read = match node.plan.downcast_ref::<FilterExec>() {
            Some(filter) => {
                let kept = self
                    .sampled_rows(id)
                    .map_or(output, |rows| self.cardinalities.output(&node.plan, rows));
                self.cardinalities.filtered(filter, input.rows, kept)
            }
            None => input,
        };
        cost.host = Some(self.host.seconds(&Work::Rows { input: read }));
        cost.alternatives.push(Alternative {
            seconds: self.gpu.seconds(&work),
            fused: None,
            inputs: cost.inputs.iter().map(|input| (*input, None)).collect(),
        });
        // Its rows are read by another device node alone, piece by piece, unless it is [downloadable](Self::downloadable).
        cost.download.seconds = f64::INFINITY;
        cost
    }
}
