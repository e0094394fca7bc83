//! A connection: DataFusion's session with bowtie, with files by name and object stores by URL.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::catalog::{DynamicFileCatalog, TableProvider};
use datafusion::common::{ParamValues, config_datafusion_err, plan_err};
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::{DataFrame, SessionConfig, SessionContext};
use datafusion_bowtie::{BowtieContextExt, BowtieSessionExt};
use datafusion_bowtie_distributed::stores::LazyStores;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use pyo3_arrow::PySchema;

use crate::error::to_python;
use crate::files::{FileOptions, FilesByName, table_of_files};
use crate::frame::Frame;
use crate::imported::ImportedTable;
use crate::parameters::parameters;
use crate::runtime::wait;

/// The session of a connection.
#[pyclass(frozen, module = "datafusion_bowtie._lib")]
pub struct Context {
    context: SessionContext,
}

#[pymethods]
impl Context {
    #[new]
    #[pyo3(signature = (scheduler, threads, memory_limit, storage_options))]
    fn new(
        py: Python<'_>,
        scheduler: Option<String>,
        threads: Option<usize>,
        memory_limit: Option<&str>,
        storage_options: HashMap<String, String>,
    ) -> PyResult<Self> {
        let stores = LazyStores::new(storage_options.into_iter().collect());
        // Whoever connects writes the URLs, too.
        let stores = stores.with_allow_http(true);
        let runtime = runtime_env(memory_limit, stores).map_err(to_python)?;
        let context = match scheduler {
            Some(url) => wait(py, async move { remote(&url, threads, runtime).await })?,
            None => local(threads, runtime).map_err(to_python)?,
        };
        let files = FilesByName {
            state: context.state_weak_ref(),
        };
        let tables = Arc::clone(context.state().catalog_list());
        context.register_catalog_list(Arc::new(DynamicFileCatalog::new(tables, Arc::new(files))));
        Ok(Self { context })
    }

    /// Plans a query. A statement that is none, such as `INSERT`, `COPY` or `CREATE TABLE`, runs immediately.
    #[pyo3(signature = (query, positional, named))]
    fn sql(
        &self,
        py: Python<'_>,
        query: String,
        positional: &Bound<'_, PyTuple>,
        named: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Frame> {
        let parameters = parameters(positional, named)?;
        let context = self.context.clone();
        let text: Arc<str> = query.into();
        let sql = Arc::clone(&text);
        let frame = wait(py, async move { plan(&context, &sql, parameters).await })?;
        let plan = frame.into_unoptimized_plan();
        Ok(Frame::new(self.context.clone(), plan, Some(text)))
    }

    fn register_imported(&self, name: &str, table: &ImportedTable) -> PyResult<()> {
        self.replace(name, Arc::clone(&table.provider))
            .map_err(to_python)
    }

    #[pyo3(signature = (name, paths, format, options, schema))]
    fn register_files(
        &self,
        py: Python<'_>,
        name: &str,
        paths: Vec<String>,
        format: Option<String>,
        options: HashMap<String, String>,
        schema: Option<PySchema>,
    ) -> PyResult<()> {
        let table = self.files(py, paths, format, options, schema)?;
        self.replace(name, table).map_err(to_python)
    }

    /// The name stands for the query: it runs when the table is read.
    fn register_frame(&self, name: &str, frame: &Frame) -> PyResult<()> {
        self.replace(name, frame.frame().into_view())
            .map_err(to_python)
    }

    /// Whether a frame is of this session, and sees its tables.
    fn owns(&self, frame: &Frame) -> bool {
        Arc::ptr_eq(&self.context.state_ref(), &frame.context().state_ref())
    }

    fn read_imported(&self, table: &ImportedTable) -> PyResult<Frame> {
        let frame = self
            .context
            .read_table(Arc::clone(&table.provider))
            .map_err(to_python)?;
        Ok(self.frame(frame))
    }

    #[pyo3(signature = (paths, format, options, schema))]
    fn read_files(
        &self,
        py: Python<'_>,
        paths: Vec<String>,
        format: Option<String>,
        options: HashMap<String, String>,
        schema: Option<PySchema>,
    ) -> PyResult<Frame> {
        let table = self.files(py, paths, format, options, schema)?;
        let frame = self.context.read_table(table).map_err(to_python)?;
        Ok(self.frame(frame))
    }

    fn deregister(&self, name: &str) -> PyResult<()> {
        let removed = self
            .context
            .deregister_table(name)
            .and_then(|table| match table {
                Some(_) => Ok(()),
                None => plan_err!("there is no table '{name}'"),
            });
        removed.map_err(to_python)
    }

    /// The tables of the default schema.
    fn tables(&self) -> Vec<String> {
        let state = self.context.state();
        let catalog = &state.config().options().catalog;
        let schema = state.catalog_list().catalog(&catalog.default_catalog);
        let schema = schema.and_then(|found| found.schema(&catalog.default_schema));
        let mut names = schema.map_or_else(Vec::new, |schema| schema.table_names());
        names.sort();
        names
    }

    fn table(&self, py: Python<'_>, name: String) -> PyResult<Frame> {
        let context = self.context.clone();
        let frame = wait(py, async move { context.table(&name).await })?;
        Ok(self.frame(frame))
    }

    /// As `SET name = 'value'`.
    fn set(&self, py: Python<'_>, name: &str, value: &str) -> PyResult<()> {
        let context = self.context.clone();
        let statement = format!("SET {name} = '{}'", value.replace('\'', "''"));
        wait(py, async move { context.sql(&statement).await }).map(drop)
    }

    /// The option's value; None if it has none.
    fn get(&self, name: &str) -> PyResult<Option<String>> {
        let state = self.context.state();
        let mut entries = state.config().options().entries();
        entries.extend(state.runtime_env().config_entries());
        let entry = entries.into_iter().find(|entry| entry.key == name);
        let entry = entry.ok_or_else(|| {
            to_python(config_datafusion_err!(
                "there is no option {name}: SHOW ALL lists them"
            ))
        })?;
        Ok(entry.value)
    }
}

impl Context {
    fn frame(&self, frame: DataFrame) -> Frame {
        Frame::new(self.context.clone(), frame.into_unoptimized_plan(), None)
    }

