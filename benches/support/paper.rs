//! Runs with `--paper`: the points of a paper's tables and figures, one line of `<bench>-paper.csv` per point and system,
//! beside what the paper states of the point. A line is written when it is measured, so a run that is stopped keeps its
//! lines.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use datafusion_bowtie::devices;

use super::Result;
use super::arguments::Arguments;
use super::card_times::CardTimes;
use super::contest::Contest;
use super::report::Time;
use super::session::BASELINE;
use super::sweep::Measured;

const HEAD: &str = "experiment,parameters,system,taken,left_rows,right_rows,output_rows,ms,status,rows_per_s,tb_per_s,\
                    pairs_per_s,kernel_ms,h2d_ms,d2h_ms,published";

/// A point of an experiment.
#[derive(Clone, Copy, Debug)]
pub struct PaperPoint<'a> {
    /// The table or figure: `table II`.
    pub experiment: &'a str,
    pub parameters: &'a str,
    /// The rows of both inputs; 0 in place of a second one, without which there are no pairs.
    pub rows: [usize; 2],
    /// What the paper's text states of the point, with units.
    pub published: &'a str,
}

/// The measurement of a point by one system.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The strategy that ran.
    pub taken: String,
    /// The median.
    pub ms: f64,
    pub extrapolated: bool,
    pub output_rows: u64,
    /// Bytes of each input and output value, counted once.
    pub least_bytes: Option<usize>,
    /// The number of pairs that a nested loop tests.
    pub pairs: Option<u64>,
    pub card: Option<CardTimes>,
}

impl From<&Measured> for Found {
    fn from(measured: &Measured) -> Self {
        Self {
            taken: measured.taken.clone(),
            ms: measured.ms,
            output_rows: measured.output_rows as u64,
            least_bytes: Some(measured.least_bytes),
            ..Self::default()
        }
    }
}

/// The file of a bench.
pub struct Paper {
    file: File,
    path: PathBuf,
    /// Whether the device is a GPU.
    pub on_gpu: bool,
    quick: bool,
}

impl Paper {
    /// Creates the file in the folder of the command line.
    pub fn create(name: &str, arguments: &Arguments) -> Result<Self> {
        std::fs::create_dir_all(&arguments.out)?;
        let path = arguments.out.join(format!("{name}-paper.csv"));
        let mut file = File::create(&path)?;
        writeln!(file, "{HEAD}")?;
        Ok(Self {
            file,
            path,
            on_gpu: is_gpu(&arguments.device),
            quick: arguments.quick,
        })
    }

    /// Whether an experiment whose sizes need a GPU is run; says so if not.
    pub fn has_device_for(&self, experiment: &str) -> bool {
        let has_device = self.on_gpu || self.quick;
        if !has_device {
            println!("{experiment}: not run, its sizes need a GPU; --quick has small sizes");
        }
        has_device
    }

    /// Writes the measurement of a point by an engine, a strategy or a technique.
    pub fn add(&mut self, point: &PaperPoint<'_>, system: &str, found: &Found) -> Result<()> {
        let seconds = found.ms / 1e3;
        let rows = (point.rows[0] + point.rows[1]) as f64 / seconds;
        let bytes = found.least_bytes.map_or(String::new(), |bytes| {
            format!("{:.5}", bytes as f64 / seconds / 1e12)
        });
        let pairs = found.pairs.map_or(String::new(), |pairs| {
            format!("{:.4e}", pairs as f64 / seconds)
        });
        let card = found.card.as_ref().map_or(",,".to_string(), |card| {
            format!(
                "{:.4},{:.4},{:.4}",
                card.kernels, card.to_device, card.to_host
            )
        });
        let status = if found.extrapolated {
            "extrapolated"
        } else {
            "measured"
        };
        writeln!(
            self.file,
            "{},{},{},{},{},{},{},{:.4},{status},{rows:.4e},{bytes},{pairs},{card},{}",
            field(point.experiment),
            field(point.parameters),
            field(system),
            field(&found.taken),
            point.rows[0],
            point.rows[1],
            found.output_rows,
            found.ms,
            field(point.published),
        )?;
        Ok(())
    }

    /// Writes why a point has no time by a system.
    pub fn missing(&mut self, point: &PaperPoint<'_>, system: &str, why: &str) -> Result<()> {
        writeln!(
            self.file,
            "{},{},{},,{},{},,,missing: {},,,,,,,{}",
            field(point.experiment),
            field(point.parameters),
            field(system),
            point.rows[0],
            point.rows[1],
            field(why),
            field(point.published),
        )?;
        Ok(())
    }

    /// Writes the cells of a contest from the `first` one on: those of its last round, which was this point.
    pub async fn add_cells(
        &mut self,
        point: &PaperPoint<'_>,
        contest: &Contest,
        first: usize,
        sql: &str,
    ) -> Result<()> {
        for cell in &contest.report.cells()[first..] {
            let (ms, extrapolated) = match &cell.time {
                Time::Measured { ms, .. } => (*ms, false),
                Time::Extrapolated { ms, .. } => (*ms, true),
                Time::Missing { reason } => {
                    self.missing(point, cell.engine, reason)?;
                    continue;
                }
            };
            let has_card_times = self.on_gpu && !extrapolated && cell.engine != BASELINE;
            let card = if has_card_times {
                let times = contest.card_times(cell.engine, sql).await;
                times.unwrap_or_default()
            } else {
                None
            };
            let taken = card.as_ref().map(|card| card.taken.clone());
            let found = Found {
                taken: taken.unwrap_or_default(),
                ms,
                extrapolated,
                output_rows: cell.rows,
                least_bytes: None,
                pairs: (point.rows[1] > 0).then_some(cell.pairs),
                card,
            };
            self.add(point, cell.engine, &found)?;
        }
        Ok(())
    }

    /// Says where the file is.
    pub fn finish(self) {
        println!("\nwritten to {}", self.path.display());
    }
}

fn is_gpu(device: &str) -> bool {
    let is_host = matches!(device, "host" | "cpu");
    !is_host
        && devices()
            .iter()
            .any(|info| info.usable && info.device != "host")
}

/// A text without the characters that end a field.
fn field(text: &str) -> String {
    text.replace(',', ";").replace('\n', " ")
}
