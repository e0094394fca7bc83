//! [W]'s query of figures 15, 17 and 18, MAX of two columns of 4 bytes by keys from 0 … g-1, from SQL, by each strategy.
//! The groups are counted and added up on the device, as [W] does not send them to the host. Columns of the table are on
//! the device after the first run, in chunks of at most 2^24 rows, where [W] groups 2^28 rows at once.

use std::sync::atomic::{AtomicI32, Ordering};

use rayon::prelude::*;

use super::paper::{NARROW, Sizes, WIDE};
use super::support::Result;
use super::support::answer::Expected;
use super::support::arguments::Arguments;
use super::support::contest::{Contest, Round};
use super::support::paper::{Paper, PaperPoint};
use super::support::quantity::short;
use super::support::session::{BASELINE, Engine, Growth};
use super::support::table::{Table, Values};

const SQL: &str = "SELECT COUNT(*), SUM(CAST(a AS BIGINT) + b) \
                   FROM (SELECT k, MAX(x) AS a, MAX(y) AS b FROM r GROUP BY k)";

/// Engines, and their strategies.
const ENGINES: [(&str, &str); 7] = [
    ("max-hash_shared", "hash_shared"),
    ("max-hash_global", "hash_global"),
    ("max-partition", "partition"),
    ("max-sort", "sort"),
    ("max-sort_dict", "sort_dict"),
    ("max-runs", "runs"),
    ("max-auto", "auto"),
];

/// A pseudo-random word, a function of the row and the column.
fn word(row: usize, column: u64) -> u64 {
    let word = (row as u64 ^ column << 40).wrapping_add(1);
    let word = word.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let word = (word ^ (word >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word ^ (word >> 29)
}

/// `r`: `k`, `x`, `y`, and the sum of the maxima of all groups, computed without any engine.
fn relation(rows: usize, groups: usize, key_bytes: usize) -> (Table, Expected) {
    let ids = (0..rows).into_par_iter();
    let ids: Vec<i32> = ids
        .map(|row| (word(row, 0) % groups as u64) as i32)
        .collect();
    let values = |column: u64| -> Vec<i32> {
        let rows = (0..rows).into_par_iter();
        rows.map(|row| (word(row, column) >> 33) as i32).collect()
    };
    let (x, y) = (values(1), values(2));
    let sum = maxima(&ids, &x, groups) + maxima(&ids, &y, groups);
    let keys = match key_bytes {
        4 => Values::Int32(ids),
        _ => Values::Int64(ids.into_par_iter().map(i64::from).collect()),
    };
    let table = Table::new("r")
        .with("k", keys)
        .with("x", Values::Int32(x))
        .with("y", Values::Int32(y));
    let expected = Expected {
        rows: 1,
        sum: Some(sum),
    };
    (table, expected)
}

/// The sum of the groups' greatest values, none of which is negative.
fn maxima(ids: &[i32], values: &[i32], groups: usize) -> i64 {
    let greatest: Vec<AtomicI32> = (0..groups).map(|_| AtomicI32::new(0)).collect();
    ids.par_iter().zip(values).for_each(|(id, value)| {
        let greatest = &greatest[*id as usize];
        // Most values are less, and reading does not contend.
        if greatest.load(Ordering::Relaxed) < *value {
            greatest.fetch_max(*value, Ordering::Relaxed);
        }
    });
    let greatest = greatest.into_par_iter();
    greatest.map(|value| i64::from(value.into_inner())).sum()
}

pub async fn run(arguments: &Arguments, paper: &mut Paper) -> Result<()> {
    let sizes = Sizes::new(arguments.quick);
    let rows = 1usize << sizes.rows;
    let figures = [("figures 15 and 17", 4, NARROW), ("figure 18", 8, WIDE)];
    let engines = || {
        let baseline = Engine::new(BASELINE, Growth::Rows, &[("bowtie.offload", "off")]);
        let ours = ENGINES.map(|(label, strategy)| {
            Engine::bowtie(label, Growth::Rows, &[("bowtie.group_strategy", strategy)])
        });
        std::iter::once(baseline).chain(ours).collect::<Vec<_>>()
    };
    let labels = ENGINES.map(|(label, _)| label);
    for (figure, key_bytes, published) in figures {
        let is_selected = |log: &&u32| arguments.selects(&format!("{figure}/max 2^{log}"));
        let logs: Vec<u32> = sizes.groups.iter().filter(is_selected).copied().collect();
        if logs.is_empty() || !paper.has_device_for(figure) {
            continue;
        }
        let mut contest = Contest::open("group", engines(), arguments).await?;
        contest.report.section(figure, SQL);
        for log in logs {
            let (table, expected) = relation(rows, 1 << log, key_bytes);
            let before = contest.report.cells().len();
            let parameters = format!(
                "2^{log} groups, keys of {key_bytes} bytes 0 to g-1, MAX of two columns of 4 bytes"
            );
            contest
                .round(&Round {
                    case: figure,
                    size: &format!("{}/2^{log}", short(rows as f64)),
                    selectivity: None,
                    sql: SQL,
                    tables: &[table],
                    pairs: rows as u64,
                    sum: Some(1),
                    expected,
                    engines: &labels,
                })
                .await?;
            let point = PaperPoint {
                experiment: figure,
                parameters: &parameters,
                rows: [rows, 0],
                published,
            };
            paper.add_cells(&point, &contest, before, SQL).await?;
        }
    }
    Ok(())
}
