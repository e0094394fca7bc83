//! The session of all commands: DataFusion's with files by name, object stores, and bowtie.

use std::num::NonZeroUsize;
use std::sync::Arc;

use datafusion::common::config::{ConfigNonZeroUsize, ConfigOptions};
use datafusion::common::config_err;
use datafusion::common::format::ExplainFormat;
use datafusion::error::Result;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{
    FairSpillPool, GreedyMemoryPool, MemoryPool, TrackConsumersPool,
};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_bowtie::{BowtieConfigExt, BowtieContextExt, BowtieOptions};
use datafusion_cli::catalog::DynamicObjectStoreCatalog;
use datafusion_cli::functions::{
    ListFilesCacheFunc, MetadataCacheFunc, ParquetMetadataFunc, StatisticsCacheFunc,
};
use datafusion_cli::object_storage::StdinCarriesCommands;
use datafusion_cli::object_storage::instrumented::InstrumentedObjectStoreRegistry;
use datafusion_cli::pool_type::PoolType;

use crate::arguments::SessionArguments;

/// A session with its account of requests to object stores.
pub(crate) struct Session {
    pub(crate) context: SessionContext,
    pub(crate) requests: Arc<InstrumentedObjectStoreRegistry>,
}

/// Opens a session. `reads_stdin`: statements come from there, so that it is no table.
pub(crate) async fn open(arguments: &SessionArguments, reads_stdin: bool) -> Result<Session> {
    let mut config = config(arguments)?;
    if reads_stdin {
        config = config.with_extension(Arc::new(StdinCarriesCommands));
    }
    let requests =
        InstrumentedObjectStoreRegistry::new().with_profile_mode(arguments.object_store_profiling);
    let requests = Arc::new(requests);
    let mut runtime =
        RuntimeEnvBuilder::new().with_object_store_registry(Arc::clone(&requests) as _);
    if let Some(limit) = arguments.memory_limit {
        runtime = runtime.with_memory_pool(pool(arguments, limit));
    }
    if let Some(limit) = arguments.disk_limit {
        let disk = DiskManagerBuilder::default()
            .with_mode(DiskManagerMode::OsTmpDirectory)
            .with_max_temp_directory_size(limit as u64);
        runtime = runtime.with_disk_manager_builder(disk);
    }
    let context = SessionContext::new_with_config_rt(config, runtime.build_arc()?)
        .enable_url_table()
        .enable_bowtie()?;
    for (name, value) in &arguments.settings {
        let value = value.replace('\'', "''");
        context.sql(&format!("SET {name} = '{value}'")).await?;
    }
    context.refresh_catalogs().await?;
    context.register_catalog_list(Arc::new(DynamicObjectStoreCatalog::new(
        Arc::clone(context.state().catalog_list()),
        context.state_weak_ref(),
    )));
    register_functions(&context);
    Ok(Session { context, requests })
}

/// The options: of the environment, then of the command line.
fn config(arguments: &SessionArguments) -> Result<SessionConfig> {
    let mut options = ConfigOptions::from_env()?;
    if let Some(rows) = arguments.batch_size {
        let Ok(rows) = ConfigNonZeroUsize::try_new(rows) else {
            return config_err!("--batch-size cannot be 0");
        };
        options.execution.batch_size = rows;
    }
    if std::env::var_os("DATAFUSION_EXPLAIN_FORMAT").is_none() {
        options.explain.format = ExplainFormat::Tree;
    }
    if std::env::var_os("DATAFUSION_FORMAT_NULL").is_none() {
        options.format.null = "NULL".into();
    }
    let mut bowtie = BowtieOptions::from_env()?;
    if let Some(device) = &arguments.device {
        bowtie = bowtie.with_device(device.parse()?);
    }
    if let Some(offload) = &arguments.offload {
        bowtie = bowtie.with_offload(offload.parse()?);
    }
    if let Some(memory) = &arguments.device_memory {
        bowtie = bowtie.with_device_memory(memory.parse()?);
    }
    Ok(SessionConfig::from(options)
        .with_information_schema(true)
        .with_bowtie_options(bowtie))
}

fn pool(arguments: &SessionArguments, limit: usize) -> Arc<dyn MemoryPool> {
    let named = NonZeroUsize::new(arguments.top_memory_consumers);
    match (&arguments.mem_pool_type, named) {
        (PoolType::Fair, None) => Arc::new(FairSpillPool::new(limit)),
        (PoolType::Fair, Some(named)) => {
            Arc::new(TrackConsumersPool::new(FairSpillPool::new(limit), named))
        }
        (PoolType::Greedy, None) => Arc::new(GreedyMemoryPool::new(limit)),
        (PoolType::Greedy, Some(named)) => {
            Arc::new(TrackConsumersPool::new(GreedyMemoryPool::new(limit), named))
        }
    }
}

/// The table functions of DataFusion's shell.
fn register_functions(context: &SessionContext) {
    let caches = || Arc::clone(&context.task_ctx().runtime_env().cache_manager);
    context.register_udtf("parquet_metadata", Arc::new(ParquetMetadataFunc {}));
    context.register_udtf("metadata_cache", Arc::new(MetadataCacheFunc::new(caches())));
    context.register_udtf(
        "statistics_cache",
        Arc::new(StatisticsCacheFunc::new(caches())),
    );
    context.register_udtf(
        "list_files_cache",
        Arc::new(ListFilesCacheFunc::new(caches())),
    );
}
