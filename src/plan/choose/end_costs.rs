//! What sorts and limits cost above rows on a GPU, and what their download costs less.

use crate::plan::choose::cost::{Flow, Work};
use crate::plan::choose::node_costs::NodeCosts;
use crate::plan::choose::placement::{Alternative, NodeCost};
use crate::plan::recognise::candidate::{Candidate, NodeId, SortCandidate};
use crate::plan::recognise::recognised_plan::Node;
use crate::spec::sort::LimitSpec;

const UNKNOWN: &str = "the cardinality of its input is unknown, so its cost cannot be estimated: collect statistics, or SET bowtie.offload = 'force'";

impl NodeCosts<'_> {
    pub(crate) fn sort(&mut self, id: NodeId, node: &Node, sort: &SortCandidate) -> NodeCost {
        let Ok(spec) = &sort.spec else {
            return self.other(node, &node.inputs);
        };
        if spec.fetch.is_none() && !self.plan.order_matters(id) {
            return self.other(node, &node.inputs);
        }
        let fetch = spec.fetch.map(|fetch| fetch as f64);
        let keys = spec.keys.len();
        self.end(id, node, fetch, |input, kept| Work::Sort {
            input,
            keys,
            kept,
        })
    }

    pub(crate) fn limit(&mut self, id: NodeId, node: &Node, limit: LimitSpec) -> NodeCost {
        // A join ends by itself, and few rows of a table are read on the host.
        let mut below = node;
        while let (Candidate::Rows(_), [input]) | (Candidate::Limit(_), [input]) =
            (&below.candidate, &below.inputs[..])
        {
            below = self.plan.node(*input);
        }
        if !matches!(
            below.candidate,
            Candidate::Aggregate(_) | Candidate::Sort(_)
        ) {
            return self.other(node, &node.inputs);
        }
        let fetch = limit.fetch.map(|fetch| fetch as f64);
        self.end(id, node, fetch, |_, _| Work::Limit)
    }

    /// A node that reads rows on the device, and keeps at most `fetch` of them.
    fn end(
        &mut self,
        id: NodeId,
        node: &Node,
        fetch: Option<f64>,
        work: impl Fn(Flow, f64) -> Work,
    ) -> NodeCost {
        let mut cost = self.other(node, &node.inputs);
        let ([input], [child]) = (&node.inputs[..], &node.plan.children()[..]) else {
            return cost;
        };
        let Some(rows) = self.rows(*input) else {
            self.optional(id, Some(UNKNOWN));
            return cost;
        };
        let kept = fetch.unwrap_or(rows).min(rows);
        let work = work(self.cardinalities.output(child, rows), kept);
        let output = self.cardinalities.output(&node.plan, kept);
        cost.rows = Some(kept);
        cost.host = Some(self.host.seconds(&work));
        cost.alternatives.push(Alternative {
            seconds: self.gpu.seconds(&work),
            fused: None,
            inputs: vec![(*input, None)],
        });
        cost.download = self.download(output);
        cost.resident = self.gpu.output_on_device(output, self.host);
        self.optional(id, None);
        cost
    }
}
