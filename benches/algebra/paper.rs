//! `--paper`: [D] figure 9, operators on 8,192 to 16 million tuples of 32 bits, and on 2^28. Inputs of INTERSECTION,
//! DIFFERENCE and JOIN are sorted, both of as many rows; keys of JOIN are unique and all match, as in [D]'s aligned
//! relations. The figure is a picture, so beside it stands what the text says, of a Tesla C2050 with 144 GB/s, 107 by a
//! copy. Set UNION is missing, as no merge keeps the tuples of both sides, and so are [D]'s random relations.

use datafusion_bowtie::rates::{AlgebraRows, EquiCase, EquiSides, Operator, Rate};

use super::support::Result;
use super::support::arguments::Arguments;
use super::support::paper::{Found, Paper, PaperPoint};
use super::support::sweep::{AUTO, Measured, Sweeps};

const FIGURE: &str = "figure 9";

/// [D]'s operators here, and what the text says of them.
const OPERATORS: [(Option<Operator>, &str, &str); 6] = [
    (
        Some(Operator::Product),
        "PRODUCT",
        "99.3 % of the copy rate",
    ),
    (Some(Operator::Select), "SELECT", "86 to 92 % of the peak"),
    (Some(Operator::Project), "PROJECT", "86 to 92 % of the peak"),
    (Some(Operator::Intersect), "INTERSECTION", ""),
    (Some(Operator::Except), "DIFFERENCE", ""),
    (None, "JOIN", "72 GB/s aligned; 57 GB/s random"),
];

/// Of the rows of each input: [D]'s, and what fills a card of today.
const LOGS: [u32; 13] = [13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 28];
/// The largest one with `--quick`.
const QUICK: u32 = 18;

/// An operator's rate, its input rows of both sides, and its least bytes.
type Measurement = (Rate, [usize; 2], usize);

fn operator(operator: Operator, log: u32, arguments: &Arguments) -> Result<Measurement> {
    let rows = AlgebraRows::new(&arguments.device, operator, operator.is_of_sets(), 1 << log)?;
    let rate = rows.measure(arguments.repeat)?;
    let sides = match operator {
        Operator::Product => {
            let left = 1usize << (log / 2);
            [left, rows.input_rows() - left]
        }
        _ if operator.is_of_sets() => [1 << log, 1 << log],
        _ => [1 << log, 0],
    };
    let bytes = rows.least_bytes(rate.rows);
    Ok((rate, sides, bytes))
}

fn join(log: u32, arguments: &Arguments) -> Result<Measurement> {
    let case = EquiCase {
        build_rows: 1 << log,
        probe_rows: 1 << log,
        build_columns: 1,
        probe_columns: 1,
        nullable: 0,
        key_bytes: 4,
        payload_bytes: 4,
        match_ratio: 1.0,
        zipf: 0.0,
        duplicates: 1,
        ascending: true,
    };
    let sides = EquiSides::new(&arguments.device, case)?;
    let rate = sides.measure(AUTO, AUTO, arguments.repeat)?;
    let bytes = case.least_bytes(rate.rows);
    Ok((rate, [case.build_rows, case.probe_rows], bytes))
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let mut paper = Paper::create("algebra", arguments)?;
    let mut report = Sweeps::new("algebra", &arguments.device);
    for (of, name, published) in OPERATORS {
        let is_taken = |log: &u32| {
            let is_small = !arguments.quick || *log <= QUICK;
            is_small && arguments.selects(&format!("{FIGURE}/{name}/2^{log}"))
        };
        let logs: Vec<u32> = LOGS.into_iter().filter(is_taken).collect();
        if logs.is_empty() || !paper.has_device_for(&format!("{FIGURE}, {name}")) {
            continue;
        }
        report.section(&format!("{FIGURE}, {name}: values of 4 bytes"), "rows");
        for log in logs {
            let at = format!("2^{log}");
            let measured = match of {
                Some(of) => operator(of, log, arguments),
                None => join(log, arguments),
            };
            let parameters = format!("2^{log} rows, values of 4 bytes");
            let mut point = PaperPoint {
                experiment: FIGURE,
                parameters: &parameters,
                rows: [1 << log, 0],
                published,
            };
            match measured {
                Ok((rate, sides, least_bytes)) => {
                    point.rows = sides;
                    let measured = Measured {
                        sweep: FIGURE.to_string(),
                        at,
                        x: f64::from(1u32 << log),
                        way: name.to_string(),
                        taken: rate.strategy,
                        ms: rate.ms,
                        input_rows: sides.iter().sum(),
                        output_rows: rate.rows,
                        least_bytes,
                    };
                    paper.add(&point, name, &Found::from(&measured))?;
                    report.add(measured);
                }
                Err(error) => {
                    let why = error.to_string();
                    report.missing(&at, name, &why);
                    paper.missing(&point, name, &why)?;
                }
            }
        }
    }
    paper.finish();
    Ok(())
}
