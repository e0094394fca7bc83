//! [B] table B.1 (MISI): the number of common elements of each two of the largest sets of a data set, added up, from SQL. Two
//! small sizes come first, from which the time of larger ones is predicted; what would pass `--limit` is extrapolated.

use super::clones::{self, DataSet};
use super::paper::{LARGEST, taken};
use super::published;
use super::queries::BOWTIE;
use super::support::Result;
use super::support::answer::Expected;
use super::support::arguments::Arguments;
use super::support::contest::{Contest, Round};
use super::support::paper::{Paper, PaperPoint};
use super::support::quantity::short;
use super::support::session::{BASELINE, Engine, Growth};
use super::support::table::{Table, Values};

const EXPERIMENT: &str = "table B.1";
const SQL: &str =
    "SELECT SUM(array_overlap(a.tags, b.tags)) FROM sets a JOIN sets b ON a.id < b.id";

/// Numbers of sets below [B]'s.
const SMALL: [usize; 2] = [300, 1_000];

/// `sets`: `id`, `tags`, the first sets of a clone.
fn table(data_set: &DataSet, sets: usize) -> Table {
    Table::new("sets")
        .with("id", Values::Int32((0..sets as i32).collect()))
        .with("tags", Values::Lists(data_set.case(sets).lists()))
}

/// The sum over all pairs, computed without any engine: an element of f sets is common to f (f - 1) / 2 pairs.
fn expected(data_set: &DataSet, table: &Table) -> Expected {
    let mut sets_with = vec![0i64; data_set.universe];
    for set in table.lists("tags") {
        for element in set {
            sets_with[element as usize] += 1;
        }
    }
    let pairs = sets_with.iter().map(|sets| sets * (sets - 1) / 2);
    Expected {
        rows: 1,
        sum: Some(pairs.sum()),
    }
}

pub async fn run(arguments: &Arguments, paper: &mut Paper) -> Result<()> {
    let figures = published::figures()?;
    let engines = vec![
        Engine::datafusion(),
        Engine::bowtie(BOWTIE, Growth::Pairs, &[]),
    ];
    let mut contest = Contest::open("sets", engines, arguments).await?;
    for (name, data_sets) in clones::largest_of(&LARGEST) {
        let cell = |sets: usize| format!("{EXPERIMENT}/{name}/{}", short(sets as f64));
        // The small sizes are of the first data set, and are needed if any size is.
        let small = data_sets.iter().take(1);
        let small = small.flat_map(|data_set| SMALL.map(|sets| (data_set, sets)));
        let whole = data_sets.iter();
        let whole = whole.filter(|data_set| arguments.selects(&cell(data_set.sets)));
        let whole: Vec<(&DataSet, usize)> = whole
            .filter(|data_set| taken(data_set, arguments, paper.on_gpu) == data_set.sets)
            .map(|data_set| (data_set, data_set.sets))
            .collect();
        let is_small_selected = SMALL.iter().any(|sets| arguments.selects(&cell(*sets)));
        if whole.is_empty() && !is_small_selected {
            continue;
        }
        contest.start_ladder();
        contest
            .report
            .section(&format!("{EXPERIMENT}, {name}"), SQL);
        for (data_set, sets) in small.chain(whole) {
            let table = table(data_set, sets);
            let expected = expected(data_set, &table);
            let before = contest.report.cells().len();
            contest
                .round(&Round {
                    case: EXPERIMENT,
                    size: &format!("{name} {}", short(sets as f64)),
                    selectivity: None,
                    sql: SQL,
                    tables: &[table],
                    pairs: (sets * (sets - 1) / 2) as u64,
                    sum: Some(0),
                    expected,
                    engines: &[BASELINE, BOWTIE],
                })
                .await?;
            let parameters = format!("{name}, {} sets", short(sets as f64));
            let stated = if sets == data_set.sets {
                published::of_point(&figures, &data_set.name, sets, "intersections")
            } else {
                String::new()
            };
            let point = PaperPoint {
                experiment: EXPERIMENT,
                parameters: &parameters,
                rows: [sets, sets],
                published: &stated,
            };
            paper.add_cells(&point, &contest, before, SQL).await?;
        }
    }
    Ok(())
}
