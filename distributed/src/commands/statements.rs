//! SQL statements of a command line.

use std::path::PathBuf;

use clap::Args;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::SessionContext;

use crate::commands::Done;

#[derive(Args)]
pub(crate) struct Statements {
    /// A statement to run. It may be given several times.
    #[arg(short, long)]
    command: Vec<String>,
    /// A file of statements, each of which ends with a semicolon at the end of a line.
    #[arg(short, long)]
    file: Vec<PathBuf>,
    /// Prints the time of each statement.
    #[arg(long)]
    timing: bool,
}

impl Statements {
    /// Runs the statements one after the other, and prints their rows.
    pub(crate) async fn run(self, context: &SessionContext) -> Done {
        let mut statements = self.command;
        for file in self.file {
            let text = std::fs::read_to_string(&file)
                .map_err(|error| format!("{}: {error}", file.display()))?;
            statements.extend(text.split(";\n").map(str::to_string));
        }
        let texts = statements.iter().map(|text| text.trim());
        for statement in texts.filter(|text| !text.is_empty()) {
            let begun = std::time::Instant::now();
            let batches = context.sql(statement).await?.collect().await?;
            if !batches.is_empty() {
                println!("{}", pretty_format_batches(&batches)?);
            }
            if self.timing {
                println!("{:.3} s", begun.elapsed().as_secs_f64());
            }
        }
        Ok(())
    }
}
