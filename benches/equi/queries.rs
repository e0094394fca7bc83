//! The join from SQL to rows, including transfers.

use super::support::Result;
use super::support::answer::Expected;
use super::support::arguments::Arguments;
use super::support::contest::{Contest, Round};
use super::support::quantity::short;
use super::support::session::{BASELINE, Engine, Growth};
use super::support::table::{Table, Values, seeded};
use rand::Rng;

const BOWTIE: &str = "bowtie";
const GFTR: &str = "bowtie-gftr";

/// Name, query, and the result column whose sum is known.
const QUERIES: [(&str, &str, Option<usize>); 2] = [
    (
        "rows",
        "SELECT s.k, r.x, s.y FROM r JOIN s ON r.k = s.k",
        None,
    ),
    (
        "sum",
        "SELECT SUM(CAST(r.x AS BIGINT) + s.y) FROM r JOIN s ON r.k = s.k",
        Some(0),
    ),
];

/// `r` with unique keys in random order, and `s`, each row of which has a match.
fn tables(build: usize, probe: usize) -> Vec<Table> {
    let mut random = seeded(21);
    let mask = build as u64 - 1;
    let key = |i: usize| ((i as u64).wrapping_mul(0x9E37_79B1) & mask) as i32;
    let keys = (0..probe).map(|_| random.random_range(0..build as i32));
    let keys = keys.collect();
    let mut values = |rows: usize| (0..rows).map(|_| random.random_range(0..1000)).collect();
    vec![
        Table::new("r")
            .with("k", Values::Int32((0..build).map(key).collect()))
            .with("x", Values::Int32(values(build))),
        Table::new("s")
            .with("k", Values::Int32(keys))
            .with("y", Values::Int32(values(probe))),
    ]
}

/// The sum over all matches, computed without any engine.
fn sum(tables: &[Table]) -> i64 {
    let (keys, values) = (tables[0].column("k"), tables[0].column("x"));
    let mut of_key = vec![0; keys.len()];
    for (key, value) in keys.iter().zip(values) {
        of_key[*key as usize] = value;
    }
    let probes = tables[1].column("k").into_iter();
    let probes = probes.zip(tables[1].column("y"));
    probes.map(|(key, y)| of_key[key as usize] + y).sum()
}

pub async fn run(arguments: &Arguments) -> Result<()> {
    let sizes: &[usize] = match (arguments.large, arguments.quick) {
        (true, _) => &[1 << 20, 1 << 23, 1 << 25],
        (false, true) => &[1 << 16],
        (false, false) => &[1 << 16, 1 << 18, 1 << 20],
    };
    if !QUERIES.iter().any(|(name, ..)| arguments.selects(name)) {
        return Ok(());
    }
    let engines = vec![
        Engine::new(BASELINE, Growth::Rows, &[("bowtie.offload", "off")]),
        Engine::bowtie(BOWTIE, Growth::Rows, &[]),
        Engine::bowtie(GFTR, Growth::Rows, &[("bowtie.materialization", "early")]),
    ];
    let mut contest = Contest::open("equi", engines, arguments).await?;
    for (name, sql, sum_of) in QUERIES {
        if !arguments.selects(name) {
            continue;
        }
        contest.start_ladder();
        contest.report.section(name, sql);
        for size in sizes {
            let tables = tables(*size, 2 * size);
            let expected = match sum_of {
                None => Expected {
                    rows: 2 * *size as u64,
                    sum: None,
                },
                Some(_) => Expected {
                    rows: 1,
                    sum: Some(sum(&tables)),
                },
            };
            let label = format!("{}x{}", short(*size as f64), short(2.0 * *size as f64));
            contest
                .round(&Round {
                    case: name,
                    size: &label,
                    selectivity: None,
                    sql,
                    tables: &tables,
                    pairs: 3 * *size as u64,
                    sum: sum_of,
                    expected,
                    engines: &[BASELINE, BOWTIE, GFTR],
                })
                .await?;
        }
    }
    contest.report.finish(&arguments.out)
}
