//! The searching side of a theta join: its ranges in the sorted side, its match counts, and the pairs in pieces.

use std::sync::Arc;

use arrow::buffer::ScalarBuffer;

use crate::device::data::batch::DeviceBatch;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::keys::Keys;
use crate::device::data::matches::{Bound, BoundProgram, Matches, Test};
use crate::device::data::ranges::{OrderedRows, Pairs, Ranges};
use crate::device::data::results::SetTally;
use crate::device::data::structures::{Flags, ZonedKeys};
use crate::device::primitives::device::Device;
use crate::error::{BowtieError, Result};
use crate::ir::pair_program::Program;
use crate::ir::side::Side;
use crate::ops::build_index::{BuildIndex, Order, columns_at, equality_columns};
use crate::ops::set_lists::Listed;
use crate::spec::join::MatchSpec;

/// What will be asked of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Anything.
    Pairs,
    /// How many matches the rows of the searching side have, where nothing is tested.
    ProbeCounts,
    /// How many those of both sides have.
    Counts,
    /// Whether the rows of the searching side have one: a count is 1 or 0.
    Exists,
}

/// Matches of one chunk of the searching side in one [`BuildIndex`].
#[derive(Debug)]
pub(crate) struct Probe {
    pub(crate) index: Arc<BuildIndex>,
    pub(crate) build_side: Side,
    /// The searching rows in the order of the keys that they search first; rows that cannot match are left out.
    pub(crate) probe: OrderedRows,
    /// All rows of the searching chunk.
    pub(crate) rows: usize,
    pub(crate) ranges: Ranges,
    /// Keys of the searching side for each of the index's tests.
    pub(crate) test_keys: Vec<ZonedKeys>,
    /// The program that tests candidates too, and its columns of the searching side by searching position.
    pub(crate) program: Option<(Program, Vec<Column>)>,
    /// Matches of each searching position.
    pub(crate) counts: Buffer<u32>,
    /// The sorted positions of this search, where a predicate on sets finds the pairs.
    pub(crate) listed: Option<Listed>,
}

impl Probe {
    /// Finds the range of every row of `batch`, and counts its matches exactly.
    ///
    /// Unless pairs are `wanted`, they cannot be expanded. `program`, with which the index was built, tests
    /// the candidates too, unless it meets one that it cannot decide: then the search is as if there were none, and all
    /// matches are counted.
    pub(crate) fn new(
        device: &dyn Device,
        spec: &MatchSpec,
        program: Option<&Program>,
        index: Arc<BuildIndex>,
        batch: &DeviceBatch,
        wanted: Wanted,
    ) -> Result<Self> {
        let side = spec.build.other();
        if index.sets().is_some() {
            return Self::of_sets(device, spec, program, index, batch, wanted);
        }
        let bound_keys = index.keys_of(device, &index.bounds, batch)?;
        let test_keys = index.keys_of(device, &index.tests, batch)?;
        let (probe, ranges) = match &index.order {
            Order::Sets(_) => return Err(BowtieError::Internal("sets without lists".into())),
            Order::Equi(of_keys) => {
                device.equi_search(of_keys, &equality_columns(spec, side, batch)?)?
            }
            Order::Sorted { build, groups } => {
                let not_null: Vec<&Keys> = bound_keys.iter().chain(&test_keys).collect();
                let groups = match groups {
                    Some(domain) => {
                        let columns = equality_columns(spec, side, batch)?;
                        Some((device.group_keys_in(domain, &columns)?, domain.groups))
                    }
                    None => None,
                };
                let probe = device.sort(
                    batch.rows(),
                    not_null.first().copied(),
                    groups.as_ref().map(|(ids, count)| (ids, *count)),
                    &not_null,
                )?;
                let bounds: Vec<Bound<'_>> = index
                    .bounds
                    .iter()
                    .zip(&bound_keys)
                    .map(|(c, probe)| Bound { op: c.op, probe })
                    .collect();
                let ids = groups.as_ref().map(|(ids, _)| ids);
                let ranges = device.range_bounds(build, &probe, &bounds, ids)?;
                (probe, ranges)
            }
        };
        let test_keys = test_keys
            .iter()
            .map(|keys| device.zone_keys(keys, &probe))
            .collect::<Result<_>>()?;
        let mut search = Self {
            build_side: spec.build,
            counts: device.sequence(0, 0)?,
            probe,
            rows: batch.rows(),
            ranges,
            test_keys,
            program: None,
            listed: None,
            index,
        };
        if let Some(program) = program {
            let columns = columns_at(device, program, side, batch, &search.probe)?;
            search.program = Some((program.clone(), columns));
        }
        search.count(device, program, wanted == Wanted::Exists)?;
        Ok(search)
    }

