//! Grouping by the integer keys alone, where the other keys are functionally dependent on them, as a customer's name on
//! the customer's number (`kernels/aggregate/group_verify.cu`). The dependency is not known but verified: every row's
//! other keys are compared with those of its group's first row. If one differs, all keys are grouped by. Long text is
//! then neither packed nor sorted. With many rows, a sample is verified first.
//!
//! ```text
//! integer keys ─► ids, and the first row of each ─► do all other keys equal those of the first row? ─► groups
//!                                                                           └► no: all keys are packed
//! ```
//!
//! Views and dictionary keys are compared as words: equal words mean equal values. Different words count as different
//! values, which is only a lost opportunity.

use std::sync::Arc;

use crate::device::cuda::aggregate::choose::FEW_ROWS;
use crate::device::cuda::aggregate::choose::choose;
use crate::device::cuda::aggregate::directory::GroupKeys;
use crate::device::cuda::aggregate::ids_by_hashing;
use crate::device::cuda::aggregate::results::{Folded, Members};
use crate::device::cuda::aggregate::sample;
use crate::device::cuda::aggregate::strategy_run::{self, StrategyRun};
use crate::device::cuda::columns::indirect::Indirect;
use crate::device::cuda::columns::layout::width;
use crate::device::cuda::columns::minmax::Number;
use crate::device::cuda::columns::rows;
use crate::device::cuda::columns::storage::Storage;
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::keys::key_column::{self, KeyBytes};
use crate::device::cuda::keys::key_width::Width;
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::column::Column;
use crate::device::primitives::rows::RowPrimitives;
use crate::error::{BowtieError, IfItFits as _, Result};
use crate::ir::strategies::GroupStrategy;

/// Group ids by the integer keys.
#[derive(Debug)]
pub(crate) struct ByIntegerKeys {
    /// By row.
    pub(crate) ids: Memory,
    pub(crate) groups: usize,
}

/// Rows verified first, in runs of neighbours, as rows of a group may be adjacent. Most likely two of them are of one
/// group, unless there are about half the square of `SAMPLES` groups.
const SAMPLES: usize = 1 << 14;
const RUN: usize = 32;

/// The most bytes of a value that one thread compares.
const LONG: usize = 4096;

/// A key column that may be functionally dependent.
enum Other<'a> {
    /// Values, or words that refer to values, of `width` bytes each.
    Words {
        words: &'a Memory,
        width: usize,
        valid: Option<&'a Memory>,
    },
    Text(KeyBytes<'a>),
}

impl<'a> Other<'a> {
    /// `None` where the device cannot compare the column's rows.
    fn of(column: &'a Column) -> Option<Self> {
        let words = match column.stored()? {
            Storage::Fixed(values) => values,
            Storage::Indirect(Indirect { words, .. }) => words,
            text @ Storage::Text(_) => return KeyBytes::of_text(text).map(Self::Text),
            Storage::Shingles(_) | Storage::LazyColumn(_) => return None,
        };
        Some(Self::Words {
            words: &words.values,
            width: width(&words.data_type).filter(|width| (1..=LONG).contains(width))?,
            valid: words.valid.as_ref(),
        })
    }
}

/// Whether a key column is slow to group by: indirect columns, and text.
fn is_expensive(column: &Column) -> bool {
    !matches!(column.stored(), Some(Storage::Fixed(_)))
}

/// Groups `rows` > 0 rows by their integer keys; `None` where other keys are not dependent on these, or are as fast
/// to group by.
pub(crate) fn ids_by_integer_keys(
    device: &CudaDevice,
    keys: &[&Column],
    rows: usize,
) -> Result<Option<ByIntegerKeys>> {
    let (numbers, others): (Vec<&Column>, Vec<&Column>) =
        keys.iter().partition(|column| Number::of(column).is_some());
    if numbers.is_empty() || !others.iter().any(|column| is_expensive(column)) {
        return Ok(None);
    }
    let others = others.into_iter().map(Other::of);
    let Some(others) = others.collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    let texts = others.iter().filter_map(|other| match other {
        Other::Text(text) => Some((*text, rows)),
        Other::Words { .. } => None,
    });
    let texts: Vec<_> = texts.collect();
    let longest = key_column::longest_of(&device.stream, texts.into_iter())?;
    if longest.into_iter().any(|longest| longest > LONG) {
        return Ok(None);
    }
    let tried = || match rows >= FEW_ROWS && !may_depend(device, keys, rows)? {
        true => Ok(None),
        false => verified(device, &numbers, &others, rows),
    };
    // Grouping by all keys may need less memory.
    Ok(tried().if_it_fits()?.flatten())
}

