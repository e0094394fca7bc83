//! [`Recorder`]: what the rule saw and decided on each node of a plan, for whoever asked for it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use parking_lot::Mutex;

use crate::plan::explain::decision::Decision;
use crate::plan::explain::node_kind::NodeKind;
use crate::plan::recognise::candidate::NodeId;
use crate::plan::recognise::recognised_plan::RecognisedPlan;

/// A node of the plan before it was rewritten.
#[derive(Debug, Clone)]
pub(crate) struct OriginalNode {
    pub(crate) kind: NodeKind,
    /// What was decided on it, if it was considered.
    pub(crate) decision: Option<Decision>,
    /// Why its rows are uploaded, though they could have been read on the device.
    pub(crate) upload: Option<Decision>,
}

/// What a recorded plan is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It is shown, and does not run: its device need not be there.
    Show,
    Run,
}

/// Where decisions are recorded, if anybody asked for them. Clones record in one place.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recorder(Option<(Purpose, Arc<Mutex<Recorded>>)>);

#[derive(Debug, Default)]
struct Recorded {
    decisions: HashMap<NodeId, Decision>,
    uploads: HashMap<NodeId, Decision>,
    /// Nodes that became a part of the one above.
    merged: HashSet<NodeId>,
    /// Each plan's nodes, those that read others first.
    nodes: Vec<OriginalNode>,
}

impl Recorder {
    /// Records.
    pub(crate) fn wanted(purpose: Purpose) -> Self {
        Self(Some((purpose, Arc::default())))
    }

    /// Whether anybody looks at the decisions.
    pub(crate) fn is_wanted(&self) -> bool {
        self.0.is_some()
    }

    /// Whether the plan is only shown.
    pub(crate) fn only_shows(&self) -> bool {
        matches!(self.0, Some((Purpose::Show, _)))
    }

    /// Records what was decided on a node of the plan at hand.
    pub(crate) fn decided(&self, node: NodeId, decision: impl FnOnce() -> Decision) {
        if let Some((_, recorded)) = &self.0 {
            recorded.lock().decisions.insert(node, decision());
        }
    }

    /// Records why the rows of a node of the plan at hand are uploaded.
    pub(crate) fn uploaded(&self, node: NodeId, decision: impl FnOnce() -> Decision) {
        if let Some((_, recorded)) = &self.0 {
            recorded.lock().uploads.insert(node, decision());
        }
    }

    /// Records that a node of the plan at hand became a part of the one above.
    pub(crate) fn merged(&self, node: NodeId) {
        if let Some((_, recorded)) = &self.0 {
            recorded.lock().merged.insert(node);
        }
    }

    /// Ends the plan at hand.
    pub(crate) fn planned(&self, plan: &RecognisedPlan) {
        let Some((_, recorded)) = &self.0 else { return };
        let mut recorded = recorded.lock();
        let (decisions, uploads, merged) = (
            std::mem::take(&mut recorded.decisions),
            std::mem::take(&mut recorded.uploads),
            std::mem::take(&mut recorded.merged),
        );
        let mut rest: Vec<NodeId> = plan.root().into_iter().collect();
        while let Some(id) = rest.pop() {
            let node = plan.node(id);
            recorded.nodes.push(OriginalNode {
                kind: match merged.contains(&id) {
                    true => NodeKind::Merged,
                    false => NodeKind::of(&node.plan),
                },
                decision: decisions.get(&id).cloned(),
                upload: uploads.get(&id).cloned(),
            });
            rest.extend(node.inputs.iter().rev());
        }
    }

    /// Forgets the decisions of a plan whose rewriting failed.
    pub(crate) fn abandoned(&self) {
        if let Some((_, recorded)) = &self.0 {
            let mut recorded = recorded.lock();
            *recorded = Recorded {
                nodes: std::mem::take(&mut recorded.nodes),
                ..Recorded::default()
            };
        }
    }

    /// Records a plan that was not recognised, with the decisions on its nodes.
    pub(crate) fn untouched(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        decide: &dyn Fn(&Arc<dyn ExecutionPlan>) -> Option<Decision>,
    ) {
        let Some((_, recorded)) = &self.0 else { return };
        let mut rest = vec![plan];
        while let Some(node) = rest.pop() {
            recorded.lock().nodes.push(OriginalNode {
                kind: NodeKind::of(node),
                decision: decide(node),
                upload: None,
            });
            rest.extend(node.children().into_iter().rev());
        }
    }

    /// The nodes that were recorded so far.
    pub(crate) fn take(&self) -> Vec<OriginalNode> {
        let recorded = self.0.as_ref();
        recorded.map_or_else(Vec::new, |(_, recorded)| {
            std::mem::take(&mut recorded.lock().nodes)
        })
    }
}
