//! Sweeps after [W] 5.2, a parameter at a time, of sums of 8 bytes where [W] has MAX of two columns of 4 bytes.

use datafusion_bowtie::rates::{GroupCase, GroupRows, KeysOf, Rate};

use super::support::Result;
use super::support::arguments::Arguments;
use super::support::quantity::short;
use super::support::sweep::{AUTO, Measured, Sweeps};

/// Strategies and materialisations, as the options name them.
const WAYS: [(&str, &str); 9] = [
    ("hash_shared", AUTO),
    ("hash_global", AUTO),
    ("partition", "early"),
    ("partition", "late"),
    ("sort", "early"),
    ("sort", "late"),
    ("sort_dict", "early"),
    ("sort_dict", "late"),
    ("runs", AUTO),
];

/// A sweep: its name, the properties of all its points, its parameter's name, and the points.
type Sweep = (
    &'static str,
    &'static str,
    &'static str,
    Vec<(String, f64, GroupCase)>,
);

fn sweeps(large: bool) -> Vec<Sweep> {
    let base = GroupCase {
        rows: if large { 1 << 28 } else { 1 << 20 },
        groups: 1 << 16,
        key_bytes: 4,
        sums: 1,
        zipf: 0.0,
        keys: KeysOf::Scattered,
    };
    let logs: &[u32] = match large {
        true => &[0, 2, 4, 8, 12, 14, 16, 18, 20, 22, 24, 26],
        false => &[4, 8, 12, 16, 18],
    };
    let wide_logs: &[u32] = match large {
        true => &[4, 12, 16, 20, 24],
        false => &[4, 12, 16],
    };
    let of_groups = |keys: KeysOf| {
        logs.iter()
            .map(|log| {
                let case = GroupCase {
                    groups: 1 << log,
                    keys,
                    ..base
                };
                (format!("2^{log}"), f64::from(1u32 << log), case)
            })
            .collect()
    };
    let fewer = GroupCase {
        rows: base.rows / 4,
        ..base
    };
    vec![
        (
            "dense",
            "keys of 4 bytes are 0, 1, …; one SUM of 8 bytes",
            "groups",
            of_groups(KeysOf::Dense),
        ),
        (
            "scattered",
            "keys of 4 bytes lie anywhere; one SUM of 8 bytes",
            "groups",
            of_groups(KeysOf::Scattered),
        ),
        (
            "ordered",
            "keys of 4 bytes are 0, 1, …, ascending; one SUM of 8 bytes",
            "groups",
            of_groups(KeysOf::Ordered),
        ),
        (
            "zipf",
            "2^16 keys that lie anywhere; one SUM of 8 bytes",
            "exponent",
            [0.0, 0.5, 1.0, 1.25, 1.5]
                .map(|zipf| (zipf.to_string(), 1.0 + zipf, GroupCase { zipf, ..base }))
                .to_vec(),
        ),
        (
            "sums",
            "2^16 keys that lie anywhere, a quarter of the rows; SUMs of 8 bytes",
            "sums",
            [1, 2, 4, 8]
                .map(|sums| (sums.to_string(), sums as f64, GroupCase { sums, ..fewer }))
                .to_vec(),
        ),
        (
            "wide",
            "keys of 8 bytes that lie anywhere; one SUM of 8 bytes",
            "groups",
            wide_logs
                .iter()
                .map(|log| {
                    let case = GroupCase {
                        key_bytes: 8,
                        groups: 1 << log,
                        ..base
                    };
                    (format!("2^{log}"), f64::from(1u32 << log), case)
                })
                .collect(),
        ),
    ]
}

/// Groups by each strategy, and passes on each strategy's rate, or why there is none.
pub fn measure(
    case: GroupCase,
    arguments: &Arguments,
    mut found: impl FnMut(&str, std::result::Result<Rate, String>) -> Result<()>,
) -> Result<()> {
    let rows = match GroupRows::new(&arguments.device, case) {
        Ok(rows) => rows,
        Err(error) => return found("all", Err(error.to_string())),
    };
    for (strategy, materialization) in WAYS.into_iter().chain([(AUTO, AUTO)]) {
        let way = match materialization {
            AUTO => strategy.to_string(),
            of => format!("{strategy}-{of}"),
        };
        let rate = match rows.measure(strategy, materialization, arguments.repeat) {
            // The strategy or materialisation that ran instead has a line of its own.
            Ok(rate) if strategy != AUTO && rate.strategy != way => {
                Err(format!("{} in its place", rate.strategy))
            }
            Ok(rate) => Ok(rate),
            Err(error) => Err(error.to_string()),
        };
        found(&way, rate)?;
    }
    Ok(())
}

/// The measurement of a case by a strategy.
pub fn measured(
    sweep: &str,
    at: &str,
    x: f64,
    case: &GroupCase,
    way: &str,
    rate: Rate,
) -> Measured {
    Measured {
        sweep: sweep.to_string(),
        at: at.to_string(),
        x,
        way: way.to_string(),
        taken: rate.strategy,
        ms: rate.ms,
        input_rows: case.rows,
        output_rows: rate.rows,
        least_bytes: case.least_bytes(rate.rows),
    }
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let mut report = Sweeps::new("group", &arguments.device);
    for (name, what, parameter, points) in sweeps(arguments.large) {
        if !arguments.selects(name) {
            continue;
        }
        let rows = points.first().map_or(0, |(_, _, case)| case.rows);
        report.section(
            &format!("{name}: {} rows; {what}", short(rows as f64)),
            parameter,
        );
        for (at, x, case) in &points {
            measure(*case, arguments, |way, rate| {
                match rate {
                    Ok(rate) => report.add(measured(name, at, *x, case, way, rate)),
                    Err(why) => report.missing(at, way, &why),
                }
                Ok(())
            })?;
        }
    }
    report.finish(&arguments.out)
}
