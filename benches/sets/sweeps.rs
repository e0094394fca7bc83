//! Containment and similarity on the device, each clone joined with itself: the technique that `auto` chooses, and
//! every forced technique whose time can matter.

use datafusion_bowtie::rates::{SetQuery, SetSides};

use super::clones::{self, DataSet};
use super::published::{self, Ours};
use super::support::Result;
use super::support::arguments::Arguments;
use super::support::quantity::{digits, short};
use super::support::sweep::{AUTO, Measured, Sweeps};

const TECHNIQUES: [&str; 8] = [
    "prefix",
    "inverted_index",
    "signature",
    "bitmap",
    "matrix",
    "mmjoin",
    "rarest",
    "intersect",
];

/// A technique that is estimated to take this many times the fastest one's time is not measured: it does not affect the
/// regret.
const HOPELESS: f64 = 16.0;
/// It is measured anyway if it takes at most this time.
const SHORT_MS: f64 = 50.0;
/// The time for more sets is extrapolated from smaller parts, each `STEP` times as large as the previous one.
const FEW: usize = 300;
const STEP: usize = 4;
/// `--large` measures data sets of at most this number of elements whole.
const LARGE_ELEMENTS: f64 = 4e7;

/// A point of a sweep.
pub struct Point {
    pub at: String,
    pub x: f64,
    pub data_set: DataSet,
    pub sets: usize,
    pub query: SetQuery,
}

/// A sweep: points of one table or data set.
pub struct Sweep {
    pub name: String,
    pub what: String,
    pub parameter: &'static str,
    pub points: Vec<Point>,
}

/// The number of sets that are measured; `None` to skip the data set.
fn taken(data_set: &DataSet, arguments: &Arguments) -> Option<usize> {
    let most = match (arguments.full, arguments.large, arguments.quick) {
        (true, _, _) => usize::MAX,
        (_, true, _) if data_set.elements() <= LARGE_ELEMENTS => usize::MAX,
        (_, true, _) => 100_000,
        (_, _, true) => 1_000,
        _ => 5_000,
    };
    (data_set.sets <= most || !data_set.variant).then_some(data_set.sets.min(most))
}

fn sweeps(arguments: &Arguments) -> Vec<Sweep> {
    let mut sweeps = vec![];
    let contained = |data_set: &DataSet, sets: usize, at: String, x: f64| Point {
        at,
        x,
        data_set: data_set.clone(),
        sets,
        query: SetQuery::Contained,
    };
    let by_size = |name: &str, data_sets: &[(DataSet, usize)]| Sweep {
        name: format!("containment-{name}"),
        what: match data_sets {
            [(one, _), ..] => format!("clone of {name}, [B] table {}", one.table),
            [] => String::new(),
        },
        parameter: "sets",
        points: data_sets
            .iter()
            .map(|(data_set, sets)| contained(data_set, *sets, short(*sets as f64), *sets as f64))
            .collect(),
    };
    let bms = clones::named("BMS-POS");
    let most = taken(&bms, arguments).unwrap_or(0);
    let ladder = [1_000, 5_000, 10_000, 50_000, 100_000, 510_000].into_iter();
    let ladder: Vec<_> = ladder
        .filter(|sets| *sets <= most)
        .map(|sets| (bms.clone(), sets))
        .collect();
    sweeps.push(by_size("BMS-POS", &ladder));
    for (name, data_sets) in clones::largest() {
        let data_sets = data_sets.into_iter();
        let data_sets: Vec<_> = data_sets
            .filter_map(|data_set| taken(&data_set, arguments).map(|sets| (data_set, sets)))
            .collect();
        sweeps.push(by_size(name, &data_sets));
    }
    let mut all: Vec<(DataSet, usize)> = clones::similar()
        .into_iter()
        .filter_map(|data_set| taken(&data_set, arguments).map(|sets| (data_set, sets)))
        .collect();
    for (data_set, sets) in &all {
        let thresholds: &[f64] = match data_set.table {
            "5.2" => &[0.5, 0.6, 0.7, 0.8, 0.9],
            _ => &[0.7, 0.8, 0.9],
        };
        let point = |threshold: &f64| Point {
            at: threshold.to_string(),
            x: *threshold,
            data_set: data_set.clone(),
            sets: *sets,
            query: SetQuery::Jaccard(*threshold),
        };
        sweeps.push(Sweep {
            name: format!("similarity-{}", data_set.name),
            what: format!(
                "{} sets of {} elements of {}, clone of [B] table {}",
                short(*sets as f64),
                digits(data_set.mean),
                short(data_set.universe as f64),
                data_set.table
            ),
            parameter: "jaccard",
            points: thresholds.iter().map(point).collect(),
        });
    }
    // Below what [B] has: low thresholds, and overlaps of a number of elements, of at most 100,000 sets.
    for (data_set, sets) in all
        .iter()
        .filter(|(of, _)| !of.variant && of.table == "5.2")
    {
        let sets = (*sets).min(100_000);
        let jaccard = [0.2, 0.3, 0.4].map(SetQuery::Jaccard);
        let parts = [0.2, 0.4, 0.6].map(|part| (data_set.mean * part).max(1.0) as u64);
        let queries = jaccard.into_iter().chain(parts.map(SetQuery::Overlap));
        let point = |(at, query): (usize, SetQuery)| Point {
            at: query_name(query),
            x: at as f64,
            data_set: data_set.clone(),
            sets,
            query,
        };
        sweeps.push(Sweep {
            name: format!("low-{}", data_set.name),
            what: format!(
                "{} sets of {} elements, clone of [B] table {}; pairs that share little",
                short(sets as f64),
                digits(data_set.mean),
                data_set.table
            ),
            parameter: "condition",
            points: queries.enumerate().map(point).collect(),
        });
    }
    let elements = |(data_set, sets): &(DataSet, usize)| data_set.mean * *sets as f64;
    all.sort_by(|a, b| elements(a).total_cmp(&elements(b)));
    sweeps.push(Sweep {
        name: "containment".to_string(),
        what: "clones of [B] tables 5.2 to 5.6, by elements".to_string(),
        parameter: "clone, sets",
        points: all
            .iter()
            .map(|of| {
                let at = format!("{} {}", of.0.name, short(of.1 as f64));
                contained(&of.0, of.1, at, elements(of))
            })
            .collect(),
    });
    sweeps
}

