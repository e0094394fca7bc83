//! [`Decision`]: what `bowtie_explain` shows of a node.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::Decline;
use crate::exec::scan::table::Table;
use crate::plan::choose::placement::Estimate;
use crate::plan::choose::statistics::{RowEstimate, StatisticsCache};
use crate::plan::recognise::aggregate_source::GroupSource;
use crate::plan::recognise::source::JoinSource;
use crate::plan::transfers::{HostStep, Why};
use crate::spec::aggregate::GroupSpec;
use crate::spec::join::JoinSpec;

/// Where decisions are recorded, if anybody asked for them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Decisions(Option<Arc<Mutex<Vec<Decision>>>>);

impl Decisions {
    /// Records that are wanted.
    pub(crate) fn wanted() -> Self {
        Self(Some(Arc::default()))
    }

    pub(crate) fn record(&self, decision: impl FnOnce() -> Decision) {
        if let Some(decisions) = &self.0 {
            decisions.lock().push(decision());
        }
    }

    /// Those that were recorded so far.
    pub(crate) fn take(&self) -> Vec<Decision> {
        let decisions = self.0.as_ref();
        decisions.map_or_else(Vec::new, |decisions| std::mem::take(&mut decisions.lock()))
    }
}

/// What was decided on one node of a plan.
#[derive(Debug, Clone)]
pub(crate) struct Decision {
    /// DataFusion's node.
    pub node: String,
    /// Its condition, or its aggregates.
    pub detail: String,
    pub offloaded: bool,
    /// When it is offloaded.
    pub strategy: Option<String>,
    pub left_rows: Option<u64>,
    pub right_rows: Option<u64>,
    /// What it costs, where that decides.
    pub estimate: Option<Estimate>,
    /// Of a scan on the device.
    pub stored: Option<StoredShare>,
    /// Why it was declined, or by which algorithm it runs.
    pub reason: String,
}

/// What is stored of a scan's columns on the device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoredShare {
    /// Bytes there, as they are stored.
    pub resident: u64,
    /// Bytes of the values that are not there, approximately.
    pub missing: u64,
}

impl Decision {
    /// On a join, as far as it could be read.
    pub(crate) fn of_join(
        node: &str,
        source: Option<&JoinSource>,
        outcome: Result<&JoinSpec, &Decline>,
        statistics: &StatisticsCache,
        estimate: Option<Estimate>,
    ) -> Self {
        let rows = source.map(|source| statistics.sides(source));
        Self {
            node: node.to_string(),
            detail: match outcome {
                Ok(spec) => spec.display.to_string(),
                Err(_) => source
                    .and_then(|s| s.filter.as_ref())
                    .map(ToString::to_string)
                    .unwrap_or_default(),
            },
            offloaded: outcome.is_ok(),
            strategy: outcome.ok().map(|spec| spec.theta.strategy.to_string()),
            left_rows: rows.and_then(|(left, _)| left.rows()),
            right_rows: rows.and_then(|(_, right)| right.rows()),
            estimate,
            stored: None,
            reason: match outcome {
                Ok(spec) => spec.algorithm(),
                Err(decline) => decline.to_string(),
            },
        }
    }

    /// On a scan whose columns stay on the device.
    pub(crate) fn of_scan(table: &Table, stored: StoredShare) -> Self {
        let fields = table.schema().fields().iter();
        let columns: Vec<&str> = fields.map(|field| field.name().as_str()).collect();
        Self {
            node: "DataSourceExec".into(),
            detail: columns.join(", "),
            offloaded: true,
            strategy: None,
            left_rows: None,
            right_rows: None,
            estimate: None,
            stored: Some(stored),
            reason: match (stored.resident, stored.missing) {
                (_, 0) => "its columns are on the device",
                (0, _) => {
                    "its columns are sent, and stay on the device as far as bowtie.cache allows"
                }
                _ => "a part of its columns is on the device, and the rest is sent",
            }
            .into(),
        }
    }

    /// On a node that stays on the host between two device nodes.
    pub(crate) fn of_host_step(step: HostStep) -> Self {
        Self {
            node: step.node,
            reason: match step.why {
                Why::NotCompiled => format!(
                    "it interrupts two device nodes: {} is not supported on the device, so rows are transferred to the host and back",
                    step.expression
                ),
                Why::ManyValues => format!(
                    "it interrupts two device nodes: {} has no program, and its column may have many distinct values, so rows are transferred to the host and back",
                    step.expression
                ),
            },
            detail: step.expression,
            offloaded: false,
            strategy: None,
            left_rows: None,
            right_rows: None,
            estimate: None,
            stored: None,
        }
    }

    /// On a sort or a limit of `input` rows.
    pub(crate) fn of_end(
        node: &str,
        detail: String,
        outcome: Result<&str, &Decline>,
        input: Option<RowEstimate>,
        estimate: Option<Estimate>,
    ) -> Self {
        Self {
            node: node.to_string(),
            detail,
            offloaded: outcome.is_ok(),
            strategy: None,
            left_rows: input.and_then(|rows| rows.rows()),
            right_rows: None,
            estimate,
            stored: None,
            reason: match outcome {
                Ok(how) => how.into(),
                Err(decline) => decline.to_string(),
            },
        }
    }

    /// On an aggregation; `separate` says why it is not fused with the join below it.
    pub(crate) fn of_aggregate(
        node: &str,
        source: &GroupSource<'_>,
        outcome: Result<&GroupSpec, &Decline>,
        separate: Option<&Decline>,
        statistics: &StatisticsCache,
        estimate: Option<Estimate>,
    ) -> Self {
        let names = source.bottom.aggr_expr().iter().map(|a| a.name());
        Self {
            node: node.to_string(),
            detail: names.collect::<Vec<_>>().join(", "),
            offloaded: outcome.is_ok(),
            strategy: outcome
                .ok()
                .and_then(GroupSpec::strategy)
                .map(str::to_string),
            left_rows: statistics.rows(source.bottom.input()).rows(),
            right_rows: None,
            estimate,
            stored: None,
            reason: match (outcome, separate) {
                (Ok(_), None) => "aggregated on the device".into(),
                (Ok(_), Some(separate)) => {
                    format!("aggregated on the device, not fused with the join below: {separate}")
                }
                (Err(decline), None) => decline.to_string(),
                (Err(decline), Some(separate)) => format!("{separate}; {decline}"),
            },
        }
    }
}
