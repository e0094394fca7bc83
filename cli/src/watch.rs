//! [`Watched`]: a session whose queries show their progress, and end at Ctrl-C.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::config::{ConfigOptions, Dialect};
use datafusion::dataframe::DataFrame;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::SessionState;
use datafusion::execution::{SessionStateBuilder, TaskContext};
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use datafusion_bowtie::BowtieContextExt as _;
use datafusion_cli::cli_context::CliSessionContext;
use object_store::ObjectStore;
use url::Url;

use crate::progress::Progress;
use crate::stop::{Running, Stop, stoppable};
use crate::watched_exec::WatchedExec;

/// A session whose queries show their progress, and end at Ctrl-C.
pub(crate) struct Watched {
    pub(crate) context: SessionContext,
    pub(crate) progress: Progress,
    /// The statement that Ctrl-C ends; `None` where it ends the process.
    pub(crate) running: Option<Running>,
}

impl Watched {
    /// The SQL dialect of the session.
    pub(crate) fn dialect(&self) -> Dialect {
        self.context.state().config_options().sql_parser.dialect
    }

    /// A state whose plans are watched. `is_shown`: the plan is shown after its run, without the nodes that watch.
    fn watching(&self, state: SessionState, is_shown: bool) -> SessionState {
        let rule = Watch {
            progress: (!is_shown && !self.progress.is_hidden()).then(|| self.progress.clone()),
            stop: self.running.as_ref().map(Running::stop),
            is_shown,
        };
        SessionStateBuilder::new_from_existing(state)
            .with_physical_optimizer_rule(Arc::new(rule))
            .build()
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
        if let Some(reset) = self.context.execute_bowtie_reset(&plan)? {
            return Ok(reset);
        }
        if self.running.is_none() && self.progress.is_hidden() {
            return self.context.execute_logical_plan(plan).await;
        }
        // It runs the query of CREATE TABLE … AS immediately.
        if matches!(plan, LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(_))) {
            let state = self.watching(self.context.state(), false);
            let watching = SessionContext::new_with_state(state);
            return watching.execute_logical_plan(plan).await;
        }
        let query = self.context.execute_logical_plan(plan).await?;
        let is_shown = match query.logical_plan() {
            LogicalPlan::Explain(_) => return Ok(query),
            LogicalPlan::Analyze(_) => true,
            _ => false,
        };
        let (state, plan) = query.into_parts();
        Ok(DataFrame::new(self.watching(state, is_shown), plan))
    }
}

/// Puts the node that watches above a plan, and lets its joins end at Ctrl-C.
#[derive(Debug)]
struct Watch {
    progress: Option<Progress>,
    stop: Option<Arc<Stop>>,
    is_shown: bool,
}

impl PhysicalOptimizerRule for Watch {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = match &self.stop {
            Some(stop) => stoppable(plan, stop, !self.is_shown)?,
            None => plan,
        };
        Ok(match &self.progress {
            Some(progress) => Arc::new(WatchedExec::new(plan, progress.clone())),
            None => plan,
        })
    }

    fn name(&self) -> &str {
        "watch"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
