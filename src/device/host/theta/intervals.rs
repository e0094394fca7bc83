//! [`IntervalPrimitives`] of the CPU backend: positions in the orders of both ends, and how many probe rows have each of
//! them. Probe rows are neither sorted nor copied.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rayon::prelude::*;

use crate::device::budget::{Budget, Lease};
use crate::device::data::buffer::{Bits, Buffer};
use crate::device::data::intervals::{
    IntervalCover, IntervalIndex, IntervalPlaces, ProbeIntervals,
};
use crate::device::data::keys::{Keys, NO_GROUP};
use crate::device::data::opaque::Opaque;
use crate::device::data::ranges::OrderedRows;
use crate::device::host::device::HostDevice;
use crate::device::host::keys::order_keys::HostKeys;
use crate::device::host::keys::sort;
use crate::device::host::theta::directory::{BLOCK, Directory};
use crate::device::primitives::intervals::IntervalPrimitives;
use crate::error::{BowtieError, Result};
use crate::ir::comparison::Comparison;

/// Probe rows that one task places.
const TASK_ROWS: usize = 1 << 13;

/// The place of a row that overlaps nothing.
const NOWHERE: u32 = u32::MAX;

/// An order of the build rows by one of their ends.
#[derive(Debug)]
struct Order {
    rows: OrderedRows,
    directory: Directory,
}

/// Both orders have the same rows of each group.
#[derive(Debug)]
struct Orders {
    by_low: Order,
    by_high: Order,
}

/// The places of each probe row in both orders. In a group `g`, the place of a row behind `p` rows of the order is
/// `p + g`, so that the places of different groups differ. Their difference is the number of overlaps.
#[derive(Debug)]
struct Places {
    by_low: Vec<u32>,
    by_high: Vec<u32>,
    _lease: Lease,
}

/// How many probe rows have each place.
#[derive(Debug)]
struct Cover {
    by_low: Vec<AtomicU32>,
    by_high: Vec<AtomicU32>,
    _lease: Lease,
}

impl IntervalPrimitives for HostDevice {
    fn interval_index(
        &self,
        low: &Keys,
        high: &Keys,
        groups: Option<(&Buffer<u32>, u32)>,
    ) -> Result<Option<IntervalIndex>> {
        self.pool.install(|| index(&self.budget, low, high, groups))
    }

    fn interval_places(
        &self,
        index: &IntervalIndex,
        probe: &ProbeIntervals<'_>,
    ) -> Result<Option<IntervalPlaces>> {
        self.pool.install(|| places(&self.budget, index, probe))
    }

    fn interval_counts(&self, places: &IntervalPlaces, least: u32) -> Result<Buffer<u32>> {
        let of_rows = places.places.get::<Places>()?;
        let lease = self.budget.lease(places.rows as u64 * 4, "match counts")?;
        let both = of_rows.by_low.iter().zip(&of_rows.by_high);
        let counts = both.map(|(low, high)| (low - high).max(least)).collect();
        Ok(Buffer::host(counts, lease))
    }

    fn interval_cover(&self, index: &IntervalIndex) -> Result<IntervalCover> {
        let orders = index.orders.get::<Orders>()?;
        let places = orders.by_low.places();
        let lease = self.budget.lease(places as u64 * 8, "coverage")?;
        let zeros = || (0..places).map(|_| AtomicU32::new(0)).collect();
        Ok(IntervalCover(Opaque::new(Cover {
            by_low: zeros(),
            by_high: zeros(),
            _lease: lease,
        })))
    }

