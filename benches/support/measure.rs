//! Times one query: a warm-up, then the median of k runs, each from the SQL text to the last row.

use std::time::{Duration, Instant};

use datafusion::prelude::SessionContext;
use futures::StreamExt;

use super::Result;
use super::answer::{Answer, Consume, WRONG};

/// If the first run takes at least this time, one timed run that takes as long suffices.
const LONG: Duration = Duration::from_secs(3);

/// The time of a query and its result.
#[derive(Clone, Copy, Debug)]
pub struct Measurement {
    /// Median over `runs`.
    pub ms: f64,
    pub runs: usize,
    /// The first run, before the timed ones: with it come the upload of tables, and the start of a device.
    pub first_ms: f64,
    pub answer: Answer,
}

/// Runs `sql` once untimed, consuming the rows as in `first`, then `repeat` times, consuming them as in `timed`.
///
/// # Errors
/// Those of the query, and a row count or a sum that changes from run to run.
pub async fn measure(
    ctx: &SessionContext,
    sql: &str,
    first: Consume,
    timed: Consume,
    repeat: usize,
) -> Result<Measurement> {
    let (first_time, answer) = run(ctx, sql, first).await?;
    let first_ms = milliseconds(first_time);
    let mut times = Vec::with_capacity(repeat);
    for _ in 0..repeat {
        // Two long runs are not the first use of something.
        if first_time >= LONG && times.last().is_some_and(|ms| *ms >= milliseconds(LONG)) {
            break;
        }
        let (elapsed, again) = run(ctx, sql, timed).await?;
        if (again.rows, again.sum) != (answer.rows, answer.sum) {
            return Err(
                format!("{WRONG}: {answer:?}, then in another run {again:?}\n{sql}").into(),
            );
        }
        times.push(milliseconds(elapsed));
    }
    Ok(Measurement {
        runs: times.len(),
        ms: median(&mut times),
        first_ms,
        answer,
    })
}

/// One run. The result is streamed and dropped batch by batch: a result of a billion rows is read, but not stored.
async fn run(ctx: &SessionContext, sql: &str, consume: Consume) -> Result<(Duration, Answer)> {
    let start = Instant::now();
    let mut answer = Answer::default();
    let mut stream = ctx.sql(sql).await?.execute_stream().await?;
    while let Some(batch) = stream.next().await {
        answer.add(&batch?, consume)?;
    }
    Ok((start.elapsed(), answer))
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    let middle = times.len() / 2;
    if times.len() % 2 == 1 {
        times[middle]
    } else {
        (times[middle - 1] + times[middle]) / 2.0
    }
}
