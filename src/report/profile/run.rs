//! [`profile`]: runs a query, and tells what its nodes and its device did.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties as _, execute_stream};
use datafusion::prelude::DataFrame;
use futures::StreamExt as _;

use crate::device::trace::{Span, Trace};
use crate::options::BowtieOptions;
use crate::report::explain::{Planned, Purpose, plan_and_report};
use crate::report::plan_report::PlanSummary;
use crate::report::profile::memory::{MemoryCurve, Sampler};
use crate::report::profile::node_profile::NodeProfile;
use crate::report::profile::page::page;
use crate::runtime::list::{self, DeviceInfo};

/// What a query did: its plan with the metrics of every node, a timeline of copies, kernels and host work, and the
/// memory of the device.
///
/// [`profile`] makes one.
#[derive(Debug, Clone)]
pub struct Profile {
    pub(super) title: String,
    pub(super) sql: Option<String>,
    pub(super) planning: Duration,
    pub(super) execution: Duration,
    pub(super) rows: u64,
    pub(super) bytes: u64,
    pub(super) summary: PlanSummary,
    pub(super) device: Option<DeviceInfo>,
    /// Options that have another value than their default.
    pub(super) options: Vec<(String, String)>,
    pub(super) nodes: Vec<NodeProfile>,
    pub(super) spans: Vec<Span>,
    pub(super) dropped: usize,
    pub(super) memory: Option<MemoryCurve>,
}

/// Runs a query to its last row, and tells what its nodes and its device did. The rows are dropped.
///
/// Times of kernels and copies are the card's: events before and behind each of them tell when it ran. That costs a few
/// microseconds for each, so that the query takes a little longer than without.
///
/// ```
/// use datafusion::prelude::*;
/// use datafusion_bowtie::BowtieContextExt;
/// # #[tokio::main]
/// # async fn main() -> datafusion::error::Result<()> {
/// let ctx = SessionContext::new().enable_bowtie()?;
/// let query = "SELECT count(*) FROM (VALUES (1), (2)) r(a) JOIN (VALUES (2), (3)) s(a) ON r.a < s.a";
/// let profile = datafusion_bowtie::profile(ctx.sql(query).await?).await?.with_sql(query);
/// println!("{profile}");
/// # let file = std::env::temp_dir().join("bowtie-profile-doctest.html");
/// # #[cfg(any())]
/// std::fs::write("profile.html", profile.to_html())?;
/// # std::fs::write(&file, profile.to_html())?;
/// # std::fs::remove_file(&file)?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If the query fails, if it does not end, or if its session lacks bowtie.
pub async fn profile(query: DataFrame) -> Result<Profile> {
    let (state, logical) = query.into_parts();
    let begun = Instant::now();
    let Planned {
        plan,
        report,
        runtime,
    } = plan_and_report(&state, &logical, Purpose::Run).await?;
    let planning = begun.elapsed();
    if plan.boundedness().is_unbounded() {
        return Err(DataFusionError::Plan(
            "a query of an unbounded input does not end, so it has no profile: add a LIMIT".into(),
        ));
    }
    let options = changed_options(&BowtieOptions::of(state.config_options()));

    let trace = Trace::begin();
    let config = state
        .config()
        .clone()
        // The builder would put an empty one in place of the session's.
        .with_create_default_catalog_and_schema(false)
        .with_extension(Arc::clone(&trace));
    let context = SessionStateBuilder::new_from_existing(state)
        .with_config(config)
        .build()
        .task_ctx();
    let device = report.summary.device.clone();
    let sampler = device
        .clone()
        .map(|device| Sampler::start(&runtime, device, Arc::clone(&trace)));
    let (mut rows, mut bytes) = (0, 0);
    let mut batches = execute_stream(Arc::clone(&plan), context)?;
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        rows += batch.num_rows() as u64;
        bytes += batch.get_array_memory_size() as u64;
    }
    drop(batches);
    let execution = trace.now();
    let memory = sampler.map(|sampler| sampler.curve());
    // Cards are waited for, and devices listed, on a thread that may block.
    let of_trace = Arc::clone(&trace);
    let (spans, dropped, device) = tokio::task::spawn_blocking(move || {
        let (spans, dropped) = of_trace.finish();
        let known = device.and_then(|name| list::device(&name));
        (spans, dropped, known)
    })
    .await
    .map_err(|e| DataFusionError::ExecutionJoin(Box::new(e)))?;
    let nodes = NodeProfile::of_plan(&plan, report.nodes, &spans);
    Ok(Profile {
        title: title_of(&plan),
        sql: None,
        planning,
        execution,
        rows,
        bytes,
        summary: report.summary,
        device,
        options,
        nodes,
        spans,
        dropped,
        memory,
    })
}