    /// Counts the matches of each searching position, by `program` too unless it meets a candidate that it cannot decide.
    pub(crate) fn count(
        &mut self,
        device: &dyn Device,
        program: Option<&Program>,
        exists_only: bool,
    ) -> Result<()> {
        // An error of DataFusion's may lie behind a row's first match.
        let first_only = exists_only && !program.is_some_and(|program| program.can_fail);
        let count = |search: &Self, first_only| {
            search.with_matches(|matches| device.count_matches(matches, first_only))
        };
        self.counts = match count(self, first_only) {
            Err(BowtieError::NeedsHost) => {
                self.program = None;
                count(self, false)?
            }
            counts => counts?,
        };
        Ok(())
    }

    /// The sorted side's rows by position.
    fn build_rows(&self) -> Result<&OrderedRows> {
        let listed = self.listed.as_ref();
        listed
            .and_then(|listed| listed.matches.as_ref())
            .or(self.index.ordered_rows())
            .ok_or_else(|| BowtieError::Internal("a search without an order".into()))
    }

    /// What a search of sets looked at.
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
            ranges: &self.ranges,
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

    /// How many rows the sorted side has, where each searching row is paired with all of them, and both sides are in the order of
    /// their rows: pair `p` is of searching row `p / rows` and sorted row `p % rows`.
    pub(crate) fn product(&self) -> Option<usize> {
        let in_order = matches!(&self.index.order, Order::Sorted { groups: None, .. });
        let all = in_order && self.index.bounds.is_empty() && self.is_untested();
        all.then(|| self.index.rows())
    }

    /// Whether the program that it was made with decides on candidates.
    pub(crate) fn is_programmed(&self) -> bool {
        self.program.is_some()
    }

    /// Searching positions; each has its range of sorted positions.
    pub(crate) fn positions(&self) -> usize {
        self.probe.len()
    }

    /// Of each searching position its row, and the begin and end of its range of the columns that [`Probe::cluster`]
    /// returns, read to the host.
    pub(crate) fn ranges(&self, device: &dyn Device) -> Result<[ScalarBuffer<u32>; 3]> {
        Ok([
            device.read(&self.probe.rows)?,
            device.read(&self.ranges.lo)?,
            device.read(&self.ranges.hi)?,
        ])
    }

    /// A column of the sorted side in sorted order.
    pub(crate) fn cluster(&self, device: &dyn Device, column: &Column) -> Result<Column> {
        device.gather(column, &self.build_rows()?.rows)
    }

    /// Offsets of each searching row's pairs, and their total last.
    pub(crate) fn offsets(&self, device: &dyn Device) -> Result<Buffer<u64>> {
        device.scan(&self.counts)
    }

    /// The pairs numbered `from .. from + len`, as row ids of the left and of the right chunk.
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

    /// Sets the flags of the rows of `side`, whose first row has flag `first`, that have a match. Only for the searching
    /// side, or where nothing is tested.
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

    /// Whether [`Probe::flag_matched`] and [`Probe::weights`] can serve `side`.
    pub(crate) fn counts_side(&self, side: Side) -> bool {
        side != self.build_side || self.is_untested()
    }

    /// Matches of each row of `side`; see [`Probe::counts_side`].
    pub(crate) fn weights(&self, device: &dyn Device, side: Side) -> Result<Arc<Buffer<u32>>> {
        if side != self.build_side {
            let counts = device.row_counts(&self.probe, &self.counts, self.rows)?;
            return Ok(Arc::new(counts));
        }
        if !self.is_untested() {
            return Err(BowtieError::Internal("coverage of tested ranges".into()));
        }
        let rows = self.index.rows();
        match &self.listed {
            None => device.cover(self.build_rows()?, &self.ranges, rows),
            Some(Listed {
                indexed: Some(counts),
                ..
            }) => return Ok(Arc::clone(counts)),
            // Each position lies in one list.
            Some(Listed {
                matches: Some(matches),
                ..
            }) => device.occurrences(&matches.rows, rows),
            Some(_) => Err(BowtieError::Internal("counts that were not wanted".into())),
        }
        .map(Arc::new)
    }

    /// For each searching row the sum of `values` (a column of the sorted side) over its range.
    pub(crate) fn range_sum(&self, device: &dyn Device, values: &Column) -> Result<Column> {
        self.with_matches(|matches| device.range_sum(values, matches, self.rows))
    }

    /// For each searching row how many rows of its range are not NULL in `values`.
    pub(crate) fn range_count(&self, device: &dyn Device, values: &Column) -> Result<Column> {
        self.with_matches(|matches| device.range_count(values, matches, self.rows))
    }

    /// For each searching row the least or greatest value over its range.
    pub(crate) fn range_extreme(
        &self,
        device: &dyn Device,
        values: &Column,
        max: bool,
    ) -> Result<Column> {
        self.with_matches(|matches| device.range_extreme(values, matches, self.rows, max))
    }
}

/// Row ids of a left and a right chunk, one of each a pair.
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
