//! The figures that [B] published beside the measurements: for the same data set (a clone of it), number of sets and
//! threshold.
//!
//! `published.csv` has [B]'s tables 5.9, 5.11 and 5.13 (Jaccard similarity) and B.1 and B.2 (all intersections;
//! containment), line by line, with the processors that [B] names: an Intel i7-5820K of 6 cores and an NVIDIA Titan XP.
//! Times without a figure are N/A there. Table B.1 stands beside queries in SQL (`sets/overlaps.rs`). Table 5.5, the whole of
//! DBLP, is not in the file.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;

use super::support::Result;
use super::support::quantity::{digits, short};
use super::support::sweep::Sweeps;

const PUBLISHED: &str = include_str!("published.csv");
/// The variants of [B]'s framework HySet.
const HYSET: [&str; 2] = ["Queue", "Dichotomy"];

/// The measurements, by data set, number of sets and query: the technique that `auto` chose, and ms.
pub type Ours = HashMap<(String, usize, String), (String, f64)>;

/// A line of the file.
pub struct Figure {
    pub table: &'static str,
    pub data_set: &'static str,
    pub sets: usize,
    pub query: &'static str,
    technique: &'static str,
    processor: &'static str,
    seconds: Option<f64>,
}

/// All lines of the file.
pub fn figures() -> Result<Vec<Figure>> {
    let lines = PUBLISHED.lines().skip(1);
    lines
        .map(|line| {
            let fields: Vec<&'static str> = line.split(',').collect();
            let [table, data_set, sets, query, technique, processor, seconds] = fields[..] else {
                return Err(format!("published.csv: {line}").into());
            };
            Ok(Figure {
                table,
                data_set,
                sets: sets.parse()?,
                query,
                technique,
                processor,
                seconds: (!seconds.is_empty()).then(|| seconds.parse()).transpose()?,
            })
        })
        .collect()
}

/// The figures of a query on that many sets of a data set: each technique and its seconds.
pub fn of_point(figures: &[Figure], data_set: &str, sets: usize, query: &str) -> String {
    let of_point = figures
        .iter()
        .filter(|figure| (figure.data_set, figure.sets, figure.query) == (data_set, sets, query));
    let texts: Vec<String> = of_point
        .map(|figure| match figure.seconds {
            Some(seconds) => format!("{} {seconds} s", figure.technique),
            None => format!("{} n/a", figure.technique),
        })
        .collect();
    texts.join("; ")
}

/// Prints a line for each point that both have, and writes all of [B]'s figures of these points to
/// `sets-published.csv`.
pub fn beside(ours: &Ours, report: &mut Sweeps, device: &str, out: &Path) -> Result<()> {
    let figures = figures()?;
    let mut csv = String::from(
        "table,data_set,sets,query,technique,processor,seconds,device,taken,ms,published_over_ms\n",
    );
    let mut points: Vec<(&Figure, Vec<&Figure>)> = vec![];
    for figure in &figures {
        let at = |other: &Figure| {
            (other.table, other.data_set, other.query)
                == (figure.table, figure.data_set, figure.query)
        };
        match points.iter_mut().find(|(first, _)| at(first)) {
            Some((_, all)) => all.push(figure),
            None => points.push((figure, vec![figure])),
        }
    }
    let mut opened = false;
    for (point, all) in points {
        let key = (
            point.data_set.to_string(),
            point.sets,
            point.query.to_string(),
        );
        let Some((taken, ms)) = ours.get(&key) else {
            continue;
        };
        if !opened {
            opened = true;
            report.line(
                "\nbeside [B]: its times (on the real data; each pair once, counted) and auto's here (on clones; every match in a list, \
                 both ways round, equal sets with one list)",
            );
            report.line(&format!(
                "  {:<5} {:<14} {:>6} {:<12} {:>9} {:>9} {:>7}  {:<38} {:>9} {:>7}",
                "table",
                "data set",
                "sets",
                "query",
                "auto ms",
                "best s",
                "/ auto",
                "by",
                "HySet s",
                "/ auto"
            ));
        }
        let best = |techniques: &[&str]| {
            let timed = all.iter().filter(|figure| {
                figure.seconds.is_some()
                    && (techniques.is_empty() || techniques.contains(&figure.technique))
            });
            timed.min_by(|a, b| a.seconds.partial_cmp(&b.seconds).expect("no NaN"))
        };
        let shown = |figure: Option<&&Figure>| match figure.and_then(|figure| figure.seconds) {
            Some(seconds) => (digits(seconds), format!("{}x", short(seconds * 1e3 / ms))),
            None => ("-".to_string(), String::new()),
        };
        let (best_of_all, hyset) = (best(&[]), best(&HYSET));
        let ((seconds, ratio), (hyset_seconds, hyset_ratio)) = (shown(best_of_all), shown(hyset));
        let by = best_of_all.map_or(String::new(), |best| {
            format!("{} ({})", best.technique, best.processor)
        });
        report.line(&format!(
            "  {:<5} {:<14} {:>6} {:<12} {:>9} {seconds:>9} {ratio:>7}  {by:<38} {hyset_seconds:>9} {hyset_ratio:>7}",
            point.table,
            point.data_set,
            short(point.sets as f64),
            point.query,
            digits(*ms),
        ));
        for figure in all {
            let (seconds, ratio) = match figure.seconds {
                Some(seconds) => (seconds.to_string(), format!("{:.1}", seconds * 1e3 / ms)),
                None => (String::new(), String::new()),
            };
            writeln!(
                csv,
                "{},{},{},{},{},{},{seconds},{device},{taken},{ms:.4},{ratio}",
                figure.table,
                figure.data_set,
                figure.sets,
                figure.query,
                figure.technique,
                figure.processor,
            )?;
        }
    }
    std::fs::create_dir_all(out)?;
    std::fs::write(out.join("sets-published.csv"), csv)?;
    Ok(())
}
