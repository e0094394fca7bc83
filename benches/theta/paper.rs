//! `--paper`: [T] tables II, III and IV, from SQL to rows, with the card's times of kernels and copies, which are what [T]
//! states. `bowtie` sorts and searches, `bowtie-tiles` counts all pairs as [T]'s kernels in shared memory do, and DataFusion
//! stands in for [T]'s CPU and PostgreSQL. Sizes below those of [T] table III are needed to extrapolate from.
//!
//! `published.csv` has the figures of these tables and of table V, of a GTX 970 and an i7-5820K of 6 cores.

use super::cases::{self, GRID, OUTPUT_GRID, Size};
use super::support::Result;
use super::support::arguments::Arguments;
use super::support::contest::Contest;
use super::support::paper::{Paper, PaperPoint};

const PUBLISHED: &str = include_str!("published.csv");

/// `--quick` includes sizes up to this number of pairs.
const QUICK_PAIRS: usize = 250_000_000;

/// The sizes of a table at one selectivity, and the name of its query's case.
struct Ladder {
    table: &'static str,
    case: &'static str,
    sizes: Vec<Size>,
}

impl Ladder {
    fn new(
        table: &'static str,
        case: &'static str,
        sizes: &[(usize, usize)],
        selectivity: f64,
    ) -> Self {
        Self {
            table,
            case,
            sizes: cases::grid(sizes, selectivity, QUICK_PAIRS),
        }
    }
}

fn ladders() -> [Ladder; 5] {
    [
        Ladder::new("table II", "sum", &GRID, 0.5),
        Ladder::new("table III", "sum", &GRID, 0.1),
        Ladder::new("table III", "sum", &GRID, 0.9),
        Ladder::new("table IV", "rows", &OUTPUT_GRID[1..], 0.5),
        Ladder::new("table IV", "rows", &OUTPUT_GRID[1..], 0.9),
    ]
}

pub async fn run(arguments: &Arguments) -> Result<()> {
    let cases = cases::all();
    let mut paper = Paper::create("theta", arguments)?;
    let mut contest = Contest::open("theta", super::engines(arguments), arguments).await?;
    for ladder in ladders() {
        let mut cases = cases.iter();
        let Some(case) = cases.find(|case| case.name == ladder.case) else {
            return Err(format!("no case {}", ladder.case).into());
        };
        contest.start_ladder();
        let mut opened = false;
        for size in &ladder.sizes {
            let cell = format!("{}/{}", ladder.table, size.parts("/"));
            if (arguments.quick && !size.quick) || !arguments.selects(&cell) {
                continue;
            }
            if !opened {
                opened = true;
                contest.report.section(ladder.table, case.sql);
            }
            let before = contest.report.cells().len();
            super::measure(&mut contest, case, size).await?;
            let parameters = format!("selectivity {}", size.selectivity.unwrap_or(0.5));
            let published = published(ladder.table, size)?;
            let point = PaperPoint {
                experiment: ladder.table,
                parameters: &parameters,
                rows: [size.left, size.right],
                published: &published,
            };
            paper.add_cells(&point, &contest, before, case.sql).await?;
        }
    }
    paper.finish();
    Ok(())
}

/// [T]'s figures of a point: each system and its milliseconds.
fn published(table: &str, size: &Size) -> Result<String> {
    let mut figures = vec![];
    for line in PUBLISHED.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [of, left, right, selectivity, system, ms] = fields[..] else {
            return Err(format!("published.csv: {line}").into());
        };
        let is_of_point = of == table
            && left.parse::<usize>() == Ok(size.left)
            && right.parse::<usize>() == Ok(size.right)
            && selectivity.parse::<f64>().ok() == size.selectivity;
        if is_of_point {
            figures.push(format!("{system} {ms} ms"));
        }
    }
    Ok(figures.join("; "))
}
