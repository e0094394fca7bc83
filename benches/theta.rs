//! `cargo bench --bench theta`: theta joins by this crate's operators against DataFusion's nested loops.
//!
//! Cases: the grids of [T] tables II to IV, the employees of the inequality-join papers, points that dominate others, an
//! expression of both sides, a band join and an overlap join of intervals (`theta/cases.rs`); intervals of a genome, the
//! last quote of each trade, the nearest event of each reading, and sums over dominating points (`theta/ranges.rs`). Each
//! runs from SQL to rows on tables in memory, by these engines in one process:
//!
//! | engine | what it is |
//! |---|---|
//! | `datafusion` | stock DataFusion: `bowtie.offload` off |
//! | `datafusion-piecewise` | its experimental piecewise merge join, with `--piecewise` |
//! | `bowtie` | `bowtie.offload` force, the strategy chosen by the crate |
//! | `bowtie-tiles` | the same, every pair compared as in [T], where brute force is worth a line |
//!
//! ```text
//! cargo bench --bench theta                                  everything: many minutes, most of them DataFusion's
//! cargo bench --bench theta -- --quick                       under a minute
//! cargo bench --bench theta -- --filter employees --repeat 9
//! cargo bench --bench theta -- --filter genome --large       up to 2 million intervals by 50 million
//! cargo bench --bench theta -- --paper                       [T] tables II to IV (`theta/paper.rs`)
//! cargo bench --bench theta -- --export target/bench/tables  for benches/rivals/theta.py
//! ```
//!
//! [T]: Bellas, Gounaris: GPU processing of theta-joins. Concurrency and Computation: Practice and Experience, 2017.

#[path = "theta/cases.rs"]
mod cases;
#[path = "theta/datasets.rs"]
mod datasets;
#[path = "theta/genome.rs"]
mod genome;
#[path = "theta/oracle.rs"]
mod oracle;
#[path = "theta/paper.rs"]
mod paper;
#[path = "theta/points.rs"]
mod points;
#[path = "theta/ranges.rs"]
mod ranges;
mod support;

use std::collections::HashSet;

use cases::{Case, Size};
use support::Result;
use support::arguments::Arguments;
use support::contest::{Contest, Round};
use support::session::{BASELINE, Engine, Growth};
use support::table;

const BOWTIE: &str = "bowtie";
const TILES: &str = "bowtie-tiles";
const PIECEWISE: &str = "datafusion-piecewise";

#[tokio::main]
async fn main() {
    support::main("theta", run()).await;
}

async fn run() -> Result<()> {
    let arguments = Arguments::from_command_line()?;
    if arguments.paper {
        return paper::run(&arguments).await;
    }
    let cases = cases::all();
    if let Some(dir) = &arguments.export {
        // Several cases share their tables.
        let mut written = HashSet::new();
        for (case, size) in selected(&cases, &arguments) {
            let name = case.export_name(size);
            if written.insert(name.clone()) {
                table::export(&(case.dataset)(size), &name, dir).await?;
            }
        }
        return Ok(());
    }
    if selected(&cases, &arguments).next().is_none() {
        return Err("no case has such a name; see benches/theta/cases.rs and ranges.rs".into());
    }

    let mut contest = Contest::open("theta", engines(&arguments), &arguments).await?;
    for case in &cases {
        let mut opened = false;
        for ladder in &case.ladders {
            contest.start_ladder();
            for size in ladder {
                if !takes(case, size, &arguments) {
                    continue;
                }
                if !opened {
                    contest.report.section(case.name, case.sql);
                    opened = true;
                }
                measure(&mut contest, case, size).await?;
            }
        }
    }
    contest.report.finish(&arguments.out)
}

fn engines(arguments: &Arguments) -> Vec<Engine> {
    let mut engines = vec![Engine::datafusion()];
    if arguments.piecewise {
        engines.push(Engine::new(
            PIECEWISE,
            Growth::Pairs,
            &[
                ("bowtie.offload", "off"),
                ("datafusion.optimizer.enable_piecewise_merge_join", "true"),
            ],
        ));
    }
    engines.push(Engine::bowtie(BOWTIE, Growth::Rows, &[]));
    engines.push(Engine::bowtie(
        TILES,
        Growth::Pairs,
        &[("bowtie.theta_strategy", "tiles")],
    ));
    engines
}

async fn measure(contest: &mut Contest, case: &Case, size: &Size) -> Result<()> {
    let tables = (case.dataset)(size);
    let expected = (case.oracle)(&tables);
    let mut engines = vec![BASELINE, BOWTIE];
    if case.one_inequality {
        engines.push(PIECEWISE);
    }
    if case.brute_force {
        engines.push(TILES);
    }
    contest
        .round(&Round {
            case: case.name,
            size: &size.label(),
            selectivity: size.selectivity,
            sql: case.sql,
            tables: &tables,
            pairs: case.pairs(size),
            sum: case.sum,
            expected,
            engines: &engines,
        })
        .await
}

fn takes(case: &Case, size: &Size, arguments: &Arguments) -> bool {
    (size.quick || !arguments.quick)
        && (arguments.large || !size.large)
        && arguments.selects(&case.cell_name(size))
}

fn selected<'a>(
    cases: &'a [Case],
    arguments: &'a Arguments,
) -> impl Iterator<Item = (&'a Case, &'a Size)> {
    cases
        .iter()
        .flat_map(|case| case.ladders.iter().flatten().map(move |size| (case, size)))
        .filter(move |(case, size)| takes(case, size, arguments))
}
