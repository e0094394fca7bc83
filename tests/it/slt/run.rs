//! One file: its records, one after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use datafusion_sqllogictest::{DFColumnType, df_value_validator, value_normalizer};
use sqllogictest::{
    QueryExpect, Record, RecordOutput, Runner, TestErrorKind, parse_file, strict_column_validator,
};

use super::engine::{Engine, Plans};
use super::lists::{ANY_ORDER, DATA, Entry, SKIPS, SKIPS_IN_STAGES};
use crate::support::session::Rule;

/// A record that takes longer is named.
const SLOW: Duration = Duration::from_secs(4);

/// A record that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// A record that did not do what its file expects.
#[derive(Debug)]
pub(super) struct Failure {
    /// File and line.
    pub at: String,
    pub message: String,
    /// Whether it fails without offload too.
    pub also_off: bool,
}

/// What came of a file.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub file: String,
    pub passed: usize,
    /// Passed records that were compared without regard to order.
    pub reordered: usize,
    /// Reasons, and how many records each left out.
    pub skipped: BTreeMap<String, usize>,
    /// Entries of the lists that matched a record.
    pub used: BTreeSet<String>,
    pub failures: Vec<Failure>,
    pub plans: Plans,
    pub took: Duration,
}

/// Runs `file`; again without offload when a record fails.
pub(super) async fn run_file(root: PathBuf, file: String, rule: Rule) -> Outcome {
    let mut outcome = run_with(&root, &file, ("force", rule)).await;
    if !outcome.failures.is_empty() {
        let control = run_with(&root, &file, ("off", rule)).await;
        for failure in &mut outcome.failures {
            failure.also_off = control.failures.iter().any(|other| other.at == failure.at);
        }
    }
    outcome
}

async fn run_with(root: &Path, file: &str, (offload, rule): (&str, Rule)) -> Outcome {
    // Upstream's harness writes the tables of this file into its own folder, for all tests of the process.
    static RANGES: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    let _turn = match file.ends_with("range_partitioning.slt") {
        true => Some(RANGES.lock().await),
        false => None,
    };
    let started = Instant::now();
    let folder = tempfile::tempdir().unwrap();
    let stem = Path::new(file).file_stem().unwrap();
    std::fs::create_dir(folder.path().join(stem)).unwrap();

    let plans = Arc::new(Mutex::new(Plans::default()));
    let mut runner = Runner::new(|| async {
        Ok(Engine::new(
            root,
            file,
            folder.path(),
            (offload, rule),
            Arc::clone(&plans),
        )
        .await)
    });
    runner.add_label("Datafusion");
    runner.with_column_validator(strict_column_validator);
    runner.with_normalizer(value_normalizer);
    runner.with_validator(df_value_validator);

    let mut outcome = Outcome {
        file: file.to_string(),
        ..Outcome::default()
    };
    let mut missing = MissingTables::default();
    let skips = skips(rule);
    let records = parse_file::<DFColumnType>(root.join("test_files").join(file))
        .unwrap_or_else(|e| panic!("{file}: {e}"));
    for record in records {
        let (sql, loc) = match &record {
            Record::Halt { .. } => break,
            Record::Statement { sql, loc, .. } | Record::Query { sql, loc, .. } => {
                (collapse(sql), loc.clone())
            }
            _ => {
                runner.run_async(record).await.unwrap();
                continue;
            }
        };
        let within = Path::new(loc.file()).file_name().unwrap();
        let within = within.to_string_lossy().into_owned();
        if let Some(why) = reason_to_skip(
            root,
            (&within, &sql),
            &skips,
            &mut missing,
            &mut outcome.used,
        ) {
            *outcome.skipped.entry(why).or_default() += 1;
            continue;
        }
        let may_be_sorted = !is_sorted_by_the_runner(&record);
        let at = format!("{within}:{}", loc.line());
        let record_started = Instant::now();
        let ran = tokio::time::timeout(PATIENCE, runner.run_async(record)).await;
        if record_started.elapsed() > SLOW {
            println!(
                "{at} took {:.1} s ({offload})",
                record_started.elapsed().as_secs_f64()
            );
        }
        let error = match ran {
            Ok(Ok(RecordOutput::Nothing)) => continue,
            Ok(Ok(_)) => {
                outcome.passed += 1;
                continue;
            }
            Ok(Err(error)) => error.kind(),
            Err(_) => {
                outcome.failures.push(Failure {
                    at,
                    message: format!("did not end within {PATIENCE:?}:\n{sql}"),
                    also_off: false,
                });
                continue;
            }
        };
        if let TestErrorKind::QueryResultMismatch {
            expected, actual, ..
        } = &error
            && may_be_sorted
            && (plans.lock().unwrap().last_is_unordered
                || listed(ANY_ORDER, &within, &sql, &mut outcome.used).is_some())
            && sorted_lines(expected) == sorted_lines(actual)
        {
            outcome.passed += 1;
            outcome.reordered += 1;
            continue;
        }
        outcome.failures.push(Failure {
            at,
            message: error.to_string(),
            also_off: false,
        });
    }
    outcome.plans = plans.lock().unwrap().clone();
    outcome.took = started.elapsed();
    outcome
}

