//! [`SinglePassJoin`]: an equi-join that materialises its output columns in the pass that finds the matches (\[W\] 4.1), on
//! devices that can. In: two resident sides. Out: a batch of all their matches.
//!
//! \[W\] has inner joins alone. Of a side whose rows without a match are emitted too, row numbers are carried as one more
//! column; by those of the matches the join flags its rows, as after any other way.

use std::sync::Arc;

use crate::device::batches::batch::DeviceBatch;
use crate::device::batches::batch_column::BatchColumn;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::matches::FirstProbe;
use crate::device::data::results::{Joined, Paired};
use crate::device::data::structures::EquiBuild;
use crate::device::presorted::PresortedKeys;
use crate::device::primitives::device::Device;
use crate::error::{BowtieError, Result};
use crate::exec::memory::step::Step;
use crate::exec::metrics::DeviceMetrics;
use crate::ir::side::Side;
use crate::ir::strategies::{EquiStrategy, Materialization};
use crate::spec::join::{JoinSpec, MatchMethod, Output};

/// The output columns of such a join.
#[derive(Debug)]
pub(crate) struct SinglePassJoin {
    strategy: Option<EquiStrategy>,
    /// The output columns of each side, each once.
    build: Vec<usize>,
    probe: Vec<usize>,
    /// For each output column its index in `build` or `probe`.
    output: Vec<Place>,
}

#[derive(Debug, Clone, Copy)]
enum Place {
    Build(usize),
    Probe(usize),
}

/// All matches of two sides.
#[derive(Debug)]
pub(crate) struct JoinedSides {
    pub(crate) batch: DeviceBatch,
    /// Of each side whose rows must be flagged: its rows that match, in any order, with repetitions.
    pub(crate) matched: Vec<(Side, Buffer<u32>)>,
}

/// How a resident build side was prepared for further probes.
#[derive(Debug, Clone, Default)]
pub(crate) enum PreparedBuild {
    #[default]
    NotYet,
    /// By an index with the build columns.
    For(Arc<EquiBuild>),
    /// It was merged with the last probe, as both were presorted.
    Walked,
    /// It has probed indexes of this number of probe chunks: the sides were swapped.
    Swapped(u32),
    /// It cannot be joined in a single pass: matches are found first, and gathered piece by piece.
    Not,
}

/// The most probe chunks that are indexed in place of the build side, each of which the whole build side probes.
const MOST_SWAPPED: u32 = 4;

/// The sides are swapped from the first chunk on if the build side has at least this multiple of its rows.
const MUCH_LARGER: usize = 4;
/// The same if a sample shows that only the keys of the build side repeat.
const LARGER: usize = 2;

