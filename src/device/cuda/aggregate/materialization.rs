//! Whether columns are sorted with the keys of their groups (GFTR), or gathered once row ids are sorted (GFUR): the model of
//! \[W\] 4.1.3, in the measured rates of the card.
//!
//! \[W\] counts bytes, of columns and keys of 4 bytes: a sort reads and writes 68, and a gather 4 min(24, groups) + 8, as rows of few
//! groups lie near one another.

use std::sync::Arc;

use crate::device::cuda::keys::key_width::Width;
use crate::device::cuda::rates::memory_rates;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::machine_rates::MemoryRates;
use crate::error::Result;
use crate::ir::strategies::Materialization;

/// What a sort moves in each pass.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sorted {
    /// A column with its ids, one column after the other.
    Columns,
    /// All columns with keys of this width, which move once.
    Rows(Width),
}

impl Sorted {
    /// The time of a byte in a pass, in times of a copied byte: by measurement on an H200, in ps a row.
    ///
    /// A SUM of 8 bytes of 2^28 rows with ids of 4 bytes takes 11.2 less than the gather with two passes (2^12 groups), 2.2 less with three (2^20),
    /// and 11.9 more with four (2^26). Rows of an equi-join, 2^25 by 2^26 with two columns of 8 bytes a side, take 16 less with keys of 4 bytes, in four
    /// passes, and 66 more with keys of 8, in eight.
    fn byte(self) -> f64 {
        match self {
            Self::Columns | Self::Rows(Width::Four) => 1.3,
            Self::Rows(Width::Eight) => 2.3,
        }
    }
}

/// With at least as many groups, neighbouring rows of a sort have values far apart, and a gather reads a whole memory sector for each.
const FAR_GROUPS: usize = 24;

/// Columns that are either sorted or gathered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SortedColumns {
    /// Passes of the sort.
    pub(crate) passes: usize,
    /// Bytes that every pass moves for the columns: more than it moves for row ids.
    pub(crate) bytes: usize,
    /// Columns that would be gathered.
    pub(crate) columns: usize,
    pub(crate) sorted: Sorted,
    pub(crate) groups: usize,
}

impl SortedColumns {
    /// The wanted materialisation, or else the cheaper one on this card.
    pub(crate) fn chosen(
        self,
        stream: &Arc<Stream>,
        wanted: Option<Materialization>,
    ) -> Result<Materialization> {
        match wanted {
            Some(wanted) => Ok(wanted),
            None => Ok(self.cheaper(memory_rates::memory_rates(stream)?)),
        }
    }

    /// The materialisation with the lower cost.
    fn cheaper(self, rates: MemoryRates) -> Materialization {
        let sorted = (self.passes * self.bytes) as f64 * self.sorted.byte() * rates.copied_byte;
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
                sorted: Sorted::Columns,
                groups,
            };
            columns.cheaper(MemoryRates::REFERENCE)
        };
        // Columns of 8 bytes with ids of 4 bytes.
        assert_eq!(chosen(1, 12, 1 << 8), Gftr);
        assert_eq!(chosen(2, 12, 1 << 16), Gftr);
        assert_eq!(chosen(4, 12, 1 << 26), Gfur);
        // Rows of few groups are near one another.
        assert_eq!(chosen(1, 12, 4), Gfur);
        assert_eq!(chosen(1, 12, 16), Gftr);
    }
}
