//! Sweeps over one parameter on resident data: prints a line for each point, and writes a CSV file and a plot for each
//! sweep.

use std::fmt::Write as _;
use std::path::Path;

use super::plot::{Line, Point, log_log};
use super::quantity::{digits, short};
use super::{Result, machine};

/// The name of the line of the device's choice among strategies.
pub const AUTO: &str = "auto";

/// One point of one line.
#[derive(Clone, Debug)]
pub struct Measured {
    pub sweep: String,
    /// The parameter, as text and as a coordinate.
    pub at: String,
    pub x: f64,
    pub way: String,
    /// The strategy that `auto` chose.
    pub taken: String,
    pub ms: f64,
    pub input_rows: usize,
    pub output_rows: usize,
    /// Bytes of each input and output value, counted once.
    pub least_bytes: usize,
}

/// All points of a bench.
pub struct Sweeps {
    name: &'static str,
    parameter: String,
    points: Vec<Measured>,
    text: String,
}

impl Sweeps {
    pub fn new(name: &'static str, device: &str) -> Self {
        let mut sweeps = Self {
            name,
            parameter: String::new(),
            points: vec![],
            text: String::new(),
        };
        sweeps.line(&format!(
            "{name} on the device: {}, device {device}",
            machine::describe()
        ));
        sweeps
    }

    /// Prints a line and keeps it for the written table.
    pub fn line(&mut self, line: &str) {
        println!("{line}");
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Opens a sweep.
    pub fn section(&mut self, what: &str, parameter: &str) {
        self.parameter = parameter.to_string();
        self.line(&format!("\n{what}"));
        self.line(&format!(
            "  {parameter:<16} {:<24} {:>9} {:>12} {:>8}  {}",
            "way", "ms", "rows in/s", "TB/s", "taken"
        ));
    }

    /// A strategy without a point here.
    pub fn missing(&mut self, at: &str, way: &str, why: &str) {
        let why = why.lines().next().unwrap_or_default();
        self.line(&format!("  {at:<16} {way:<24} {:>9}  {why}", "-"));
    }

    /// All points so far.
    pub fn points(&self) -> &[Measured] {
        &self.points
    }

    pub fn add(&mut self, point: Measured) {
        let seconds = point.ms / 1e3;
        let line = format!(
            "  {:<16} {:<24} {:>9} {:>12} {:>8.2}  {}",
            point.at,
            point.way,
            digits(point.ms),
            short(point.input_rows as f64 / seconds),
            point.least_bytes as f64 / seconds / 1e12,
            if point.way == AUTO { &point.taken } else { "" },
        );
        self.line(line.trim_end());
        self.points.push(point);
    }

    /// Writes the files, after the regret of `auto`: its time over that of the fastest strategy, over all points that
    /// have both.
    pub fn finish(mut self, out: &Path) -> Result<()> {
        self.regret();
        std::fs::create_dir_all(out)?;
        std::fs::write(out.join(format!("{}-device.txt", self.name)), &self.text)?;
        let mut csv =
            String::from("sweep,at,way,taken,ms,input_rows,output_rows,least_bytes,tb_per_s\n");
        for p in &self.points {
            writeln!(
                csv,
                "{},{},{},{},{:.4},{},{},{},{:.3}",
                p.sweep,
                p.at,
                p.way,
                p.taken,
                p.ms,
                p.input_rows,
                p.output_rows,
                p.least_bytes,
                p.least_bytes as f64 / p.ms / 1e9
            )?;
        }
        std::fs::write(out.join(format!("{}-device.csv", self.name)), csv)?;
        let mut plotted: Vec<&String> = vec![];
        for point in &self.points {
            if plotted.contains(&&point.sweep) {
                continue;
            }
            plotted.push(&point.sweep);
            let mut lines: Vec<Line> = vec![];
            for p in self.points.iter().filter(|p| p.sweep == point.sweep) {
                let dot = Point {
                    x: p.x,
                    y: p.ms,
                    measured: true,
                };
                match lines.iter_mut().find(|line| line.label == p.way) {
                    Some(line) => line.points.push(dot),
                    None => lines.push(Line {
                        label: p.way.clone(),
                        points: vec![dot],
                    }),
                }
            }
            let file = format!("{}-device-{}.svg", self.name, point.sweep);
            log_log(&out.join(file), &point.sweep, "parameter", "ms", &lines)?;
        }
        println!("\nwritten to {}", out.display());
        Ok(())
    }

    fn regret(&mut self) {
        let mut ratios = vec![];
        for auto in self.points.iter().filter(|p| p.way == AUTO) {
            let same = |p: &&Measured| p.sweep == auto.sweep && p.at == auto.at && p.way != AUTO;
            let others = self.points.iter().filter(same);
            if let Some(best) = others.min_by(|a, b| a.ms.total_cmp(&b.ms)) {
                let which = format!("{} at {}, best {}", auto.sweep, auto.at, best.way);
                ratios.push((auto.ms / best.ms, which));
            }
        }
        ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (Some(worst), count) = (ratios.last().cloned(), ratios.len()) else {
            return;
        };
        let median = ratios[count / 2].0;
        let near = ratios.iter().filter(|(ratio, _)| *ratio <= 1.1).count();
        self.line(&format!(
            "\nauto over the fastest way: median {median:.2}, worst {:.2} ({}); within 10 % in {near} of {count}",
            worst.0, worst.1
        ));
    }
}
