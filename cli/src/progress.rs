//! [`Progress`]: a line on the terminal that tells what a long query does: rows and bytes, the operator that works, the device's memory.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use console::Term;
use datafusion::common::human_readable_size;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::MetricValue;
use datafusion_bowtie::BowtieRuntime;
use parking_lot::Mutex;

/// A query that takes less shows nothing.
const FIRST: Duration = Duration::from_millis(700);
const EVERY: Duration = Duration::from_millis(200);

/// The line, if there is a terminal for it. Clones draw the same line.
#[derive(Debug, Clone)]
pub(crate) struct Progress(Option<Term>);

/// The line of a running query. It is gone when this is dropped.
#[derive(Debug)]
pub(crate) struct Shown {
    line: Arc<Mutex<Line>>,
    task: tokio::task::JoinHandle<()>,
}

/// Where the line is drawn, until the query has ended.
#[derive(Debug)]
struct Line {
    terminal: Term,
    ended: bool,
}

impl Line {
    /// Writes over the line, and leaves the cursor at its begin: what the terminal echoes meanwhile does not break it.
    fn draw(&self, text: &str) {
        if self.ended {
            return;
        }
        let (_, columns) = self.terminal.size();
        let most = usize::from(columns).saturating_sub(1);
        let text: String = text.chars().take(most).collect();
        self.terminal.write_str(&format!("\r\u{1b}[K{text}\r")).ok();
    }
}

impl Progress {
    /// On standard error, if that is a terminal.
    pub(crate) fn on_terminal() -> Self {
        let terminal = Term::stderr();
        Self(terminal.is_term().then_some(terminal))
    }

    /// None.
    pub(crate) fn hidden() -> Self {
        Self(None)
    }

    pub(crate) fn is_hidden(&self) -> bool {
        self.0.is_none()
    }

    /// Removes the line.
    pub(crate) fn clear(&self) {
        if let Some(terminal) = &self.0 {
            // A terminal that cannot be written to shows nothing that could be removed.
            terminal.clear_line().ok();
        }
    }

    /// Shows the progress of a plan, which is about to run.
    pub(crate) fn begin(&self, plan: &Arc<dyn ExecutionPlan>) -> Option<Shown> {
        let terminal = self.0.clone()?;
        let line = Arc::new(Mutex::new(Line {
            terminal,
            ended: false,
        }));
        let (plan, drawn) = (Arc::clone(plan), Arc::clone(&line));
        let task = tokio::spawn(async move {
            let begun = Instant::now();
            tokio::time::sleep(FIRST).await;
            let mut last = Seen::default();
            loop {
                let seen = Seen::of(&plan);
                drawn.lock().draw(&seen.line(&last, begun.elapsed()));
                last = seen;
                tokio::time::sleep(EVERY).await;
            }
        });
        Some(Shown { line, task })
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.task.abort();
        let mut line = self.line.lock();
        line.ended = true;
        line.terminal.clear_line().ok();
    }
}

/// A count with its digits in groups of three.
fn grouped(count: usize) -> String {
    let digits = count.to_string();
    let mut grouped = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// The metrics of a running plan, added up.
#[derive(Default)]
struct Seen {
    /// Rows that scans have read.
    rows: usize,
    read_bytes: usize,
    sent_bytes: usize,
    resident_bytes: usize,
    spilled_bytes: usize,
    /// Nanoseconds in each node, by its place in the plan, with its name.
    nodes: HashMap<usize, (String, usize)>,
    /// A node that runs, while none below it does.
    lowest: Option<String>,
}

impl Seen {
    fn of(plan: &Arc<dyn ExecutionPlan>) -> Self {
        let mut seen = Self::default();
        seen.add(plan);
        seen
    }

    /// Adds a node and those below it. Whether one of them runs.
    fn add(&mut self, plan: &Arc<dyn ExecutionPlan>) -> bool {
        let id = self.nodes.len();
        let mut work = 0;
        // Of partitions.
        let (mut begun, mut ended) = (0, 0);
        for metric in plan.metrics().iter().flat_map(|metrics| metrics.iter()) {
            let value = metric.value();
            let count = value.as_usize();
            match (value.name(), value) {
                ("bytes_scanned" | "read_bytes", _) => self.read_bytes += count,
                ("uploaded_bytes", _) => self.sent_bytes += count,
                ("resident_bytes", _) => self.resident_bytes += count,
                (_, MetricValue::SpilledBytes(_)) => self.spilled_bytes += count,
                (_, MetricValue::OutputRows(_)) if plan.children().is_empty() => self.rows += count,
                (_, MetricValue::ElapsedCompute(_) | MetricValue::Time { .. }) => work += count,
                (_, MetricValue::StartTimestamp(at)) => begun += usize::from(at.value().is_some()),
                (_, MetricValue::EndTimestamp(at)) => ended += usize::from(at.value().is_some()),
                _ => {}
            }
            if let MetricValue::OutputRows(_) = value {
                // A node that hands rows on works, even where it does not count its time.
                work += count;
            }
        }
        self.nodes.insert(id, (plan.name().to_string(), work));
        let mut runs = false;
        for input in plan.children() {
            runs |= self.add(input);
        }
        if begun > ended && !runs {
            self.lowest.get_or_insert_with(|| plan.name().to_string());
        }
        runs || begun > ended
    }

    /// The node that worked most since `last`; in a long step, whose time is not known before its end, one whose inputs have ended.
    fn busiest(&self, last: &Self) -> Option<&str> {
        let since = |(id, (name, work)): (&usize, &'_ (String, usize))| {
            let before = last.nodes.get(id).map_or(0, |(_, work)| *work);
            (work.saturating_sub(before), *id, name.len())
        };
        let busiest = self.nodes.iter().max_by_key(|node| since(*node))?;
        match since(busiest).0 > 0 {
            true => Some(&busiest.1.0),
            false => self.lowest.as_deref(),
        }
    }

    fn line(&self, last: &Self, elapsed: Duration) -> String {
        let mut line = format!("{:.1} s", elapsed.as_secs_f64());
        let mut add = |text: String| {
            // Writing to a string cannot fail.
            let _ = write!(line, " · {text}");
        };
        if self.rows > 0 {
            add(format!("{} rows read", grouped(self.rows)));
        }
        for (bytes, what) in [
            (self.read_bytes, "from files"),
            (self.sent_bytes, "uploaded"),
            (self.resident_bytes, "resident"),
            (self.spilled_bytes, "spilled"),
        ] {
            if bytes > 0 {
                add(format!("{} {what}", human_readable_size(bytes)));
            }
        }
        if let Some(name) = self.busiest(last) {
            add(name.into());
        }
        for device in BowtieRuntime::shared().device_memory() {
            if device.in_use > 0 {
                let size =
                    |bytes: u64| human_readable_size(usize::try_from(bytes).unwrap_or(usize::MAX));
                add(format!(
                    "{}: {} of {}",
                    device.device,
                    size(device.in_use),
                    size(device.limit)
                ));
            }
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn counts_have_groups_of_three_digits() {
        assert_eq!(grouped(7), "7");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(grouped(100_000), "100,000");
    }
}
