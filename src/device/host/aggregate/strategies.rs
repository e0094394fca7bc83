//! Grouped aggregation: how rows are assigned to groups, and in which order they are folded. The specification of all
//! strategies of `bowtie.group_strategy`: each makes the same groups, in any order.
//!
//! | strategy | on the host |
//! |---|---|
//! | `runs`, and by default | rows that are in an order of their keys: each run of equal keys is a group; parts of the rows are folded several at a time |
//! | `partition` | keys and values gathered into partitions by a hash of the key; partitions are grouped independently, several at a time |
//! | all others | one hash table: a thread has no faster memory of its own, and sorted rows make the same groups, later |

use std::sync::Arc;

use rayon::prelude::*;

use crate::device::budget::Budget;
use crate::device::data::buffer::{Buffer, check_chunk_rows};
use crate::device::data::column::Column;
use crate::device::data::results::Aggregated;
use crate::device::host::aggregate::fold::{CancelCheck, fold_groups};
use crate::device::host::aggregate::grouped::{Grouped, concatenated};
use crate::device::host::aggregate::runs::by_runs;
use crate::device::host::columns::values::gather;
use crate::device::host::keys::group_ids::{group_keys, key_hashes};
use crate::error::Result;
use crate::ir::fold::Fold;
use crate::ir::strategies::GroupStrategy;

/// Groups `rows` rows by `keys` and folds each group. `check_cancelled` fails if the query is cancelled.
pub(crate) fn aggregate(
    budget: &Arc<Budget>,
    rows: usize,
    keys: &[&Column],
    folds: &[(Fold, Option<&Column>)],
    strategy: Option<GroupStrategy>,
    check_cancelled: CancelCheck<'_>,
) -> Result<Aggregated> {
    let Grouped {
        firsts,
        states,
        strategy,
    } = grouped(budget, rows, keys, folds, strategy, check_cancelled)?;
    let keys = keys.iter().map(|key| gather(budget, key, &firsts));
    Ok(Aggregated {
        groups: firsts.len(),
        keys: keys.collect::<Result<_>>()?,
        states,
        by: strategy.into(),
    })
}

fn grouped(
    budget: &Arc<Budget>,
    rows: usize,
    keys: &[&Column],
    folds: &[(Fold, Option<&Column>)],
    strategy: Option<GroupStrategy>,
    check_cancelled: CancelCheck<'_>,
) -> Result<Grouped> {
    check_chunk_rows(rows)?;
    check_cancelled()?;
    if keys.is_empty() {
        let _lease = budget.lease(rows as u64 * 4, "group ids")?;
        let (firsts, states) = fold_groups(budget, &vec![0; rows], 1, folds, check_cancelled)?;
        return Ok(Grouped {
            firsts,
            states,
            strategy: None,
        });
    }
    match strategy {
        Some(GroupStrategy::Partition) if rows > 0 => {
            by_partitions(budget, keys, folds, check_cancelled)
        }
        None | Some(GroupStrategy::Runs) if rows > 0 => {
            match by_runs(budget, keys, folds, check_cancelled)? {
                Some(grouped) => Ok(grouped),
                None => by_hash(budget, keys, folds, check_cancelled),
            }
        }
        _ => by_hash(budget, keys, folds, check_cancelled),
    }
}

fn by_hash(
    budget: &Arc<Budget>,
    keys: &[&Column],
    folds: &[(Fold, Option<&Column>)],
    check_cancelled: CancelCheck<'_>,
) -> Result<Grouped> {
    let (ids, domain) = group_keys(budget, keys, true)?;
    let groups = domain.groups() as usize;
    let (firsts, states) = fold_groups(budget, ids.on_host()?, groups, folds, check_cancelled)?;
    Ok(Grouped {
        firsts,
        states,
        strategy: Some(GroupStrategy::HashGlobal),
    })
}

/// Bits of the hash that select the partition.
const PARTITION_BITS: u32 = 6;

