//! [`SinglePassJoin`]: an inner equi-join whose pairs are put together in the pass that finds them, on devices that can.

use std::sync::Arc;

use datafusion::common::JoinType;

use crate::device::data::batch::DeviceBatch;
use crate::device::data::column::Column;
use crate::device::data::matches::FirstProbe;
use crate::device::data::results::{Joined, Paired};
use crate::device::data::structures::EquiBuild;
use crate::device::presorted::PresortedKeys;
use crate::device::primitives::device::Device;
use crate::error::Result;
use crate::exec::memory::step::Step;
use crate::exec::metrics::DeviceMetrics;
use crate::ir::side::Side;
use crate::ir::strategies::{EquiStrategy, Materialization, Strategy};
use crate::spec::join::{JoinSpec, Output};

/// What is joined, and what comes out.
#[derive(Debug)]
pub(crate) struct SinglePassJoin {
    strategy: Option<EquiStrategy>,
    /// Columns of each side that come out, each once.
    build: Vec<usize>,
    probe: Vec<usize>,
    /// For each column that comes out, where it is among those.
    output: Vec<Place>,
}

#[derive(Debug, Clone, Copy)]
enum Place {
    Build(usize),
    Probe(usize),
}

/// A resident side as it was prepared for further probes.
#[derive(Debug, Clone, Default)]
pub(crate) enum PreparedBuild {
    #[default]
    NotYet,
    For(Arc<EquiBuild>),
    /// It was walked over together with the last probe: both were in the order of their keys.
    Walked,
    /// Its pairs are found first, and put together piece by piece.
    Not,
}

impl SinglePassJoin {
    /// `None` for a join that needs more than equal keys, or more of its pairs than their columns.
    pub(crate) fn of(spec: &JoinSpec) -> Option<Self> {
        let Strategy::Equi(strategy) = spec.theta.strategy else {
            return None;
        };
        let plain = spec.kind == JoinType::Inner
            && spec.whole_filter.is_empty()
            && spec.residual.is_empty()
            && spec.program.is_none()
            && spec.fetch.is_none();
        if !plain {
            return None;
        }
        let mut at_once = Self {
            strategy,
            build: vec![],
            probe: vec![],
            output: vec![],
        };
        for column in &spec.output {
            let Output::Column(side, column) = column else {
                return None;
            };
            let place = match *side == spec.theta.build {
                true => Place::Build(place_in(&mut at_once.build, *column)),
                false => Place::Probe(place_in(&mut at_once.probe, *column)),
            };
            at_once.output.push(place);
        }
        Some(at_once)
    }

    /// All pairs of two resident sides, the build side before the other; `None` where they are found first. Where memory is short, an
    /// error if the step defers it.
    pub(crate) fn join(
        &self,
        device: &dyn Device,
        metrics: &DeviceMetrics,
        step: &Step<'_>,
        spec: &JoinSpec,
        prepared: &mut PreparedBuild,
        [build, probe]: [&DeviceBatch; 2],
    ) -> Result<Option<DeviceBatch>> {
        let side = spec.theta.build;
        let of_build = columns(build, &self.build)?;
        let of_probe = columns(probe, &self.probe)?;
        let keys = [side, side.other()].map(|side| keys_of(spec, side));
        let build_keys = columns(build, &keys[0])?;
        let probe_keys = columns(probe, &keys[1])?;
        let prepare = |strategy| -> Result<PreparedBuild> {
            let (null_equal, how) = (spec.theta.null_equal(), spec.theta.materialization);
            let first = FirstProbe {
                keys: &probe_keys,
                payload: &of_probe,
            };
            let made = device.equi_build(
                &build_keys,
                null_equal,
                strategy,
                &of_build,
                how,
                Some(first),
            );
            Ok(match or_short_of_memory(step, made)? {
                Some(made) => {
                    metrics.indexed_by(made.strategy);
                    PreparedBuild::For(Arc::new(made))
                }
                None => PreparedBuild::Not,
            })
        };
        if let PreparedBuild::NotYet | PreparedBuild::Walked = prepared {
            let known = matches!(prepared, PreparedBuild::Walked);
            let (keys, payload) = ([&*build_keys, &*probe_keys], [&*of_build, &*of_probe]);
            let merged = self.merged(device, spec, known, keys, payload);
            if let Some(joined) = or_short_of_memory(step, merged)? {
                if !known {
                    metrics.indexed_by("merge");
                }
                let how = spec.theta.materialization;
                metrics.materialized_by(how.unwrap_or(Materialization::Gftr));
                *prepared = PreparedBuild::Walked;
                return Ok(Some(self.put_out(joined)));
            }
            *prepared = prepare(self.strategy)?;
        }
        let joined = loop {
            let PreparedBuild::For(made) = prepared else {
                return Ok(None);
            };
            let joined = device.equi_join(made, &of_build, &probe_keys, &of_probe);
            *prepared = match (or_short_of_memory(step, joined.map(Some))?, self.strategy) {
                (Some(Paired::All(joined)), _) => {
                    metrics.materialized_by(made.materialization);
                    break joined;
                }
                (Some(Paired::SharedKeys), None) => prepare(Some(EquiStrategy::SortMerge))?,
                // Piece by piece less memory will do, and any number of pairs.
                _ => PreparedBuild::Not,
            };
        };
        Ok(Some(self.put_out(joined)))
    }

    /// All pairs by one walk over two sides in the order of their keys; `None` where they are not, or another strategy is asked for.
    fn merged(
        &self,
        device: &dyn Device,
        spec: &JoinSpec,
        known: bool,
        keys: [&[&Column]; 2],
        payload: [&[&Column]; 2],
    ) -> Result<Option<Joined>> {
        let (None | Some(EquiStrategy::SortMerge), [[build], [probe]]) = (self.strategy, keys)
        else {
            return Ok(None);
        };
        let keys = PresortedKeys {
            build,
            probe,
            known,
        };
        let how = spec.theta.materialization;
        let [build, probe] = payload;
        device.merge_join(keys, how, build, probe)
    }

    fn put_out(&self, joined: Joined) -> DeviceBatch {
        let of_build: Vec<Arc<Column>> = joined.build.into_iter().map(Arc::new).collect();
        let of_probe: Vec<Arc<Column>> = joined.probe.into_iter().map(Arc::new).collect();
        let output = self.output.iter().map(|place| match place {
            Place::Build(at) => Some(Arc::clone(&of_build[*at])),
            Place::Probe(at) => Some(Arc::clone(&of_probe[*at])),
        });
        DeviceBatch::new(joined.rows, output.collect())
    }
}

fn place_in(columns: &mut Vec<usize>, column: usize) -> usize {
    let known = columns.iter().position(|known| *known == column);
    known.unwrap_or_else(|| {
        columns.push(column);
        columns.len() - 1
    })
}

fn keys_of(spec: &JoinSpec, side: Side) -> Vec<usize> {
    let pairs = spec.theta.equalities.iter();
    pairs
        .map(|(left, right)| match side {
            Side::Left => *left,
            Side::Right => *right,
        })
        .collect()
}

fn columns<'a>(batch: &'a DeviceBatch, which: &[usize]) -> Result<Vec<&'a Column>> {
    which
        .iter()
        .map(|column| batch.column(*column).map(AsRef::as_ref))
        .collect()
}

/// `None` after a refusal that the step does not defer: less memory will do where pairs are put together piece by piece.
fn or_short_of_memory<T>(step: &Step<'_>, made: Result<Option<T>>) -> Result<Option<T>> {
    match made {
        Err(error) if step.may_shrink(&error) => Ok(None),
        made => made,
    }
}
