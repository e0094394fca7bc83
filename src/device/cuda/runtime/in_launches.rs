//! Work in several launches, so that a cancelled query ends soon.

use std::time::{Duration, Instant};

use crate::device::cuda::runtime::stream::Stream;
use crate::error::Result;

/// The wanted duration of a launch: a query that is cancelled ends after one.
const LAUNCH_TIME: Duration = Duration::from_millis(20);

impl Stream {
    /// Calls `launch(first, positions)` for consecutive parts of `m` probe positions: `most` positions at first, later as
    /// many as take [`LAUNCH_TIME`]. All but the last are multiples of `together`. `check_cancelled` is called between launches; its
    /// error ends them.
    pub(crate) fn in_launches(
        &self,
        m: usize,
        together: usize,
        mut most: usize,
        check_cancelled: &dyn Fn() -> Result<()>,
        mut launch: impl FnMut(usize, usize) -> Result<()>,
    ) -> Result<()> {
        let mut first = 0;
        while first < m {
            let positions = most.next_multiple_of(together).max(together).min(m - first);
            let begun = Instant::now();
            launch(first, positions)?;
            first += positions;
            if first < m {
                self.wait()?;
                check_cancelled()?;
                most = next_launch(positions, begun.elapsed());
            }
        }
        Ok(())
    }
}

/// The positions of the next launch, after one of `positions` positions took `took`.
fn next_launch(positions: usize, took: Duration) -> usize {
    let times = LAUNCH_TIME.as_secs_f64() / took.as_secs_f64();
    (positions as f64 * times.clamp(0.25, 8.0)) as usize
}
