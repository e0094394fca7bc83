//! Rows to results by group, by each strategy of `bowtie.group_strategy` (`docs/internals/aggregate.md` says which of
//! them are algorithms of \[W\]).
//!
//! ```text
//! keys in order, many groups ─► runs ────────────────────────────────────────────► group_runs
//! dense integer keys ─► ids by direct address ─────────┬─────────────────────────► group_dense ─┐
//! other keys ─┬─► ids by hashing ──────────────────────┼─► partitioned ids ─► the same          ├─► results by group
//!             │                                        └─► sorted ids ─► group_sorted ──────────┤
//!             ├─► keys of one word ──────────────────┬─► group_table ───────────────────────────┤
//!             │                                      └─► partitioned keys ─► the same           │
//!             └─► tuples, sorted word by word ─► runs of equal tuples ─► group_sorted ──────────┘
//! ```
//!
//! `group_dense` and `group_table` have accumulators in shared memory (hash_shared), or in global memory with only hot
//! keys in shared memory (hash_global; partition). `group_global` has no hot keys (ids by direct address, and
//! partitioned ids). Keys of several words are partitioned by their ids, and sorted by all their words, the last first.
//! Integers of several columns are packed into one word where their ranges allow it. Short text enters as integers
//! (`short_text.rs`). The keys of a group come from its id by direct address, from its key's word where a directory
//! numbered it, and otherwise from its first row.

use crate::device::cuda::aggregate::accumulate::accumulator::{Accumulator, with_first_row};
use crate::device::cuda::aggregate::choose::FEW_ROWS;
use crate::device::cuda::aggregate::dense_ids::{self, ForEach};
use crate::device::cuda::aggregate::dependent_keys;
use crate::device::cuda::aggregate::direct_keys::plain;
use crate::device::cuda::aggregate::directory::GroupKeys;
use crate::device::cuda::aggregate::results::{GroupResults, Members};
use crate::device::cuda::aggregate::runs;
use crate::device::cuda::aggregate::short_text::TextCodes;
use crate::device::cuda::aggregate::strategy_run::StrategyRun;
use crate::device::cuda::columns::minmax::Number;
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::keys::group_ids;
use crate::device::cuda::keys::pack::Layout;
use crate::error::{IfItFits as _, Result};
use crate::ir::strategies::{GroupStrategy, Grouping};

/// Aggregates `rows` rows, at least one, by groups of `keys`. What `wanted` leaves open is chosen by the keys' range and a
/// sample.
pub(crate) fn accumulated<'k>(
    device: &CudaDevice,
    rows: usize,
    keys: &TextCodes<'k>,
    all: &[Accumulator<'_>],
    wanted: Grouping,
) -> Result<GroupResults<'k>> {
    let stream = &device.stream;
    let with_first = with_first_row(all);
    let run = StrategyRun {
        stream,
        rows,
        all: &with_first,
        ids_say_keys: keys.are_keys,
        materialization: wanted.materialization,
    };
    let keys_in_order = wanted.strategy == Some(GroupStrategy::Runs);
    let strategy = wanted.strategy.filter(|_| !keys_in_order);
    let keys = &keys.columns[..];
    if keys.is_empty() {
        let ids = stream.zeroed(rows * 4, "group ids")?;
        let results = run.by_ids((&ids).into(), 1, true)?.with_rows();
        return Ok(GroupResults {
            by: Grouping::AUTO,
            ..results
        });
    }
    let by_runs = match strategy {
        None if !keys_in_order && rows >= FEW_ROWS => runs::are_many(device, keys, rows)?,
        _ => keys_in_order,
    };
    if by_runs && let Some(results) = runs::by_runs(device, rows, keys, all)? {
        return Ok(results);
    }
    // An assumed range needs memory for its whole range, which may be more than the keys themselves need.
    let assumed = run.by_assumed_range(keys, strategy).if_it_fits()?;
    if let Some(results) = assumed.flatten() {
        return Ok(results);
    }
    let digits = match strategy {
        // Numbers from hashing have fewer bits where the range has gaps.
        Some(GroupStrategy::SortDictionary) => None,
        _ => dense_ids::key_digits(stream, keys, rows)?,
    };
    let made = match all.is_empty() && strategy.is_none() && run.ids_say_keys {
        true => ForEach::Bit,
        false => ForEach::Accumulators,
    };
    let digits = match digits {
        Some(of) => match of.range(made.widest(rows)) {
            Some(range) => {
                let from_0 = strategy == Some(GroupStrategy::Sort);
                let direct = dense_ids::direct_ids(stream, of, range, rows, from_0)?;
                return match made {
                    ForEach::Bit => run.distinct(direct),
                    ForEach::Accumulators => run.by_direct(direct, strategy),
                };
            }
            None => Some(of),
        },
        None => None,
    };
    if strategy == Some(GroupStrategy::Sort)
        && let Some(folded) = run.by_sorted_words(keys, digits.as_ref())?
    {
        return Ok(folded.with_rows());
    }
    if strategy != Some(GroupStrategy::Sort)
        && let [key] = keys
        && let Some((number, bits)) = Number::of(key).and_then(plain)
    {
        return Ok(run
            .by_words(&GroupKeys::Plain(&number.values.values, bits), strategy)?
            .with_words(|values| Members::Values(number, values)));
    }
    if strategy != Some(GroupStrategy::Sort)
        && let Some(of) = digits
        && let Some((word, bits)) = dense_ids::packed(stream, &of, rows)?
    {
        return Ok(run
            .by_words(&GroupKeys::Plain(&word, bits), strategy)?
            .with_words(|words| Members::Ids(of, Some((words, bits)))));
    }
    if strategy != Some(GroupStrategy::Sort)
        && let Some(of) = dependent_keys::ids_by_integer_keys(device, keys, rows)?
    {
        return Ok(run.aggregate_by_integer_keys(&of, strategy)?.with_rows());
    }
    let base = group_ids::base_keys(device, keys, true)?;
    let columns = base.values()?;
    if strategy == Some(GroupStrategy::Sort) {
        let layout = Layout::of(&columns, true);
        return Ok(run.by_sorted_tuples(&layout, &columns)?.with_rows());
    }
    let keys = GroupKeys::of(stream, &columns, rows)?;
    let run = StrategyRun {
        ids_say_keys: false,
        ..run
    };
    Ok(run.by_words(&keys, strategy)?.with_rows())
}
