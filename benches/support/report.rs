//! Collects cells: prints each as it arrives, and at the end writes the table, a CSV file and one plot for each query
//! and selectivity.

use std::fmt::Write as _;
use std::path::Path;

use super::plot::{Line, Point, log_log};
use super::quantity::{digits, short};
use super::session::BASELINE;
use super::{Result, machine};

const HEAD: &str = "  size         sel  engine                     ms      rows     pairs   pairs/s   off/on  note";

const LEGEND: &str = "\
ms: median, from the SQL text to the last row, tables in memory. rows: rows of the result. pairs: pairs that a nested
loop looks at (with an equality key: that a hash join does). off/on: time of DataFusion (bowtie.offload off) over this time.
~ not measured, as it would have passed the limit for one run: extrapolated by pairs from the size in the note.
- no time, for the reason in the note. Every measured result was checked against one computed without any engine.";

/// The time of a cell, or why it is not known.
#[derive(Clone, Debug)]
pub enum Time {
    Measured { ms: f64, runs: usize },
    Extrapolated { ms: f64, from: String },
    Missing { reason: String },
}

impl Time {
    fn ms(&self) -> Option<f64> {
        match self {
            Self::Measured { ms, .. } | Self::Extrapolated { ms, .. } => Some(*ms),
            Self::Missing { .. } => None,
        }
    }

    fn is_measured(&self) -> bool {
        matches!(self, Self::Measured { .. })
    }
}

/// One engine's result in one round.
#[derive(Clone, Debug)]
pub struct Cell {
    pub case: String,
    pub size: String,
    pub selectivity: Option<f64>,
    pub engine: &'static str,
    pub time: Time,
    /// Rows of all inputs.
    pub input: u64,
    /// Rows of the result.
    pub rows: u64,
    pub pairs: u64,
}

impl Cell {
    fn same_round(&self, other: &Cell) -> bool {
        self.same_ladder(other) && self.size == other.size
    }

    fn same_ladder(&self, other: &Cell) -> bool {
        self.case == other.case && self.selectivity == other.selectivity
    }

    fn selectivity(&self) -> String {
        self.selectivity
            .map_or(String::new(), |selectivity| selectivity.to_string())
    }
}

/// All cells of a bench, and the lines printed for them.
pub struct Report {
    name: &'static str,
    cells: Vec<Cell>,
    text: String,
}

impl Report {
    pub fn new(name: &'static str, device: &str) -> Self {
        let mut report = Self {
            name,
            cells: Vec::new(),
            text: String::new(),
        };
        report.line(&format!("{name}: {}, device {device}", machine::describe()));
        report
    }

    /// Prints a line and keeps it for the written table.
    pub fn line(&mut self, line: &str) {
        println!("{line}");
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Opens a section of the table.
    pub fn section(&mut self, case: &str, sql: &str) {
        self.line(&format!("\n{case}: {sql}"));
        self.line(HEAD);
    }

    /// All cells so far.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Adds a cell and prints its line.
    pub fn add(&mut self, cell: Cell) {
        let line = self.row(&cell);
        self.line(&line);
        self.cells.push(cell);
    }

    fn row(&self, cell: &Cell) -> String {
        let mark = match cell.time {
            Time::Extrapolated { .. } => "~",
            _ => "",
        };
        let (ms, rate) = match cell.time.ms() {
            Some(ms) => (
                format!("{mark}{}", digits(ms)),
                format!("{mark}{}", short(cell.pairs as f64 / ms * 1e3)),
            ),
            None => ("-".to_string(), String::new()),
        };
        let note = match &cell.time {
            Time::Measured { runs: 1, .. } => "one run".to_string(),
            Time::Measured { .. } => String::new(),
            Time::Extrapolated { from, .. } => format!("from {from}"),
            Time::Missing { reason } => reason.clone(),
        };
        format!(
            "  {:<11} {:>4}  {:<20} {:>8}  {:>8}  {:>8}  {:>8}  {:>7}  {}",
            cell.size,
            cell.selectivity(),
            cell.engine,
            ms,
            short(cell.rows as f64),
            short(cell.pairs as f64),
            rate,
            self.ratio(cell),
            note
        )
        .trim_end()
        .to_string()
    }

    /// The baseline's time over this one's; marked where either is extrapolated.
    fn ratio(&self, cell: &Cell) -> String {
        let baseline = self
            .cells
            .iter()
            .rev()
            .find(|other| other.engine == BASELINE && other.same_round(cell));
        let (Some(baseline), Some(ms)) = (baseline, cell.time.ms()) else {
            return String::new();
        };
        let Some(baseline_ms) = baseline.time.ms() else {
            return String::new();
        };
        let mark = if baseline.time.is_measured() && cell.time.is_measured() {
            ""
        } else {
            "~"
        };
        format!("{mark}{}x", short(baseline_ms / ms))
    }

    /// Prints the legend and writes `<name>.txt`, `<name>.csv` and the plots into `out`.
    pub fn finish(mut self, out: &Path) -> Result<()> {
        self.line("");
        self.line(LEGEND);
        std::fs::create_dir_all(out)?;
        std::fs::write(out.join(format!("{}.txt", self.name)), &self.text)?;
        std::fs::write(out.join(format!("{}.csv", self.name)), self.csv()?)?;
        let mut plotted: Vec<&Cell> = Vec::new();
        for cell in &self.cells {
            if !plotted.iter().any(|first| first.same_ladder(cell)) {
                plotted.push(cell);
                self.plot(cell, out)?;
            }
        }
        println!("\nwritten to {}", out.display());
        Ok(())
    }

    fn csv(&self) -> Result<String> {
        let mut csv =
            String::from("case,size,selectivity,engine,ms,rows,pairs,input_rows,status,runs\n");
        for cell in &self.cells {
            let (status, runs) = match &cell.time {
                Time::Measured { runs, .. } => ("measured", *runs),
                Time::Extrapolated { .. } => ("extrapolated", 0),
                Time::Missing { .. } => ("missing", 0),
            };
            writeln!(
                csv,
                "{},{},{},{},{},{},{},{},{status},{runs}",
                cell.case,
                cell.size,
                cell.selectivity(),
                cell.engine,
                cell.time
                    .ms()
                    .map_or(String::new(), |ms| format!("{ms:.3}")),
                cell.rows,
                cell.pairs,
                cell.input,
            )?;
        }
        Ok(csv)
    }

    /// One line for each engine over the sizes of `first`'s ladder.
    fn plot(&self, first: &Cell, out: &Path) -> Result<()> {
        let ladder = self.cells.iter().filter(|cell| cell.same_ladder(first));
        let mut lines: Vec<Line> = Vec::new();
        for cell in ladder {
            let Some(ms) = cell.time.ms() else { continue };
            let point = Point {
                x: cell.input as f64,
                y: ms,
                measured: cell.time.is_measured(),
            };
            match lines.iter_mut().find(|line| line.label == cell.engine) {
                Some(line) => line.points.push(point),
                None => lines.push(Line {
                    label: cell.engine.to_string(),
                    points: vec![point],
                }),
            }
        }
        if lines.is_empty() {
            return Ok(());
        }
        let (title, file) = match first.selectivity {
            Some(selectivity) => (
                format!("{}, selectivity {selectivity}", first.case),
                format!("{}-{}-{selectivity}.svg", self.name, first.case),
            ),
            None => (
                first.case.clone(),
                format!("{}-{}.svg", self.name, first.case),
            ),
        };
        log_log(&out.join(file), &title, "input rows", "ms", &lines)
    }
}
