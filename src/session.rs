//! Start reading here: [`BowtieSessionExt::with_bowtie`] registers options, rule and functions in a
//! `SessionStateBuilder`, [`BowtieContextExt::enable_bowtie`] in a `SessionContext` that exists. Devices are opened when a
//! query first needs one (`runtime/session_devices.rs`).

use std::any::Any;
use std::sync::Arc;

use datafusion::catalog::{TableFunction, TableFunctionImpl};
use datafusion::common::config::ConfigField;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder, Statement};
use datafusion::prelude::{DataFrame, SessionConfig, SessionContext};

use crate::clusters::function::ClustersFunction;
use crate::compat::private_types::is_default_planner;
use crate::compat::rule_places::{FILTER_PUSHDOWN, SIMPLIFICATION, before_requirements, behind};
#[cfg(feature = "stages")]
use crate::functions::range_functions;
use crate::functions::{set_functions, text_functions};
use crate::options::BowtieOptions;
use crate::plan::aggregated_values::ProjectSetValues;
use crate::plan::cache::cache_function::CacheFunction;
use crate::plan::cache::pin_function::{Action, PinFunction};
use crate::plan::disjunctions::rule::SplitDisjunctions;
use crate::plan::partners::function::PartnersFunction;
use crate::plan::partners::lateral::LateralLimit;
#[cfg(feature = "stages")]
use crate::plan::ranges::rule::ExchangeByRanges;
use crate::plan::rule::BowtieRule;
use crate::plan::snapshots::query_planner::BowtieQueryPlanner;
use crate::report::devices_function::DevicesFunction;
use crate::report::explain_function::ExplainFunction;
use crate::report::stats_function::StatsFunction;
use crate::runtime::process::BowtieRuntime;
use crate::runtime::session_devices::SessionDevices;

/// Adds datafusion-bowtie to a session that exists.
pub trait BowtieContextExt: Sized {
    /// Adds what [`with_bowtie`](BowtieSessionExt::with_bowtie) adds. The session stays the same: its tables, functions,
    /// options and id, and every clone of the context has bowtie from then on. Statements that were prepared before are to
    /// be prepared again. It may be called twice.
    ///
    /// ```
    /// use datafusion::prelude::*;
    /// use datafusion_bowtie::BowtieContextExt;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> datafusion::error::Result<()> {
    /// let ctx = SessionContext::new().enable_bowtie()?;
    /// ctx.sql("SELECT * FROM bowtie_devices()").await?.show().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As `with_bowtie`.
    fn enable_bowtie(self) -> Result<Self> {
        self.enable_bowtie_runtime(BowtieRuntime::shared())
    }

    /// As [`enable_bowtie`](BowtieContextExt::enable_bowtie), with a runtime other than the process's shared one.
    ///
    /// # Errors
    /// As `with_bowtie`.
    fn enable_bowtie_runtime(self, runtime: Arc<BowtieRuntime>) -> Result<Self>;

    /// Sets an option, by its name without `bowtie.`, back to its default. `RESET` of DataFusion 55 does not reach options of extensions;
    /// [`execute_bowtie_reset`](BowtieContextExt::execute_bowtie_reset) executes such statements.
    ///
    /// ```
    /// use datafusion::prelude::*;
    /// use datafusion_bowtie::BowtieContextExt;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> datafusion::error::Result<()> {
    /// let ctx = SessionContext::new().enable_bowtie()?;
    /// ctx.sql("SET bowtie.offload = 'force'").await?;
    /// ctx.reset_bowtie_option("offload")?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If there is no such option.
    fn reset_bowtie_option(&self, name: &str) -> Result<()>;

    /// Executes the statement `RESET bowtie.<option>`, which `SessionContext::execute_logical_plan` of DataFusion 55 refuses; its result has no
    /// rows. `None` if `plan` is of another statement, which is left to DataFusion. A program that runs statements of its users
    /// calls it for each of them:
    ///
    /// ```
    /// use datafusion::prelude::*;
    /// use datafusion_bowtie::BowtieContextExt;
    ///
    /// async fn run(ctx: &SessionContext, statement: &str) -> datafusion::error::Result<DataFrame> {
    ///     let plan = ctx.state().create_logical_plan(statement).await?;
    ///     match ctx.execute_bowtie_reset(&plan)? {
    ///         Some(done) => Ok(done),
    ///         None => ctx.execute_logical_plan(plan).await,
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> datafusion::error::Result<()> {
    /// let ctx = SessionContext::new().enable_bowtie()?;
    /// run(&ctx, "SET bowtie.offload = 'force'").await?;
    /// run(&ctx, "RESET bowtie.offload").await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the statement names a `bowtie.` option that does not exist.
    fn execute_bowtie_reset(&self, plan: &LogicalPlan) -> Result<Option<DataFrame>>;
}

impl BowtieContextExt for SessionContext {
    fn reset_bowtie_option(&self, name: &str) -> Result<()> {
        let state = self.state_ref();
        let mut state = state.write();
        let extensions = &mut state.config_mut().options_mut().extensions;
        match extensions.get_mut::<BowtieOptions>() {
            Some(options) => ConfigField::reset(options, name),
            None => ConfigField::reset(&mut BowtieOptions::default(), name),
        }
    }