/// Whether other keys are dependent on the integers in a sample of `rows` > 0 rows.
pub(crate) fn may_depend(device: &CudaDevice, keys: &[&Column], rows: usize) -> Result<bool> {
    let sample = rows::runs_of_rows(&device.stream, rows, (SAMPLES, RUN))?;
    let sampled = keys.iter().map(|column| device.gather(column, &sample));
    let sampled: Vec<Column> = sampled.collect::<Result<_>>()?;
    let sampled: Vec<&Column> = sampled.iter().collect();
    Ok(ids_by_integer_keys(device, &sampled, SAMPLES)?.is_some())
}

/// Groups by integers; `None` if some of `others` is not dependent on them.
fn verified(
    device: &CudaDevice,
    numbers: &[&Column],
    others: &[Other<'_>],
    rows: usize,
) -> Result<Option<ByIntegerKeys>> {
    let (ids, groups) = ids_by_hashing::ids_by_all_keys(device, rows, numbers)?;
    let Members::Rows(firsts) =
        strategy_run::accumulated_by(device, rows, &ids, groups, &[])?.members
    else {
        return Err(BowtieError::Internal("groups without first rows".into()));
    };
    let follow = follow(&device.stream, others, &ids, &firsts, rows)?;
    Ok(follow.then_some(ByIntegerKeys { ids, groups }))
}

impl StrategyRun<'_> {
    /// Aggregates by the ids of all groups.
    pub(crate) fn aggregate_by_integer_keys(
        &self,
        of: &ByIntegerKeys,
        strategy: Option<GroupStrategy>,
    ) -> Result<Folded> {
        let ByIntegerKeys { ids, groups } = of;
        let groups = *groups;
        let keys = GroupKeys::Plain(ids, Width::Four);
        let strategy = match strategy {
            Some(strategy) => strategy,
            None => {
                let profile = sample::profile_of_ids(self.stream, ids.into(), groups, self.rows)?;
                choose(&self.choice_input(&keys, &profile, Some(groups))).strategy
            }
        };
        match strategy {
            GroupStrategy::HashShared => self.by_ids(ids.into(), groups, true),
            GroupStrategy::HashGlobal | GroupStrategy::Runs => {
                self.by_ids(ids.into(), groups, false)
            }
            GroupStrategy::Partition => self.by_partitioned_ids(ids.into(), groups),
            GroupStrategy::Sort | GroupStrategy::SortDictionary => {
                self.by_sorted_ids(ids, groups, GroupStrategy::SortDictionary)
            }
        }
    }
}

/// Whether the values of all rows equal those of the first rows of their groups.
fn follow(
    stream: &Arc<Stream>,
    others: &[Other<'_>],
    ids: &Memory,
    firsts: &Memory,
    rows: usize,
) -> Result<bool> {
    let differ = stream.zeroed(4, "group keys")?;
    for other in others {
        let shape = stream.strips(rows.div_ceil(4));
        let (ids, firsts, differ) = (ids.into(), firsts.into(), (&differ).into());
        let n = (rows as u32).into();
        match other {
            Other::Words {
                words,
                width,
                valid,
            } => {
                let (unit, kernel) = match width.trailing_zeros() {
                    0 => (1, kernels::GROUP_VERIFY_UNITS8),
                    1 => (2, kernels::GROUP_VERIFY_UNITS16),
                    2 => (4, kernels::GROUP_VERIFY_UNITS32),
                    3 => (8, kernels::GROUP_VERIFY_UNITS64),
                    _ => (16, kernels::GROUP_VERIFY_UNITS128),
                };
                let units = ((width / unit) as u32).into();
                let args = (
                    (*words).into(),
                    units,
                    (*valid).into(),
                    ids,
                    firsts,
                    n,
                    differ,
                );
                // SAFETY: there are `rows` values of `units` units, and a bit and an id for each; each id has a
                // first row, which is one of the rows; `differ` holds a word.
                unsafe { stream.launch(kernel, shape, &args)? };
            }
            Other::Text(text) => {
                let (offsets, valid) = (text.offsets().into(), text.valid.into());
                let args = (offsets, text.bytes.into(), valid, ids, firsts, n, differ);
                // SAFETY: as above, with values given by offsets.
                unsafe { stream.launch(kernels::GROUP_VERIFY_TEXT, shape, &args)? };
            }
        }
    }
    Ok(stream.read_word32(&differ, 0)? == 0)
}

/// The group id of each row, and the number of groups. Keys that depend on others are skipped.
pub(crate) fn ids_by_keys(
    device: &CudaDevice,
    rows: usize,
    keys: &[&Column],
) -> Result<(Memory, usize)> {
    if keys.is_empty() {
        return Ok((device.stream.zeroed(rows * 4, "group ids")?, 1));
    }
    match ids_by_integer_keys(device, keys, rows)? {
        Some(ByIntegerKeys { ids, groups }) => Ok((ids, groups)),
        None => ids_by_hashing::ids_by_all_keys(device, rows, keys),
    }
}
