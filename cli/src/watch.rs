//! [`Watched`]: a session whose queries show their progress.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::config::{ConfigOptions, Dialect};
use datafusion::dataframe::DataFrame;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::SessionState;
use datafusion::execution::{SessionStateBuilder, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use datafusion_cli::cli_context::CliSessionContext;
use object_store::ObjectStore;
use url::Url;

use crate::progress::Progress;
use crate::watched_exec::WatchedExec;

/// A session whose queries show their progress.
pub(crate) struct Watched {
    pub(crate) context: SessionContext,
    pub(crate) progress: Progress,
}

impl Watched {
    /// The SQL dialect of the session.
    pub(crate) fn dialect(&self) -> Dialect {
        self.context.state().config_options().sql_parser.dialect
    }
}

#[async_trait]
impl CliSessionContext for Watched {
    fn task_ctx(&self) -> Arc<TaskContext> {
        self.context.task_ctx()
    }

    fn session_state(&self) -> SessionState {
        self.context.state()
    }

    fn register_object_store(
        &self,
        url: &Url,
        store: Arc<dyn ObjectStore>,
    ) -> Option<Arc<dyn ObjectStore + 'static>> {
        self.context.register_object_store(url, store)
    }

    fn register_table_options_extension_from_scheme(&self, scheme: &str) {
        CliSessionContext::register_table_options_extension_from_scheme(&self.context, scheme);
    }

    async fn execute_logical_plan(&self, plan: LogicalPlan) -> Result<DataFrame, DataFusionError> {
        let query = self.context.execute_logical_plan(plan).await?;
        // What shows a plan shows it without the node that watches.
        let shows = matches!(
            query.logical_plan(),
            LogicalPlan::Explain(_) | LogicalPlan::Analyze(_)
        );
        if self.progress.is_hidden() || shows {
            return Ok(query);
        }
        let (state, plan) = query.into_parts();
        let rule = Watch(self.progress.clone());
        let state = SessionStateBuilder::new_from_existing(state)
            .with_physical_optimizer_rule(Arc::new(rule))
            .build();
        Ok(DataFrame::new(state, plan))
    }
}

/// Puts the node that watches above a plan.
#[derive(Debug)]
struct Watch(Progress);

impl PhysicalOptimizerRule for Watch {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(WatchedExec::new(plan, self.0.clone())))
    }

    fn name(&self) -> &str {
        "watch"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
