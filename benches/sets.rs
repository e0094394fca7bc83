//! `cargo bench --bench sets`: set joins of data that [B] uses, as clones: as many sets, as large on average, of as many elements, by
//! Zipf's distribution, a fiftieth of them planted. Each is joined with itself.
//!
//! ```text
//! cargo bench --bench sets                          sizes for a machine without a GPU
//! cargo bench --bench sets -- --large               up to a million sets
//! cargo bench --bench sets -- --filter techniques   each technique on one clone; the others are `containment` and `similarity`
//! ```
//!
//! [B]: Bellas: Advanced Joins on GPUs, 2022.

mod support;

use datafusion_bowtie::rates::{SetCase, SetQuery, SetSides};

use support::Result;
use support::arguments::Arguments;
use support::sweep::{AUTO, Measured, Sweeps};

#[tokio::main]
async fn main() {
    support::main("sets", async { run() }).await;
}

/// A data set of [B] table 5.2 and of its appendix B: sets, their mean size, elements.
const CLONES: [(&str, usize, f64, usize); 8] = [
    ("AOL", 10_000_000, 3.0, 3_900_000),
    ("BMS-POS", 510_000, 6.5, 1_657),
    ("DBLP", 100_000, 88.0, 7_205),
    ("ENRON", 250_000, 135.0, 1_100_000),
    ("KOSARAK", 1_000_000, 8.0, 41_000),
    ("LIVEJOURNAL", 3_100_000, 36.5, 7_500_000),
    ("ORKUT", 2_700_000, 120.0, 8_700_000),
    ("TWITTER", 1_600_000, 75.0, 37_000),
];

const TECHNIQUES: [&str; 7] = [
    "prefix",
    "inverted_index",
    "signature",
    "bitmap",
    "matrix",
    "rarest",
    "intersect",
];

/// A line of a table: the clone, how many of its sets, what is asked, and by which techniques.
struct Point {
    sweep: &'static str,
    clone: &'static str,
    case: SetCase,
    query: SetQuery,
    techniques: Vec<&'static str>,
}

fn points(large: bool) -> Vec<Point> {
    let most = if large { 100_000 } else { 5_000 };
    let case = |sets: usize, mean, universe| SetCase {
        sets,
        mean,
        universe,
        zipf: 0.8,
    };
    let mut points = vec![];
    let bms = |sets| case(sets, 6.5, 1_657);
    for sets in [1_000, 10_000, 50_000].into_iter().filter(|n| *n <= most) {
        let query = SetQuery::Contained;
        points.push(("containment", "BMS-POS", bms(sets), query, vec![AUTO]));
    }
    for (name, sets, mean, universe) in CLONES {
        let case = case(sets.min(most), mean, universe);
        points.push(("containment", name, case, SetQuery::Contained, vec![AUTO]));
        for threshold in [0.9, 0.8, 0.7, 0.6, 0.5] {
            let query = SetQuery::Jaccard(threshold);
            points.push(("similarity", name, case, query, vec![AUTO]));
        }
        if large && sets >= 510_000 && mean <= 8.0 {
            let whole = SetCase {
                sets: sets.min(1_000_000),
                ..case
            };
            for threshold in [0.9, 0.7] {
                let query = SetQuery::Jaccard(threshold);
                points.push(("similarity", name, whole, query, vec![AUTO]));
            }
        }
    }
    for (name, mean, universe) in [("BMS-POS", 6.5, 1_657), ("DBLP", 88.0, 7_205)] {
        let case = case(most.min(20_000), mean, universe);
        for query in [
            SetQuery::Contained,
            SetQuery::Jaccard(0.8),
            SetQuery::Jaccard(0.5),
        ] {
            let all = TECHNIQUES.into_iter().chain([AUTO]).collect();
            points.push(("techniques", name, case, query, all));
        }
    }
    let points = points.into_iter();
    points
        .map(|(sweep, clone, case, query, techniques)| Point {
            sweep,
            clone,
            case,
            query,
            techniques,
        })
        .collect()
}

fn run() -> Result<()> {
    let arguments = Arguments::from_command_line()?;
    let mut report = Sweeps::new("sets", &arguments.device);
    let mut last: Option<(String, SetSides)> = None;
    let mut section = "";
    for point in points(arguments.large) {
        if !arguments.selects(point.sweep) {
            continue;
        }
        if section != point.sweep {
            section = point.sweep;
            report.section(
                &format!("{section}: clones, joined with themselves"),
                "sets",
            );
        }
        let query = match point.query {
            SetQuery::Contained => "contained".to_string(),
            SetQuery::Overlap(least) => format!("overlap {least}"),
            SetQuery::Jaccard(threshold) => format!("jaccard {threshold}"),
        };
        let name = format!("{} {}", point.clone, point.case.sets);
        let at = format!("{name} {query}");
        let sides = match last.take().filter(|(known, _)| *known == name) {
            Some((_, sides)) => sides,
            None => match SetSides::new(&arguments.device, point.case) {
                Ok(sides) => sides,
                Err(error) => {
                    report.missing(&at, "all", &error.to_string());
                    continue;
                }
            },
        };
        for technique in &point.techniques {
            match sides.measure(point.query, technique, arguments.repeat) {
                Ok(rate) if *technique != AUTO && rate.strategy != *technique => {
                    report.missing(&at, technique, &format!("{} in its place", rate.strategy));
                }
                Ok(rate) => report.add(Measured {
                    sweep: point.sweep,
                    at: at.clone(),
                    x: point.case.sets as f64,
                    way: (*technique).to_string(),
                    taken: rate.strategy,
                    ms: rate.ms,
                    input_rows: sides.input_rows(),
                    output_rows: rate.rows,
                    least_bytes: sides.least_bytes(rate.rows),
                }),
                Err(error) => report.missing(&at, technique, &error.to_string()),
            }
        }
        last = Some((name, sides));
    }
    report.finish(&arguments.out)
}
