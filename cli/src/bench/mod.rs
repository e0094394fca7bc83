//! `bowtie-sql bench`: a benchmark's queries with bowtie off and on.

mod queries;
mod tables;

use std::process::ExitCode;
use std::time::Instant;

use datafusion::error::{DataFusionError, Result};
use datafusion::prelude::SessionContext;
use futures::StreamExt as _;

use crate::arguments::{Arguments, Bench, Benchmark};
use crate::bench::queries::TPCH;
use crate::session;

/// Makes the data, runs the queries, and prints a table.
pub(crate) async fn run(arguments: &Arguments, of: &Bench) -> Result<ExitCode> {
    let Benchmark::Tpch = of.benchmark;
    if !(of.scale > 0.0 && of.scale <= 1000.0) {
        return Err(DataFusionError::Plan(format!(
            "--scale cannot be {}: use a number above 0, up to 1000",
            of.scale
        )));
    }
    let wanted = wanted(&of.queries)?;
    let folder = match &of.data {
        Some(folder) => folder.clone(),
        None => tables::default_folder()?,
    };
    let folder = folder.join(format!("tpch-{}", of.scale));
    tables::make(&folder, of.scale)?;
    let [off, on] = [
        open(arguments, of, &folder, Some("off")).await?,
        open(arguments, of, &folder, None).await?,
    ];
    println!(
        "TPC-H, scale factor {}, {}, {} cores; in ms, the first run and the fastest of {} more",
        of.scale,
        if of.in_memory {
            "tables in memory"
        } else {
            "Parquet files"
        },
        std::thread::available_parallelism().map_or(1, usize::from),
        of.repeat.max(1)
    );
    println!("query      rows  DataFusion  bowtie, first      bowtie  faster  what runs where");
    let (mut sums, mut logarithms, mut count) = ((0.0, 0.0, 0.0), 0.0, 0);
    for (number, sql) in wanted {
        // The operating system has the files in memory for both after this.
        fastest(&off, sql, 1).await?;
        let (rows, plain) = fastest(&off, sql, of.repeat).await?;
        // The first run transfers the columns to the device, where later ones find them.
        let (_, first) = fastest(&on, sql, 1).await?;
        let (same, ours) = fastest(&on, sql, of.repeat).await?;
        let report = datafusion_bowtie::explain(&on.sql(sql).await?).await?;
        let places = match &report.summary.device {
            Some(device) => format!(
                "{} of {} operators on {device}",
                report.summary.offloaded, report.summary.operators
            ),
            None => "all in DataFusion".into(),
        };
        let differs = match rows == same {
            true => "",
            false => " (THE NUMBERS OF ROWS DIFFER: please report it)",
        };
        println!(
            "q{number:02} {rows:>10} {plain:>11.1} {first:>14.1} {ours:>11.1} {:>6.2}x  {places}{differs}",
            plain / ours
        );
        sums = (sums.0 + plain, sums.1 + first, sums.2 + ours);
        logarithms += (plain / ours).ln();
        count += 1;
    }
    if count > 0 {
        let (plain, first, ours) = sums;
        println!(
            "sum {plain:>22.1} {first:>14.1} {ours:>11.1} {:>6.2}x  geometric mean {:.2}x",
            plain / ours,
            (logarithms / f64::from(count)).exp()
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// The queries by their numbers, such as 1 or q01.
fn wanted(names: &[String]) -> Result<Vec<(usize, &'static str)>> {
    let all = TPCH.iter().enumerate().map(|(i, sql)| (i + 1, *sql));
    if names.is_empty() {
        return Ok(all.collect());
    }
    let numbers = names.iter().map(|name| {
        let number = name.trim_start_matches(['q', 'Q']).parse::<usize>();
        let known = number
            .ok()
            .filter(|number| (1..=TPCH.len()).contains(number));
        known.ok_or_else(|| {
            DataFusionError::Plan(format!(
                "there is no query '{name}': use numbers from 1 to 22"
            ))
        })
    });
    let numbers = numbers.collect::<Result<Vec<_>>>()?;
    Ok(all.filter(|(number, _)| numbers.contains(number)).collect())
}

/// A session with the tables.
async fn open(
    arguments: &Arguments,
    of: &Bench,
    folder: &std::path::Path,
    offload: Option<&str>,
) -> Result<SessionContext> {
    let context = session::open(&arguments.session, false).await?.context;
    if let Some(offload) = offload {
        context
            .sql(&format!("SET bowtie.offload = '{offload}'"))
            .await?;
    }
    tables::register(&context, folder, of.in_memory).await?;
    Ok(context)
}

/// The rows of a query, and the milliseconds of its fastest run.
async fn fastest(context: &SessionContext, sql: &str, repeat: usize) -> Result<(usize, f64)> {
    let (mut rows, mut best) = (0, f64::INFINITY);
    for _ in 0..repeat.max(1) {
        let begun = Instant::now();
        let mut batches = context.sql(sql).await?.execute_stream().await?;
        rows = 0;
        while let Some(batch) = batches.next().await {
            rows += batch?.num_rows();
        }
        best = best.min(begun.elapsed().as_secs_f64() * 1e3);
    }
    Ok((rows, best))
}
