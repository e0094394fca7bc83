//! Sweeps after [W] 5.1, a parameter at a time. Many-to-many (duplicates) has 4 to 2^20 build rows a key, where [W]
//! figure 14 has 2 to 8.

use datafusion_bowtie::rates::{BY_RANGES, EquiCase, EquiSides, Rate};

use super::support::Result;
use super::support::arguments::Arguments;
use super::support::quantity::short;
use super::support::sweep::{AUTO, Measured, Sweeps};

/// Strategies and materialisations, as the options name them.
const WAYS: [(&str, &str); 6] = [
    ("direct", "gftr"),
    ("hash", "gftr"),
    ("partitioned_hash", "gfur"),
    ("partitioned_hash", "gftr"),
    ("sort_merge", "gfur"),
    ("sort_merge", "gftr"),
];

/// A sweep: its name, the name of its parameter, and its points.
struct Sweep {
    name: &'static str,
    what: String,
    parameter: &'static str,
    points: Vec<(String, f64, EquiCase)>,
}

pub fn describe(case: &EquiCase) -> String {
    let power = |rows: usize| format!("2^{}", rows.ilog2());
    format!(
        "{} ⋈ {}, {}+{} columns of {} bytes, keys of {}, {} % match, Zipf {}, {} rows a key",
        power(case.build_rows),
        power(case.probe_rows),
        case.build_columns,
        case.probe_columns,
        case.payload_bytes,
        case.key_bytes,
        case.match_ratio * 100.0,
        case.zipf,
        case.duplicates
    )
}