    fn files(
        &self,
        py: Python<'_>,
        paths: Vec<String>,
        format: Option<String>,
        options: HashMap<String, String>,
        schema: Option<PySchema>,
    ) -> PyResult<Arc<dyn TableProvider>> {
        let state = self.context.state();
        let given = FileOptions {
            format,
            options,
            schema: schema.map(PySchema::into_inner),
        };
        wait(
            py,
            async move { table_of_files(&state, &paths, given).await },
        )
    }

    fn replace(&self, name: &str, table: Arc<dyn TableProvider>) -> Result<()> {
        self.context.deregister_table(name)?;
        self.context.register_table(name, table)?;
        Ok(())
    }
}

fn runtime_env(memory_limit: Option<&str>, stores: LazyStores) -> Result<Arc<RuntimeEnv>> {
    // Listings are not kept: a directory has the files that it has when a query reads it.
    let mut runtime = RuntimeEnvBuilder::new()
        .with_object_store_registry(Arc::new(stores))
        .with_object_list_cache_limit(0);
    if let Some(limit) = memory_limit {
        runtime = runtime.with_memory_limit(bytes(limit)?, 1.0);
    }
    runtime.build_arc()
}

fn config(threads: Option<usize>) -> SessionConfig {
    let config = SessionConfig::new().with_information_schema(true);
    match threads {
        Some(threads) => config.with_target_partitions(threads),
        None => config,
    }
}

/// A session whose queries run in this process.
fn local(threads: Option<usize>, runtime: Arc<RuntimeEnv>) -> Result<SessionContext> {
    let state = SessionStateBuilder::new()
        .with_config(config(threads))
        .with_runtime_env(runtime)
        .with_default_features()
        .with_bowtie()?
        .build();
    Ok(SessionContext::new_with_state(state))
}

/// A session whose queries run on the executors of a scheduler of Ballista.
#[cfg(feature = "ballista")]
async fn remote(
    url: &str,
    threads: Option<usize>,
    runtime: Arc<RuntimeEnv>,
) -> Result<SessionContext> {
    use datafusion_bowtie_distributed::client::connect_with;
    // This machine's cores say nothing about those of executors: Ballista's clients ask for 16 partitions.
    let config = config(threads.or(Some(16)));
    connect_with(url, config, runtime, Default::default()).await
}

#[cfg(not(feature = "ballista"))]
async fn remote(url: &str, _: Option<usize>, _: Arc<RuntimeEnv>) -> Result<SessionContext> {
    datafusion::common::not_impl_err!(
        "{url}: this build of datafusion_bowtie cannot connect to Ballista: build it with the feature ballista"
    )
}

/// The bytes of a size such as `8GB` or `512MiB`, whose units are powers of 1024.
fn bytes(size: &str) -> Result<usize> {
    let text = size.trim().to_ascii_uppercase();
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit.trim().trim_end_matches("IB").trim_end_matches('B') {
        "" => Some(1u64),
        "K" => Some(1 << 10),
        "M" => Some(1 << 20),
        "G" => Some(1 << 30),
        "T" => Some(1 << 40),
        _ => None,
    };
    let bytes = number
        .parse::<f64>()
        .ok()
        .zip(factor)
        .map(|(number, factor)| number * factor as f64);
    match bytes {
        Some(bytes) if (1.0..1e18).contains(&bytes) => Ok(bytes as usize),
        _ => Err(config_datafusion_err!(
            "memory_limit cannot be '{size}': use a size such as 512MB, 8GB or 1.5GiB"
        )),
    }
}

async fn plan(
    context: &SessionContext,
    query: &str,
    parameters: Option<ParamValues>,
) -> Result<DataFrame> {
    let mut plan = context.state().create_logical_plan(query).await?;
    if let Some(parameters) = parameters {
        plan = plan.with_param_values(parameters)?;
    }
    if let Some(reset) = context.execute_bowtie_reset(&plan)? {
        return Ok(reset);
    }
    let writes = matches!(plan, LogicalPlan::Dml(_) | LogicalPlan::Copy(_));
    let frame = context.execute_logical_plan(plan).await?;
    match writes {
        true => context.read_batches(frame.collect().await?),
        false => Ok(frame),
    }
}