    fn add_to_cover(
        &self,
        cover: &IntervalCover,
        places: &IntervalPlaces,
        of_rows: Option<&Bits>,
    ) -> Result<()> {
        let (cover, places) = (cover.0.get::<Cover>()?, places.places.get::<Places>()?);
        let of_rows = of_rows.map(Bits::on_host).transpose()?;
        let is_counted = |row| of_rows.is_none_or(|bits| bits.value(row));
        let add = |counts: &[AtomicU32], places: &[u32]| {
            let tasks = places.par_chunks(TASK_ROWS).enumerate();
            tasks.for_each(|(task, places)| {
                for (i, place) in places.iter().enumerate() {
                    if *place != NOWHERE && is_counted(task * TASK_ROWS + i) {
                        counts[*place as usize].fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        };
        self.pool.install(|| {
            rayon::join(
                || add(&cover.by_low, &places.by_low),
                || add(&cover.by_high, &places.by_high),
            )
        });
        Ok(())
    }

    fn covered(
        &self,
        index: &IntervalIndex,
        cover: &IntervalCover,
        least: u32,
    ) -> Result<Buffer<u32>> {
        let (orders, cover) = (index.orders.get::<Orders>()?, cover.0.get::<Cover>()?);
        let lease = self.budget.lease(index.rows as u64 * 4, "match counts")?;
        let mut counts = vec![0u32; index.rows];
        orders.by_low.behind(&cover.by_low, |row, behind| {
            counts[row] = behind;
        })?;
        orders.by_high.behind(&cover.by_high, |row, behind| {
            counts[row] = counts[row].wrapping_sub(behind);
        })?;
        if least > 0 {
            counts
                .iter_mut()
                .for_each(|count| *count = (*count).max(least));
        }
        Ok(Buffer::host(counts, lease))
    }
}

impl Order {
    fn new(
        budget: &Arc<Budget>,
        keys: &Keys,
        other: &Keys,
        groups: Option<(&Buffer<u32>, u32)>,
    ) -> Result<Self> {
        let rows = sort::sort(budget, keys.rows(), Some(keys), groups, &[other])?;
        let whole = [0, rows.len() as u32];
        let segments = match &rows.segments {
            Some(segments) => segments.on_host()?,
            None => &whole[..],
        };
        let directory = Directory::new(budget, sorted(&rows)?, segments)?;
        Ok(Self { rows, directory })
    }

    /// One behind each row, and one before the first row of each group.
    fn places(&self) -> usize {
        self.rows.len() + self.directory.segments()
    }

    /// Calls `each` with every row, and the number of probe rows that are placed behind it.
    fn behind(&self, counts: &[AtomicU32], mut each: impl FnMut(usize, u32)) -> Result<()> {
        let rows = self.rows.rows.on_host()?;
        let count = |place: usize| counts[place].load(Ordering::Relaxed);
        for group in 0..self.directory.segments() {
            let mut behind = 0u32;
            for position in self.directory.positions(group).rev() {
                behind = behind.wrapping_add(count(position + 1 + group));
                each(rows[position] as usize, behind);
            }
        }
        Ok(())
    }
}

fn sorted(rows: &OrderedRows) -> Result<&[u64]> {
    match &rows.keys {
        Some(keys) => Ok(keys.on_host()?),
        None => Err(BowtieError::Internal("an order without keys".into())),
    }
}

fn index(
    budget: &Arc<Budget>,
    low: &Keys,
    high: &Keys,
    groups: Option<(&Buffer<u32>, u32)>,
) -> Result<Option<IntervalIndex>> {
    let Some(without_points) = are_intervals(low, high)? else {
        return Ok(None);
    };
    let groups_of_rows = groups.map_or(1, |(_, groups)| groups as usize);
    if low.rows() + 2 * groups_of_rows > u32::MAX as usize / 2 {
        return Ok(None);
    }
    let (by_low, by_high) = rayon::join(
        || Order::new(budget, low, high, groups),
        || Order::new(budget, high, low, groups),
    );
    let (by_low, by_high) = (by_low?, by_high?);
    Ok(Some(IntervalIndex {
        rows: low.rows(),
        without_points,
        orders: Opaque::new(Orders { by_low, by_high }),
    }))
}

/// `None` if an interval ends before it begins; otherwise whether none is a point.
fn are_intervals(low: &Keys, high: &Keys) -> Result<Option<bool>> {
    let (low, high) = (HostKeys::new(low)?, HostKeys::new(high)?);
    let mut without_points = true;
    for row in 0..low.words.len() {
        if low.words[row] >= high.words[row] && low.is_valid(row) && high.is_valid(row) {
            if low.words[row] > high.words[row] {
                return Ok(None);
            }
            without_points = false;
        }
    }
    Ok(Some(without_points))
}

fn places(
    budget: &Arc<Budget>,
    index: &IntervalIndex,
    probe: &ProbeIntervals<'_>,
) -> Result<Option<IntervalPlaces>> {
    let orders = index.orders.get::<Orders>()?;
    let needs_no_points = probe.excludes_points() && !index.without_points;
    let (low, high) = (HostKeys::new(probe.low)?, HostKeys::new(probe.high)?);
    let groups = probe.groups.map(Buffer::on_host).transpose()?;
    let rows = low.words.len();
    let lease = budget.lease(rows as u64 * 8, "places of intervals")?;
    let (mut by_low, mut by_high) = (vec![NOWHERE; rows], vec![NOWHERE; rows]);
    // Behind the build rows with `low <= probe.high`, and behind those with `high < probe.low`.
    let through_low = probe.low_op == Comparison::LtEq;
    let through_high = probe.high_op == Comparison::Gt;
    let (low_keys, high_keys) = (sorted(&orders.by_low.rows)?, sorted(&orders.by_high.rows)?);
    // Without a group there is no row, either.
    let is_empty = orders.by_low.directory.segments() == 0;
    let fits = by_low
        .par_chunks_mut(TASK_ROWS)
        .zip(by_high.par_chunks_mut(TASK_ROWS))
        .enumerate()
        .map(|(task, (by_low, by_high))| {
            let first = task * TASK_ROWS;
            let blocks = by_low.chunks_mut(BLOCK).zip(by_high.chunks_mut(BLOCK));
            for (block, (by_low, by_high)) in blocks.enumerate() {
                let (first, rows) = (first + block * BLOCK, by_low.len());
                // Rows that overlap nothing are looked up in the first group, for nothing.
                let (mut of_rows, mut is_placed) = ([0u32; BLOCK], [false; BLOCK]);
                for i in 0..rows {
                    let row = first + i;
                    if !low.is_valid(row) || !high.is_valid(row) {
                        continue;
                    }
                    let (from, to) = (low.words[row], high.words[row]);
                    if from > to || (needs_no_points && from == to) {
                        return false;
                    }
                    match groups.map_or(0, |groups| groups[row]) {
                        NO_GROUP => {}
                        group => (of_rows[i], is_placed[i]) = (group, true),
                    }
                }
                if is_empty {
                    continue;
                }
                let (from, to) = (
                    &low.words[first..first + rows],
                    &high.words[first..first + rows],
                );
                let find = |order: &Order, keys, words, through, found: &mut [u32]| {
                    let directory = &order.directory;
                    directory.find(keys, &of_rows[..rows], words, through, found);
                    for i in 0..rows {
                        found[i] = match is_placed[i] {
                            true => found[i] + of_rows[i],
                            false => NOWHERE,
                        };
                    }
                };
                find(&orders.by_low, low_keys, to, through_low, by_low);
                find(&orders.by_high, high_keys, from, through_high, by_high);
            }
            true
        })
        .reduce(|| true, |all, fits| all && fits);
    Ok(fits.then(|| IntervalPlaces {
        rows,
        places: Opaque::new(Places {
            by_low,
            by_high,
            _lease: lease,
        }),
    }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, UInt64Array};
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::device::primitives::device::Device;
    use crate::device::primitives::keys::KeyPrimitives;
    use crate::device::primitives::transfer::TransferPrimitives;

    type Intervals = Vec<(Option<u64>, Option<u64>)>;

    fn keys(device: &HostDevice, ends: impl Iterator<Item = Option<u64>>) -> Keys {
        let array: ArrayRef = Arc::new(UInt64Array::from_iter(ends));
        let column = device.upload(&[array]).unwrap();
        device.order_keys(&column).unwrap().0
    }

    fn drawn(rng: &mut StdRng, rows: usize) -> (Intervals, Vec<u32>) {
        let mut end = |end| (!rng.random_bool(0.1)).then_some(end);
        let mut intervals = vec![];
        for i in 0..rows as u64 {
            let low = (i * 7919) % 100;
            intervals.push((end(low), end(low + i % 9)));
        }
        let group = |_| match rng.random_range(0..5) {
            0 => NO_GROUP,
            group => group - 1,
        };
        (intervals, (0..rows).map(group).collect())
    }

    fn holds(op: Comparison, left: Option<u64>, right: Option<u64>) -> bool {
        matches!((left, right), (Some(left), Some(right)) if op.holds(left, right))
    }

    #[test]
    fn counts_are_those_of_all_pairs() {
        let device = HostDevice::new(Budget::new(u64::MAX)).unwrap();
        let mut rng = StdRng::seed_from_u64(9);
        for (n, m, grouped) in [
            (0, 3, true),
            (3, 0, true),
            (200, 150, false),
            (150, 300, true),
        ] {
            let ((build, of_build), (probe, of_probe)) = (drawn(&mut rng, n), drawn(&mut rng, m));
            let words =
                |ids: &[u32]| Buffer::host(ids.to_vec(), device.budget().lease(0, "test").unwrap());
            let (ids, probe_ids) = (words(&of_build), words(&of_probe));
            let low = keys(&device, build.iter().map(|i| i.0));
            let high = keys(&device, build.iter().map(|i| i.1));
            let groups = grouped.then_some((&ids, 4));
            let index = device.interval_index(&low, &high, groups).unwrap().unwrap();
            let low = keys(&device, probe.iter().map(|i| i.0));
            let high = keys(&device, probe.iter().map(|i| i.1));
            for (low_op, high_op) in [
                (Comparison::Lt, Comparison::GtEq),
                (Comparison::LtEq, Comparison::Gt),
                (Comparison::LtEq, Comparison::GtEq),
            ] {
                let overlaps = |b: usize, p: usize| {
                    let ((low, high), (from, to)) = (build[b], probe[p]);
                    let same = !grouped || (of_build[b] == of_probe[p] && of_build[b] != NO_GROUP);
                    let valid = [low, high, from, to].iter().all(Option::is_some);
                    same && valid && holds(low_op, low, to) && holds(high_op, high, from)
                };
                let probe = ProbeIntervals {
                    low: &low,
                    high: &high,
                    groups: grouped.then_some(&probe_ids),
                    low_op,
                    high_op,
                };
                let places = device.interval_places(&index, &probe).unwrap().unwrap();
                let counts = device.interval_counts(&places, 0).unwrap();
                let expected: Vec<u32> = (0..m)
                    .map(|p| (0..n).filter(|b| overlaps(*b, p)).count() as u32)
                    .collect();
                assert_eq!(counts.on_host().unwrap().to_vec(), expected);
                let cover = device.interval_cover(&index).unwrap();
                for twice in [1, 2] {
                    device.add_to_cover(&cover, &places, None).unwrap();
                    let counts = device.covered(&index, &cover, 0).unwrap();
                    let expected: Vec<u32> = (0..n)
                        .map(|b| twice * (0..m).filter(|p| overlaps(b, *p)).count() as u32)
                        .collect();
                    assert_eq!(counts.on_host().unwrap().to_vec(), expected);
                }
            }
        }
    }
}
