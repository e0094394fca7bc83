//! [`Decision`]: what was decided on a node, for `bowtie_explain`.

use crate::error::Decline;
use crate::plan::choose::placement::Estimate;
use crate::plan::sources::aggregate_source::GroupSource;
use crate::plan::sources::join_source::JoinSource;
use crate::plan::statistics::statistics_cache::{RowEstimate, StatisticsCache};
use crate::plan::transfers::{HostStep, Why};
use crate::spec::aggregate::GroupSpec;
use crate::spec::join::JoinSpec;

/// What was decided on one node of a plan.
#[derive(Debug, Clone)]
pub(crate) struct Decision {
    /// The name of DataFusion's node.
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
    /// Why it was declined, or by which algorithm it runs.
    pub reason: String,
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
            strategy: outcome.ok().map(|spec| spec.theta.strategy().to_string()),
            left_rows: rows.and_then(|(left, _)| left.rows()),
            right_rows: rows.and_then(|(_, right)| right.rows()),
            estimate,
            reason: match outcome {
                Ok(spec) => spec.algorithm(),
                Err(decline) => decline.to_string(),
            },
        }
    }

    /// On a node that stays on the host between two device nodes.
    pub(crate) fn of_host_step(step: HostStep) -> Self {
        Self {
            node: step.node,
            reason: match step.why {
                Why::NotCompiled => format!(
                    "it runs in DataFusion between two operators of the device, so rows are sent to the host and back: {} is not supported on the device",
                    step.expression
                ),
                Why::ManyValues => format!(
                    "it runs in DataFusion between two operators of the device, so rows are sent to the host and back: {} cannot be compiled, and its column may have many distinct values",
                    step.expression
                ),
            },
            detail: step.expression,
            offloaded: false,
            strategy: None,
            left_rows: None,
            right_rows: None,
            estimate: None,
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
