//! Whether columns are sorted with the keys of their groups (GFTR), or gathered once row ids are sorted (GFUR): the model of
//! \[W\] 4.1.3, in the measured rates of the card.
//!
//! \[W\] counts bytes, of columns and keys of 4 bytes: a sort reads and writes 68, and a gather 4 min(24, groups) + 8, as rows of few
//! groups lie near one another.

use crate::device::machine_rates::MemoryRates;
use crate::ir::strategies::Materialization;

/// A pass of a sort, in copies of the bytes that it moves.
const PASS: f64 = 2.0;

/// Groups from which on each value is a transaction of its own, of so many times the bytes of a value.
const FAR_GROUPS: usize = 24;

/// The bytes of a row that each way moves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SortedColumns {
    /// Passes of the sort.
    pub(crate) passes: usize,
    /// Bytes that every pass moves for the columns: more than it moves for row ids.
    pub(crate) bytes: usize,
    /// Columns that would be gathered.
    pub(crate) columns: usize,
    pub(crate) groups: usize,
}

impl SortedColumns {
    /// The way with the lower cost.
    pub(crate) fn materialization(self, rates: MemoryRates) -> Materialization {
        let sorted = self.passes as f64 * self.bytes as f64 * PASS * rates.copied_byte;
        let near = (4 * self.groups.min(FAR_GROUPS) + 8) as f64 / (4 * FAR_GROUPS + 8) as f64;
        let gathered = self.columns as f64 * near * rates.gathered_value;
        match sorted <= gathered {
            true => Materialization::Gftr,
            false => Materialization::Gfur,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_passes_and_few_groups_are_gathered() {
        use Materialization::*;
        let chosen = |passes, bytes, groups| {
            let columns = SortedColumns {
                passes,
                bytes,
                columns: 1,
                groups,
            };
            columns.materialization(MemoryRates::REFERENCE)
        };
        // Columns of 4 bytes with ids of 4 bytes.
        assert_eq!(chosen(1, 8, 1 << 8), Gftr);
        assert_eq!(chosen(2, 8, 1 << 16), Gftr);
        assert_eq!(chosen(4, 8, 1 << 28), Gfur);
        // [W]: a sort pays from 16 groups on.
        assert_eq!(chosen(1, 8, 4), Gfur);
        assert_eq!(chosen(1, 8, 16), Gftr);
    }
}
