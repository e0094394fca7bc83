//! Ids of elements: values enter, one id per distinct value leaves. Integers of a narrow range have their distance from
//! the least as id (direct address); other values are grouped.

use crate::device::cuda::columns::minmax::{self, Number};
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::keys::group_ids;
use crate::device::cuda::keys::sort::check_sortable;
use crate::device::cuda::semi::key_bitmap;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::key_bitmap::{BitNumbering, KeyRange};
use crate::device::data::structures::GroupDomain;
use crate::error::{BowtieError, Result};

/// The assignment of ids to elements; equal elements have the same id, NULLs too.
#[derive(Debug)]
pub(crate) enum ElementIds {
    /// By grouping: a hash of whole values.
    Grouped(GroupDomain),
    /// By direct address. Some ids may have no element.
    Direct(BitNumbering),
}

/// A range is narrow up to this number of ids per value, or up to `FEW_IDS`.
const IDS_PER_VALUE: u64 = 2;
const FEW_IDS: u64 = 1 << 12;

/// Free bytes per id that direct address needs: ranks take some 40 bytes per id, an eighth of the free memory.
const ID_SHARE: u64 = 320;

impl ElementIds {
    /// Ids are below this number.
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::Grouped(domain) => domain.groups as usize,
            Self::Direct(places) => places.count as usize,
        }
    }
}

/// The id of each value, and the assignment.
pub(crate) fn element_ids(
    device: &CudaDevice,
    values: &Column,
) -> Result<(Buffer<u32>, ElementIds)> {
    let rows = values.rows();
    if let Some(number) = Number::of(values).filter(|_| rows > 0) {
        let range = KeyRange(minmax::extents(&device.stream, &[number], rows)?);
        let affordable = device.stream.budget.available() / ID_SHARE;
        let most = FEW_IDS.max(IDS_PER_VALUE * rows as u64).min(affordable);
        // The frequencies of ids are sorted, so a sort must be able to number them.
        let are_few = |places: &BitNumbering| {
            places.count <= most && check_sortable(places.count as usize).is_ok()
        };
        if let Some(places) = BitNumbering::of(&range, true).filter(are_few) {
            let ids = places_in(device, &places, values)?;
            return Ok((ids, ElementIds::Direct(places)));
        }
    }
    let (ids, domain) = group_ids::groups(device, &[values], true)?;
    Ok((ids, ElementIds::Grouped(domain)))
}

/// The ids of other values by a known assignment, `NO_GROUP` if a value has none.
pub(crate) fn known_ids(
    device: &CudaDevice,
    known: &ElementIds,
    values: &Column,
) -> Result<Buffer<u32>> {
    match known {
        ElementIds::Grouped(domain) => group_ids::groups_in(device, domain, &[values]),
        ElementIds::Direct(places) => places_in(device, places, values),
    }
}

/// The ids of values by direct address. An error if the type differs.
fn places_in(device: &CudaDevice, places: &BitNumbering, values: &Column) -> Result<Buffer<u32>> {
    let numbers = Number::of(values).zip(places.digits.first());
    let (number, digits) = numbers
        .ok_or_else(|| BowtieError::Internal("elements of another type than before".into()))?;
    let ids = key_bitmap::places(&device.stream, &[(number, *digits)], values.rows())?;
    Ok(Buffer::cuda(ids, values.rows()))
}
