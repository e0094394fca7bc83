//! `bowtie-cluster`: workers, coordinators, executors, schedulers and clients with bowtie, each with one command.

#![forbid(unsafe_code)]

mod commands;

use std::process::ExitCode;

use clap::Parser as _;

use crate::commands::Arguments;

fn main() -> ExitCode {
    env_logger::init();
    match commands::run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("Error: {error}");
            ExitCode::FAILURE
        }
    }
}
