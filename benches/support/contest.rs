//! Runs rounds: one query on one set of tables, by one engine after the other, whose results must agree.

use std::sync::Arc;

use datafusion::catalog::TableProvider;

use super::Result;
use super::answer::{Consume, Expected, WRONG};
use super::arguments::Arguments;
use super::card_times::{self, CardTimes};
use super::guard::{Guard, Verdict, Work};
use super::measure::{Measurement, measure};
use super::report::{Cell, Report, Time};
use super::session::{BASELINE, Engine, Session};
use super::table::Table;

/// Results up to this many rows are compared row by row, through a digest taken in the untimed run.
const DIGEST_ROWS: u64 = 20_000_000;

/// One query on one set of tables.
pub struct Round<'a> {
    pub case: &'a str,
    pub size: &'a str,
    pub selectivity: Option<f64>,
    pub sql: &'a str,
    pub tables: &'a [Table],
    /// The number of pairs that a nested loop tests.
    pub pairs: u64,
    /// The result column whose sum [`Expected::sum`] is.
    pub sum: Option<usize>,
    pub expected: Expected,
    /// The labels of the participating engines, among those of the contest.
    pub engines: &'a [&'static str],
}

/// The opened engines, and the measurements so far.
pub struct Contest {
    sessions: Vec<Session>,
    guard: Guard,
    repeat: usize,
    analyze: bool,
    /// Whether a query that fails is a cell without a time, and not the end of the bench.
    goes_on: bool,
    pub report: Report,
}

impl Contest {
    /// Opens all engines. The first one is the baseline, so that its time is known when a ratio is printed.
    pub async fn open(
        name: &'static str,
        engines: Vec<Engine>,
        arguments: &Arguments,
    ) -> Result<Self> {
        assert_eq!(engines[0].label, BASELINE, "the baseline goes first");
        let mut sessions = Vec::with_capacity(engines.len());
        for engine in engines {
            sessions.push(Session::open(engine, arguments).await?);
        }
        Ok(Self {
            sessions,
            guard: Guard::new(arguments.limit),
            repeat: arguments.repeat,
            analyze: arguments.analyze,
            goes_on: arguments.paper,
            report: Report::new(name, &arguments.device),
        })
    }

    /// Call before the first size of another query or selectivity.
    pub fn start_ladder(&mut self) {
        self.guard.start_ladder();
    }

    /// Measures the round by every participating engine.
    ///
    /// # Errors
    /// Any result that differs from the expected one: a wrong result has no time. Those of the queries, unless the
    /// contest goes on.
    pub async fn round(&mut self, round: &Round<'_>) -> Result<()> {
        let mut providers: Vec<(&'static str, Arc<dyn TableProvider>)> = Vec::new();
        for table in round.tables {
            providers.push((table.name, table.provider()?));
        }
        let work = Work {
            input: round.tables.iter().map(|table| table.rows() as u64).sum(),
            pairs: round.pairs,
            output: round.expected.rows,
        };

        // The baseline's plan is needed even if it does not take part: it tells whether other plans differ.
        self.sessions[0].load(&providers)?;
        let stock_plan = self.sessions[0].plan(round.sql).await?;
        let mut digest = None;

        for session in &self.sessions {
            let engine = &session.engine;
            if !round.engines.contains(&engine.label) {
                continue;
            }
            session.load(&providers)?;
            let replaced = engine.label == BASELINE || session.plan(round.sql).await? != stock_plan;
            let time = if !replaced {
                Time::Missing {
                    reason: "declined: the plan is DataFusion's own".to_string(),
                }
            } else {
                match self.guard.verdict(engine, work) {
                    Verdict::Skip { reason } => Time::Missing { reason },
                    Verdict::Extrapolate { ms, from } => Time::Extrapolated { ms, from },
                    Verdict::Run => match enter(session, round, self.repeat, &mut digest).await {
                        Ok(measured) => {
                            self.guard.record(engine, work, measured.ms, round.size);
                            if self.analyze && engine.label != BASELINE {
                                println!("{}", session.analyze(round.sql).await?);
                            }
                            Time::Measured {
                                ms: measured.ms,
                                runs: measured.runs,
                            }
                        }
                        Err(error) if self.goes_on && !error.to_string().contains(WRONG) => {
                            let reason = error.to_string();
                            Time::Missing {
                                reason: reason.lines().next().unwrap_or_default().to_string(),
                            }
                        }
                        Err(error) => return Err(error),
                    },
                }
            };
            self.report.add(Cell {
                case: round.case.to_string(),
                size: round.size.to_string(),
                selectivity: round.selectivity,
                engine: engine.label,
                time,
                input: work.input,
                rows: round.expected.rows,
                pairs: round.pairs,
            });
        }
        Ok(())
    }

    /// The card's times of one more run of a query, on the tables of the last round; `None` without a GPU.
    pub async fn card_times(&self, engine: &str, sql: &str) -> Result<Option<CardTimes>> {
        let mut sessions = self.sessions.iter();
        match sessions.find(|session| session.engine.label == engine) {
            Some(session) => card_times::of(&session.ctx, sql).await,
            None => Ok(None),
        }
    }
}

/// One engine's run of a round, compared with the known properties and with the results of earlier engines.
async fn enter(
    session: &Session,
    round: &Round<'_>,
    repeat: usize,
    digest: &mut Option<(&'static str, u64)>,
) -> Result<Measurement> {
    let label = session.engine.label;
    let timed = Consume {
        sum: round.sum,
        digest: false,
    };
    let first = Consume {
        digest: round.expected.rows <= DIGEST_ROWS,
        ..timed
    };
    let measured = measure(&session.ctx, round.sql, first, timed, repeat)
        .await
        .map_err(|error| format!("{} {}, {label}: {error}", round.case, round.size))?;

    if let Some(difference) = measured.answer.contradicts(round.expected) {
        return Err(format!(
            "{WRONG}, {} {}, {label}: {difference}\n{}",
            round.case, round.size, round.sql
        )
        .into());
    }
    match (*digest, measured.answer.digest) {
        (Some((other, theirs)), Some(ours)) if theirs != ours => Err(format!(
            "{WRONG}, {} {}: {label} and {other} return as many rows, but not the same ones\n{}",
            round.case, round.size, round.sql
        )
        .into()),
        (None, Some(ours)) => {
            *digest = Some((label, ours));
            Ok(measured)
        }
        _ => Ok(measured),
    }
}
