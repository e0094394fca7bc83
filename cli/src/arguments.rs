//! [`Arguments`]: the command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use datafusion_cli::object_storage::instrumented::InstrumentedObjectStoreMode;
use datafusion_cli::pool_type::PoolType;
use datafusion_cli::print_format::PrintFormat;
use datafusion_cli::print_options::MaxRows;

use crate::size::parse_size;

/// SQL on files, with fast range, interval and set joins on CPUs and NVIDIA GPUs.
///
/// Without a command and without -c or -f it reads statements from the terminal, or from standard input. Before explain and profile, -r, -f and
/// -c run statements that come first.
/// Files can be named in FROM: SELECT count(*) FROM 'events.parquet'.
#[derive(Debug, Parser)]
#[command(
    name = "bowtie-sql",
    version,
    subcommand_precedence_over_arg = true,
    after_help = "Every option of bowtie can also be set by an environment variable, such as BOWTIE_OFFLOAD=force, and in SQL: \
                  SET bowtie.offload = 'force'. DATAFUSION_… variables set DataFusion's options."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    /// Run these statements, and exit
    #[arg(short = 'c', long = "command", num_args = 1.., value_name = "SQL")]
    pub(crate) statements: Vec<String>,

    /// Run the statements of these files, and exit
    #[arg(short, long, num_args = 1.., value_name = "FILE")]
    pub(crate) file: Vec<PathBuf>,

    /// Run these files first, instead of ~/.datafusionrc
    #[arg(short = 'r', long, num_args = 0.., value_name = "FILE", conflicts_with = "file")]
    pub(crate) rc: Option<Vec<PathBuf>>,

    /// The folder that file names are relative to
    #[arg(short = 'p', long, value_name = "FOLDER", global = true)]
    pub(crate) data_path: Option<PathBuf>,

    /// How results are printed
    #[arg(long, value_enum, default_value_t = PrintFormat::Automatic)]
    pub(crate) format: PrintFormat,

    /// Print results only
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,

    /// Most rows of a table that are printed: a number, or inf
    #[arg(long, default_value = "40")]
    pub(crate) maxrows: MaxRows,

    /// Highlight statements that are typed
    #[arg(long)]
    pub(crate) color: bool,

    /// When to show the progress of a query
    #[arg(long, value_enum, default_value_t = ShowProgress::Auto)]
    pub(crate) progress: ShowProgress,

    #[command(flatten)]
    pub(crate) session: SessionArguments,
}

/// When to show the progress of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ShowProgress {
    /// Where errors go to a terminal
    Auto,
    /// Never
    Off,
}

/// The session that all commands share.
#[derive(Debug, Args)]
pub(crate) struct SessionArguments {
    /// bowtie.device: auto, host, cuda or cuda:N
    #[arg(long, global = true)]
    pub(crate) device: Option<String>,

    /// bowtie.offload: off, auto or force
    #[arg(long, global = true)]
    pub(crate) offload: Option<String>,

    /// bowtie.device_memory: auto, or a size such as 8GB
    #[arg(long, global = true, value_name = "SIZE")]
    pub(crate) device_memory: Option<String>,

    /// Any option of bowtie or DataFusion, such as bowtie.cache=8GB
    #[arg(long = "set", global = true, value_name = "OPTION=VALUE", value_parser = parse_setting)]
    pub(crate) settings: Vec<(String, String)>,

    /// Rows of a batch
    #[arg(short, long, global = true, value_name = "ROWS")]
    pub(crate) batch_size: Option<usize>,

    /// Most memory of DataFusion's memory pool, such as 10g; no limit by default
    #[arg(short, long, global = true, value_parser = parse_size, value_name = "SIZE")]
    pub(crate) memory_limit: Option<usize>,

    /// The type of that memory pool
    #[arg(long, global = true, default_value_t = PoolType::Greedy)]
    pub(crate) mem_pool_type: PoolType,

    /// How many consumers are named if it is exhausted
    #[arg(long, global = true, default_value_t = 3)]
    pub(crate) top_memory_consumers: usize,

    /// Most disk space that queries spill to, such as 10g
    #[arg(short, long, global = true, value_parser = parse_size, value_name = "SIZE")]
    pub(crate) disk_limit: Option<usize>,

    /// What is shown of requests to object stores: disabled, summary or trace
    #[arg(long, global = true, default_value_t = InstrumentedObjectStoreMode::Disabled)]
    pub(crate) object_store_profiling: InstrumentedObjectStoreMode,
}

fn parse_setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if name.contains('.') => {
            Ok((name.trim().to_string(), value.trim().to_string()))
        }
        _ => Err(format!(
            "'{text}' sets no option: use a name and a value, such as bowtie.offload=force"
        )),
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Check the driver, the GPUs and their memory, and say what is missing
    Doctor,
    /// Show each operator of a query with where it runs, and why; nothing runs
    Explain(Explain),
    /// Run a query, and write a page that shows where its time goes
    Profile(Profile),
    /// Run a benchmark with bowtie off and on
    Bench(Bench),
}

/// Which query.
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// The query; - reads it from standard input
    pub(crate) query: String,

    /// Statements that come first, such as CREATE EXTERNAL TABLE
    #[arg(short, long, value_name = "FILE")]
    pub(crate) init: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Profile {
    #[command(flatten)]
    pub(crate) query: Explain,

    /// The page that is written
    #[arg(short, long, value_name = "FILE", default_value = "profile.html")]
    pub(crate) output: PathBuf,

    /// The page's title
    #[arg(short, long)]
    pub(crate) title: Option<String>,

    /// Write the figures as JSON, too
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Bench {
    /// Which one
    #[arg(value_enum)]
    pub(crate) benchmark: Benchmark,

    /// The scale factor: 1 is about 1 GB
    #[arg(short, long, default_value_t = 1.0)]
    pub(crate) scale: f64,

    /// Where the data is kept, as Parquet files in a folder for each scale factor; in the user's cache by default
    #[arg(long, value_name = "FOLDER")]
    pub(crate) data: Option<PathBuf>,

    /// Read the tables into memory first
    #[arg(long)]
    pub(crate) in_memory: bool,

    /// Runs of each query after the first one; the fastest of them counts
    #[arg(long, default_value_t = 3)]
    pub(crate) repeat: usize,

    /// Only these queries, such as 1 or q18
    #[arg(long, num_args = 1.., value_name = "QUERY")]
    pub(crate) queries: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Benchmark {
    /// The 22 queries of TPC-H
    Tpch,
}
