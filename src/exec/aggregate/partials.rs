//! [`Partials`]: groups of several chunks, on the host or on the device. In: partial groups. Out: distinct groups,
//! merged by grouping them again on the device; here those of the host, in `resident.rs` those of the device.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};

use crate::device::data::column::Column;
use crate::device::primitives::device::Device;
use crate::error::{BowtieError, Result};
use crate::exec::aggregate::group_values::Partial;
use crate::exec::chunk::chunk_limits::ChunkLimits;
use crate::exec::memory::compact_views::compact_views;
use crate::ir::fold::Fold;
use crate::spec::aggregate::GroupSpec;

/// Fewer rows than these are not merged.
pub(crate) const FEW_ROWS: usize = 1 << 20;

/// The same on a device with `device_memory` bytes for the query, so that merging the rows fits.
pub(crate) fn few_rows(device_memory: u64) -> usize {
    FEW_ROWS.min((device_memory / 4 / ChunkLimits::WORK_BYTES_PER_ROW) as usize)
}

/// Partial groups of a chunk.
pub(crate) trait PartialGroups {
    fn rows(&self) -> usize;

    /// Bytes that they take where they are.
    fn bytes(&self) -> usize;
}

impl PartialGroups for Partial {
    fn rows(&self) -> usize {
        self.rows
    }

    fn bytes(&self) -> usize {
        Self::bytes(self)
    }
}

/// Partial groups that wait to be merged. They are merged once they have twice as many rows as the last merge returned,
/// so that each row is merged a few times at most.
#[derive(Debug)]
pub(crate) struct Partials<G> {
    waiting: Vec<G>,
    /// Rows of all groups in `waiting`.
    rows: usize,
    /// Bytes of all groups in `waiting`. The sum is kept, since it is read after each chunk and grouping set.
    bytes: usize,
    /// Rows after the last merge.
    merged: usize,
}

impl<G: PartialGroups> Partials<G> {
    pub(crate) fn new() -> Self {
        Self {
            waiting: vec![],
            rows: 0,
            bytes: 0,
            merged: 0,
        }
    }

    pub(crate) fn push(&mut self, partial: G) {
        if partial.rows() > 0 {
            self.rows += partial.rows();
            self.bytes += partial.bytes();
            self.waiting.push(partial);
        }
    }

    pub(crate) fn waiting(&self) -> &[G] {
        &self.waiting
    }

    /// Whether to merge the groups, of which fewer than `few` rows need no merge.
    pub(crate) fn are_many(&self, few: usize) -> bool {
        self.waiting.len() > 1 && self.rows >= few.max(2 * self.merged)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn take(&mut self) -> Vec<G> {
        (self.rows, self.bytes) = (0, 0);
        std::mem::take(&mut self.waiting)
    }

    /// Replaces the groups that were taken by the result of their merge.
    pub(crate) fn set_merged(&mut self, partial: G) {
        self.merged = partial.rows();
        self.push(partial);
    }
}

/// The most bytes of a column of variable width that are copied together: half of what Arrow's 32-bit offsets address.
const MOST_BYTES: usize = 1 << 30;

/// The distinct groups of all `partials`, none of which is empty, with their states folded on the device.
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
            states.push((fold.of_states(), column));
        }
    }
    let rows = partials.iter().map(|partial| partial.rows).sum();
    let key_columns: Vec<&Column> = keys.iter().map(AsRef::as_ref).collect();
    let folds: Vec<(Fold, Option<&Column>)> = states
        .iter()
        .map(|(fold, column)| (*fold, Some(column.as_ref())))
        .collect();
    let groups = device.aggregate(rows, &key_columns, &folds, spec.grouping)?;
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

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;

    use super::*;

    fn partial(rows: usize) -> Partial {
        let column = || Arc::new(Int64Array::from(vec![7; rows])) as ArrayRef;
        Partial {
            rows,
            keys: vec![column()],
            states: vec![vec![column(), column()]],
        }
    }

    #[test]
    fn bytes_are_added_up_once_a_partial() {
        let (mut partials, mut expected) = (Partials::new(), 0);
        for rows in [3, 0, 5, 1] {
            let partial = partial(rows);
            if rows > 0 {
                expected += partial.bytes();
            }
            partials.push(partial);
            assert_eq!(partials.bytes(), expected);
        }
        // They are read after each partial. If all partials were added up then, the arrays below would be missed.
        for waiting in &mut partials.waiting {
            waiting.keys.clear();
        }
        assert_eq!(partials.bytes(), expected);

        assert_eq!(partials.take().len(), 3);
        assert_eq!((partials.waiting().len(), partials.bytes()), (0, 0));
        let merged = partial(4);
        let expected = merged.bytes();
        partials.set_merged(merged);
        assert_eq!((partials.waiting().len(), partials.bytes()), (1, expected));
    }

    #[test]
    fn few_rows_are_those_that_a_device_has_room_for() {
        assert_eq!(few_rows(1 << 20), 2048);
        assert_eq!(few_rows(1 << 29), FEW_ROWS);
        assert_eq!(few_rows(u64::MAX), FEW_ROWS);
        let few = few_rows(1 << 20);
        let mut partials = Partials::new();
        partials.push(partial(few - 1));
        partials.push(partial(1));
        assert!(partials.are_many(few));
        partials.take();
        // Each row is merged a few times at most.
        partials.set_merged(partial(few));
        partials.push(partial(few - 1));
        assert!(!partials.are_many(few));
        partials.push(partial(1));
        assert!(partials.are_many(few));
    }
}
