//! `bowtie-sql`: the shell of Apache DataFusion with datafusion-bowtie in it, and commands that show what bowtie does.
//!
//! ```text
//! main ─► arguments   what was asked for
//!      ─► shell       statements of -c, -f, or typed        ─► watch   the progress line of a long query
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
mod watch;
mod watched_exec;

use std::process::ExitCode;

use clap::Parser as _;
use datafusion::error::Result;

use crate::arguments::{Arguments, Command};

#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    env_logger::init();
    #[cfg(feature = "nvtx")]
    nvtx::start();
    match run(Arguments::parse()).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("Error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<ExitCode> {
    if let Some(folder) = &arguments.data_path {
        std::env::set_current_dir(folder)?;
    }
    match &arguments.command {
        None => shell::run(&arguments).await,
        Some(Command::Doctor) => doctor::run(&arguments),
        Some(Command::Explain(of)) => explain::run(&arguments, of).await,
        Some(Command::Profile(of)) => profile::run(&arguments, of).await,
        Some(Command::Bench(of)) => bench::run(&arguments, of).await,
    }
}
