//! Kernels that test candidates are launched for some searching positions at a time, so that a cancelled query ends soon; and
//! pairs are written by counting slices of the sorted side first.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cudarc::driver::DeviceRepr;

use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::launch::{Arg, Shape};
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::buffer::Buffer;
use crate::device::data::matches::Matches;
use crate::error::Result;

/// How long a launch should take: a query that is cancelled ends after one.
const LAUNCH_TIME: Duration = Duration::from_millis(20);

/// A pair of kernels that decide on the candidates of ranges, and what they decide by.
pub(crate) struct Tester<'a, T> {
    /// Counts those that pass, by searching position, apart for each slice of the sorted side.
    pub count: &'static str,
    /// Writes them.
    pub expand: &'static str,
    /// Their first argument.
    pub by: &'a T,
    /// Their last one, if they have one more.
    pub fault: Option<&'a Memory>,
}

/// Where a window of pairs is written.
#[derive(Clone, Copy)]
pub(crate) struct Written<'a> {
    /// The number of the first.
    pub from: u64,
    pub len: usize,
    /// Sorted rows, `len` of them.
    pub build: &'a Memory,
}

impl Stream {
    /// Launches what counts `positions` searching positions from `first` on, for all `m` of them: at first `most`, later as many
    /// as take a few milliseconds, while `go_on` allows it. But for the last ones they are multiples of `together`.
    pub(crate) fn in_launches(
        &self,
        m: usize,
        together: usize,
        mut most: usize,
        go_on: &dyn Fn() -> Result<()>,
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
                go_on()?;
                most = next_launch(positions, begun.elapsed());
            }
        }
        Ok(())
    }

    /// Searching positions that have pairs among those numbered `from .. from + len`, and others between them.
    pub(crate) fn window(
        self: &Arc<Self>,
        offsets: &Buffer<u64>,
        from: u64,
        len: usize,
    ) -> Result<Range<usize>> {
        let window = self.alloc(8, "output pairs")?;
        let args = [
            memory(offsets)?.into(),
            (offsets.len() as u32 - 1).into(),
            from.into(),
            (from + len as u64).into(),
            (&window).into(),
        ];
        // SAFETY: offsets are one more than the positions; the window lies below their total.
        unsafe { self.launch("expand_window", Shape::blocks_of(1, 1, 32), &args)? };
        let window = self.read_word(&window, 0)?;
        let (first, end) = (window as u32 as usize, (window >> 32) as usize);
        Ok(first..end.max(first))
    }

    /// The searching rows of the pairs `from .. from + len`.
    pub(crate) fn expand_searching(
        self: &Arc<Self>,
        matches: Matches<'_>,
        offsets: &Buffer<u64>,
        from: u64,
        len: usize,
    ) -> Result<Buffer<u32>> {
        let m = matches.ranges.rows();
        let out = self.alloc(len * 4, "output pairs")?;
        let args = [
            memory(&matches.probe.rows)?.into(),
            memory(offsets)?.into(),
            (m as u32).into(),
            from.into(),
            (len as u32).into(),
            (&out).into(),
        ];
        // SAFETY: offsets are one more than the searching positions; `out` holds len words.
        unsafe { self.launch("expand_searching", self.expansion(len + m), &args)? };
        Ok(Buffer::cuda(out, len))
    }

    /// Writes the sorted rows of those pairs of a window that are of some searching positions, each at its place. `shape` is how
    /// the kernels are spread over so many positions.
    ///
    /// # Safety
    /// What the tester decides by is the kernels' structure, whose addresses hold as many words as there are sorted and searching
    /// positions; `offsets` come from its counts.
    pub(crate) unsafe fn expand_positions<T: DeviceRepr>(
        self: &Arc<Self>,
        tester: &Tester<'_, T>,
        shape: Shape,
        matches: Matches<'_>,
        offsets: &Buffer<u64>,
        positions: Range<usize>,
        written: Written<'_>,
    ) -> Result<()> {
        let (first, count) = (positions.start as u32, positions.len());
        let [lo, hi] = [memory(&matches.ranges.lo)?, memory(&matches.ranges.hi)?];
        let fault = tester.fault.map(Arg::from);
        let slices = match shape.slices {
            1 => None,
            slices => {
                let counts = self.zeroed(slices as usize * count * 4, "output pairs")?;
                let mut args: Vec<Arg> = vec![
                    lo.into(),
                    hi.into(),
                    first.into(),
                    (count as u32).into(),
                    0u32.into(),
                    1u32.into(),
                    (&counts).into(),
                ];
                args.extend(fault);
                // SAFETY: the caller's promise; `counts` holds a word for each slice and position.
                unsafe { self.launch_with(tester.count, shape, Some(tester.by), &args)? };
                let args = [(&counts).into(), (count as u32).into(), slices.into()];
                // SAFETY: the same.
                unsafe { self.launch("zones_slice_offsets", Shape::each(count), &args)? };
                Some(counts)
            }
        };
        let mut args: Vec<Arg> = vec![
            lo.into(),
            hi.into(),
            memory(offsets)?.into(),
            slices.as_ref().into(),
            memory(&matches.build.rows)?.into(),
            first.into(),
            (count as u32).into(),
            written.from.into(),
            (written.len as u32).into(),
            written.build.into(),
        ];
        args.extend(fault);
        // SAFETY: the caller's promise: each pair has its place in what is written.
        unsafe { self.launch_with(tester.expand, shape, Some(tester.by), &args) }
    }
}

/// How many positions the next launch takes, after one of so many took so long.
fn next_launch(positions: usize, took: Duration) -> usize {
    let times = LAUNCH_TIME.as_secs_f64() / took.as_secs_f64();
    (positions as f64 * times.clamp(0.25, 8.0)) as usize
}
