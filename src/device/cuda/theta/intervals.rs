//! [`IntervalPrimitives`] of an NVIDIA GPU (`kernels/theta/interval.cu`): keys of both ends enter; places of probe rows,
//! counts and coverage leave.

use crate::device::cuda::columns::scan::{self, INCLUSIVE_U32};
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::keys::sort;
use crate::device::cuda::runtime::access::{memory, valid_memory};
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::data::buffer::{Bits, Buffer};
use crate::device::data::intervals::{
    IntervalCover, IntervalIndex, IntervalPlaces, ProbeIntervals,
};
use crate::device::data::keys::Keys;
use crate::device::data::opaque::Opaque;
use crate::device::data::ranges::OrderedRows;
use crate::device::primitives::intervals::IntervalPrimitives;
use crate::error::{BowtieError, Result};
use crate::ir::comparison::Comparison;

/// What `interval_check` finds.
const REVERSED: u32 = 1;
const POINT: u32 = 2;

/// Both orders have the same rows of each group.
#[derive(Debug)]
struct Orders {
    by_low: OrderedRows,
    by_high: OrderedRows,
    groups: u32,
}

impl Orders {
    /// One behind each row, and one before the first row of each group.
    fn places(&self) -> usize {
        self.by_low.len() + self.groups as usize
    }
}

/// The place of each probe row in both orders.
#[derive(Debug)]
struct Places {
    by_low: Memory,
    by_high: Memory,
}

/// How many probe rows have each place, in both orders.
#[derive(Debug)]
struct Cover {
    by_low: Memory,
    by_high: Memory,
}

/// What is found of intervals.
fn check_intervals(device: &CudaDevice, low: &Keys, high: &Keys) -> Result<u32> {
    let found = device.stream.zeroed(4, "a check of intervals")?;
    let rows = low.rows();
    let args = (
        memory(&low.values)?.into(),
        valid_memory(low.valid.as_ref())?.into(),
        memory(&high.values)?.into(),
        valid_memory(high.valid.as_ref())?.into(),
        (&found).into(),
        (rows as u32).into(),
    );
    // SAFETY: keys and validities are of `rows` rows; `found` holds a word.
    unsafe {
        device
            .stream
            .launch(kernels::INTERVAL_CHECK, Shape::rows(rows), &args)?
    };
    let mut bytes = [0; 4];
    device.stream.read_few(&mut bytes, &found, 0)?;
    Ok(u32::from_le_bytes(bytes))
}

fn place_intervals(
    device: &CudaDevice,
    order: &OrderedRows,
    probe: &ProbeIntervals<'_>,
    [words, other]: [&Keys; 2],
    through: bool,
) -> Result<Memory> {
    let rows = words.rows();
    let places = device.stream.alloc(rows * 4, "places of intervals")?;
    let segments = order.segments.as_ref().map(memory).transpose()?;
    let args = (
        segments.into(),
        memory(keys_of(order)?)?.into(),
        (order.len() as u32).into(),
        probe.groups.map(memory).transpose()?.into(),
        memory(&words.values)?.into(),
        valid_memory(words.valid.as_ref())?.into(),
        valid_memory(other.valid.as_ref())?.into(),
        u32::from(through).into(),
        (&places).into(),
        (rows as u32).into(),
    );
    // SAFETY: groups, words and validities are of `rows` rows, as are the places; groups are below those of the
    // order, whose segments end at the number of its keys.
    unsafe {
        device
            .stream
            .launch(kernels::INTERVAL_PLACE, Shape::rows(rows), &args)?
    };
    Ok(places)
}

/// Adds to `out`, or with `less` subtracts from it, the number of probe rows behind each row of an order.
fn count_behind(
    device: &CudaDevice,
    orders: &Orders,
    order: &OrderedRows,
    cover: &Memory,
    less: bool,
    out: &Memory,
) -> Result<()> {
    let n = order.len();
    if n == 0 {
        return Ok(());
    }
    let sums = scan::scan(
        &device.stream,
        INCLUSIVE_U32,
        cover,
        orders.places(),
        "coverage scratch",
    )?;
    let args = (
        order.segments.as_ref().map(memory).transpose()?.into(),
        orders.groups.into(),
        memory(&order.rows)?.into(),
        (&sums).into(),
        u32::from(less).into(),
        out.into(),
        (n as u32).into(),
    );
    // SAFETY: segments are one more than the groups, sums are of all places, and row ids are below the rows of `out`.
    unsafe {
        device
            .stream
            .launch(kernels::INTERVAL_BEHIND, Shape::rows(n), &args)?
    };
    Ok(())
}

