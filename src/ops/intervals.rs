//! Overlaps of a probe chunk's intervals with those of a build chunk, counted without finding them. In: a chunk of each
//! side. Out: [`IntervalPlaces`] in an [`IntervalBuild`].

use crate::device::batches::batch::DeviceBatch;
use crate::device::data::buffer::Bits;
use crate::device::data::intervals::{IntervalIndex, IntervalPlaces, ProbeIntervals};
use crate::device::data::keys::{KeyDomain, Keys};
use crate::device::data::structures::GroupDomain;
use crate::device::primitives::device::Device;
use crate::error::Result;
use crate::ir::side::Side;
use crate::ops::build_index::equality_columns;
use crate::spec::interval::IntervalOverlap;
use crate::spec::join::MatchSpec;

/// The indexed intervals of the left side.
#[derive(Debug)]
pub(crate) struct IntervalBuild {
    pub(crate) index: IntervalIndex,
    groups: Option<GroupDomain>,
}

impl IntervalBuild {
    /// Indexes the left side's rows: all, or those whose bit is set in `of_rows`. `None` if one of the intervals ends before it begins, or if keys of their type
    /// depend on more than a value.
    pub(crate) fn new(
        device: &dyn Device,
        spec: &MatchSpec,
        overlap: &IntervalOverlap,
        left: &DeviceBatch,
        of_rows: Option<&Bits>,
    ) -> Result<Option<Self>> {
        let Some((low, high)) = keys_of(device, overlap, Side::Left, left)? else {
            return Ok(None);
        };
        let low = match of_rows {
            Some(of_rows) => device.keys_among(low, of_rows)?,
            None => low,
        };
        let groups = match spec.equalities.is_empty() {
            true => None,
            false => {
                let columns = equality_columns(spec, Side::Left, left)?;
                Some(device.group_keys(&columns, spec.null_equal())?)
            }
        };
        let ids = groups.as_ref().map(|(ids, domain)| (ids, domain.groups));
        let index = device.interval_index(&low, &high, ids)?;
        Ok(index.map(|index| Self {
            index,
            groups: groups.map(|(_, domain)| domain),
        }))
    }

    /// The places of the right side's rows. `None` if they cannot be placed: see
    /// [`interval_places`](crate::device::primitives::intervals::IntervalPrimitives::interval_places).
    pub(crate) fn places(
        &self,
        device: &dyn Device,
        spec: &MatchSpec,
        overlap: &IntervalOverlap,
        right: &DeviceBatch,
    ) -> Result<Option<IntervalPlaces>> {
        let Some((low, high)) = keys_of(device, overlap, Side::Right, right)? else {
            return Ok(None);
        };
        let groups = match &self.groups {
            Some(domain) => {
                let columns = equality_columns(spec, Side::Right, right)?;
                Some(device.group_keys_in(domain, &columns)?)
            }
            None => None,
        };
        let probe = ProbeIntervals {
            low: &low,
            high: &high,
            groups: groups.as_ref(),
            low_op: overlap.low_op,
            high_op: overlap.high_op,
        };
        device.interval_places(&self.index, &probe)
    }
}

/// The keys of both ends, if they depend on the values alone: then those of both sides compare with one another.
fn keys_of(
    device: &dyn Device,
    overlap: &IntervalOverlap,
    side: Side,
    batch: &DeviceBatch,
) -> Result<Option<(Keys, Keys)>> {
    let ends = overlap.ends(side);
    let (low, domain) = device.order_keys(batch.column(ends.low)?)?;
    if !matches!(domain, KeyDomain::Natural) {
        return Ok(None);
    }
    let high = device.order_keys_in(&domain, batch.column(ends.high)?)?;
    Ok(Some((low, high)))
}
