//! [`Partials`]: groups of several chunks, which are merged by grouping them again on the device.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};

use crate::device::data::column::Column;
use crate::device::primitives::device::Device;
use crate::error::{BowtieError, Result};
use crate::exec::aggregate::group_values::Partial;
use crate::exec::memory::compact_views::compact_views;
use crate::ir::fold::Fold;
use crate::spec::aggregate::GroupSpec;

/// Rows that are not merged before there are more of them.
pub(crate) const FEW_ROWS: usize = 1 << 20;

/// Partial groups that wait to be merged. They are once they have twice as many rows as came out the last time, so that each
/// row is merged a few times at most.
#[derive(Debug, Default)]
pub(crate) struct Partials {
    waiting: Vec<Partial>,
    rows: usize,
    /// Rows after the last merge.
    merged: usize,
}

impl Partials {
    pub(crate) fn push(&mut self, partial: Partial) {
        if partial.rows > 0 {
            self.rows += partial.rows;
            self.waiting.push(partial);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn are_many(&self) -> bool {
        self.len() > 1 && self.rows >= FEW_ROWS.max(2 * self.merged)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.waiting.iter().map(Partial::bytes).sum()
    }

    pub(crate) fn take(&mut self) -> Vec<Partial> {
        self.rows = 0;
        std::mem::take(&mut self.waiting)
    }

    pub(crate) fn set_merged(&mut self, partial: Partial) {
        self.merged = partial.rows;
        self.push(partial);
    }
}

/// Bytes of a column of variable width that are copied together: Arrow's 32-bit offsets hold twice as many.
const MOST_BYTES: usize = 1 << 30;

/// How states of a fold are folded to one.
pub(crate) fn of_states(fold: Fold) -> Fold {
    match fold {
        Fold::Count => Fold::Sum,
        same => same,
    }
}

/// The groups of all `partials`, each of which has some, with the states that the device folded.
pub(crate) fn merged(
    device: &dyn Device,
    spec: &GroupSpec,
    partials: &[Partial],
) -> Result<Partial> {
    let upload = |of: &dyn Fn(&Partial) -> &ArrayRef| -> Result<Arc<Column>> {
        let parts: Vec<ArrayRef> = partials.iter().map(|p| Arc::clone(of(p))).collect();
        let bytes: usize = parts.iter().map(|part| part.get_array_memory_size()).sum();
        if parts[0].data_type().primitive_width().is_none() && bytes > MOST_BYTES {
            return Err(BowtieError::MustSplit {
                what: "column of groups",
                size: bytes as u64,
                most: MOST_BYTES as u64,
                unit: "bytes",
            });
        }
        device.upload(&parts)
    };
    let keys: Vec<Arc<Column>> = (0..spec.key_columns())
        .map(|i| upload(&|partial| &partial.keys[i]))
        .collect::<Result<_>>()?;
    let mut states = vec![];
    for (i, aggregate) in spec.aggregates.iter().enumerate() {
        for (k, fold) in aggregate.function.folds().iter().enumerate() {
            let column = upload(&|partial| &partial.states[i][k])?;
            states.push((of_states(*fold), column));
        }
    }
    let rows = partials.iter().map(|partial| partial.rows).sum();
    let key_columns: Vec<&Column> = keys.iter().map(AsRef::as_ref).collect();
    let folds: Vec<(Fold, Option<&Column>)> = states
        .iter()
        .map(|(fold, column)| (*fold, Some(column.as_ref())))
        .collect();
    let groups = device.aggregate(rows, &key_columns, &folds, spec.strategy)?;
    let down = |column: &Column| compact_views(device.download(column)?);
    let keys: Vec<ArrayRef> = groups.keys.iter().map(down).collect::<Result<_>>()?;
    let mut folded = groups.states.iter();
    let states = spec
        .aggregates
        .iter()
        .map(|aggregate| {
            let folds = aggregate.function.folds().len();
            folded.by_ref().take(folds).map(down).collect()
        })
        .collect::<Result<_>>()?;
    Ok(Partial {
        rows: groups.groups,
        keys,
        states,
    })
}
