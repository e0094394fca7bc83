//! `--paper`: [W] figures 15, 17, 18 and 20, 2^28 rows of resident data, by each strategy, as SUMs of 8 bytes;
//! `group/maxima.rs` has [W]'s MAX of two columns of 4 bytes. [W] draws keys from 0 … g-1; beside these are keys
//! that lie anywhere, for which ids cannot be computed. The figures are pictures, so beside them stands what the text says.
//! Figures 16 and 19 are differences of lines of figures 17 and 18. Exponents of figure 20 are not in the text.

use datafusion_bowtie::rates::{GroupCase, KeysOf};

use super::support::Result;
use super::support::arguments::Arguments;
use super::support::paper::{Found, Paper, PaperPoint};
use super::support::sweep::Sweeps;
use super::sweeps::{measure, measured};

/// A figure, and its points.
struct Figure {
    name: &'static str,
    parameter: &'static str,
    published: &'static str,
    points: Vec<(String, GroupCase)>,
}

/// The binary logarithms of rows and of groups.
pub struct Sizes {
    pub rows: u32,
    pub groups: Vec<u32>,
}

impl Sizes {
    pub fn new(quick: bool) -> Self {
        let rows = if quick { 18 } else { 28 };
        Self {
            rows,
            groups: (2..=rows).step_by(2).collect(),
        }
    }
}

/// What the text says of figures 15 and 17: keys of 4 bytes.
pub const NARROW: &str = "HGB up to 19.4 times cuDF up to 2^14; PGB-TR up to 68 % over SGB above 2^4 and ahead of HGB above 2^18; \
                          SGB-TR up to 1.7 times SGB-UR; SGB-DE-TR up to 28 % over SGB-TR below 2^16";

/// What it says of figure 18: keys of 8 bytes.
pub const WIDE: &str = "HGB ahead up to 2^18; SGB-UR ahead of SGB-TR; SGB-DE-TR up to 39 % over SGB-UR and up to 65 % over SGB-TR; \
                        PGB-UR ahead of PGB-TR below 2^16";

fn figures(quick: bool) -> Vec<Figure> {
    let sizes = Sizes::new(quick);
    let base = GroupCase {
        rows: 1 << sizes.rows,
        groups: 1 << 12,
        key_bytes: 4,
        sums: 1,
        zipf: 0.0,
        keys: KeysOf::Dense,
    };
    let of_groups = |key_bytes: usize| {
        let mut points = vec![];
        for (keys, order) in [(KeysOf::Dense, "dense"), (KeysOf::Scattered, "scattered")] {
            for log in &sizes.groups {
                let case = GroupCase {
                    groups: 1 << log,
                    key_bytes,
                    keys,
                    ..base
                };
                points.push((format!("{order} 2^{log}"), case));
            }
        }
        points
    };
    let mut skewed = vec![];
    for (keys, order) in [(KeysOf::Dense, "dense"), (KeysOf::Scattered, "scattered")] {
        for log in [12, 16] {
            for quarters in 0..=7u32 {
                let case = GroupCase {
                    groups: 1 << log,
                    zipf: f64::from(quarters) / 4.0,
                    keys,
                    ..base
                };
                skewed.push((format!("{order} 2^{log} {}", case.zipf), case));
            }
        }
    }
    vec![
        Figure {
            name: "figures 15 and 17",
            parameter: "keys, groups",
            published: NARROW,
            points: of_groups(4),
        },
        Figure {
            name: "figure 18",
            parameter: "keys, groups",
            published: WIDE,
            points: of_groups(8),
        },
        Figure {
            name: "figure 20",
            parameter: "keys, exponent",
            published: "sort-based steady; PGB falls with the exponent; HGB falls at 2^16 alone",
            points: skewed,
        },
    ]
}

fn describe(case: &GroupCase) -> String {
    let keys = match case.keys {
        KeysOf::Dense => "0 to g-1",
        KeysOf::Scattered => "anywhere",
        KeysOf::Ordered => "ascending",
    };
    format!(
        "2^{} groups, keys of {} bytes {keys}, SUM of 8 bytes, Zipf {}",
        case.groups.ilog2(),
        case.key_bytes,
        case.zipf
    )
}

pub fn run(arguments: &Arguments, paper: &mut Paper) -> Result<()> {
    let mut report = Sweeps::new("group", &arguments.device);
    for figure in figures(arguments.quick) {
        let is_selected = |at: &str| arguments.selects(&format!("{}/{at}", figure.name));
        let points = figure.points.iter().filter(|(at, _)| is_selected(at));
        let points: Vec<_> = points.collect();
        if points.is_empty() || !paper.has_device_for(figure.name) {
            continue;
        }
        report.section(figure.name, figure.parameter);
        for (at, case) in points {
            let parameters = describe(case);
            let point = PaperPoint {
                experiment: figure.name,
                parameters: &parameters,
                rows: [case.rows, 0],
                published: figure.published,
            };
            measure(*case, arguments, |way, rate| match rate {
                Ok(rate) => {
                    let measured = measured(figure.name, at, 0.0, case, way, rate);
                    paper.add(&point, way, &Found::from(&measured))?;
                    report.add(measured);
                    Ok(())
                }
                Err(why) => {
                    report.missing(at, way, &why);
                    paper.missing(&point, way, &why)
                }
            })?;
        }
    }
    Ok(())
}
