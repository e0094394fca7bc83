//! `--paper`: [B] tables 5.9, 5.11, 5.13 and B.2, every point of `published.csv` on a clone of its data set, by each technique
//! whose time can matter, and the thresholds of figure 4.13 that table 5.9 does not have, with the sets of table 5.2. Table
//! B.1 is in `sets/overlaps.rs`. Without a GPU each data set has the sizes that it has without `--paper`, as `--quick`, `--large` and
//! `--full` say, and [B]'s figures stand beside whole data sets alone.

use datafusion_bowtie::rates::SetQuery;

use super::clones::{self, DataSet};
use super::published::{self, Figure, Ours};
use super::support::Result;
use super::support::arguments::Arguments;
use super::support::paper::{Found, Paper, PaperPoint};
use super::support::quantity::{digits, short};
use super::support::sweep::{AUTO, Sweeps};
use super::sweeps::{CachedClone, Point, Sweep, measure, query_name};

/// Tables of similarity joins.
const SIMILAR: [&str; 3] = ["5.9", "5.11", "5.13"];
/// The numbers of largest sets in tables B.1 and B.2.
pub const LARGEST: [usize; 5] = [10_000, 25_000, 50_000, 75_000, 100_000];
/// The thresholds of figure 4.13, in percent, and its data sets.
const PERCENT: [u32; 10] = [50, 55, 60, 65, 70, 75, 80, 85, 90, 95];
const FIGURE_4_13: [&str; 7] = [
    "BMS-POS",
    "ENRON",
    "DBLP-100K",
    "KOSARAK",
    "LIVEJOURNAL",
    "ORKUT",
    "AOL",
];

/// The number of sets of a data set that are measured.
pub fn taken(data_set: &DataSet, arguments: &Arguments, on_gpu: bool) -> usize {
    let most = match (arguments.full, arguments.large, arguments.quick) {
        (_, _, true) => 1_000,
        (true, _, _) => usize::MAX,
        _ if on_gpu => usize::MAX,
        (_, true, _) => 100_000,
        _ => 5_000,
    };
    data_set.sets.min(most)
}

/// A table's points of a data set.
struct Experiment {
    table: String,
    sweep: Sweep,
}

impl Experiment {
    fn new(table: &str, data_set: &DataSet, sets: usize, queries: &[SetQuery]) -> Self {
        let point = |query: &SetQuery| Point {
            at: match query {
                SetQuery::Jaccard(threshold) => threshold.to_string(),
                _ => short(sets as f64),
            },
            x: sets as f64,
            data_set: data_set.clone(),
            sets,
            query: *query,
        };
        let sweep = Sweep {
            name: format!("{table}/{}", data_set.name),
            what: format!(
                "{} sets of {} elements of {}, a clone",
                short(sets as f64),
                digits(data_set.mean),
                short(data_set.universe as f64)
            ),
            parameter: "jaccard, or sets",
            points: queries.iter().map(point).collect(),
        };
        Self {
            table: table.to_string(),
            sweep,
        }
    }
}

/// All experiments; those of one clone stand together.
fn experiments(figures: &[Figure], arguments: &Arguments, on_gpu: bool) -> Vec<Experiment> {
    let mut all = vec![];
    let thresholds = || PERCENT.map(|percent| f64::from(percent) / 100.0);
    for data_set in clones::similar() {
        let sets = taken(&data_set, arguments, on_gpu);
        let of_table = |table: &str, threshold: f64| {
            let query = query_name(SetQuery::Jaccard(threshold));
            let is_same = |of: &Figure| {
                (of.table, of.data_set, of.query) == (table, data_set.name.as_str(), query.as_str())
            };
            figures.iter().any(is_same)
        };
        for table in SIMILAR {
            let queries = thresholds().into_iter();
            let queries = queries.filter(|threshold| of_table(table, *threshold));
            let queries: Vec<SetQuery> = queries.map(SetQuery::Jaccard).collect();
            if !queries.is_empty() {
                let table = format!("table {table}");
                all.push(Experiment::new(&table, &data_set, sets, &queries));
            }
        }
        if FIGURE_4_13.contains(&data_set.name.as_str()) {
            let queries = thresholds().into_iter();
            let queries = queries.filter(|threshold| !of_table("5.9", *threshold));
            let queries: Vec<SetQuery> = queries.map(SetQuery::Jaccard).collect();
            all.push(Experiment::new("figure 4.13", &data_set, sets, &queries));
        }
    }
    for (_, data_sets) in clones::largest_of(&LARGEST) {
        for data_set in data_sets {
            let sets = taken(&data_set, arguments, on_gpu);
            let query = [SetQuery::Contained];
            all.push(Experiment::new("table B.2", &data_set, sets, &query));
        }
    }
    all
}

pub fn run(arguments: &Arguments, paper: &mut Paper) -> Result<()> {
    let figures = published::figures()?;
    let mut report = Sweeps::new("sets", &arguments.device);
    let mut clone = CachedClone::default();
    let mut ours = Ours::new();
    for Experiment { table, sweep } in experiments(&figures, arguments, paper.on_gpu) {
        let is_selected =
            |point: &&Point| arguments.selects(&format!("{}/{}", sweep.name, point.at));
        let points: Vec<&Point> = sweep.points.iter().filter(is_selected).collect();
        if points.is_empty() {
            continue;
        }
        report.section(&format!("{}: {}", sweep.name, sweep.what), sweep.parameter);
        for point in points {
            let query = query_name(point.query);
            let name = &point.data_set.name;
            let parameters = format!("{name}, {query}");
            let published = published::of_point(&figures, name, point.sets, &query);
            let of_paper = PaperPoint {
                experiment: &table,
                parameters: &parameters,
                rows: [point.sets, point.sets],
                published: &published,
            };
            let before = report.points().len();
            let measured = measure(&sweep, point, arguments, &mut clone, &mut report)?;
            for found in &report.points()[before..] {
                paper.add(&of_paper, &found.way, &Found::from(found))?;
            }
            match measured {
                Some(measured) => {
                    ours.insert((name.clone(), point.sets, query), measured);
                }
                None => paper.missing(&of_paper, AUTO, "no memory, or above --limit")?,
            }
        }
    }
    published::beside(&ours, &mut report, &arguments.device, &arguments.out)
}
