//! The probe side of a theta join. In: a probe chunk and a [`BuildIndex`]. Out: its ranges of build positions, its
//! match counts, and its matches in output batches.

use std::sync::Arc;

use arrow::buffer::ScalarBuffer;

use crate::device::batches::batch::DeviceBatch;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::keys::Keys;
use crate::device::data::matches::{Bound, BoundProgram, Matches, Test};
use crate::device::data::ranges::{OrderedRows, Pairs, Ranges};
use crate::device::data::results::{Counter, SetTally};
use crate::device::data::structures::{Flags, ProbeSets, ZonedKeys};
use crate::device::primitives::device::Device;
use crate::error::{BowtieError, Result};
use crate::ir::pair_program::Program;
use crate::ir::set_predicate::SetValue;
use crate::ir::side::Side;
use crate::ops::build_index::{BuildIndex, Order, columns_at, equality_columns};
use crate::ops::set_lists::Listed;
use crate::spec::join::MatchSpec;
use crate::spec::partners::Partners;

mod folds;

/// What a probe is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProbeResult {
    /// Any use, including matches.
    Pairs,
    /// The number of matches of each probe row, without tests.
    ProbeCounts,
    /// The number of matches of each row of both sides.
    Counts,
    /// Whether each probe row has a match: a count is 1 or 0.
    Exists,
}

/// The matches of a probe chunk in one [`BuildIndex`].
#[derive(Debug)]
pub(crate) struct Probe {
    pub(crate) index: Arc<BuildIndex>,
    pub(crate) build_side: Side,
    /// The probe rows in the order of the first key that they search for. Rows that cannot match are missing.
    pub(crate) probe: OrderedRows,
    /// The number of rows of the probe chunk.
    pub(crate) rows: usize,
    /// `None` if the matches of sets were only counted.
    pub(crate) ranges: Option<Ranges>,
    /// The probe side's keys for each of the index's tests.
    pub(crate) test_keys: Vec<ZonedKeys>,
    /// The program that also tests candidates, and its columns of the probe side by probe position.
    pub(crate) program: Option<(Program, Vec<Column>)>,
    /// The number of matches of each probe position, once they are counted.
    pub(crate) counts: Option<Buffer<u32>>,
    /// How they were counted; `None` for sets.
    pub(crate) counted_by: Option<Counter>,
    /// The build positions of this probe, if a predicate on sets finds the matches.
    pub(crate) listed: Option<Listed>,
    /// The sets of the probe side, if their values come out.
    pub(crate) sets: Option<ProbeSets>,
}

impl Probe {
    /// Finds the range of every row of `batch`, and counts its matches exactly.
    ///
    /// Matches can be expanded only if `wanted` is [`ProbeResult::Pairs`]. `program`, with which the index was built, also
    /// tests the candidates. If DataFusion has to evaluate one of them, the program is dropped, and all candidates that
    /// pass the other conditions are counted.
    pub(crate) fn new(
        device: &dyn Device,
        spec: &MatchSpec,
        program: Option<&Program>,
        index: Arc<BuildIndex>,
        batch: &DeviceBatch,
        wanted: ProbeResult,
    ) -> Result<Self> {
        let side = spec.build.other();
        if index.sets().is_some() {
            return Self::of_sets(device, spec, program, index, batch, wanted);
        }
        let bound_keys = index.keys_of(device, &index.bounds, batch)?;
        let test_keys = index.keys_of(device, &index.tests, batch)?;
        let (probe, ranges) = match &index.order {
            Order::Sets(_) => {
                return Err(BowtieError::Internal("a set probe without lists".into()));
            }
            Order::Equi(of_keys) => {
                device.equi_search(of_keys, &equality_columns(spec, side, batch)?)?
            }
            Order::Sorted { build, groups } => {
                let centre = index.centre_keys(device, batch)?;
                let not_null: Vec<&Keys> = bound_keys.iter().chain(&test_keys).collect();
                // Rows without one have partners, too, and a sort by it would drop them.
                let in_order = centre.as_ref().filter(|centre| centre.valid.is_none());
                let groups = match groups {
                    Some(domain) => {
                        let columns = equality_columns(spec, side, batch)?;
                        Some((device.group_keys_in(domain, &columns)?, domain.groups))
                    }
                    None => None,
                };
                let key = not_null.first().copied().or(in_order);
                let of_groups = groups.as_ref().map(|(ids, count)| (ids, *count));
                let probe = match index.partners {
                    // One range for each row.
                    Some(_) => device.search_order(batch.rows(), key, of_groups, &not_null)?,
                    None => device.sort(batch.rows(), key, of_groups, &not_null)?,
                };
                let bounds: Vec<Bound<'_>> = index
                    .bounds
                    .iter()
                    .zip(&bound_keys)
                    .map(|(c, probe)| Bound { op: c.op, probe })
                    .collect();
                let ids = groups.as_ref().map(|(ids, _)| ids);
                let ranges = device.range_bounds(build, &probe, &bounds, ids)?;
                let ranges = match &index.partners {
                    Some(Partners { limit, .. }) => {
                        device.limit_ranges(build, &probe, &ranges, centre.as_ref(), *limit)?
                    }
                    None => ranges,
                };
                (probe, ranges)
            }
        };
        let test_keys = test_keys
            .iter()
            .map(|keys| device.zone_keys(keys, &probe))
            .collect::<Result<_>>()?;
        let mut search = Self {
            build_side: spec.build,
            counts: None,
            counted_by: None,
            probe,
            rows: batch.rows(),
            ranges: Some(ranges),
            test_keys,
            program: None,
            listed: None,
            sets: None,
            index,
        };
        if let Some(program) = program {
            let columns = columns_at(device, program, side, batch, &search.probe)?;
            search.program = Some((program.clone(), columns));
        }
        search.count(device, program, wanted == ProbeResult::Exists)?;
        if let (Some(compared), Some(list)) = (&search.index.compared, spec.compared_list(side))
            && wanted == ProbeResult::Pairs
        {
            search.sets = Some(device.probe_sets(compared, batch.column(list)?, None)?);
        }
        Ok(search)
    }

