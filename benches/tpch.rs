//! `cargo bench --bench tpch`: the 22 queries of TPC-H on tables in memory, from the SQL text to the last row:
//! DataFusion alone, with bowtie's defaults, and with every supported operator on the device.
//!
//! ```text
//! cargo bench --bench tpch                          scale factor 1
//! cargo bench --bench tpch -- --large               10: some 15 GiB of memory
//! cargo bench --bench tpch -- --quick --filter q03  0.1, one query
//! cargo bench --bench tpch -- --scale 30            any other scale factor
//! cargo bench --bench tpch -- --parquet target/tpch --clients 8    from Parquet files, and with 8 concurrent sessions
//! ```

mod support;
#[path = "tpch/tables.rs"]
mod tables;

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;

use datafusion::catalog::TableProvider;
use datafusion::error::DataFusionError;

use support::answer::Consume;
use support::arguments::Arguments;
use support::measure::measure;
use support::plot::{Line, Point, log_log};
use support::quantity::{digits, short};
use support::session::{BASELINE, Engine, Growth, Session};
use support::{Result, machine};

/// Query `n`, as the tests run it.
const QUERIES: [(&str, &str); 22] = [
    ("q01", include_str!("../tests/it/tpch/plain/q01.sql")),
    ("q02", include_str!("../tests/it/tpch/subqueries/q02.sql")),
    ("q03", include_str!("../tests/it/tpch/plain/q03.sql")),
    ("q04", include_str!("../tests/it/tpch/subqueries/q04.sql")),
    ("q05", include_str!("../tests/it/tpch/plain/q05.sql")),
    ("q06", include_str!("../tests/it/tpch/plain/q06.sql")),
    ("q07", include_str!("../tests/it/tpch/plain/q07.sql")),
    ("q08", include_str!("../tests/it/tpch/plain/q08.sql")),
    ("q09", include_str!("../tests/it/tpch/plain/q09.sql")),
    ("q10", include_str!("../tests/it/tpch/plain/q10.sql")),
    ("q11", include_str!("../tests/it/tpch/subqueries/q11.sql")),
    ("q12", include_str!("../tests/it/tpch/plain/q12.sql")),
    ("q13", include_str!("../tests/it/tpch/plain/q13.sql")),
    ("q14", include_str!("../tests/it/tpch/plain/q14.sql")),
    ("q15", include_str!("../tests/it/tpch/subqueries/q15.sql")),
    ("q16", include_str!("../tests/it/tpch/subqueries/q16.sql")),
    ("q17", include_str!("../tests/it/tpch/subqueries/q17.sql")),
    ("q18", include_str!("../tests/it/tpch/subqueries/q18.sql")),
    ("q19", include_str!("../tests/it/tpch/plain/q19.sql")),
    ("q20", include_str!("../tests/it/tpch/subqueries/q20.sql")),
    ("q21", include_str!("../tests/it/tpch/subqueries/q21.sql")),
    ("q22", include_str!("../tests/it/tpch/subqueries/q22.sql")),
];

#[tokio::main]
async fn main() {
    support::main("tpch", run()).await;
}