impl IntervalPrimitives for CudaDevice {
    fn interval_index(
        &self,
        low: &Keys,
        high: &Keys,
        groups: Option<(&Buffer<u32>, u32)>,
    ) -> Result<Option<IntervalIndex>> {
        let found = check_intervals(self, low, high)?;
        if found & REVERSED != 0 {
            return Ok(None);
        }
        let rows = low.rows();
        let groups_of_rows = groups.map_or(1, |(_, groups)| groups);
        if rows + groups_of_rows as usize > u32::MAX as usize / 2 {
            return Ok(None);
        }
        let orders = Orders {
            by_low: sort::sort(&self.stream, rows, Some(low), groups, &[high])?,
            by_high: sort::sort(&self.stream, rows, Some(high), groups, &[low])?,
            groups: groups_of_rows,
        };
        Ok(Some(IntervalIndex {
            rows,
            without_points: found & POINT == 0,
            orders: Opaque::new(orders),
        }))
    }

    fn interval_places(
        &self,
        index: &IntervalIndex,
        probe: &ProbeIntervals<'_>,
    ) -> Result<Option<IntervalPlaces>> {
        let orders = index.orders.get::<Orders>()?;
        let found = check_intervals(self, probe.low, probe.high)?;
        let needs_no_points = probe.excludes_points() && !index.without_points;
        if found & REVERSED != 0 || (needs_no_points && found & POINT != 0) {
            return Ok(None);
        }
        let (low, high) = (probe.low, probe.high);
        let through_low = probe.low_op == Comparison::LtEq;
        let through_high = probe.high_op == Comparison::Gt;
        let places = Places {
            by_low: place_intervals(self, &orders.by_low, probe, [high, low], through_low)?,
            by_high: place_intervals(self, &orders.by_high, probe, [low, high], through_high)?,
        };
        Ok(Some(IntervalPlaces {
            rows: low.rows(),
            places: Opaque::new(places),
        }))
    }

    fn interval_counts(&self, places: &IntervalPlaces, least: u32) -> Result<Buffer<u32>> {
        let (rows, of_rows) = (places.rows, places.places.get::<Places>()?);
        let counts = self.stream.alloc(rows * 4, "match counts")?;
        let args = (
            (&of_rows.by_low).into(),
            (&of_rows.by_high).into(),
            least.into(),
            (&counts).into(),
            (rows as u32).into(),
        );
        // SAFETY: all hold `rows` words.
        unsafe {
            self.stream
                .launch(kernels::INTERVAL_COUNT, Shape::rows(rows), &args)?
        };
        Ok(Buffer::cuda(counts, rows))
    }

    fn interval_cover(&self, index: &IntervalIndex) -> Result<IntervalCover> {
        let bytes = index.orders.get::<Orders>()?.places() * 4;
        Ok(IntervalCover(Opaque::new(Cover {
            by_low: self.stream.zeroed(bytes, "coverage")?,
            by_high: self.stream.zeroed(bytes, "coverage")?,
        })))
    }

    fn add_to_cover(
        &self,
        cover: &IntervalCover,
        places: &IntervalPlaces,
        of_rows: Option<&Bits>,
    ) -> Result<()> {
        let (cover, placed) = (cover.0.get::<Cover>()?, places.places.get::<Places>()?);
        let of_rows = valid_memory(of_rows)?;
        for (cover, places_of_rows) in [
            (&cover.by_low, &placed.by_low),
            (&cover.by_high, &placed.by_high),
        ] {
            let args = (
                places_of_rows.into(),
                of_rows.into(),
                cover.into(),
                (places.rows as u32).into(),
            );
            // SAFETY: places and bits are of as many rows; places are below the words of the cover.
            unsafe {
                self.stream
                    .launch(kernels::INTERVAL_ADD, Shape::rows(places.rows), &args)?
            };
        }
        Ok(())
    }

    fn covered(
        &self,
        index: &IntervalIndex,
        cover: &IntervalCover,
        least: u32,
    ) -> Result<Buffer<u32>> {
        let (orders, cover) = (index.orders.get::<Orders>()?, cover.0.get::<Cover>()?);
        let out = self.stream.zeroed(index.rows * 4, "match counts")?;
        count_behind(self, orders, &orders.by_low, &cover.by_low, false, &out)?;
        count_behind(self, orders, &orders.by_high, &cover.by_high, true, &out)?;
        if least > 0 {
            let args = (least.into(), (&out).into(), (index.rows as u32).into());
            // SAFETY: `out` holds as many words.
            unsafe {
                self.stream
                    .launch(kernels::INTERVAL_AT_LEAST, Shape::rows(index.rows), &args)?
            };
        }
        Ok(Buffer::cuda(out, index.rows))
    }
}

fn keys_of(order: &OrderedRows) -> Result<&Buffer<u64>> {
    let keys = order.keys.as_ref();
    keys.ok_or_else(|| BowtieError::Internal("an order without keys".into()))
}