    /// Counts the matches of each probe position, also by `program` unless DataFusion has to evaluate a candidate.
    pub(crate) fn count(
        &mut self,
        device: &dyn Device,
        program: Option<&Program>,
        exists_only: bool,
    ) -> Result<()> {
        // After a row's first match there may be a candidate on which DataFusion raises an error.
        let first_only = exists_only && !program.is_some_and(|program| program.can_fail);
        let count = |search: &Self, first_only| {
            search.with_matches(|matches| device.count_matches(matches, first_only))
        };
        let counted = match count(self, first_only) {
            Err(BowtieError::NeedsDataFusion) => {
                self.program = None;
                count(self, false)?
            }
            counted => counted?,
        };
        (self.counts, self.counted_by) = (Some(counted.counts), Some(counted.by));
        Ok(())
    }

    /// The build rows by position.
    fn build_rows(&self) -> Result<&OrderedRows> {
        let listed = self.listed.as_ref();
        listed
            .and_then(|listed| listed.matches.as_ref())
            .or(self.index.ordered_rows())
            .ok_or_else(|| BowtieError::Internal("a probe without an order".into()))
    }

    fn known_ranges(&self) -> Result<&Ranges> {
        let ranges = self.ranges.as_ref();
        ranges.ok_or_else(|| BowtieError::Internal("a probe without ranges".into()))
    }

    fn known_counts(&self) -> Result<&Buffer<u32>> {
        let counts = self.counts.as_ref();
        counts.ok_or_else(|| BowtieError::Internal("a probe that was not counted".into()))
    }

    /// The work of a set join.
    pub(crate) fn set_tally(&self) -> Option<SetTally> {
        self.listed.as_ref().map(|listed| listed.tally)
    }

