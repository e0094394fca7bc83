//! [`LeftGroups`]: the groups of left rows, which all right chunks and passes meet again. In: the group numbers of some rows. Out: those
//! of rows that are known, without their group columns and without a hash table.

use arrow::array::UInt32Array;
use datafusion::execution::memory_pool::MemoryReservation;

/// In place of the number of a group that is not known.
const UNKNOWN: u32 = u32::MAX;

/// The group number of each left row, as far as it is known and the memory pool has memory for it.
#[derive(Debug)]
pub(crate) struct LeftGroups {
    /// By chunk and row; empty for a chunk of which nothing is known.
    chunks: Vec<Vec<u32>>,
    /// Whether nothing is kept any more, since others need the memory.
    is_given_up: bool,
    reservation: MemoryReservation,
}

impl LeftGroups {
    pub(crate) fn new(chunks: usize, reservation: MemoryReservation) -> Self {
        Self {
            chunks: vec![vec![]; chunks],
            is_given_up: false,
            reservation,
        }
    }

    /// The positions in `rows` of those whose group is not known. `rows` are counted from row `first` of the chunk on.
    pub(crate) fn unknown(&self, chunk: usize, first: usize, rows: &UInt32Array) -> Vec<usize> {
        let known = self.chunks.get(chunk).filter(|known| !known.is_empty());
        let Some(known) = known else {
            return (0..rows.len()).collect();
        };
        let rows = rows.values().iter().enumerate();
        let rows = rows.filter(|(_, row)| known[first + **row as usize] == UNKNOWN);
        rows.map(|(at, _)| at).collect()
    }

    /// The group of each row; `None` if one is not known.
    pub(crate) fn of_rows(
        &self,
        chunk: usize,
        first: usize,
        rows: &UInt32Array,
    ) -> Option<Vec<usize>> {
        let known = self.chunks.get(chunk).filter(|known| !known.is_empty())?;
        let groups = rows.values().iter().map(|row| known[first + *row as usize]);
        let groups = groups.map(|group| (group != UNKNOWN).then_some(group as usize));
        groups.collect()
    }

    /// Keeps the groups of some rows of a chunk of `len` rows; nothing if the memory pool refuses.
    pub(crate) fn keep(
        &mut self,
        (chunk, len): (usize, usize),
        first: usize,
        rows: impl Iterator<Item = u32>,
        groups: &[usize],
    ) {
        let Some(known) = self.chunks.get_mut(chunk) else {
            return;
        };
        if self.is_given_up {
            return;
        }
        if known.is_empty() {
            if self.reservation.try_grow(len * size_of::<u32>()).is_err() {
                return;
            }
            *known = vec![UNKNOWN; len];
        }
        for (row, group) in rows.zip(groups) {
            let group = u32::try_from(*group).unwrap_or(UNKNOWN);
            known[first + row as usize] = group;
        }
    }

    /// Forgets all groups for good. Returns whether that gave memory back.
    pub(crate) fn give_up(&mut self) -> bool {
        self.is_given_up = true;
        self.chunks.iter_mut().for_each(|known| *known = vec![]);
        self.reservation.free() > 0
    }
}
