//! [`QuerySet`]: the queries of a benchmark over its tables, by DataFusion alone, with bowtie's defaults, and with every supported operator
//! on the device.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;

use datafusion::catalog::TableProvider;
use datafusion::error::DataFusionError;

use super::answer::Consume;
use super::arguments::Arguments;
use super::measure::measure;
use super::plot::{Line, Point, log_log};
use super::quantity::{digits, short};
use super::session::{BASELINE, Engine, Growth, Session};
use super::{Result, machine};

/// A query is said to be slower with bowtie's defaults from this factor on, and from these milliseconds.
const SLOWER: f64 = 1.1;
const SLOWER_MS: f64 = 1.0;

/// The queries of a benchmark over its tables.
pub struct QuerySet {
    /// Of the files that are written.
    pub name: &'static str,
    pub title: String,
    /// The scale factor, in the CSV file.
    pub scale: String,
    /// What the tables are read from.
    pub from: &'static str,
    /// Names and texts.
    pub queries: Vec<(String, &'static str)>,
    pub tables: Vec<(&'static str, Arc<dyn TableProvider>)>,
}

impl QuerySet {
    /// Runs the queries, prints a table, and writes it with a CSV file and a plot.
    pub async fn run(&self, arguments: &Arguments) -> Result<()> {
        let engines = [
            Engine::new(BASELINE, Growth::Rows, &[("bowtie.offload", "off")]),
            Engine::new("bowtie-auto", Growth::Rows, &[("bowtie.offload", "auto")]),
            Engine::bowtie("bowtie-force", Growth::Rows, &[]),
        ];
        let mut sessions = vec![];
        for engine in engines {
            let session = Session::open(engine, arguments).await?;
            session.load(&self.tables)?;
            sessions.push(session);
        }
        let mut text = format!(
            "{}: scale factor {}, {}, {}, device {}\n  query  rows",
            self.name,
            self.scale,
            self.from,
            machine::describe(),
            arguments.device
        );
        for session in &sessions {
            write!(text, " {:>14}", session.engine.label)?;
        }
        println!("{text}    off/force  device MB   GB/s");
        let mut csv = String::from("query,scale,rows,engine,ms,runs,first_ms,device_bytes\n");
        let mut totals = vec![0.0; sessions.len()];
        let mut firsts = vec![0.0; sessions.len()];
        let mut all_times: Vec<Vec<f64>> = vec![];
        let mut slower = vec![];
        // Queries that took an engine too long.
        let mut left_out = vec![];
        for (name, sql) in &self.queries {
            if !arguments.selects(name) {
                continue;
            }
            let (mut line, mut times, mut rows) = (String::new(), vec![], None);
            // Of the last engine.
            let mut bytes = 0;
            for session in &sessions {
                let look = Consume {
                    sum: None,
                    digest: false,
                };
                let runs = measure(&session.ctx, sql, look, look, arguments.repeat);
                let most = arguments.limit * (arguments.repeat as u32 + 1);
                let Ok(measured) = tokio::time::timeout(most, runs).await else {
                    write!(line, " {:>14}", "too long")?;
                    continue;
                };
                let measured = measured
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
                // DataFusion alone reads nothing there.
                if session.engine.label != BASELINE {
                    bytes = session.device_bytes(sql).await?;
                }
                writeln!(
                    csv,
                    "{name},{},{known},{},{:.3},{},{:.3},{bytes}",
                    self.scale, session.engine.label, measured.ms, measured.runs, measured.first_ms
                )?;
                times.push((measured.ms, measured.first_ms));
            }
            let mut line = format!("  {name}    {:>4}{line}", short(rows.unwrap_or(0) as f64));
            match times.len() == sessions.len() {
                true => {
                    for (n, (ms, first_ms)) in times.iter().enumerate() {
                        totals[n] += ms;
                        firsts[n] += first_ms;
                    }
                    let times: Vec<f64> = times.iter().map(|(ms, _)| *ms).collect();
                    if times[1] > SLOWER * times[0] && times[1] > times[0] + SLOWER_MS {
                        slower.push(format!("{name} {:.2}", times[1] / times[0]));
                    }
                    let forced = times[times.len() - 1];
                    let rate = bytes as f64 / 1e6 / forced;
                    write!(line, "    {:>9.2}", times[0] / forced)?;
                    write!(line, " {:>8.1} {rate:>6.1}", bytes as f64 / 1e6)?;
                    all_times.push(times);
                }
                false => left_out.push(name.as_str()),
            }
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
            "{line}\nms: medians, from the SQL text to the last row, {}. The tests hold the rows to DataFusion's.",
            self.from
        );
        let slower = format!(
            "bowtie-auto is more than {:.0} % slower than DataFusion alone in {} queries: {}",
            (SLOWER - 1.0) * 100.0,
            slower.len(),
            slower.join(", ")
        );
        let slower = match left_out.is_empty() {
            true => slower,
            false => format!(
                "{slower}\nwithout those that took too long: {}",
                left_out.join(", ")
            ),
        };
        println!("{slower}");
        text = format!("{text}\n{slower}");
        if arguments.clients > 0 {
            let together = self.clients(arguments).await?;
            println!("{together}");
            text = format!("{text}\n{together}");
        }
        std::fs::create_dir_all(&arguments.out)?;
        std::fs::write(arguments.out.join(format!("{}.csv", self.name)), csv)?;
        std::fs::write(
            arguments.out.join(format!("{}.txt", self.name)),
            format!("{text}\n{line}\n"),
        )?;
        self.plot(arguments, &sessions, all_times)?;
        println!("\nwritten to {}", arguments.out.display());
        Ok(())
    }

    /// Runs all queries in one session, then in several concurrent ones, each of which begins at another query. Returns both times as text.
    async fn clients(&self, arguments: &Arguments) -> Result<String> {
        let queries = self.queries.iter();
        let queries = queries.filter(|(name, _)| arguments.selects(name)).cloned();
        let queries: Arc<Vec<(String, &'static str)>> = Arc::new(queries.collect());
        let mut seconds = vec![];
        for clients in [1, arguments.clients] {
            let mut sessions = vec![];
            for _ in 0..clients {
                let auto = Engine::new("bowtie-auto", Growth::Rows, &[("bowtie.offload", "auto")]);
                let session = Session::open(auto, arguments).await?;
                session.load(&self.tables)?;
                sessions.push(session);
            }
            let start = Instant::now();
            let runs = sessions.into_iter().enumerate().map(|(client, session)| {
                let queries = Arc::clone(&queries);
                tokio::spawn(async move {
                    for n in 0..queries.len() {
                        let (name, sql) = &queries[(client * 3 + n) % queries.len()];
                        let rows = session.ctx.sql(sql).await?.collect().await;
                        rows.map_err(|error| error.context(name.clone()))?;
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
        &self,
        arguments: &Arguments,
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
            &arguments.out.join(format!("{}.svg", self.name)),
            &format!(
                "{} at scale factor {}, {}",
                self.title, self.scale, arguments.device
            ),
            "ms by DataFusion alone",
            "ms",
            &lines,
        )
    }
}
