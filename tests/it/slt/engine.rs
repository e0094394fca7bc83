//! The database that the records run on: upstream's, which also looks at the plans that it executes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::common::collect;
use datafusion::physical_plan::{ExecutionPlan, displayable, execute_stream};
use datafusion::prelude::SessionContext;
use datafusion_bowtie::BowtieRuntime;
use datafusion_sqllogictest::{
    DFColumnType, DFOutput, DFSqlLogicTestError, TestContext, convert_batches,
    convert_schema_to_types, is_spark_path,
};
use sqllogictest::DBOutput;

use super::tpch_data;
use crate::support::codec;
use crate::support::session::Rule;

/// What the executed plans were like.
#[derive(Debug, Clone, Default)]
pub(super) struct Plans {
    /// Plans with a bowtie node.
    pub offloaded: usize,
    /// How often each `join_type=`, `strategy=` and node name was seen.
    pub seen: BTreeMap<String, usize>,
    /// Why joins and aggregations were left to DataFusion, in plans where one was.
    pub declined: BTreeMap<String, usize>,
    /// Whether the last plan had a bowtie node, and no ORDER BY that orders its rows.
    pub last_is_unordered: bool,
}

impl Plans {
    /// Takes note of a plan; whether a join or an aggregation of DataFusion is in it.
    fn note(&mut self, logical: &LogicalPlan, physical: &Arc<dyn ExecutionPlan>) -> bool {
        let mut is_left = false;
        let text = displayable(physical.as_ref()).indent(false).to_string();
        let offloaded = text.contains("Bowtie");
        self.offloaded += usize::from(offloaded);
        self.last_is_unordered = offloaded && !is_ordered(logical);
        for line in text.lines().map(str::trim_start) {
            let node = line.split(':').next().unwrap_or_default();
            if !node.contains("Join") && !node.contains("Aggregate") {
                continue;
            }
            self.count(node);
            is_left |= !node.starts_with("Bowtie");
            if node.starts_with("Bowtie") {
                let facts = line
                    .split(", ")
                    .filter(|fact| fact.starts_with("join_type=") || fact.starts_with("strategy="));
                facts.for_each(|fact| self.count(fact));
            }
        }
        is_left
    }

    fn count(&mut self, what: &str) {
        *self.seen.entry(what.to_string()).or_default() += 1;
    }
}

/// Whether the rows of `plan` have an order that the query asks for.
fn is_ordered(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Sort(_) => true,
        LogicalPlan::Projection(p) => is_ordered(&p.input),
        LogicalPlan::Limit(l) => is_ordered(&l.input),
        LogicalPlan::SubqueryAlias(a) => is_ordered(&a.input),
        _ => false,
    }
}

/// A session for one file.
pub(super) struct Engine {
    context: SessionContext,
    /// Holds the folder of the data that upstream makes for the file.
    _upstream: TestContext,
    root: PathBuf,
    scratch: PathBuf,
    /// Whether values are shown as the files of Spark's functions expect them.
    is_spark: bool,
    plans: Arc<Mutex<Plans>>,
}

impl Engine {
    /// Upstream's own context for `file`, with bowtie in it.
    pub(super) async fn new(
        root: &Path,
        file: &str,
        scratch: &Path,
        (offload, rule): (&str, Rule),
        plans: Arc<Mutex<Plans>>,
    ) -> Self {
        let upstream = TestContext::try_new_for_test_file(Path::new(file))
            .await
            .unwrap_or_else(|| panic!("{file} needs a feature that is not enabled"));
        let state = SessionStateBuilder::new_from_existing(upstream.session_ctx().state());
        let state = rule.added_to(state, BowtieRuntime::shared());
        let context = SessionContext::new_with_state(state.build());
        // A session's functions by name and by alias become a new session's in any order, so that one may take the name of another.
        for (name, function) in upstream.session_ctx().state().scalar_functions() {
            let is_taken = context.state().scalar_functions().get(name) != Some(function);
            if is_taken && function.name() == name {
                context.register_udf(function.as_ref().clone());
            }
        }
        for set in [
            format!("SET bowtie.offload = '{offload}'"),
            format!(
                "SET bowtie.device = '{}'",
                crate::support::session::device()
            ),
        ] {
            context.sql(&set).await.unwrap();
        }
        Self {
            context,
            _upstream: upstream,
            root: root.to_path_buf(),
            scratch: scratch.to_path_buf(),
            is_spark: is_spark_path(Path::new(file)),
            plans,
        }
    }

    /// Takes note of why nodes of this query were declined.
    async fn note_reasons(&self, sql: &str) -> Result<(), DFSqlLogicTestError> {
        let explain = format!(
            "SELECT node || ': ' || reason FROM bowtie_explain('{}') WHERE decision = 'declined'",
            sql.trim_end_matches(';').replace('\'', "''")
        );
        let frame = self.context.sql(&explain).await?;
        let schema = Arc::clone(frame.schema().inner());
        let batches = frame.collect().await?;
        let mut plans = self.plans.lock().unwrap();
        for row in convert_batches(&schema, batches, false)? {
            *plans.declined.entry(row.join(" ")).or_default() += 1;
        }
        Ok(())
    }

    /// `sql` with upstream's relative paths made absolute. What it writes goes to a folder of ours.
    fn with_paths(&self, sql: &str) -> String {
        let root = self.root.display();
        const TPCH: &str = "'test_files/tpch/data/";
        let sql = match sql.contains(TPCH) {
            true => &sql.replace(TPCH, &format!("'{}/", tpch_data::folder().display())),
            false => sql,
        };
        sql.replace(
            "'test_files/scratch/",
            &format!("'{}/", self.scratch.display()),
        )
        .replace("'test_files/", &format!("'{root}/test_files/"))
        .replace("'../", &format!("'{root}/../"))
        .replace("'data/", &format!("'{root}/data/"))
    }
}

#[async_trait]
impl sqllogictest::AsyncDB for Engine {
    type Error = DFSqlLogicTestError;
    type ColumnType = DFColumnType;

    async fn run(&mut self, sql: &str) -> Result<DFOutput, DFSqlLogicTestError> {
        let sql = self.with_paths(sql);
        let frame = self.context.sql(&sql).await?;
        let task = Arc::new(frame.task_ctx());
        let logical = frame.logical_plan().clone();
        let plan = frame.create_physical_plan().await?;
        let is_left = self.plans.lock().unwrap().note(&logical, &plan);
        if is_left {
            self.note_reasons(&sql).await?;
        }
        let plan = codec::as_executed(&self.context, plan)?;
        let schema = plan.schema();
        let stream = execute_stream(plan, task)?;
        let types = convert_schema_to_types(stream.schema().fields());
        let rows = convert_batches(&schema, collect(stream).await?, self.is_spark)?;
        Ok(match rows.is_empty() && types.is_empty() {
            true => DBOutput::StatementComplete(0),
            false => DBOutput::Rows { types, rows },
        })
    }

    fn engine_name(&self) -> &str {
        "DataFusion"
    }

    async fn shutdown(&mut self) {}
}
