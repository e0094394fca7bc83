//! Set joins from SQL to rows, including transfers. `scripts/rivals_sets.py` runs the same queries in DuckDB, on the
//! tables that `--export` writes.

use std::collections::HashSet;
use std::path::Path;

use rand::Rng;

use super::clones;
use super::oracle::{self, Output, Pair, Rows};
use super::support::Result;
use super::support::answer::Expected;
use super::support::arguments::Arguments;
use super::support::contest::{Contest, Round};
use super::support::quantity::short;
use super::support::session::{BASELINE, Engine, Growth};
use super::support::table::{self, Table, Values, seeded};
use super::text_queries;

pub const BOWTIE: &str = "bowtie";
/// Distinct values of the equality's key.
const KEYS: u64 = 100;
/// Tables of more rows are measured with `--large` only.
const LARGE: usize = 100_000;

/// A query, and the ascending sizes of one clone.
struct Case {
    name: &'static str,
    data_set: &'static str,
    sql: &'static str,
    rows: Rows,
    output: Output,
    matches: fn(Pair) -> bool,
    sizes: &'static [usize],
}

impl Case {
    fn expected(&self, table: &Table) -> Expected {
        oracle::joined(table, self.rows, self.output, self.matches)
    }

    /// The number of pairs that a nested loop tests, or a hash join if there is an equality.
    fn pairs(&self, size: usize) -> u64 {
        let pairs = (size as u64).pow(2);
        match self.rows {
            Rows::AscendingOfKey => pairs / KEYS,
            Rows::All | Rows::Ascending => pairs,
        }
    }

    fn selected(&self, arguments: &Arguments) -> impl Iterator<Item = usize> {
        selected(self.name, self.sizes, arguments)
    }
}

/// Those sizes of a query that are measured.
pub fn selected(
    name: &str,
    sizes: &'static [usize],
    arguments: &Arguments,
) -> impl Iterator<Item = usize> {
    let most = match (arguments.large, arguments.quick) {
        (true, _) => usize::MAX,
        (false, true) => 10_000,
        (false, false) => LARGE,
    };
    let sizes = sizes.iter().copied().filter(move |size| *size <= most);
    sizes.filter(move |size| arguments.selects(&format!("sql/{name}/{}", short(*size as f64))))
}

/// Sizes of the clone of small sets, and of the clone of large ones. The first sizes are measured with a nested loop,
/// which is extrapolated from there.
const SMALL: &[usize] = &[1_000, 3_000, 10_000, 50_000, 100_000, 510_000];
const WIDE: &[usize] = &[1_000, 3_000, 10_000, 50_000];