/// The name in `published.csv`.
pub fn query_name(query: SetQuery) -> String {
    match query {
        SetQuery::Contained => "contained".to_string(),
        SetQuery::Overlap(least) => format!("overlap {least}"),
        SetQuery::Jaccard(threshold) => format!("jaccard {threshold}"),
    }
}

/// The clone that was last used, in the sizes that were used.
#[derive(Default)]
pub struct CachedClone {
    name: String,
    sides: Vec<(usize, SetSides)>,
}

impl CachedClone {
    fn sides(&mut self, device: &str, data_set: &DataSet, sets: usize) -> Result<&SetSides> {
        if self.name != data_set.name {
            *self = Self {
                name: data_set.name.clone(),
                sides: vec![],
            };
        }
        let known = self.sides.iter().position(|(known, _)| *known == sets);
        let place = match known {
            Some(place) => place,
            None => {
                let sides = SetSides::new(device, data_set.case(sets))?;
                self.sides.push((sets, sides));
                self.sides.len() - 1
            }
        };
        Ok(&self.sides[place].1)
    }
}

/// The last measurement of a technique, with fewer sets.
#[derive(Clone, Copy)]
struct Last {
    sets: usize,
    ms: f64,
    /// The exponent of its growth with the number of sets: 1 is linear, 2 is quadratic.
    power: f64,
}

impl Last {
    /// The growth since `before`; without an earlier measurement, linear.
    fn new(sets: usize, ms: f64, before: Option<Self>) -> Self {
        let power = match before {
            Some(before) => (ms / before.ms).ln() / (sets as f64 / before.sets as f64).ln(),
            None => 1.0,
        };
        Self {
            sets,
            ms,
            power: power.clamp(1.0, 2.0),
        }
    }

    fn forecast(self, sets: usize) -> f64 {
        self.ms * (sets as f64 / self.sets as f64).powf(self.power)
    }
}