impl SinglePassJoin {
    /// `None` if the join has conditions beside equal keys, a limit, or other output than columns of both sides.
    pub(crate) fn of(spec: &JoinSpec) -> Option<Self> {
        let MatchMethod::Equi(strategy) = spec.theta.method else {
            return None;
        };
        if !spec.emits_pairs() || !spec.matches_by_keys_alone() || spec.fetch.is_some() {
            return None;
        }
        let mut join = Self {
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
                true => Place::Build(place_in(&mut join.build, *column)),
                false => Place::Probe(place_in(&mut join.probe, *column)),
            };
            join.output.push(place);
        }
        Some(join)
    }

    /// All matches of two resident sides; `None` if they must be found first and gathered piece by piece. Fails with an
    /// allocation failure only if the step defers it.
    pub(crate) fn join(
        &self,
        device: &dyn Device,
        metrics: &DeviceMetrics,
        step: &Step<'_>,
        spec: &JoinSpec,
        prepared: &mut PreparedBuild,
        [build, probe]: [&DeviceBatch; 2],
    ) -> Result<Option<JoinedSides>> {
        let side = spec.theta.build;
        let numbers = |side: Side, rows| match spec.flags_side(side) {
            true => device.row_numbers(rows).map(Some),
            false => Ok(None),
        };
        let numbers = numbers(side, build.rows())
            .and_then(|of_build| Ok(Some([of_build, numbers(side.other(), probe.rows())?])));
        let Some(numbers) = or_short_of_memory(step, numbers)? else {
            return Ok(None);
        };
        let payload = [
            Carried::of(build, &self.build, &numbers[0])?,
            Carried::of(probe, &self.probe, &numbers[1])?,
        ];
        let [of_build, of_probe] = payload.each_ref().map(Carried::columns);
        let put_out = |joined| self.put_out(joined, side, &payload);
        let keys = [side, side.other()].map(|side| spec.theta.keys(side).collect::<Vec<_>>());
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
                return Ok(Some(put_out(joined)?));
            }
            let is_better_swapped = || {
                let times = build.rows() / probe.rows().max(1);
                let repeats =
                    || device.only_build_repeats(keys[0], keys[1], spec.theta.null_equal());
                Ok::<_, BowtieError>(times >= MUCH_LARGER || times >= LARGER && repeats()?)
            };
            if !known && self.strategy.is_none() && is_better_swapped()? {
                *prepared = PreparedBuild::Swapped(0);
            } else {
                *prepared = prepare(self.strategy)?;
            }
        }
        let (keys, payload) = ([&*build_keys, &*probe_keys], [&*of_build, &*of_probe]);
        let mut was_tried = false;
        if let PreparedBuild::Swapped(tiles) = *prepared {
            was_tried = true;
            if tiles < MOST_SWAPPED
                && let Some(joined) = self.swapped(device, metrics, step, spec, keys, payload)?
            {
                *prepared = PreparedBuild::Swapped(tiles + 1);
                return Ok(Some(put_out(joined)?));
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
                (Some(Paired::SharedKeys), None) => {
                    // The keys of the other side may be unique.
                    if !was_tried
                        && let Some(joined) =
                            self.swapped(device, metrics, step, spec, keys, payload)?
                    {
                        *prepared = PreparedBuild::Swapped(1);
                        return Ok(Some(put_out(joined)?));
                    }
                    prepare(Some(EquiStrategy::SortMerge))?
                }
                // Piece by piece needs less memory, and allows any number of matches.
                _ => PreparedBuild::Not,
            };
        };
        Ok(Some(put_out(joined)?))
    }

    /// All matches by an index of the probe side, which the build side probes; `None` if the keys of the probe side are not unique, or the device has no
    /// such join.
    fn swapped(
        &self,
        device: &dyn Device,
        metrics: &DeviceMetrics,
        step: &Step<'_>,
        spec: &JoinSpec,
        [build_keys, probe_keys]: [&[&Column]; 2],
        [of_build, of_probe]: [&[&Column]; 2],
    ) -> Result<Option<Joined>> {
        let (null_equal, how) = (spec.theta.null_equal(), spec.theta.materialization);
        let first = FirstProbe {
            keys: build_keys,
            payload: of_build,
        };
        let made = device.equi_build(probe_keys, null_equal, None, of_probe, how, Some(first));
        let Some(made) = or_short_of_memory(step, made)? else {
            return Ok(None);
        };
        let joined = device.equi_join(&made, of_probe, build_keys, of_build);
        Ok(match or_short_of_memory(step, joined.map(Some))? {
            Some(Paired::All(joined)) => {
                metrics.indexed_by(made.strategy);
                metrics.materialized_by(made.materialization);
                metrics.swapped();
                Some(Joined {
                    rows: joined.rows,
                    build: joined.probe,
                    probe: joined.build,
                })
            }
            _ => None,
        })
    }

    /// All matches by one merge of two presorted sides; `None` if they are not sorted, or the strategy is another one.
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

    /// The output columns in their order.
    fn put_out(
        &self,
        joined: Joined,
        build_side: Side,
        payload: &[Carried<'_>; 2],
    ) -> Result<JoinedSides> {
        let mut matched = vec![];
        let mut of_sides = [vec![], vec![]];
        let sides = [build_side, build_side.other()];
        let made = sides.into_iter().zip([joined.build, joined.probe]);
        for ((payload, (side, mut made)), columns) in payload.iter().zip(made).zip(&mut of_sides) {
            if payload.numbers.is_some()
                && let Some(numbers) = made.pop()
            {
                matched.push((side, numbers.into_row_ids()?));
            }
            let made = payload.output.iter().zip(made);
            columns.extend(made.map(|(payload, made)| payload.of_moved(made)));
        }
        let [of_build, of_probe] = &of_sides;
        let output = self.output.iter().map(|place| match place {
            Place::Build(at) => of_build[*at].clone(),
            Place::Probe(at) => of_probe[*at].clone(),
        });
        Ok(JoinedSides {
            batch: DeviceBatch::of(joined.rows, output),
            matched,
        })
    }
}

/// The payload of a side.
struct Carried<'a> {
    output: Vec<&'a BatchColumn>,
    /// The numbers of all rows, if the side's rows must be flagged.
    numbers: Option<&'a Column>,
}

impl<'a> Carried<'a> {
    fn of(batch: &'a DeviceBatch, output: &[usize], numbers: &'a Option<Column>) -> Result<Self> {
        let output = output.iter().map(|column| batch.any(*column));
        Ok(Self {
            output: output.collect::<Result<_>>()?,
            numbers: numbers.as_ref(),
        })
    }

    fn columns(&self) -> Vec<&'a Column> {
        let output = self.output.iter().map(|column| column.moved());
        output.chain(self.numbers).collect()
    }
}

/// The index of `column` in `columns`, to which it is added if it is missing.
fn place_in(columns: &mut Vec<usize>, column: usize) -> usize {
    let known = columns.iter().position(|known| *known == column);
    known.unwrap_or_else(|| {
        columns.push(column);
        columns.len() - 1
    })
}

fn columns<'a>(batch: &'a DeviceBatch, which: &[usize]) -> Result<Vec<&'a Column>> {
    which
        .iter()
        .map(|column| batch.column(*column).map(AsRef::as_ref))
        .collect()
}

/// `None` after an allocation failure, unless the step defers it: matches that are gathered piece by piece need less
/// memory.
fn or_short_of_memory<T>(step: &Step<'_>, made: Result<Option<T>>) -> Result<Option<T>> {
    match made {
        Err(error) if step.may_shrink(&error) => Ok(None),
        made => made,
    }
}