    fn execute_bowtie_reset(&self, plan: &LogicalPlan) -> Result<Option<DataFrame>> {
        let LogicalPlan::Statement(Statement::ResetVariable(reset)) = plan else {
            return Ok(None);
        };
        let Some(name) = reset.variable.strip_prefix("bowtie.") else {
            return Ok(None);
        };
        self.reset_bowtie_option(name)?;
        let empty = LogicalPlanBuilder::empty(false).build()?;
        Ok(Some(DataFrame::new(self.state(), empty)))
    }

    fn enable_bowtie_runtime(self, runtime: Arc<BowtieRuntime>) -> Result<Self> {
        let state = self.state_ref();
        // Held, so that nothing that others register meanwhile is lost.
        let mut state = state.write();
        let with_bowtie = SessionStateBuilder::new_from_existing(state.clone())
            .with_session_id(state.session_id().to_string())
            .with_bowtie_runtime(runtime)?
            .build();
        *state = with_bowtie;
        drop(state);
        Ok(self)
    }
}

/// Sets the options of datafusion-bowtie in a session's configuration.
pub trait BowtieConfigExt: Sized {
    /// The configuration with these options.
    fn with_bowtie_options(self, options: BowtieOptions) -> Self;
}

impl BowtieConfigExt for SessionConfig {
    fn with_bowtie_options(mut self, options: BowtieOptions) -> Self {
        self.options_mut().extensions.insert(options);
        self
    }
}

/// Registers datafusion-bowtie.
pub trait BowtieSessionExt: Sized {
    /// Adds
    ///
    /// - the `bowtie.*` options;
    /// - the physical optimizer rule `bowtie`, and the logical ones `bowtie_lateral_limit`, `bowtie_split_disjunctions` and
    ///   `bowtie_project_set_values`;
    /// - a query planner in front of the session's own, which lets scans of tables in memory share their batches;
    /// - the set functions `array_overlap`, `array_jaccard`, `array_dice`, `array_cosine` and `array_containment`, those that make
    ///   sets of text, `tokens`, `shingles` and `minhash`, and those that coordinators put into plans, `bowtie_range` and
    ///   `bowtie_ranges`;
    /// - the table functions `bowtie_explain`, `bowtie_devices`, `bowtie_stats`, `bowtie_cache`, `bowtie_pin`, `bowtie_unpin`,
    ///   `bowtie_clusters`, `bowtie_asof`, `bowtie_nearest` and `bowtie_similar`.
    ///
    /// Options that the session configuration already has are kept. A configuration that is set later replaces bowtie's
    /// options too: give it some by [`with_bowtie_options`](BowtieConfigExt::with_bowtie_options). Call it after any call
    /// that replaces the optimizer rules; `with_default_features` may come before or after it. It may be called
    /// twice; the second runtime counts.
    ///
    /// # Errors
    /// If the session lacks a rule of DataFusion next to which one of bowtie's stands: the physical rule `EnsureRequirements`, and the logical
    /// rules `simplify_expressions` and `push_down_filter`.
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

    /// Adds what [`with_bowtie`](BowtieSessionExt::with_bowtie) adds, but for what offloads: of a session whose plans are offloaded elsewhere,
    /// stage by stage, by a `BowtieStageRule` of each worker (feature `stages`). Its plans have nodes of DataFusion alone, except
    /// for `bowtie_clusters`. A range join of two long sides becomes a join of equal ranges, which engines can divide
    /// (`bowtie.broadcast_rows`).
    ///
    /// # Errors
    /// As `with_bowtie`.
    #[cfg(feature = "stages")]
    fn with_bowtie_coordinator(self) -> Result<Self> {
        self.with_bowtie_coordinator_runtime(BowtieRuntime::shared())
    }

