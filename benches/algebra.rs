//! `cargo bench --bench algebra`: the operators of relational algebra on resident data, by the bytes of their inputs
//! and outputs, each counted once, as [D] does; and transfers between the host and the device.
//!
//! ```text
//! cargo bench --bench algebra                       sizes for a machine without a GPU
//! cargo bench --bench algebra -- --large            up to 2^28 rows
//! cargo bench --bench algebra -- --filter select    one operator
//! cargo bench --bench algebra -- --paper            [D] figure 9 (`algebra/paper.rs`)
//! ```
//!
//! [D]: Diamos, Wu, Lele, Wang, Yalamanchili: Relational Algorithms for Multi-Bulk-Synchronous Processors.

#[path = "algebra/paper.rs"]
mod paper;
mod support;

use datafusion_bowtie::rates::{AlgebraRows, BorderRows, EquiCase, EquiSides, Operator, Transfer};

use support::Result;
use support::arguments::Arguments;
use support::sweep::{AUTO, Measured, Sweeps};

#[tokio::main]
async fn main() {
    support::main("algebra", async { run() }).await;
}

fn run() -> Result<()> {
    let arguments = Arguments::from_command_line()?;
    if arguments.paper {
        return paper::run(&arguments);
    }
    let logs: &[u32] = match arguments.large {
        true => &[20, 22, 24, 26, 28],
        false => &[16, 18, 20],
    };
    let mut report = Sweeps::new("algebra", &arguments.device);
    let orders = |operator: Operator| match operator.is_of_sets() {
        true => &[false, true][..],
        false => &[false],
    };
    let inputs = Operator::ALL
        .into_iter()
        .flat_map(|operator| orders(operator).iter().map(move |order| (operator, *order)));
    for (operator, ascending) in inputs {
        let name = match ascending {
            true => format!("{operator}, ascending"),
            false => operator.to_string(),
        };
        if !arguments.selects(&name) {
            continue;
        }
        report.section(&format!("{name}: values of 4 bytes"), "rows");
        for log in logs {
            let at = format!("2^{log}");
            let measured = AlgebraRows::new(&arguments.device, operator, ascending, 1 << log)
                .and_then(|rows| Ok((rows.measure(arguments.repeat)?, rows)));
            match measured {
                Ok((rate, rows)) => report.add(Measured {
                    sweep: "operators".to_string(),
                    at,
                    x: f64::from(1u32 << log),
                    way: name.clone(),
                    taken: rate.strategy,
                    ms: rate.ms,
                    input_rows: rows.input_rows(),
                    output_rows: rate.rows,
                    least_bytes: rows.least_bytes(rate.rows),
                }),
                Err(error) => report.missing(&at, &name, &error.to_string()),
            }
        }
    }
    joins(&arguments, logs, &mut report);
    border(&arguments, logs, &mut report)?;
    report.finish(&arguments.out)
}

/// Inner joins of a key and a value with half as many rows of unique keys and a value.
fn joins(arguments: &Arguments, logs: &[u32], report: &mut Sweeps) {
    for ascending in [false, true] {
        let name = if ascending { "join, ascending" } else { "join" };
        if !arguments.selects(name) {
            continue;
        }
        report.section(&format!("{name}: keys and values of 4 bytes"), "rows");
        for log in logs {
            let at = format!("2^{log}");
            let case = EquiCase {
                build_rows: 1 << (log - 1),
                probe_rows: 1 << log,
                build_columns: 1,
                probe_columns: 1,
                nullable: 0,
                key_bytes: 4,
                payload_bytes: 4,
                match_ratio: 1.0,
                zipf: 0.0,
                duplicates: 1,
                ascending,
            };
            let measured = EquiSides::new(&arguments.device, case)
                .and_then(|sides| sides.measure(AUTO, AUTO, arguments.repeat));
            match measured {
                Ok(rate) => report.add(Measured {
                    sweep: "operators".to_string(),
                    at,
                    x: f64::from(1u32 << log),
                    way: name.to_string(),
                    taken: rate.strategy,
                    ms: rate.ms,
                    input_rows: case.input_rows(),
                    output_rows: rate.rows,
                    least_bytes: case.least_bytes(rate.rows),
                }),
                Err(error) => report.missing(&at, name, &error.to_string()),
            }
        }
    }
}

/// Uploads and downloads of a column.
fn border(arguments: &Arguments, logs: &[u32], report: &mut Sweeps) -> Result<()> {
    for transfer in Transfer::ALL {
        let name = transfer.to_string();
        if !arguments.selects(&name) {
            continue;
        }
        let width = transfer.width();
        report.section(&format!("{name}: values of {width} bytes"), "rows");
        for log in logs {
            let rows = BorderRows::new(&arguments.device, transfer, 1 << log)?;
            let rate = rows.measure(arguments.repeat)?;
            report.add(Measured {
                sweep: "border".to_string(),
                at: format!("2^{log}"),
                x: f64::from(1u32 << log),
                way: name.clone(),
                taken: rate.strategy,
                ms: rate.ms,
                input_rows: rate.rows,
                output_rows: rate.rows,
                least_bytes: rows.bytes(),
            });
        }
    }
    Ok(())
}