/// Options that have another value than their default.
fn changed_options(options: &BowtieOptions) -> Vec<(String, String)> {
    use datafusion::common::config::ExtensionOptions as _;
    let defaults = BowtieOptions::default().entries().into_iter();
    let entries = options.entries().into_iter().zip(defaults);
    let changed = entries.filter(|(now, default)| now.value != default.value);
    changed
        .map(|(now, _)| (now.key, now.value.unwrap_or_default()))
        .collect()
}

fn title_of(plan: &Arc<dyn ExecutionPlan>) -> String {
    let schema = plan.schema();
    let columns: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
    let mut title = columns.join(", ");
    if let Some((end, _)) = title.char_indices().nth(60) {
        title.truncate(end);
        title.push('…');
    }
    title
}

impl Profile {
    /// With the query's text, which the page shows; the first line is its title.
    #[must_use]
    pub fn with_sql(self, sql: &str) -> Self {
        let lines = sql.lines().map(str::trim);
        let first = lines.into_iter().find(|line| !line.is_empty());
        let title: String = first.unwrap_or_default().chars().take(80).collect();
        Self {
            sql: Some(sql.to_string()),
            title,
            ..self
        }
    }

    /// With another title.
    #[must_use]
    pub fn with_title(self, title: &str) -> Self {
        Self {
            title: title.to_string(),
            ..self
        }
    }

    /// The time that planning took.
    pub fn planning_time(&self) -> Duration {
        self.planning
    }

    /// The time from the start of execution to the last row.
    pub fn execution_time(&self) -> Duration {
        self.execution
    }

    /// Rows of the result.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The profile as one page, which needs nothing but a browser: the plan as a tree, a timeline, memory, reasons.
    pub fn to_html(&self) -> String {
        page(&self.to_json())
    }
}

impl fmt::Display for Profile {
    /// The nodes with their rows and times.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        writeln!(
            f,
            "{} {}; planning {:.1} ms, execution {:.1} ms",
            self.rows,
            if self.rows == 1 { "row" } else { "rows" },
            ms(self.planning),
            ms(self.execution)
        )?;
        writeln!(f, "{}", self.summary)?;
        let name =
            |node: &NodeProfile| format!("{}{}", "  ".repeat(node.report.depth), node.report.node);
        let width = self.nodes.iter().map(|node| name(node).len()).max();
        let width = width.unwrap_or_default();
        writeln!(
            f,
            "{:width$}  {:10}  {:>12}  {:>10}  {:>10}",
            "node", "runs on", "rows", "ms", "kernels ms"
        )?;
        for node in &self.nodes {
            let rows = node.rows().map_or(String::new(), |rows| rows.to_string());
            let time = node
                .compute()
                .map_or(String::new(), |t| format!("{:.1}", ms(t)));
            let kernels = match node.device_time.is_zero() {
                true => String::new(),
                false => format!("{:.2}", ms(node.device_time)),
            };
            writeln!(
                f,
                "{:width$}  {:10}  {rows:>12}  {time:>10}  {kernels:>10}",
                name(node),
                node.report.runs_on
            )?;
        }
        Ok(())
    }
}
