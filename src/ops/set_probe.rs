//! The probe side of a set join: each probe row has a list of matches, and its range is the list's positions in the
//! concatenation of all lists.

use std::sync::Arc;

use crate::device::batches::batch::DeviceBatch;
use crate::device::data::keys::Keys;
use crate::device::data::ranges::OrderedRows;
use crate::device::data::results::SetCounting;
use crate::device::primitives::device::Device;
use crate::error::{BowtieError, Result};
use crate::ir::pair_program::Program;
use crate::ops::build_index::{BuildIndex, SetOrder, columns_at, equality_columns, gathered};
use crate::ops::probe::{Probe, ProbeResult};
use crate::ops::set_lists::Listed;
use crate::spec::join::MatchSpec;

impl Probe {
    /// As [`Probe::new`], for a condition with a predicate on sets.
    pub(crate) fn of_sets(
        device: &dyn Device,
        spec: &MatchSpec,
        program: Option<&Program>,
        index: Arc<BuildIndex>,
        batch: &DeviceBatch,
        wanted: ProbeResult,
    ) -> Result<Self> {
        let side = spec.build.other();
        let (Some(SetOrder { sets, groups, .. }), Some(set)) = (index.sets(), spec.set()) else {
            return Err(BowtieError::Internal(
                "a set probe without a set predicate".into(),
            ));
        };
        let lists = batch.column(set.column(side))?;
        let groups = match groups {
            Some(domain) => {
                let columns = equality_columns(spec, side, batch)?;
                Some(device.group_keys_in(domain, &columns)?)
            }
            None => None,
        };
        let of = |probe: OrderedRows| Self {
            build_side: spec.build,
            probe,
            counts: None,
            counted_by: None,
            rows: batch.rows(),
            ranges: None,
            test_keys: vec![],
            program: None,
            listed: None,
            sets: None,
            index: Arc::clone(&index),
        };
        let counting = match wanted {
            ProbeResult::Pairs => None,
            ProbeResult::ProbeCounts => Some(SetCounting::Probe),
            ProbeResult::Counts => Some(SetCounting::Both),
            ProbeResult::Exists => Some(SetCounting::Exists),
        };
        if let Some(counting) = counting.filter(|_| index.tests.is_empty() && program.is_none()) {
            let counted = device.set_count(sets, lists, groups.as_ref(), counting)?;
            let listed = Listed {
                matches: None,
                zoned: vec![],
                program: vec![],
                indexed: counted.indexed.map(Arc::new),
                tally: counted.tally,
            };
            return Ok(Self {
                counts: Some(counted.counts),
                counted_by: None,
                listed: Some(listed),
                ..of(counted.probe)
            });
        }
        let keys = index.keys_of(device, &index.tests, batch)?;
        let not_null: Vec<&Keys> = keys.iter().collect();
        let found = device.set_search(sets, lists, groups.as_ref(), &not_null)?;
        let mut search = of(found.probe);
        let test_keys = keys.iter();
        let test_keys = test_keys.map(|keys| device.zone_keys(keys, &search.probe));
        search.test_keys = test_keys.collect::<Result<_>>()?;
        let zoned = index.tests.iter().map(|test| {
            let keys = index.set_keys(test.key)?;
            device.zone_keys(keys, &found.matches)
        });
        let mut listed = Listed {
            zoned: zoned.collect::<Result<_>>()?,
            program: vec![],
            indexed: None,
            tally: found.tally,
            matches: None,
        };
        if let Some(program) = program {
            let columns = columns_at(device, program, side, batch, &search.probe)?;
            search.program = Some((program.clone(), columns));
            listed.program = gathered(device, index.set_columns(), &found.matches)?;
        }
        listed.matches = Some(found.matches);
        search.ranges = Some(found.ranges);
        search.listed = Some(listed);
        search.count(device, program, wanted == ProbeResult::Exists)?;
        if spec.has_values && wanted == ProbeResult::Pairs {
            search.sets = Some(device.probe_sets(sets, lists, groups.as_ref())?);
        }
        Ok(search)
    }
}