    /// As [`with_bowtie_coordinator`](BowtieSessionExt::with_bowtie_coordinator), with a runtime other than the process's shared one.
    ///
    /// # Errors
    /// As `with_bowtie`.
    #[cfg(feature = "stages")]
    fn with_bowtie_coordinator_runtime(self, runtime: Arc<BowtieRuntime>) -> Result<Self>;
}

impl BowtieSessionExt for SessionStateBuilder {
    #[cfg(feature = "stages")]
    fn with_bowtie_coordinator_runtime(mut self, runtime: Arc<BowtieRuntime>) -> Result<Self> {
        register(&mut self, &Arc::new(SessionDevices::of(runtime)))?;
        let rules = &mut self.physical_optimizers().get_or_insert_default().rules;
        rules.retain(|known| known.name() != ExchangeByRanges::NAME);
        let place = before_requirements(rules)?;
        rules.insert(place, Arc::new(ExchangeByRanges));
        Ok(self)
    }

    fn with_bowtie_runtime(mut self, runtime: Arc<BowtieRuntime>) -> Result<Self> {
        let devices = Arc::new(SessionDevices::of(Arc::clone(&runtime)));
        register(&mut self, &devices)?;
        let planner = self.query_planner();
        let inner = planner.take().and_then(inner_planner);
        *planner = Some(Arc::new(BowtieQueryPlanner { runtime, inner }));

        let rule = Arc::new(BowtieRule::new(devices));
        let rules = &mut self.physical_optimizers().get_or_insert_default().rules;
        rules.retain(|known| known.name() != BowtieRule::NAME);
        let place = before_requirements(rules)?;
        rules.insert(place, rule);
        Ok(self)
    }
}

/// Adds options, functions and logical rules.
fn register(state: &mut SessionStateBuilder, devices: &Arc<SessionDevices>) -> Result<()> {
    let config = state.config().get_or_insert_default();
    let extensions = &mut config.options_mut().extensions;
    if extensions.get::<BowtieOptions>().is_none() {
        extensions.insert(BowtieOptions::default());
    }

    let pin = |action| {
        let devices = Arc::clone(devices);
        Arc::new(PinFunction { devices, action })
    };
    let table_functions: [(&str, Arc<dyn TableFunctionImpl>); 7] = [
        (ExplainFunction::NAME, Arc::new(ExplainFunction)),
        (DevicesFunction::NAME, Arc::new(DevicesFunction)),
        (StatsFunction::NAME, Arc::new(StatsFunction)),
        (ClustersFunction::NAME, Arc::new(ClustersFunction)),
        (
            CacheFunction::NAME,
            Arc::new(CacheFunction {
                runtime: Arc::clone(devices.runtime()),
            }),
        ),
        (Action::Pin.name(), pin(Action::Pin)),
        (Action::Unpin.name(), pin(Action::Unpin)),
    ];
    let of_partners = PartnersFunction::ALL.map(|function| {
        let boxed: Arc<dyn TableFunctionImpl> = Arc::new(function);
        (function.name(), boxed)
    });
    let functions = state.table_functions().get_or_insert_default();
    for (name, function) in table_functions.into_iter().chain(of_partners) {
        let function = TableFunction::new(name.to_string(), function);
        functions.insert(name.to_string(), Arc::new(function));
    }

    let functions = state.scalar_functions().get_or_insert_default();
    functions.extend(set_functions());
    #[cfg(feature = "stages")]
    functions.extend(range_functions());
    // The names of these are words that others may have functions of.
    for function in text_functions() {
        let mut known = functions.iter();
        if !known.any(|known| known.name() == function.name()) {
            functions.push(function);
        }
    }

    let rules = &mut state.optimizer().get_or_insert_default().rules;
    let own = [
        LateralLimit::NAME,
        SplitDisjunctions::NAME,
        ProjectSetValues::NAME,
    ];
    rules.retain(|known| !own.contains(&known.name()));
    let simplified = behind(SIMPLIFICATION, rules)?;
    rules.insert(simplified, Arc::new(LateralLimit));
    let filtered = behind(FILTER_PUSHDOWN, rules)?;
    rules.insert(filtered, Arc::new(SplitDisjunctions));
    rules.insert(filtered, Arc::new(ProjectSetValues));
    Ok(())
}

/// The planner that bowtie's calls: none where that is DataFusion's default, which bowtie's then is in place of.
fn inner_planner(
    planner: Arc<dyn QueryPlanner + Send + Sync>,
) -> Option<Arc<dyn QueryPlanner + Send + Sync>> {
    let any: &dyn Any = planner.as_ref();
    if let Some(own) = any.downcast_ref::<BowtieQueryPlanner>() {
        return own.inner.clone();
    }
    (!is_default_planner(&planner)).then_some(planner)
}
