//! `bowtie-sql`: the shell of Apache DataFusion with datafusion-bowtie in it, and commands that show what bowtie does.
//!
//! ```text
//! main ─► arguments   what was asked for
//!      ─► shell       statements of -c, -f, or typed        ─► watch   the progress line of a long query
//!         statements  those of a text                       ─► stop    Ctrl-C
//!      ─► doctor, explain, profile, bench                   one command each
//!         session     the SessionContext of all of them
//! ```

#![forbid(unsafe_code)]

mod arguments;
mod bench;
mod doctor;
mod explain;
#[cfg(feature = "nvtx")]
mod nvtx;
mod profile;
mod progress;
mod session;
mod shell;
mod size;
mod statements;
mod stop;
mod watch;
mod watched_exec;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser as _;
use datafusion::error::{DataFusionError, Result};

use crate::arguments::{Arguments, Command};

#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long the end waits for threads that a query which was stopped still keeps.
const AT_EXIT: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    env_logger::init();
    #[cfg(feature = "nvtx")]
    nvtx::start();
    let arguments = Arguments::parse();
    let threads = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let outcome = threads.map_err(DataFusionError::from).and_then(|threads| {
        let outcome = threads.block_on(run(arguments));
        threads.shutdown_timeout(AT_EXIT);
        outcome
    });
    outcome.unwrap_or_else(|error| {
        eprintln!("Error: {error}");
        ExitCode::FAILURE
    })
}

async fn run(arguments: Arguments) -> Result<ExitCode> {
    if let Some(folder) = &arguments.data_path {
        std::env::set_current_dir(folder)?;
    }
    let has_statements = !(arguments.statements.is_empty() && arguments.file.is_empty());
    match &arguments.command {
        Some(Command::Doctor | Command::Bench(_)) if has_statements => Err(DataFusionError::Plan(
            "doctor and bench run no statements: leave -c and -f out".into(),
        )),
        None => shell::run(&arguments).await,
        Some(Command::Doctor) => doctor::run(&arguments),
        Some(Command::Explain(of)) => explain::run(&arguments, of).await,
        Some(Command::Profile(of)) => profile::run(&arguments, of).await,
        Some(Command::Bench(of)) => bench::run(&arguments, of).await,
    }
}