fn by_partitions(
    budget: &Arc<Budget>,
    keys: &[&Column],
    folds: &[(Fold, Option<&Column>)],
    check_cancelled: CancelCheck<'_>,
) -> Result<Grouped> {
    let mut parts: Vec<Vec<u32>> = vec![vec![]; 1 << PARTITION_BITS];
    for (row, hash) in key_hashes(budget, keys)?.into_iter().enumerate() {
        parts[(hash >> (u64::BITS - PARTITION_BITS)) as usize].push(row as u32);
    }
    parts.retain(|part| !part.is_empty());
    let parts: Vec<Grouped> = parts
        .into_par_iter()
        .map(|rows| {
            let lease = budget.lease(rows.len() as u64 * 4, "partitions")?;
            let rows = Buffer::host(rows, lease);
            let keys = keys
                .iter()
                .map(|key| gather(budget, key, &rows))
                .collect::<Result<Vec<_>>>()?;
            let keys: Vec<&Column> = keys.iter().collect();
            let values = gathered(budget, folds, &rows)?;
            let part = by_hash(budget, &keys, &moved(folds, &values), check_cancelled)?;
            Ok(Grouped {
                firsts: rows_of(budget, &rows, &part.firsts)?,
                ..part
            })
        })
        .collect::<Result<_>>()?;

    let groups: usize = parts.iter().map(|part| part.firsts.len()).sum();
    let lease = budget.lease(groups as u64 * 4, "groups")?;
    let mut firsts: Vec<u32> = Vec::with_capacity(groups);
    for part in &parts {
        firsts.extend_from_slice(part.firsts.on_host()?);
    }
    let states = parts.into_iter().map(|part| part.states).collect();
    let states = concatenated(budget, states, folds.len())?;
    Ok(Grouped {
        firsts: Buffer::host(firsts, lease),
        states,
        strategy: Some(GroupStrategy::Partition),
    })
}

/// The columns that folds read, gathered by `rows`.
fn gathered(
    budget: &Arc<Budget>,
    folds: &[(Fold, Option<&Column>)],
    rows: &Buffer<u32>,
) -> Result<Vec<Option<Column>>> {
    folds
        .iter()
        .map(|(_, values)| {
            values
                .map(|values| gather(budget, values, rows))
                .transpose()
        })
        .collect()
}

fn moved<'a>(
    folds: &[(Fold, Option<&Column>)],
    values: &'a [Option<Column>],
) -> Vec<(Fold, Option<&'a Column>)> {
    folds
        .iter()
        .zip(values)
        .map(|((fold, _), values)| (*fold, values.as_ref()))
        .collect()
}

