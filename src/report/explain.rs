//! [`explain`]: the plan of a query, with every node explained. Nothing runs.

use std::any::Any;
use std::sync::Arc;

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::DataFrame;

use crate::compat::rule_places::REQUIREMENTS;
use crate::options::BowtieOptions;
pub(super) use crate::plan::explain::recorder::Purpose;
use crate::plan::explain::recorder::Recorder;
use crate::plan::rule::BowtieRule;
#[cfg(feature = "stages")]
use crate::plan::stage::rule::BowtieStageRule;
use crate::report::build::report;
use crate::report::plan_report::PlanReport;
use crate::runtime::process::BowtieRuntime;
use crate::runtime::session_devices::SessionDevices;

/// Plans a query as its session would, and tells of every node of the plan where it runs and why. Nothing runs. What
/// `SELECT * FROM bowtie_explain('…')` shows as rows.
///
/// With `bowtie.device = 'cuda'` on a machine without a GPU the plan is that of a machine with one, such as an H100.
///
/// ```
/// use datafusion::prelude::*;
/// use datafusion_bowtie::{BowtieContextExt, Verdict};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> datafusion::error::Result<()> {
/// let ctx = SessionContext::new().enable_bowtie()?;
/// ctx.sql("SET bowtie.offload = 'force'").await?;
/// ctx.sql("SET bowtie.device = 'host'").await?;
/// let query = "SELECT count(*) FROM (VALUES (1), (2)) r(a) JOIN (VALUES (2), (3)) s(a) ON r.a < s.a";
/// let report = datafusion_bowtie::explain(&ctx.sql(query).await?).await?;
/// let joins = report.nodes.iter().filter(|node| node.verdict == Verdict::Offloaded);
/// assert_eq!(joins.count(), 1);
/// println!("{report}");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If the query cannot be planned, or its session lacks bowtie.
pub async fn explain(query: &DataFrame) -> Result<PlanReport> {
    let (state, plan) = query.clone().into_parts();
    explain_plan(&state, &plan).await
}

/// As [`explain`], of a logical plan.
pub(crate) async fn explain_plan(state: &SessionState, plan: &LogicalPlan) -> Result<PlanReport> {
    let Some(alone) = alone(state) else {
        return Ok(plan_and_report(state, plan, Purpose::Show).await?.report);
    };
    let mut report = plan_and_report(&alone, plan, Purpose::Show).await?.report;
    report.summary.imagined = Some(ON_WORKERS.into());
    Ok(report)
}

const ON_WORKERS: &str = "this session leaves it to workers what they offload in their stages of the query: this is what the devices of this machine would do with the whole query";

/// For a session that offloads on workers, one that does so itself.
fn alone(state: &SessionState) -> Option<SessionState> {
    let known = state.physical_optimizers();
    let offloads = known.iter().any(|rule| rule.name() == BowtieRule::NAME);
    let options = state.config_options().extensions.get::<BowtieOptions>();
    if offloads || options.is_none() {
        return None;
    }
    let devices = SessionDevices::of(BowtieRuntime::shared());
    let own: Arc<dyn PhysicalOptimizerRule + Send + Sync> =
        Arc::new(BowtieRule::new(Arc::new(devices)));
    let mut rules = vec![];
    for rule in known {
        if rule.name() == REQUIREMENTS {
            rules.push(Arc::clone(&own));
        }
        #[cfg(feature = "stages")]
        if rule.name() == BowtieStageRule::NAME {
            continue;
        }
        rules.push(Arc::clone(rule));
    }
    let mut alone =
        SessionStateBuilder::new_from_existing(state.clone()).with_physical_optimizer_rules(rules);
    *alone.query_planner() = None;
    Some(alone.build())
}

/// A plan with its report.
pub(super) struct Planned {
    pub(super) plan: Arc<dyn ExecutionPlan>,
    pub(super) report: PlanReport,
    pub(super) runtime: Arc<BowtieRuntime>,
}

/// Plans a query, and explains every node of its plan.
///
/// # Errors
/// If the query cannot be planned, or its session lacks bowtie.
pub(super) async fn plan_and_report(
    state: &SessionState,
    plan: &LogicalPlan,
    purpose: Purpose,
) -> Result<Planned> {
    let recorder = Recorder::wanted(purpose);
    let mut rule = None;
    let rules: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> = state
        .physical_optimizers()
        .iter()
        .map(|known| {
            let any: &dyn Any = known.as_ref();
            let Some(own) = any.downcast_ref::<BowtieRule>() else {
                return Arc::clone(known);
            };
            let recording = Arc::new(own.recording(recorder.clone()));
            rule = Some(Arc::clone(&recording));
            recording
        })
        .collect();
    let Some(rule) = rule else {
        return Err(DataFusionError::Plan(
            "the session of the query lacks bowtie: create it by SessionStateBuilder::with_bowtie, or call enable_bowtie on its context".into(),
        ));
    };
    let planner = SessionStateBuilder::new_from_existing(state.clone())
        .with_physical_optimizer_rules(rules)
        .build();
    let plan = planner.create_physical_plan(plan).await?;
    let options = BowtieOptions::of(state.config_options());
    let imagined = rule.is_imagined(&options).then(|| {
        format!(
            "this machine has no {}; it is planned for the memory of an H100 and the rates of an H200 and its host",
            options.device
        )
    });
    let report = report(&plan, &recorder.take(), rule.runtime(), imagined);
    Ok(Planned {
        plan,
        report,
        runtime: Arc::clone(rule.runtime()),
    })
}
