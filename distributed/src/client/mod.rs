//! Clients of Ballista with bowtie: sessions whose queries run on executors.

mod cancel;

use std::sync::Arc;

use async_trait::async_trait;
use ballista::prelude::{SessionConfigExt, SessionContextExt};
use ballista_core::execution_plans::DistributedQueryExec;
use ballista_core::planner::BallistaQueryPlanner;
use datafusion::catalog::Session;
use datafusion::catalog::view::ViewTable;
use datafusion::common::config_datafusion_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::listing::ListingTable;
use datafusion::datasource::source_as_provider;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_bowtie::{BowtieConfigExt, BowtieContextExt, BowtieOptions};
use datafusion_proto::protobuf::LogicalPlanNode;
use url::Url;

use crate::client::cancel::CancelOnDrop;

/// A session whose queries run on the executors of a scheduler, at `df://host:port`. Those of tables that only this process has, such as tables
/// in memory and `bowtie_devices()`, run in this process.
///
/// It does not connect before the first query. Equi-joins are planned as hash joins: `SET datafusion.optimizer.prefer_hash_join = false` has
/// sort-merge joins, which DataFusion spills to disk.
///
/// # Errors
/// If `url` has no host, or as [`enable_bowtie`](BowtieContextExt::enable_bowtie).
pub async fn connect(url: &str, options: BowtieOptions) -> Result<SessionContext> {
    let config = configuration();
    connect_with(url, config, Default::default(), options).await
}

/// The configuration of [`connect`]: Ballista's, with hash joins.
pub fn configuration() -> SessionConfig {
    // Of sort-merge joins, Ballista's own default, neither side is ever sent to all tasks.
    SessionConfig::new_with_ballista().set_bool("datafusion.optimizer.prefer_hash_join", true)
}

/// As [`connect`], with a configuration and a runtime of your own. The runtime's object stores are those in which this process looks for
/// files; executors have their own.
///
/// # Errors
/// As [`connect`].
pub async fn connect_with(
    url: &str,
    config: SessionConfig,
    runtime: Arc<RuntimeEnv>,
    options: BowtieOptions,
) -> Result<SessionContext> {
    let config = config
        .upgrade_for_ballista()
        .with_information_schema(true)
        // A client that is told of its job learns the job's id when it has ended, too late to cancel it.
        .set_bool("ballista.client.pull", true)
        .with_bowtie_options(options);
    let planner = ClientPlanner::new(url, &config)?;
    let config = config.with_ballista_query_planner(Arc::new(planner));
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime)
        .with_default_features();
    // Ballista replaces the functions of a session, so those of bowtie come later.
    let context = SessionContext::remote_with_state(url, state.build()).await?;
    context.enable_bowtie()
}

/// Sends queries to the scheduler, but those that read what only this process has.
#[derive(Debug)]
struct ClientPlanner {
    scheduler: String,
    remote: BallistaQueryPlanner<LogicalPlanNode>,
}

impl ClientPlanner {
    fn new(url: &str, config: &SessionConfig) -> Result<Self> {
        let wanted = "a scheduler has an address such as df://localhost:50050";
        let parsed = Url::parse(url).map_err(|e| config_datafusion_err!("{url}: {e}: {wanted}"))?;
        let host = parsed.host();
        let host = host.ok_or_else(|| config_datafusion_err!("{url}: {wanted}"))?;
        let scheduler = format!("http://{host}:{}", parsed.port().unwrap_or(50050));
        let codec = config.ballista_logical_extension_codec();
        let options = config.ballista_config();
        let remote = BallistaQueryPlanner::with_extension(scheduler.clone(), options, codec);
        Ok(Self { scheduler, remote })
    }
}

#[async_trait]
impl QueryPlanner for ClientPlanner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if is_local(plan)? {
            let planner = DefaultPhysicalPlanner::default();
            return planner.create_physical_plan(plan, session).await;
        }
        let planned = self.remote.create_physical_plan(plan, session).await?;
        Ok(
            match planned.is::<DistributedQueryExec<LogicalPlanNode>>() {
                true => Arc::new(CancelOnDrop::new(planned, self.scheduler.clone())),
                false => planned,
            },
        )
    }
}

/// Whether a plan reads a table that is neither of files nor a view.
fn is_local(plan: &LogicalPlan) -> Result<bool> {
    let mut local = false;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(table) = source_as_provider(&scan.source)
        {
            // That of a recursive query stays: no message of DataFusion has such plans.
            local |= !table.is::<ListingTable>() && !table.is::<ViewTable>();
        }
        Ok::<_, DataFusionError>(match local {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(local)
}
