//! Bounds the time of a bench: decides before a run whether it would take too long, from the sizes already measured.
//!
//! The sizes of a ladder ascend, so an engine's last measured size is its largest. Its time, scaled by the work,
//! predicts the next one. Predicted times are never reported as measured: the verdict says so, and the report marks
//! them.

use std::collections::HashMap;
use std::time::Duration;

use super::quantity::{digits, short};
use super::session::{Engine, Growth};

/// The most pairs for which an engine that tests all of them runs without a smaller size to predict from.
const UNCALIBRATED_PAIRS: u64 = 1_000_000_000;

/// The work of one cell.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Rows of all inputs.
    pub input: u64,
    /// The number of pairs that a nested loop tests.
    pub pairs: u64,
    /// The number of output rows.
    pub output: u64,
}

impl Work {
    fn of(self, growth: Growth) -> f64 {
        match growth {
            Growth::Pairs => self.pairs as f64,
            Growth::Rows => (self.input + self.output) as f64,
        }
    }
}

/// What to do with a cell.
#[derive(Clone, Debug)]
pub enum Verdict {
    Run,
    Extrapolate { ms: f64, from: String },
    Skip { reason: String },
}

struct Measured {
    work: f64,
    ms: f64,
    size: String,
}

/// The largest measured size of each engine on the current ladder.
pub struct Guard {
    limit: Duration,
    measured: HashMap<&'static str, Measured>,
}

impl Guard {
    pub fn new(limit: Duration) -> Self {
        Self {
            limit,
            measured: HashMap::new(),
        }
    }

    /// Forgets the ladder: times of another query or selectivity predict nothing.
    pub fn start_ladder(&mut self) {
        self.measured.clear();
    }

    pub fn record(&mut self, engine: &Engine, work: Work, ms: f64, size: &str) {
        let measured = Measured {
            work: work.of(engine.growth),
            ms,
            size: size.to_string(),
        };
        self.measured.insert(engine.label, measured);
    }

    pub fn verdict(&self, engine: &Engine, work: Work) -> Verdict {
        let Some(last) = self.measured.get(engine.label) else {
            return match engine.growth {
                Growth::Pairs if work.pairs > UNCALIBRATED_PAIRS => Verdict::Skip {
                    reason: format!(
                        "not run: {} pairs and no smaller size measured",
                        short(work.pairs as f64)
                    ),
                },
                _ => Verdict::Run,
            };
        };
        let ms = last.ms * work.of(engine.growth) / last.work.max(1.0);
        if ms <= self.limit.as_secs_f64() * 1e3 {
            return Verdict::Run;
        }
        match engine.growth {
            Growth::Pairs => Verdict::Extrapolate {
                ms,
                from: last.size.clone(),
            },
            Growth::Rows => Verdict::Skip {
                reason: format!(
                    "not run: {} rows out would take about {} s",
                    short(work.output as f64),
                    digits(ms / 1e3)
                ),
            },
        }
    }
}