    /// Calls `with` with the matches as primitives take them.
    fn with_matches<T>(&self, with: impl FnOnce(Matches<'_>) -> Result<T>) -> Result<T> {
        let tests = self
            .index
            .tests
            .iter()
            .zip(&self.test_keys)
            .enumerate()
            .map(|(i, (c, probe))| {
                Ok(Test {
                    op: c.op,
                    build: match &self.listed {
                        Some(listed) => &listed.zoned[i],
                        None => self.index.zoned(c.key)?,
                    },
                    probe,
                })
            })
            .collect::<Result<Vec<_>>>()?;
        let program = self.program.as_ref();
        with(Matches {
            build: self.build_rows()?,
            probe: &self.probe,
            ranges: self.known_ranges()?,
            tests: &tests,
            program: program.map(|(program, probe)| BoundProgram {
                program,
                build_side: self.build_side,
                build: match &self.listed {
                    Some(listed) => &listed.program,
                    None => &self.index.program,
                },
                probe,
            }),
        })
    }

    /// Whether every candidate of a range is a match.
    pub(crate) fn is_untested(&self) -> bool {
        self.index.tests.is_empty() && self.program.is_none()
    }

    /// The number of build rows, if the matches are a cross product of both sides in row order: match `p` is of probe
    /// row `p / rows` and build row `p % rows`.
    pub(crate) fn product(&self) -> Option<usize> {
        let in_order = matches!(&self.index.order, Order::Sorted { groups: None, .. });
        let all = in_order
            && self.index.bounds.is_empty()
            && self.index.partners.is_none()
            && self.is_untested();
        all.then(|| self.index.rows())
    }

    /// Whether its program tests candidates.
    pub(crate) fn is_programmed(&self) -> bool {
        self.program.is_some()
    }

    /// The number of probe positions, each with its range of build positions.
    pub(crate) fn positions(&self) -> usize {
        self.probe.len()
    }

    /// For each probe position its row, and the begin and the end of its range, downloaded. Ranges refer to the columns
    /// that [`Probe::cluster`] returns.
    pub(crate) fn ranges(&self, device: &dyn Device) -> Result<[ScalarBuffer<u32>; 3]> {
        let ranges = self.known_ranges()?;
        Ok([
            device.read(&self.probe.rows)?,
            device.read(&ranges.lo)?,
            device.read(&ranges.hi)?,
        ])
    }

    /// A column of the build side, by build position.
    pub(crate) fn cluster(&self, device: &dyn Device, column: &Column) -> Result<Column> {
        device.gather(column, &self.build_rows()?.rows)
    }

    /// The offsets of each probe position's matches, and their total last.
    pub(crate) fn offsets(&self, device: &dyn Device) -> Result<Buffer<u64>> {
        device.scan(self.known_counts()?)
    }

    /// The matches numbered `from .. from + len`, as row ids of the left and of the right chunk.
    pub(crate) fn pairs(
        &self,
        device: &dyn Device,
        offsets: &Buffer<u64>,
        from: u64,
        len: usize,
    ) -> Result<RowPairs> {
        let Pairs { probe, build } =
            self.with_matches(|matches| device.expand(matches, offsets, from, len))?;
        Ok(match self.build_side {
            Side::Left => RowPairs {
                left: build,
                right: probe,
            },
            Side::Right => RowPairs {
                left: probe,
                right: build,
            },
        })
    }

    /// A value of the sets of each pair; `None` if their lists were not encoded.
    pub(crate) fn set_values(
        &self,
        device: &dyn Device,
        pairs: &RowPairs,
        value: SetValue,
    ) -> Result<Option<Column>> {
        let (Some(index), Some(sets)) = (self.index.valued_sets(), &self.sets) else {
            return Ok(None);
        };
        let sides = (pairs.of(self.build_side), pairs.of(self.build_side.other()));
        device.set_values(index, sets, sides, value).map(Some)
    }

    /// Sets the flags of the rows of `side` that have a match; the first row has flag `first`. Only for the probe side,
    /// or without tests.
    pub(crate) fn flag_matched(
        &self,
        device: &dyn Device,
        side: Side,
        flags: &Flags,
        first: usize,
    ) -> Result<()> {
        let counts = self.weights(device, side)?;
        device.set_flags_counted(flags, first, &counts)
    }

    /// Whether [`Probe::flag_matched`] and [`Probe::weights`] support `side`.
    pub(crate) fn counts_side(&self, side: Side) -> bool {
        side != self.build_side || self.is_untested()
    }

    /// The number of matches of each row of `side`; see [`Probe::counts_side`].
    pub(crate) fn weights(&self, device: &dyn Device, side: Side) -> Result<Arc<Buffer<u32>>> {
        if side != self.build_side {
            let counts = device.row_counts(&self.probe, self.known_counts()?, self.rows)?;
            return Ok(Arc::new(counts));
        }
        if !self.is_untested() {
            return Err(BowtieError::Internal("coverage of tested ranges".into()));
        }
        let rows = self.index.rows();
        match &self.listed {
            None => device.cover(self.build_rows()?, self.known_ranges()?, rows),
            Some(Listed {
                indexed: Some(counts),
                ..
            }) => return Ok(Arc::clone(counts)),
            Some(Listed {
                matches: Some(matches),
                ..
            }) => device.occurrences(matches, self.known_ranges()?, rows),
            Some(_) => Err(BowtieError::Internal(
                "counts that were not computed".into(),
            )),
        }
        .map(Arc::new)
    }
}

/// Matches as row ids of a left and a right chunk.
#[derive(Debug)]
pub(crate) struct RowPairs {
    pub(crate) left: Buffer<u32>,
    pub(crate) right: Buffer<u32>,
}

impl RowPairs {
    pub(crate) fn len(&self) -> usize {
        self.left.len()
    }

    pub(crate) fn of(&self, side: Side) -> &Buffer<u32> {
        match side {
            Side::Left => &self.left,
            Side::Right => &self.right,
        }
    }
}