const CASES: [Case; 11] = [
    Case {
        name: "containment-count",
        data_set: "BMS-POS",
        sql: "SELECT COUNT(*) FROM sets a JOIN sets b ON array_has_all(b.tags, a.tags)",
        rows: Rows::All,
        output: Output::Count,
        matches: Pair::contained,
        sizes: SMALL,
    },
    Case {
        name: "containment-rows",
        data_set: "BMS-POS",
        sql: "SELECT a.id, b.id FROM sets a JOIN sets b ON array_has_all(b.tags, a.tags)",
        rows: Rows::All,
        output: Output::Pairs,
        matches: Pair::contained,
        sizes: SMALL,
    },
    Case {
        name: "containment-enron",
        data_set: "ENRON",
        sql: "SELECT COUNT(*) FROM sets a JOIN sets b ON array_has_all(b.tags, a.tags)",
        rows: Rows::All,
        output: Output::Count,
        matches: Pair::contained,
        sizes: WIDE,
    },
    Case {
        name: "any-count",
        data_set: "BMS-POS",
        sql: "SELECT COUNT(*) FROM sets a JOIN sets b ON array_has_any(a.tags, b.tags) AND a.id < b.id",
        rows: Rows::Ascending,
        output: Output::Count,
        matches: |_| true,
        sizes: SMALL,
    },
    Case {
        name: "overlap-4",
        data_set: "BMS-POS",
        sql: "SELECT a.id, b.id FROM sets a JOIN sets b ON array_overlap(a.tags, b.tags) >= 4 AND a.id < b.id",
        rows: Rows::Ascending,
        output: Output::Pairs,
        matches: |pair| pair.shared >= 4,
        sizes: SMALL,
    },
    Case {
        name: "jaccard-0.9",
        data_set: "BMS-POS",
        sql: "SELECT a.id, b.id FROM sets a JOIN sets b ON array_jaccard(a.tags, b.tags) >= 0.9 AND a.id < b.id",
        rows: Rows::Ascending,
        output: Output::Pairs,
        matches: |pair| pair.jaccard(9),
        sizes: SMALL,
    },
    Case {
        name: "jaccard-0.7",
        data_set: "BMS-POS",
        sql: "SELECT a.id, b.id FROM sets a JOIN sets b ON array_jaccard(a.tags, b.tags) >= 0.7 AND a.id < b.id",
        rows: Rows::Ascending,
        output: Output::Pairs,
        matches: |pair| pair.jaccard(7),
        sizes: SMALL,
    },
    Case {
        name: "jaccard-0.5",
        data_set: "BMS-POS",
        sql: "SELECT a.id, b.id FROM sets a JOIN sets b ON array_jaccard(a.tags, b.tags) >= 0.5 AND a.id < b.id",
        rows: Rows::Ascending,
        output: Output::Pairs,
        matches: |pair| pair.jaccard(5),
        sizes: SMALL,
    },
    Case {
        name: "jaccard-counts",
        data_set: "BMS-POS",
        sql: "SELECT a.id, COUNT(*) FROM sets a JOIN sets b ON array_jaccard(a.tags, b.tags) >= 0.7 GROUP BY a.id",
        rows: Rows::All,
        output: Output::CountsByFirst,
        matches: |pair| pair.jaccard(7),
        sizes: SMALL,
    },
    Case {
        name: "jaccard-key",
        data_set: "BMS-POS",
        sql: "SELECT a.id, b.id FROM sets a JOIN sets b ON a.k = b.k AND array_jaccard(a.tags, b.tags) >= 0.7 AND a.id < b.id",
        rows: Rows::AscendingOfKey,
        output: Output::Pairs,
        matches: |pair| pair.jaccard(7),
        sizes: SMALL,
    },
    Case {
        name: "jaccard-enron",
        data_set: "ENRON",
        sql: "SELECT a.id, b.id FROM sets a JOIN sets b ON array_jaccard(a.tags, b.tags) >= 0.7 AND a.id < b.id",
        rows: Rows::Ascending,
        output: Output::Pairs,
        matches: |pair| pair.jaccard(7),
        sizes: WIDE,
    },
];

/// `sets`: `id`, `k`, `tags`, the first `rows` sets of a clone.
fn table(data_set: &str, rows: usize) -> Table {
    let mut random = seeded(41);
    let keys = (0..rows).map(|_| random.random_range(0..KEYS as i32));
    let lists = clones::named(data_set).case(rows).lists();
    Table::new("sets")
        .with("id", Values::Int32((0..rows as i32).collect()))
        .with("k", Values::Int32(keys.collect()))
        .with("tags", Values::Lists(lists))
}

/// Writes `<clone>-<size>-sets.parquet` and `titles-<size>-titles.parquet` for each table of a selected query.
pub async fn export(arguments: &Arguments, dir: &Path) -> Result<()> {
    let mut written = HashSet::new();
    for case in &CASES {
        for size in case.selected(arguments) {
            let name = format!("{}-{}", case.data_set, short(size as f64));
            if written.insert(name.clone()) {
                table::export(&[table(case.data_set, size)], &name, dir).await?;
            }
        }
    }
    text_queries::export(arguments, dir).await
}

pub async fn run(arguments: &Arguments) -> Result<()> {
    let is_selected = |case: &Case| case.selected(arguments).next().is_some();
    if !CASES.iter().any(is_selected) && !text_queries::are_selected(arguments) {
        return Ok(());
    }
    let engines = vec![
        Engine::datafusion(),
        Engine::bowtie(BOWTIE, Growth::Rows, &[]),
    ];
    let mut contest = Contest::open("sets", engines, arguments).await?;
    for case in &CASES {
        contest.start_ladder();
        let mut opened = false;
        for size in case.selected(arguments) {
            if !opened {
                opened = true;
                let of = format!("{} (clone of {})", case.sql, case.data_set);
                contest.report.section(case.name, &of);
            }
            let table = table(case.data_set, size);
            let expected = case.expected(&table);
            contest
                .round(&Round {
                    case: case.name,
                    size: &short(size as f64),
                    selectivity: None,
                    sql: case.sql,
                    tables: &[table],
                    pairs: case.pairs(size),
                    sum: Some(match case.output {
                        Output::Count => 0,
                        Output::Pairs | Output::CountsByFirst => 1,
                    }),
                    expected,
                    engines: &[BASELINE, BOWTIE],
                })
                .await?;
        }
    }
    text_queries::run(&mut contest, arguments).await?;
    contest.report.finish(&arguments.out)
}
