//! Start reading here: [`BowtieSessionExt::with_bowtie`] registers options, rule and functions in a
//! `SessionStateBuilder`. Devices are opened when a query first needs one (`runtime/session_devices.rs`).

use std::sync::Arc;

use datafusion::catalog::{TableFunction, TableFunctionImpl};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionStateBuilder;

use crate::functions::set_functions;
use crate::options::BowtieOptions;
use crate::plan::cache::cache_function::CacheFunction;
use crate::plan::cache::pin_function::{Action, PinFunction};
use crate::plan::explain::devices_function::DevicesFunction;
use crate::plan::explain::explain_function::ExplainFunction;
use crate::plan::rule::BowtieRule;
use crate::plan::snapshots::query_planner::BowtieQueryPlanner;
use crate::runtime::process::BowtieRuntime;
use crate::runtime::session_devices::SessionDevices;

/// Registers datafusion-bowtie.
pub trait BowtieSessionExt: Sized {
    /// Adds the `bowtie.*` options, the physical optimizer rule, the set functions (`array_overlap`, `array_jaccard`,
    /// `array_dice`, `array_cosine`, `array_containment`), and the table functions `bowtie_explain`, `bowtie_devices`,
    /// `bowtie_cache`, `bowtie_pin` and `bowtie_unpin`.
    ///
    /// Options that the session configuration already has are kept. Call it once, after `with_config` and after any call
    /// that replaces the physical optimizer rules. `with_default_features` may come before or after it.
    ///
    /// # Errors
    /// If the physical optimizer rules lack `EnsureRequirements`, before which bowtie's rule is inserted, or if it was
    /// called before on this builder.
    ///
    /// # Example
    /// ```
    /// use datafusion::{execution::SessionStateBuilder, prelude::*};
    /// use datafusion_bowtie::BowtieSessionExt;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> datafusion::error::Result<()> {
    /// let state = SessionStateBuilder::new().with_default_features().with_bowtie()?.build();
    /// let ctx = SessionContext::new_with_state(state);
    /// ctx.sql("SET bowtie.offload = 'force'").await?;
    /// let sum = "SELECT count(*) FROM (VALUES (1), (2), (3)) r(a) JOIN (VALUES (2), (3)) s(a) ON r.a > s.a";
    /// let batches = ctx.sql(sum).await?.collect().await?;
    /// assert_eq!(batches[0].num_rows(), 1);
    /// # Ok(())
    /// # }
    /// ```
    fn with_bowtie(self) -> Result<Self> {
        self.with_bowtie_runtime(BowtieRuntime::shared())
    }

    /// As [`with_bowtie`](BowtieSessionExt::with_bowtie), with a runtime other than the process's shared one.
    ///
    /// # Errors
    /// As `with_bowtie`.
    fn with_bowtie_runtime(self, runtime: Arc<BowtieRuntime>) -> Result<Self>;
}

impl BowtieSessionExt for SessionStateBuilder {
    fn with_bowtie_runtime(mut self, runtime: Arc<BowtieRuntime>) -> Result<Self> {
        let config = self.config().get_or_insert_default();
        let extensions = &mut config.options_mut().extensions;
        if extensions.get::<BowtieOptions>().is_none() {
            extensions.insert(BowtieOptions::default());
        }

        let devices = Arc::new(SessionDevices::of(Arc::clone(&runtime)));
        let rule = Arc::new(BowtieRule::new(Arc::clone(&devices)));
        let pin = |action| {
            let devices = Arc::clone(&devices);
            Arc::new(PinFunction { devices, action })
        };
        let table_functions: [(&str, Arc<dyn TableFunctionImpl>); 5] = [
            (
                ExplainFunction::NAME,
                Arc::new(ExplainFunction::new(Arc::clone(&rule))),
            ),
            (DevicesFunction::NAME, Arc::new(DevicesFunction)),
            (
                CacheFunction::NAME,
                Arc::new(CacheFunction {
                    runtime: Arc::clone(&runtime),
                }),
            ),
            (Action::Pin.name(), pin(Action::Pin)),
            (Action::Unpin.name(), pin(Action::Unpin)),
        ];
        let functions = self.table_functions().get_or_insert_default();
        for (name, function) in table_functions {
            let function = TableFunction::new(name.to_string(), function);
            functions.insert(name.to_string(), Arc::new(function));
        }

        let planner = self.query_planner();
        *planner = Some(Arc::new(BowtieQueryPlanner {
            runtime: Arc::clone(&runtime),
            inner: planner.take(),
        }));

        self.scalar_functions()
            .get_or_insert_default()
            .extend(set_functions());

        let rules = &mut self.physical_optimizers().get_or_insert_default().rules;
        if rules.iter().any(|known| known.name() == BowtieRule::NAME) {
            return Err(DataFusionError::Configuration(
                "with_bowtie was called twice on one SessionStateBuilder: call it once".into(),
            ));
        }
        let before = rules
            .iter()
            .position(|known| known.name() == BowtieRule::BEFORE)
            .ok_or_else(|| {
                DataFusionError::Configuration(format!(
                    "with_bowtie must stand before the physical optimizer rule {}, which this session does not have: \
                     keep DataFusion's default rules, or put that rule back",
                    BowtieRule::BEFORE
                ))
            })?;
        rules.insert(before, rule);
        Ok(self)
    }
}
