//! The aggregation from SQL to rows, including transfers.

use std::collections::HashMap;

use rand::Rng;

use super::support::Result;
use super::support::answer::Expected;
use super::support::arguments::Arguments;
use super::support::contest::{Contest, Round};
use super::support::quantity::short;
use super::support::session::{BASELINE, Engine, Growth};
use super::support::table::{Table, Values, seeded};

const BOWTIE: &str = "bowtie";
const SQL: &str = "SELECT k, SUM(v) AS total, COUNT(*) AS n FROM r GROUP BY k";

fn table(rows: usize, groups: usize) -> Table {
    let mut random = seeded(31);
    let key = |i: u32| i.wrapping_mul(0x9E37_79B1) as i32;
    let keys = (0..rows).map(|_| key(random.random_range(0..groups as u32)));
    let keys = keys.collect();
    let values = (0..rows)
        .map(|_| random.random_range(-1000..1000))
        .collect();
    Table::new("r")
        .with("k", Values::Int32(keys))
        .with("v", Values::Int64(values))
}

/// The number of groups, and the sum over all of them, computed without any engine.
fn expected(table: &Table) -> Expected {
    let mut groups: HashMap<i64, ()> = HashMap::new();
    for key in table.column("k") {
        groups.insert(key, ());
    }
    Expected {
        rows: groups.len() as u64,
        sum: Some(table.column("v").iter().sum()),
    }
}

pub async fn run(arguments: &Arguments) -> Result<()> {
    if !arguments.selects("sum") {
        return Ok(());
    }
    let sizes: &[usize] = match (arguments.large, arguments.quick) {
        (true, _) => &[1 << 22, 1 << 26],
        (false, true) => &[1 << 18],
        (false, false) => &[1 << 18, 1 << 20, 1 << 22],
    };
    let engines = vec![
        Engine::new(BASELINE, Growth::Rows, &[("bowtie.offload", "off")]),
        Engine::bowtie(BOWTIE, Growth::Rows, &[]),
    ];
    let mut contest = Contest::open("group", engines, arguments).await?;
    contest.report.section("sum", SQL);
    for log in [4, 12, 16, 20] {
        contest.start_ladder();
        for size in sizes {
            let table = table(*size, 1 << log);
            let expected = expected(&table);
            let label = format!("{}/2^{log}", short(*size as f64));
            contest
                .round(&Round {
                    case: "sum",
                    size: &label,
                    selectivity: None,
                    sql: SQL,
                    tables: &[table],
                    pairs: *size as u64,
                    sum: Some(1),
                    expected,
                    engines: &[BASELINE, BOWTIE],
                })
                .await?;
        }
    }
    contest.report.finish(&arguments.out)
}
