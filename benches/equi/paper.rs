//! `--paper`: [W] figures 6 to 9 and 11 to 14, joins of resident data in [W]'s sizes, by each strategy and
//! materialisation. The figures are pictures, so beside them stands what the text says. Figures 6 and 7 have whole times
//! without [W]'s phases, and figure 10 is the difference of two lines of figure 11. Keys of figure 14 have equally many
//! build rows, where [W] draws them at random. Exponents of figure 12, and sizes of figures 6 and 7 below the largest, are
//! not in the text.

use datafusion_bowtie::rates::EquiCase;

use super::support::Result;
use super::support::arguments::Arguments;
use super::support::paper::{Found, Paper, PaperPoint};
use super::support::sweep::Sweeps;
use super::sweeps::{describe, measure, measured};

/// A figure, and its points.
struct Figure {
    name: &'static str,
    parameter: &'static str,
    published: &'static str,
    points: Vec<(String, EquiCase)>,
}

/// With `--quick` the sizes are divided by this power of two.
const QUICK: u32 = 10;

/// A side of 2^27 rows with two columns has 1.5 GB.
const LOG: u32 = 27;

fn figures(quick: bool) -> Vec<Figure> {
    let rows = move |log: u32| 1usize << (if quick { log - QUICK } else { log });
    let base = EquiCase {
        build_rows: rows(LOG),
        probe_rows: rows(LOG),
        build_columns: 2,
        probe_columns: 2,
        nullable: 0,
        key_bytes: 4,
        payload_bytes: 4,
        match_ratio: 1.0,
        zipf: 0.0,
        duplicates: 1,
        ascending: false,
    };
    // The probe side is twice as long.
    let sizes = |columns: usize| {
        let size = |log: u32| {
            let case = EquiCase {
                build_rows: rows(log),
                probe_rows: rows(log + 1),
                build_columns: columns,
                probe_columns: columns,
                ..base
            };
            (format!("2^{}", case.build_rows.ilog2()), case)
        };
        (LOG - 3..=LOG).map(size).collect::<Vec<_>>()
    };
    vec![
        Figure {
            name: "figure 6",
            parameter: "build rows",
            published: "up to 4 times cuDF; PHJ-UR and PHJ-TR equal at the largest size",
            points: sizes(1),
        },
        Figure {
            name: "figure 7",
            parameter: "build rows",
            published: "SMJ-TR 1.6 times SMJ-UR and PHJ-UR; PHJ-TR 2.3 times PHJ-UR and 1.4 times SMJ-TR",
            points: sizes(2),
        },
        Figure {
            name: "figure 8",
            parameter: "build rows",
            published: "TR ahead of UR at all sizes",
            points: (19..=LOG)
                .map(|log| {
                    let case = EquiCase {
                        build_rows: rows(log),
                        ..base
                    };
                    (format!("2^{}", case.build_rows.ilog2()), case)
                })
                .collect(),
        },
        Figure {
            name: "figure 9",
            parameter: "columns a side",
            published: "PHJ-TR 2 times and SMJ-TR 1.3 times PHJ-UR",
            points: (1..=8)
                .map(|columns| {
                    let case = EquiCase {
                        build_columns: columns,
                        probe_columns: columns,
                        ..base
                    };
                    (columns.to_string(), case)
                })
                .collect(),
        },
        Figure {
            name: "figure 11",
            parameter: "% that match",
            published: "TR ahead from 25 % on; below PHJ-UR is the fastest",
            points: [100.0, 50.0, 25.0, 12.5]
                .map(|percent: f64| {
                    let case = EquiCase {
                        match_ratio: percent / 100.0,
                        ..base
                    };
                    (percent.to_string(), case)
                })
                .to_vec(),
        },
        Figure {
            name: "figure 12",
            parameter: "exponent",
            published: "PHJ-TR the fastest; PHJ-UR slower above 1",
            points: (0..=7u32)
                .map(|quarters| {
                    let zipf = f64::from(quarters) / 4.0;
                    (zipf.to_string(), EquiCase { zipf, ..base })
                })
                .collect(),
        },
        Figure {
            name: "figure 13",
            parameter: "key, values",
            published: "PHJ-TR the fastest; SMJ-TR gains almost nothing with 8+8",
            points: [(4, 4), (4, 8), (8, 8)]
                .map(|(key_bytes, payload_bytes)| {
                    let case = EquiCase {
                        key_bytes,
                        payload_bytes,
                        ..base
                    };
                    (format!("{key_bytes}+{payload_bytes}"), case)
                })
                .to_vec(),
        },
        Figure {
            name: "figure 14",
            parameter: "keys",
            published: "the fewer keys the more is TR ahead",
            points: [23, 24, 25]
                .map(|log| {
                    let case = EquiCase {
                        build_rows: rows(LOG - 1),
                        probe_rows: rows(LOG - 1),
                        duplicates: rows(LOG - 1) / rows(log),
                        ..base
                    };
                    (format!("2^{}", rows(log).ilog2()), case)
                })
                .to_vec(),
        },
    ]
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let mut paper = Paper::create("equi", arguments)?;
    let mut report = Sweeps::new("equi", &arguments.device);
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
                rows: [case.build_rows, case.probe_rows],
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
    paper.finish();
    Ok(())
}
