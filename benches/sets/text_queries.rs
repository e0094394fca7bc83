//! Set joins from text to rows: titles are made sets of shingles by the query itself.

use std::path::Path;

use arrow::array::StringArray;

use super::queries::{BOWTIE, selected};
use super::support::Result;
use super::support::answer::Expected;
use super::support::arguments::Arguments;
use super::support::contest::{Contest, Round};
use super::support::quantity::short;
use super::support::session::BASELINE;
use super::support::table;
use super::text_oracle;
use super::titles::titles;

/// A query of two columns, and the expected sum of the second one.
struct Case {
    name: &'static str,
    sql: &'static str,
    expected: fn(&StringArray) -> Expected,
}

const CASES: [Case; 2] = [
    Case {
        name: "near-duplicates",
        sql: "SELECT a.id, b.id FROM (SELECT id, shingles(title, 5) AS s FROM titles) a \
              JOIN (SELECT id, shingles(title, 5) AS s FROM titles) b ON array_jaccard(a.s, b.s) >= 0.8 AND a.id < b.id",
        expected: text_oracle::pairs,
    },
    Case {
        name: "duplicate-clusters",
        sql: "SELECT * FROM bowtie_clusters($$ SELECT a.id, b.id FROM (SELECT id, shingles(title, 5) AS s FROM titles) a \
              JOIN (SELECT id, shingles(title, 5) AS s FROM titles) b ON array_jaccard(a.s, b.s) >= 0.8 AND a.id < b.id $$)",
        expected: text_oracle::clusters,
    },
];

const SIZES: &[usize] = &[1_000, 10_000, 100_000, 1_000_000];

/// Whether any cell is measured.
pub fn are_selected(arguments: &Arguments) -> bool {
    let is_selected = |case: &Case| selected(case.name, SIZES, arguments).next().is_some();
    CASES.iter().any(is_selected)
}

/// Writes the tables of the selected cells.
pub async fn export(arguments: &Arguments, dir: &Path) -> Result<()> {
    for &size in SIZES {
        let is_selected =
            |case: &Case| selected(case.name, SIZES, arguments).any(|taken| taken == size);
        if CASES.iter().any(is_selected) {
            let name = format!("titles-{}", short(size as f64));
            table::export(&[titles(size)], &name, dir).await?;
        }
    }
    Ok(())
}

pub async fn run(contest: &mut Contest, arguments: &Arguments) -> Result<()> {
    for case in &CASES {
        contest.start_ladder();
        let mut opened = false;
        for size in selected(case.name, SIZES, arguments) {
            if !opened {
                opened = true;
                contest.report.section(case.name, case.sql);
            }
            let table = titles(size);
            let expected = (case.expected)(table.texts("title"));
            contest
                .round(&Round {
                    case: case.name,
                    size: &short(size as f64),
                    selectivity: None,
                    sql: case.sql,
                    tables: &[table],
                    pairs: (size as u64).pow(2),
                    sum: Some(1),
                    expected,
                    engines: &[BASELINE, BOWTIE],
                })
                .await?;
        }
    }
    Ok(())
}
