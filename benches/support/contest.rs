//! Runs rounds: one query on one set of tables, by one engine after the other, all held to the same answer.

use std::sync::Arc;

use datafusion::catalog::TableProvider;

use super::Result;
use super::answer::{Consume, Expected};
use super::arguments::Arguments;
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
    /// Pairs that a plan without a better idea has to look at.
    pub pairs: u64,
    /// The result column whose sum [`Expected::sum`] is.
    pub sum: Option<usize>,
    pub expected: Expected,
    /// Labels of the engines that take part, among those of the contest.
    pub engines: &'a [&'static str],
}

/// The engines, open, and what has been measured so far.
pub struct Contest {
    sessions: Vec<Session>,
    guard: Guard,
    repeat: usize,
    analyze: bool,
    pub report: Report,
}

impl Contest {
    /// Opens all engines. The first is to be the baseline, so that its time is there when a ratio is printed.
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
            report: Report::new(name, &arguments.device),
        })
    }

    /// Call before the first size of another query or selectivity.
    pub fn start_ladder(&mut self) {
        self.guard.start_ladder();
    }

    /// Measures the round by every engine that takes part.
    ///
    /// # Errors
    /// Those of the queries, and any result that is not the expected one: a wrong answer has no time.
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

        // The baseline session is there even if the round leaves it out: its plan tells whether others were replaced.
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
                    Verdict::Run => {
                        let measured = enter(session, round, self.repeat, &mut digest).await?;
                        self.guard.record(engine, work, measured.ms, round.size);
                        if self.analyze && engine.label != BASELINE {
                            println!("{}", session.analyze(round.sql).await?);
                        }
                        Time::Measured {
                            ms: measured.ms,
                            runs: measured.runs,
                        }
                    }
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
}

/// One engine's run of a round, checked against what is known and against the engines before it.
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
            "WRONG RESULT, {} {}, {label}: {difference}\n{}",
            round.case, round.size, round.sql
        )
        .into());
    }
    match (*digest, measured.answer.digest) {
        (Some((other, theirs)), Some(ours)) if theirs != ours => Err(format!(
            "WRONG RESULT, {} {}: {label} and {other} return as many rows, but not the same ones\n{}",
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
