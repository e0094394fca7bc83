//! `bowtie-sql profile`: a page that shows where the time of a query goes.

use std::process::ExitCode;

use datafusion::error::{DataFusionError, Result};

use crate::arguments::{Arguments, Profile};
use crate::explain::prepared;

/// Runs a query, and writes its page.
pub(crate) async fn run(arguments: &Arguments, of: &Profile) -> Result<ExitCode> {
    let query = prepared(arguments, &of.query).await?;
    let profile = datafusion_bowtie::profile(query.frame).await?;
    let profile = profile.with_sql(&query.sql);
    let profile = match &of.title {
        Some(title) => profile.with_title(title),
        None => profile,
    };
    write(&of.output, &profile.to_html())?;
    if let Some(file) = &of.json {
        write(file, &profile.to_json())?;
    }
    if !arguments.quiet {
        print!("{profile}");
        println!("written to {}", of.output.display());
    }
    Ok(ExitCode::SUCCESS)
}

fn write(file: &std::path::Path, text: &str) -> Result<()> {
    std::fs::write(file, text).map_err(|error| {
        DataFusionError::Execution(format!("cannot write {}: {error}", file.display()))
    })
}