async fn run() -> Result<()> {
    let arguments = Arguments::from_command_line()?;
    let by_size = match (arguments.large, arguments.quick) {
        (true, _) => 10.0,
        (false, true) => 0.1,
        (false, false) => 1.0,
    };
    let scale = arguments.scale.unwrap_or(by_size);
    if let Some(dir) = &arguments.export {
        return tables::write(scale, dir).await;
    }
    let tables: Vec<(&'static str, Arc<dyn TableProvider>)> = match &arguments.parquet {
        Some(dir) => {
            tables::write(scale, dir).await?;
            tables::files(dir).await?
        }
        None => tables::all(scale)?,
    };
    let from = match arguments.parquet {
        Some(_) => "Parquet files",
        None => "tables in memory",
    };
    let engines = [
        Engine::new(BASELINE, Growth::Rows, &[("bowtie.offload", "off")]),
        Engine::new("bowtie-auto", Growth::Rows, &[("bowtie.offload", "auto")]),
        Engine::bowtie("bowtie-force", Growth::Rows, &[]),
    ];
    let mut sessions = vec![];
    for engine in engines {
        let session = Session::open(engine, &arguments).await?;
        session.load(&tables)?;
        sessions.push(session);
    }
    let mut text = format!(
        "tpch: scale factor {scale}, {from}, {}, device {}\n  query  rows",
        machine::describe(),
        arguments.device
    );
    for session in &sessions {
        write!(text, " {:>14}", session.engine.label)?;
    }
    println!("{text}    off/force");
    let mut csv = String::from("query,scale,rows,engine,ms,runs,first_ms\n");
    let mut totals = vec![0.0; sessions.len()];
    let mut firsts = vec![0.0; sessions.len()];
    let mut all_times: Vec<Vec<f64>> = vec![];
    for (name, sql) in QUERIES {
        if !arguments.selects(name) {
            continue;
        }
        let (mut line, mut times, mut rows) = (String::new(), vec![], None);
        for ((session, total), first) in sessions.iter().zip(&mut totals).zip(&mut firsts) {
            let look = Consume {
                sum: None,
                digest: false,
            };
            let measured = measure(&session.ctx, sql, look, look, arguments.repeat)
                .await
                .map_err(|error| format!("{name}, {}: {error}", session.engine.label))?;
            let known = *rows.get_or_insert(measured.answer.rows);
            if known != measured.answer.rows {
                return Err(format!(
                    "WRONG RESULT, {name}, {}: {} rows, not {known}",
                    session.engine.label, measured.answer.rows
                )
                .into());
            }
            write!(line, " {:>14}", digits(measured.ms))?;
            writeln!(
                csv,
                "{name},{scale},{known},{},{:.3},{},{:.3}",
                session.engine.label, measured.ms, measured.runs, measured.first_ms
            )?;
            *total += measured.ms;
            *first += measured.first_ms;
            times.push(measured.ms);
        }
        all_times.push(times.clone());
        let line = format!(
            "  {name}    {:>4}{line}    {:.2}",
            short(rows.unwrap_or(0) as f64),
            times[0] / times[times.len() - 1]
        );
        println!("{line}");
        text = format!("{text}\n{line}");
        if arguments.analyze {
            for session in &sessions {
                println!("{}: {}", session.engine.label, session.analyze(sql).await?);
            }
        }
    }
    let mut line = String::from("  all        ");
    for total in &totals {
        write!(line, " {:>14}", digits(*total))?;
    }
    line += "\n  first      ";
    for first in &firsts {
        write!(line, " {:>14}", digits(*first))?;
    }
    println!(
        "{line}\nms: medians, from the SQL text to the last row, {from}. The tests hold the rows to DataFusion's."
    );
    if arguments.clients > 0 {
        let together = clients(&arguments, &tables).await?;
        println!("{together}");
        text = format!("{text}\n{together}");
    }
    std::fs::create_dir_all(&arguments.out)?;
    std::fs::write(arguments.out.join("tpch.csv"), csv)?;
    std::fs::write(arguments.out.join("tpch.txt"), format!("{text}\n{line}\n"))?;
    plot(&arguments, scale, &sessions, all_times)?;
    println!("\nwritten to {}", arguments.out.display());
    Ok(())
}

/// Runs all queries in one session, then in several concurrent ones, each of which begins at another query. Returns both times as text.
async fn clients(
    arguments: &Arguments,
    tables: &[(&'static str, Arc<dyn TableProvider>)],
) -> Result<String> {
    let mut seconds = vec![];
    for clients in [1, arguments.clients] {
        let mut sessions = vec![];
        for _ in 0..clients {
            let auto = Engine::new("bowtie-auto", Growth::Rows, &[("bowtie.offload", "auto")]);
            let session = Session::open(auto, arguments).await?;
            session.load(tables)?;
            sessions.push(session);
        }
        let start = Instant::now();
        let runs = sessions.into_iter().enumerate().map(|(client, session)| {
            tokio::spawn(async move {
                for n in 0..QUERIES.len() {
                    let (name, sql) = QUERIES[(client * 3 + n) % QUERIES.len()];
                    let rows = session.ctx.sql(sql).await?.collect().await;
                    rows.map_err(|error| error.context(name.to_string()))?;
                }
                Ok::<_, DataFusionError>(())
            })
        });
        for run in runs.collect::<Vec<_>>() {
            run.await??;
        }
        seconds.push(start.elapsed().as_secs_f64());
    }
    let [one, all] = seconds[..] else {
        return Err("a run is missing".into());
    };
    let clients = arguments.clients;
    let ratio = clients as f64 * one / all;
    Ok(format!(
        "all queries, auto: 1 client {one:.3} s, {clients} concurrent clients {all:.3} s: {ratio:.2} times the throughput of one"
    ))
}

/// The time of each query against that of DataFusion alone, whose own line is the diagonal.
fn plot(
    arguments: &Arguments,
    scale: f64,
    sessions: &[Session],
    mut times: Vec<Vec<f64>>,
) -> Result<()> {
    if times.is_empty() {
        return Ok(());
    }
    times.sort_by(|a, b| a[0].total_cmp(&b[0]));
    let lines: Vec<Line> = sessions
        .iter()
        .enumerate()
        .map(|(engine, session)| Line {
            label: session.engine.label.to_string(),
            points: times
                .iter()
                .map(|of_query| Point {
                    x: of_query[0],
                    y: of_query[engine],
                    measured: true,
                })
                .collect(),
        })
        .collect();
    log_log(
        &arguments.out.join("tpch.svg"),
        &format!("TPC-H at scale factor {scale}, {}", arguments.device),
        "ms by DataFusion alone",
        "ms",
        &lines,
    )
}
