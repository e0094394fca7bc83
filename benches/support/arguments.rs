//! The command line of a bench: the arguments after `--` in `cargo bench --bench <name> -- …`.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use super::Result;

const USAGE: &str = "\
options:
  --quick            small sizes only, for CI: under a minute
  --large            also sizes beyond a million rows a side: some GiB of memory
  --full             sets only: every data set at its published size: tens of GB of memory
  --auto             sets only: what auto takes, no technique by force
  --paper            theta, algebra, equi, group and sets: the workloads of their paper's tables and figures in its sizes,
                     with a line per point in <bench>-paper.csv; with --quick in small ones
  --filter <text>    only cells whose name (case/size/selectivity) contains the text
  --out <dir>        where the table, the CSV file and the plots go      [target/bench]
  --device <name>    bowtie.device: auto, host, cuda or cuda:<n>        [auto]
  --repeat <k>       timed runs of a cell, of which the median is taken  [5; 3 with --quick]
  --limit <seconds>  longest single run: what would take longer is extrapolated or left out, and marked
                                                                         [20; 2 with --quick]
  --memory <size>    bowtie.device_memory, such as 256MB                [auto]
  --set <name=value> another option of bowtie, such as chunk_rows=4000000; may stand several times
  --analyze          after each cell of this crate: the time of each phase, and the plan with its metrics
  --piecewise        also measure DataFusion's experimental piecewise merge join
  --scale <factor>   tpch only: the scale factor                       [1; 0.1 with --quick, 10 with --large]
  --parquet <dir>    tpch and tpcds: read the tables from Parquet files there, which tpch writes if they are missing
  --tables <dir>     tpcds only: load the tables into memory from Parquet files there (benches/tpcds/tables.py)
  --selections       tpch only: filters and projections of lineitem in place of the 22 queries
  --clients <n>      tpch and tpcds: also that many concurrent sessions, each of which runs all queries
  --export <dir>     write the tables as Parquet files and measure nothing";

/// The parsed command line.
#[derive(Debug)]
pub struct Arguments {
    pub quick: bool,
    pub large: bool,
    pub full: bool,
    pub auto: bool,
    pub paper: bool,
    pub filter: Option<String>,
    pub out: PathBuf,
    pub device: String,
    pub repeat: usize,
    pub limit: Duration,
    pub memory: Option<String>,
    /// Names without the prefix, and values.
    pub options: Vec<(String, String)>,
    pub analyze: bool,
    pub piecewise: bool,
    pub scale: Option<f64>,
    pub parquet: Option<PathBuf>,
    pub tables: Option<PathBuf>,
    pub selections: bool,
    pub clients: usize,
    pub export: Option<PathBuf>,
}

impl Arguments {
    /// Reads the process's arguments. `--help` prints the options and ends the process. cargo starts a bench in the folder of its package: the
    /// paths of files are those of the folder above, from which it is called.
    pub fn from_command_line() -> Result<Self> {
        if std::env::current_dir()? == Path::new(env!("CARGO_MANIFEST_DIR")) {
            std::env::set_current_dir("..")?;
        }
        Self::parse(std::env::args().skip(1))
    }

    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self> {
        let mut arguments = Self {
            quick: false,
            large: false,
            full: false,
            auto: false,
            paper: false,
            filter: None,
            out: PathBuf::from("target/bench"),
            device: "auto".to_string(),
            repeat: 0,
            limit: Duration::ZERO,
            memory: None,
            options: vec![],
            analyze: false,
            piecewise: false,
            scale: None,
            parquet: None,
            tables: None,
            selections: false,
            clients: 0,
            export: None,
        };
        let mut repeat = None;
        let mut limit = None;

        while let Some(word) = words.next() {
            let (flag, mut attached) = match word.split_once('=') {
                Some((flag, value)) => (flag.to_string(), Some(value.to_string())),
                None => (word, None),
            };
            let mut value = || -> Result<String> {
                attached
                    .take()
                    .or_else(|| words.next())
                    .ok_or_else(|| format!("{flag} needs a value\n{USAGE}").into())
            };
            match flag.as_str() {
                // cargo passes this one to every bench binary.
                "--bench" => {}
                "--quick" => arguments.quick = true,
                "--large" => arguments.large = true,
                "--full" => arguments.full = true,
                "--auto" => arguments.auto = true,
                "--paper" => arguments.paper = true,
                "--filter" => arguments.filter = Some(value()?),
                "--out" => arguments.out = PathBuf::from(value()?),
                "--device" => arguments.device = value()?,
                "--repeat" => repeat = Some(number::<usize>(&flag, &value()?)?.max(1)),
                "--limit" => limit = Some(number::<f64>(&flag, &value()?)?),
                "--memory" => arguments.memory = Some(value()?),
                "--set" => {
                    let pair = value()?;
                    let (name, value) = pair
                        .split_once('=')
                        .ok_or_else(|| format!("--set {pair}: it takes name=value"))?;
                    arguments.options.push((name.into(), value.into()));
                }
                "--analyze" => arguments.analyze = true,
                "--piecewise" => arguments.piecewise = true,
                "--scale" => arguments.scale = Some(number(&flag, &value()?)?),
                "--parquet" => arguments.parquet = Some(PathBuf::from(value()?)),
                "--tables" => arguments.tables = Some(PathBuf::from(value()?)),
                "--selections" => arguments.selections = true,
                "--clients" => arguments.clients = number(&flag, &value()?)?,
                "--export" => arguments.export = Some(PathBuf::from(value()?)),
                "--help" | "-h" => {
                    println!("{USAGE}");
                    std::process::exit(0);
                }
                _ => return Err(format!("unknown option {flag}\n{USAGE}").into()),
            }
        }

        arguments.repeat = repeat.unwrap_or(if arguments.quick { 3 } else { 5 });
        let seconds = limit.unwrap_or(if arguments.quick { 2.0 } else { 20.0 });
        arguments.limit = Duration::try_from_secs_f64(seconds)
            .map_err(|error| format!("--limit {seconds}: {error}"))?;
        Ok(arguments)
    }

    /// Whether the cell with this name is measured.
    pub fn selects(&self, cell: &str) -> bool {
        self.filter
            .as_deref()
            .is_none_or(|filter| cell.contains(filter))
    }
}

fn number<T: FromStr>(flag: &str, text: &str) -> Result<T> {
    text.parse()
        .map_err(|_| format!("{flag}: '{text}' is not a number").into())
}