/// Measures a point by each technique that may be the fastest. Measurements of growing parts exclude the others. Returns
/// `auto`'s technique and milliseconds.
pub fn measure(
    sweep: &Sweep,
    point: &Point,
    arguments: &Arguments,
    clone: &mut CachedClone,
    report: &mut Sweeps,
) -> Result<Option<(String, f64)>> {
    let mut sizes = vec![point.sets];
    while let Some(&sets) = sizes.last().filter(|sets| **sets > FEW) {
        sizes.push(sets / STEP);
    }
    sizes.reverse();
    let limit = arguments.limit.as_secs_f64() * 1e3;
    let mut last: [Option<Last>; TECHNIQUES.len()] = [None; TECHNIQUES.len()];
    let mut auto: Option<Last> = None;
    for sets in sizes {
        let whole = sets == point.sets;
        let runs = if whole { arguments.repeat } else { 1 };
        if let Some(before) = auto {
            let about = before.forecast(sets);
            if about > limit {
                let seconds = digits(about / 1e3);
                let why = format!("{} sets take about {seconds} s", short(sets as f64));
                report.missing(&point.at, AUTO, &why);
                return Ok(None);
            }
        }
        let sides = match clone.sides(&arguments.device, &point.data_set, sets) {
            Ok(sides) => sides,
            Err(error) => {
                report.missing(&point.at, "all", &error.to_string());
                return Ok(None);
            }
        };
        let add = |report: &mut Sweeps, way: &str, rate: datafusion_bowtie::rates::Rate| {
            report.add(Measured {
                sweep: sweep.name.clone(),
                at: point.at.clone(),
                x: point.x,
                way: way.to_string(),
                taken: rate.strategy,
                ms: rate.ms,
                input_rows: sides.input_rows(),
                output_rows: rate.rows,
                least_bytes: sides.least_bytes(rate.rows),
            });
        };
        let ours = match sides.measure(point.query, AUTO, runs) {
            Ok(rate) => rate,
            Err(error) => {
                report.missing(&point.at, AUTO, &error.to_string());
                return Ok(None);
            }
        };
        auto = Some(Last::new(sets, ours.ms, auto));
        let mut best = ours.ms;
        let forced = TECHNIQUES.into_iter().zip(&mut last);
        for (technique, last) in forced.filter(|_| !arguments.auto) {
            let patience = (HOPELESS * best).max(SHORT_MS);
            let patience = patience.min(limit.max(2.0 * best));
            if let Some(before) = last.filter(|last| last.forecast(sets) > patience) {
                if whole {
                    let about = digits(before.forecast(sets));
                    let from = short(before.sets as f64);
                    let why = format!("left out: about {about} ms, from {from} sets");
                    report.missing(&point.at, technique, &why);
                }
                continue;
            }
            match sides.measure(point.query, technique, runs) {
                // The technique that ran instead has a line of its own.
                Ok(rate) if rate.strategy != technique => {
                    if whole {
                        let why = format!("{} in its place", rate.strategy);
                        report.missing(&point.at, technique, &why);
                    }
                }
                Ok(rate) if rate.rows != ours.rows => {
                    return Err(format!(
                        "WRONG RESULT, {} {} of {}: {technique} finds {} pairs, {} {}",
                        sweep.name, point.at, sets, rate.rows, ours.strategy, ours.rows
                    )
                    .into());
                }
                Ok(rate) => {
                    best = best.min(rate.ms);
                    *last = Some(Last::new(sets, rate.ms, *last));
                    if whole {
                        add(report, technique, rate);
                    }
                }
                Err(error) if whole => report.missing(&point.at, technique, &error.to_string()),
                Err(_) => {}
            }
        }
        if whole {
            let measured = (ours.strategy.clone(), ours.ms);
            add(report, AUTO, ours);
            return Ok(Some(measured));
        }
    }
    Ok(None)
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let selected = |sweep: &Sweep, point: &Point| {
        arguments.selects(&format!("device/{}/{}", sweep.name, point.at))
    };
    let mut sweeps = sweeps(arguments);
    for sweep in &mut sweeps {
        let points = std::mem::take(&mut sweep.points).into_iter();
        sweep.points = points.filter(|point| selected(sweep, point)).collect();
    }
    sweeps.retain(|sweep| !sweep.points.is_empty());
    if sweeps.is_empty() {
        return Ok(());
    }
    let mut report = Sweeps::new("sets", &arguments.device);
    let mut clone = CachedClone::default();
    let mut ours = Ours::new();
    for sweep in &sweeps {
        report.section(&format!("{}: {}", sweep.name, sweep.what), sweep.parameter);
        for point in &sweep.points {
            if let Some(measured) = measure(sweep, point, arguments, &mut clone, &mut report)? {
                let query = query_name(point.query);
                ours.insert((point.data_set.name.clone(), point.sets, query), measured);
            }
        }
    }
    published::beside(&ours, &mut report, &arguments.device, &arguments.out)?;
    report.finish(&arguments.out)
}
