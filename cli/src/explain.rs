//! `bowtie-sql explain`: each operator of a query with where it runs, and why.

use std::io::Read as _;
use std::process::ExitCode;
use std::sync::Arc;

use datafusion::dataframe::DataFrame;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::LogicalPlan;
use datafusion_cli::exec::exec_from_commands;
use datafusion_cli::print_format::PrintFormat;
use datafusion_cli::print_options::{MaxRows, PrintOptions};

use crate::arguments::{Arguments, Explain};
use crate::progress::Progress;
use crate::session;
use crate::shell::run_files;
use crate::watch::Watched;

/// Prints the report of a query's plan.
pub(crate) async fn run(arguments: &Arguments, of: &Explain) -> Result<ExitCode> {
    let query = prepared(arguments, of).await?;
    print!("{}", datafusion_bowtie::explain(&query.frame).await?);
    Ok(ExitCode::SUCCESS)
}

/// A query that was not run yet, with its text.
pub(crate) struct Query {
    pub(crate) frame: DataFrame,
    pub(crate) sql: String,
}

/// The query of the command line, in a session where the statements that come first have run.
pub(crate) async fn prepared(arguments: &Arguments, of: &Explain) -> Result<Query> {
    let sql = match of.query.as_str() {
        "-" => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text)?;
            text
        }
        query => query.to_string(),
    };
    let sql = sql.trim().trim_end_matches(';').to_string();
    let session = session::open(&arguments.session, of.query == "-").await?;
    let mut quiet = PrintOptions {
        format: PrintFormat::Automatic,
        quiet: true,
        maxrows: MaxRows::Limited(40),
        color: false,
        instrumented_registry: Arc::clone(&session.requests),
    };
    let context = Watched {
        context: session.context,
        progress: Progress::hidden(),
        running: None,
    };
    let files = arguments.rc.iter().flatten();
    let files = files.chain(&arguments.file).cloned().collect::<Vec<_>>();
    run_files(&context, &files, &mut quiet).await?;
    exec_from_commands(&context, arguments.statements.clone(), &quiet).await?;
    run_files(&context, &of.init, &mut quiet).await?;
    if sql.is_empty() {
        return Err(DataFusionError::Plan(
            "there is no query: give it as an argument, or - to read it".into(),
        ));
    }
    let state = context.context.state();
    let plan = state.create_logical_plan(&sql).await?;
    if matches!(plan, LogicalPlan::Ddl(_) | LogicalPlan::Statement(_)) {
        return Err(DataFusionError::Plan(
            "only queries are explained and profiled: run other statements first, by --init".into(),
        ));
    }
    let frame = DataFrame::new(state, plan);
    Ok(Query { frame, sql })
}
