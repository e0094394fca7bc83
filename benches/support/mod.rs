//! The parts that all benches share: from a command line to a table, a CSV file and a plot.
//!
//! ```text
//!  arguments ──► contest ──► session (one per engine) ──► measure ──► report ──► table, CSV, SVG (plot)
//!                   │             ▲                          │
//!                   └── guard     └── table (data, export)   └── answer (the same rows from every engine, or stop)
//! ```
//!
//! A bench passes its cases (SQL, seeded tables, the expected result) to a [`contest::Contest`] one round at a time.
//! All engines are DataFusion sessions of one process over the same in-memory tables. The time is that of a user's
//! query: from the SQL text to the last row.

#![allow(
    dead_code,
    reason = "each bench uses its own part of what the benches share"
)]

pub mod answer;
pub mod arguments;
pub mod card_times;
pub mod contest;
pub mod guard;
pub mod machine;
pub mod measure;
pub mod paper;
pub mod plot;
pub mod quantity;
pub mod query_set;
pub mod report;
pub mod session;
pub mod sweep;
pub mod table;

/// Errors of a bench end in one line of text and exit status 1, so their type does not matter.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Runs `run` as the `main` of bench `name`; does nothing in a debug build.
pub async fn main(name: &str, run: impl Future<Output = Result<()>>) {
    if cfg!(debug_assertions) {
        println!("{name}: nothing measured, a debug build has no times worth knowing");
        return;
    }
    if let Err(error) = run.await {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}