/// The row ids at `positions`.
fn rows_of(
    budget: &Arc<Budget>,
    rows: &Buffer<u32>,
    positions: &Buffer<u32>,
) -> Result<Buffer<u32>> {
    let lease = budget.lease(positions.len() as u64 * 4, "groups")?;
    let of = rows.on_host()?;
    let at = |position: &u32| of[*position as usize];
    Ok(Buffer::host(
        positions.on_host()?.iter().map(at).collect(),
        lease,
    ))
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        Array, ArrayRef, AsArray, Float64Array, Int32Array, Int64Array, StringArray, UInt32Array,
    };
    use arrow::compute::take;
    use arrow::datatypes::Float64Type;

    use super::*;

    /// Groups may be in any order: they are compared in the order of their first rows.
    fn in_order_of_firsts(groups: &Grouped, firsts: &[u32], expected: &[[Option<i64>; 3]]) {
        let found = groups.firsts.on_host().unwrap();
        let mut order: Vec<u32> = (0..found.len() as u32).collect();
        order.sort_by_key(|group| found[*group as usize]);
        let sorted: Vec<u32> = order.iter().map(|group| found[*group as usize]).collect();
        assert_eq!(sorted, firsts);
        let order = UInt32Array::from(order);
        for (state, expected) in groups.states.iter().zip(expected) {
            let expected: ArrayRef = Arc::new(Int64Array::from(expected.to_vec()));
            assert_eq!(
                &take(state.on_host().unwrap(), &order, None).unwrap(),
                &expected
            );
        }
    }

    fn column(array: ArrayRef) -> Column {
        Column::host(array, Budget::new(0).lease(0, "test").unwrap())
    }

    #[test]
    fn groups_fold_their_values_and_are_null_without_any() {
        let budget = Budget::new(u64::MAX);
        let key = column(Arc::new(Int32Array::from(vec![
            Some(7),
            None,
            Some(7),
            None,
            Some(2),
        ])));
        let values = column(Arc::new(Int64Array::from(vec![
            Some(i64::MAX),
            Some(3),
            Some(2),
            None,
            None,
        ])));
        let all = [
            (Fold::Count, None),
            (Fold::Count, Some(&values)),
            (Fold::Sum, Some(&values)),
            (Fold::Min, Some(&values)),
            (Fold::Max, Some(&values)),
            (Fold::And, Some(&values)),
            (Fold::Or, Some(&values)),
            (Fold::Xor, Some(&values)),
        ];
        let expected = [
            [Some(2), Some(2), Some(1)],
            [Some(2), Some(1), Some(0)],
            [Some(i64::MIN + 1), Some(3), None],
            [Some(2), Some(3), None],
            [Some(i64::MAX), Some(3), None],
            [Some(2), Some(3), None],
            [Some(i64::MAX), Some(3), None],
            [Some(i64::MAX - 2), Some(3), None],
        ];
        for strategy in GroupStrategy::ALL.map(Some).into_iter().chain([None]) {
            let groups = grouped(&budget, 5, &[&key], &all, strategy, &|| Ok(())).unwrap();
            in_order_of_firsts(&groups, &[0, 1, 4], &expected);
        }
    }

    #[test]
    fn squared_deviations_cancel_nothing() {
        let budget = Budget::new(u64::MAX);
        let far = 1e12;
        let values = column(Arc::new(Float64Array::from(vec![
            Some(far + 1.0),
            Some(0.25),
            Some(far + 3.0),
            None,
            Some(far + 5.0),
            None,
        ])));
        let key = column(Arc::new(Int32Array::from(vec![1, 2, 1, 1, 1, 3])));
        let all = [
            (Fold::Mean, Some(&values)),
            (Fold::SquaredDeviations, Some(&values)),
        ];
        for strategy in GroupStrategy::ALL {
            let groups = grouped(&budget, 6, &[&key], &all, Some(strategy), &|| Ok(())).unwrap();
            let group_of = |first| {
                let mut firsts = groups.firsts.on_host().unwrap().iter();
                firsts.position(|row| *row == first).unwrap()
            };
            let found = |state: usize, first| {
                let states = groups.states[state]
                    .on_host()
                    .unwrap()
                    .as_primitive::<Float64Type>();
                let group = group_of(first);
                states.is_valid(group).then(|| states.value(group))
            };
            assert_eq!([found(0, 0), found(1, 0)], [Some(far + 3.0), Some(8.0)]);
            assert_eq!([found(0, 1), found(1, 1)], [Some(0.25), Some(0.0)]);
            assert_eq!([found(0, 5), found(1, 5)], [None, None]);
        }
    }

    #[test]
    fn without_keys_there_is_one_group() {
        let budget = Budget::new(u64::MAX);
        let text = column(Arc::new(StringArray::from(vec![
            Some("pear"),
            None,
            Some("fig"),
        ])));
        let folds = [(Fold::Count, None), (Fold::Min, Some(&text))];
        let groups = grouped(&budget, 3, &[], &folds, None, &|| Ok(())).unwrap();
        let least: ArrayRef = Arc::new(StringArray::from(vec!["fig"]));
        assert_eq!(groups.states[1].on_host().unwrap(), &least);

        let none = column(Arc::new(StringArray::new_null(0)));
        let folds = [(Fold::Count, None), (Fold::Max, Some(&none))];
        let groups = grouped(&budget, 0, &[], &folds, None, &|| Ok(())).unwrap();
        assert_eq!(groups.firsts.len(), 1);
        let zero: ArrayRef = Arc::new(Int64Array::from(vec![0]));
        assert_eq!(groups.states[0].on_host().unwrap(), &zero);
        assert!(groups.states[1].on_host().unwrap().is_null(0));
    }
}
