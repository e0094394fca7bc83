//! One engine of a contest: a DataFusion session with this crate registered and the engine's options set.

use std::sync::Arc;
use std::time::Instant;

use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::{displayable, execute_stream};
use datafusion::prelude::SessionContext;
use datafusion_bowtie::BowtieSessionExt;
use futures::StreamExt;

use super::Result;
use super::arguments::Arguments;

/// The label of stock DataFusion, the base of every ratio.
pub const BASELINE: &str = "datafusion";

/// What an engine's time grows with, and so how it is extrapolated to a larger size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// The pairs that it tests, as in a nested loop: a missing time can be extrapolated.
    Pairs,
    /// The input and output rows, up to a logarithm.
    Rows,
}

/// A name and the options of an engine.
#[derive(Clone, Debug)]
pub struct Engine {
    pub label: &'static str,
    pub growth: Growth,
    settings: Vec<(&'static str, &'static str)>,
}

impl Engine {
    /// Stock DataFusion: `bowtie.offload` off.
    pub fn datafusion() -> Self {
        Self::new(BASELINE, Growth::Pairs, &[("bowtie.offload", "off")])
    }

    /// An engine of this crate. `offload` is `force`, so that a cell shows the operator at every size, and not the
    /// choice between it and the nested loop.
    pub fn bowtie(
        label: &'static str,
        growth: Growth,
        settings: &[(&'static str, &'static str)],
    ) -> Self {
        let mut engine = Self::new(label, growth, &[("bowtie.offload", "force")]);
        engine.settings.extend_from_slice(settings);
        engine
    }

    /// An engine with any options.
    pub fn new(
        label: &'static str,
        growth: Growth,
        settings: &[(&'static str, &'static str)],
    ) -> Self {
        Self {
            label,
            growth,
            settings: settings.to_vec(),
        }
    }
}

/// An opened engine.
pub struct Session {
    pub engine: Engine,
    pub ctx: SessionContext,
}

impl Session {
    /// Opens a session on the device of the command line, with the engine's options.
    pub async fn open(engine: Engine, arguments: &Arguments) -> Result<Self> {
        let state = SessionStateBuilder::new()
            .with_default_features()
            .with_bowtie()?
            .build();
        let ctx = SessionContext::new_with_state(state);
        let session = Self { engine, ctx };
        session.set("bowtie.device", &arguments.device).await?;
        if let Some(memory) = &arguments.memory {
            session.set("bowtie.device_memory", memory).await?;
        }
        for (name, value) in &arguments.options {
            session.set(&format!("bowtie.{name}"), value).await?;
        }
        for (key, value) in &session.engine.settings {
            session.set(key, value).await?;
        }
        Ok(session)
    }

    async fn set(&self, key: &str, value: &str) -> Result<()> {
        let statement = format!("SET {key} = '{value}'");
        self.ctx.sql(&statement).await?.collect().await?;
        Ok(())
    }

    /// Registers the tables, replacing earlier ones with the same names.
    pub fn load(&self, tables: &[(&'static str, Arc<dyn TableProvider>)]) -> Result<()> {
        for (name, provider) in tables {
            self.ctx.deregister_table(*name)?;
            self.ctx.register_table(*name, Arc::clone(provider))?;
        }
        Ok(())
    }

    /// The phases of one run with their times, and the plan with its metrics.
    pub async fn analyze(&self, sql: &str) -> Result<String> {
        let start = Instant::now();
        let query = self.ctx.sql(sql).await?;
        let logical = start.elapsed();
        let plan = query.create_physical_plan().await?;
        let physical = start.elapsed() - logical;
        let mut rows = execute_stream(Arc::clone(&plan), self.ctx.task_ctx())?;
        while let Some(batch) = rows.next().await {
            batch?;
        }
        let executed = start.elapsed() - logical - physical;
        let metrics = DisplayableExecutionPlan::with_metrics(plan.as_ref());
        Ok(format!(
            "logical plan {logical:.1?}, physical plan {physical:.1?}, execution {executed:.1?}\n{}",
            metrics.indent(false)
        ))
    }

    /// Bytes of the columns that a run of the query reads on the device: those that were there, and those that were sent. 0 without a scan
    /// there.
    pub async fn device_bytes(&self, sql: &str) -> Result<usize> {
        let plan = self.ctx.sql(sql).await?.create_physical_plan().await?;
        let mut rows = execute_stream(Arc::clone(&plan), self.ctx.task_ctx())?;
        while let Some(batch) = rows.next().await {
            batch?;
        }
        let mut bytes = 0;
        plan.apply(|node| {
            let metrics = node.metrics().filter(|_| node.name() == "BowtieScanExec");
            for name in ["resident_bytes", "uploaded_bytes"] {
                let sum = metrics
                    .as_ref()
                    .and_then(|metrics| metrics.sum_by_name(name));
                bytes += sum.map_or(0, |sum| sum.as_usize());
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(bytes)
    }

    /// The physical plan as text: equal to the baseline's if this crate replaced nothing.
    pub async fn plan(&self, sql: &str) -> Result<String> {
        let plan = self.ctx.sql(sql).await?.create_physical_plan().await?;
        Ok(displayable(plan.as_ref()).indent(false).to_string())
    }
}