fn sweeps(large: bool) -> Vec<Sweep> {
    let base = EquiCase {
        build_rows: if large { 1 << 25 } else { 1 << 18 },
        probe_rows: if large { 1 << 26 } else { 1 << 19 },
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
    let sweep = |name, parameter, points: Vec<(String, f64, EquiCase)>| Sweep {
        name,
        what: format!("{name}: {}", describe(&base)),
        parameter,
        points,
    };
    let sizes = if large { 20..=27 } else { 12..=18 };
    let size = |k: u32| EquiCase {
        build_rows: 1 << k,
        probe_rows: 2 << k,
        ..base
    };
    let mut all = vec![
        sweep(
            "size",
            "build rows",
            sizes
                .map(|k| (short((1u64 << k) as f64), (1u64 << k) as f64, size(k)))
                .collect(),
        ),
        sweep(
            "columns",
            "columns a side",
            [0, 1, 2, 4, 8]
                .map(|columns| {
                    let case = EquiCase {
                        build_columns: columns,
                        probe_columns: columns,
                        ..base
                    };
                    (columns.to_string(), columns as f64 + 0.5, case)
                })
                .to_vec(),
        ),
        sweep(
            "nulls",
            "columns with NULLs a side",
            [0, 1, 2]
                .map(|nullable| {
                    let case = EquiCase { nullable, ..base };
                    (nullable.to_string(), nullable as f64 + 0.5, case)
                })
                .to_vec(),
        ),
        sweep(
            "match",
            "% that match",
            [3.0, 10.0, 25.0, 50.0, 75.0, 100.0]
                .map(|percent| {
                    let case = EquiCase {
                        match_ratio: percent / 100.0,
                        ..base
                    };
                    (percent.to_string(), percent, case)
                })
                .to_vec(),
        ),
        sweep(
            "zipf",
            "exponent",
            [0.0, 0.5, 1.0, 1.25, 1.5]
                .map(|zipf| (zipf.to_string(), 1.0 + zipf, EquiCase { zipf, ..base }))
                .to_vec(),
        ),
        sweep(
            "widths",
            "key, values",
            [(4, 4), (4, 8), (8, 4), (8, 8)]
                .map(|(key_bytes, payload_bytes)| {
                    let case = EquiCase {
                        key_bytes,
                        payload_bytes,
                        ..base
                    };
                    let bytes = key_bytes * 10 + payload_bytes;
                    (format!("{key_bytes}+{payload_bytes}"), bytes as f64, case)
                })
                .to_vec(),
        ),
        sweep(
            "duplicates",
            "rows a key",
            [1, 4, 16, 256, 1 << 14, 1 << 20]
                .map(|duplicates| {
                    let case = EquiCase {
                        duplicates,
                        // The same number of matches at each point.
                        probe_rows: base.probe_rows / duplicates,
                        ..base
                    };
                    (duplicates.to_string(), duplicates as f64, case)
                })
                .to_vec(),
        ),
    ];
    let sorted = EquiCase {
        build_rows: if large { 1 << 27 } else { base.build_rows },
        probe_rows: if large { 1 << 28 } else { base.probe_rows },
        build_columns: 1,
        probe_columns: 1,
        ascending: true,
        ..base
    };
    let of_sorted = [
        ("1+1", sorted),
        (
            "2+2",
            EquiCase {
                build_columns: 2,
                probe_columns: 2,
                ..sorted
            },
        ),
        (
            "8 bytes",
            EquiCase {
                key_bytes: 8,
                payload_bytes: 8,
                ..sorted
            },
        ),
        (
            "50 %",
            EquiCase {
                match_ratio: 0.5,
                ..sorted
            },
        ),
        (
            "3 %",
            EquiCase {
                match_ratio: 0.03,
                ..sorted
            },
        ),
    ];
    let of_sorted = of_sorted.into_iter().enumerate();
    all.push(Sweep {
        what: format!("ascending: {}", describe(&sorted)),
        ..sweep(
            "ascending",
            "columns, or what else differs",
            of_sorted
                .map(|(x, (at, case))| (at.to_string(), x as f64 + 1.0, case))
                .collect(),
        )
    });
    if large {
        let anchor = |build: u32, probe: u32, columns: usize| {
            let case = EquiCase {
                build_rows: 1 << build,
                probe_rows: 1 << probe,
                build_columns: columns,
                probe_columns: columns,
                ..base
            };
            let at = format!("2^{build} 2^{probe} {columns}+{columns}");
            (at, case.input_rows() as f64 * columns as f64, case)
        };
        all.push(sweep(
            "anchors",
            "sizes, columns",
            vec![anchor(27, 28, 1), anchor(27, 28, 2), anchor(27, 27, 3)],
        ));
    }
    all
}

/// Joins in each way, and passes on each way's rate, or why there is none.
pub fn measure(
    case: EquiCase,
    arguments: &Arguments,
    mut found: impl FnMut(&str, std::result::Result<Rate, String>) -> Result<()>,
) -> Result<()> {
    let sides = match EquiSides::new(&arguments.device, case) {
        Ok(sides) => sides,
        Err(error) => return found("all", Err(error.to_string())),
    };
    let ways = WAYS.iter().map(|(s, m)| (*s, *m, format!("{s}-{m}")));
    for (strategy, materialization, way) in ways.chain([(AUTO, AUTO, AUTO.to_string())]) {
        match sides.measure(strategy, materialization, arguments.repeat) {
            Ok(rate) => {
                // A materialisation that did not run must not name the line.
                let way = match way != AUTO && rate.strategy.ends_with(BY_RANGES) {
                    true => format!("{} ({materialization} asked for)", rate.strategy),
                    false => way,
                };
                found(&way, Ok(rate))?;
            }
            Err(error) => found(&way, Err(error.to_string()))?,
        }
    }
    Ok(())
}

/// The measurement of a case by a way.
pub fn measured(sweep: &str, at: &str, x: f64, case: &EquiCase, way: &str, rate: Rate) -> Measured {
    Measured {
        sweep: sweep.to_string(),
        at: at.to_string(),
        x,
        way: way.to_string(),
        taken: rate.strategy,
        ms: rate.ms,
        input_rows: case.input_rows(),
        output_rows: rate.rows,
        least_bytes: case.least_bytes(rate.rows),
    }
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let mut report = Sweeps::new("equi", &arguments.device);
    for sweep in sweeps(arguments.large) {
        if !arguments.selects(sweep.name) {
            continue;
        }
        report.section(&sweep.what, sweep.parameter);
        for (at, x, case) in &sweep.points {
            measure(*case, arguments, |way, rate| {
                match rate {
                    Ok(rate) => report.add(measured(sweep.name, at, *x, case, way, rate)),
                    Err(why) => report.missing(at, way, &why),
                }
                Ok(())
            })?;
        }
    }
    report.finish(&arguments.out)
}