fn collapse(sql: &str) -> String {
    sql.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn sorted_lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.sort_unstable();
    lines
}

/// Whether the file itself asks for sorted rows; then their order is compared as it says.
fn is_sorted_by_the_runner(record: &Record<DFColumnType>) -> bool {
    matches!(
        record,
        Record::Query {
            expected: QueryExpect::Results {
                sort_mode: Some(_),
                ..
            },
            ..
        }
    )
}

fn listed<'a>(
    list: &'a [Entry],
    file: &str,
    sql: &str,
    used: &mut BTreeSet<String>,
) -> Option<&'a Entry> {
    let entry = list
        .iter()
        .find(|entry| entry.file == file && sql.contains(entry.sql))?;
    used.insert(entry.name());
    Some(entry)
}

impl Entry {
    /// For the report.
    pub(super) fn name(&self) -> String {
        format!("{}: {}", self.file, self.sql)
    }
}

/// The lists of what is left out under `rule`.
fn skips(rule: Rule) -> Vec<&'static [Entry]> {
    match rule {
        Rule::Early => vec![SKIPS],
        _ => vec![SKIPS, SKIPS_IN_STAGES],
    }
}

fn reason_to_skip(
    root: &Path,
    (file, sql): (&str, &str),
    skips: &[&'static [Entry]],
    missing: &mut MissingTables,
    used: &mut BTreeSet<String>,
) -> Option<String> {
    if sql.to_ascii_lowercase().starts_with("explain") {
        return Some("EXPLAIN: the plans differ, as they should".into());
    }
    for list in skips {
        if let Some(entry) = listed(list, file, sql, used) {
            return Some(entry.why.into());
        }
    }
    missing.reason_to_skip(root, sql)
}

/// Tables and views whose data file is not there, each with the folder that it would be in.
#[derive(Debug, Default)]
struct MissingTables {
    tables: BTreeMap<String, &'static str>,
    /// Those that are there without some of their rows, and may be dropped.
    incomplete: BTreeSet<String>,
}

impl MissingTables {
    fn reason_to_skip(&mut self, root: &Path, sql: &str) -> Option<String> {
        let texts = || sql.split('\'').skip(1).step_by(2);
        // Names are looked for outside of string literals.
        let words: Vec<String> = sql
            .split('\'')
            .step_by(2)
            .flat_map(|text| text.split(|c: char| !c.is_alphanumeric() && c != '_'))
            .filter(|word| !word.is_empty())
            .map(str::to_ascii_lowercase)
            .collect();
        // CREATE [UNBOUNDED] [EXTERNAL] TABLE [IF NOT EXISTS] name …, INSERT INTO name …
        let (creates, before) = match words.first().map(String::as_str) {
            Some("create") => (true, &["table", "view"][..]),
            Some("insert") => (false, &["into", "overwrite"][..]),
            _ => (false, &[][..]),
        };
        let name = words
            .iter()
            .skip_while(|word| !before.contains(&word.as_str()))
            .skip(1)
            .find(|word| !["if", "not", "exists", "into"].contains(&word.as_str()));
        if words.first().is_some_and(|word| word == "drop")
            && let Some(dropped) = words.iter().find(|word| self.incomplete.remove(*word))
        {
            self.tables.remove(dropped);
            return None;
        }
        let of_before = words
            .iter()
            .filter(|word| !creates || Some(*word) != name)
            .find_map(|word| self.tables.get(word));
        let lacking = DATA
            .iter()
            .find(|data| texts().any(|text| text.starts_with(**data) && !root.join(text).exists()))
            .or(of_before)
            .copied();
        match (lacking, name) {
            (Some(folder), Some(name)) => {
                let is_new = self.tables.insert(name.clone(), folder).is_none();
                if !creates && is_new {
                    self.incomplete.insert(name.clone());
                }
            }
            (None, Some(name)) if creates => {
                self.tables.remove(name);
                self.incomplete.remove(name);
            }
            _ => {}
        }
        lacking.map(|folder| format!("needs a file of {folder}"))
    }
}
