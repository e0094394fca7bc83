//! [`ColumnSources`]: which payload columns a join carries, and where the output's values come from.
//!
//! Columns of 4, 8 or 16 bytes are carried. Of those with NULLs the values are, and their validity as words of a bit for
//! each such column ([`validity_words`]): one more column of 4 bytes for up to 32 of them.

use std::sync::Arc;

use crate::device::cuda::columns::layout::width;
use crate::device::cuda::equi::choose::Payload;
use crate::device::cuda::equi::validity_words::{self, COLUMNS_A_WORD};
use crate::device::cuda::runtime::memory::{Memory, Part};
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::column::Column;
use crate::error::Result;
use crate::ir::strategies::Materialization;

/// Where the values of a payload column come from in the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnSource {
    /// The column is the key, which the join kernel writes.
    Key,
    /// The join kernel writes it: the index among the carried columns.
    Carried(usize),
    /// The same, of a column with NULLs: the index among the carried columns, and among those with NULLs.
    WithNulls(usize, usize),
    /// The column is gathered by the row ids of the matches.
    ByRow,
}

/// The sources of one side's payload columns, in their order.
#[derive(Debug)]
pub(crate) struct ColumnSources {
    pub(crate) sources: Vec<ColumnSource>,
    /// The validity of carried columns with NULLs, [`COLUMNS_A_WORD`] of them in each. Carried behind the values.
    validity: Vec<Memory>,
}

/// The columns of a side that kernels read, and bytes of a value: the carried ones, then row ids (`None`) if needed.
pub(crate) type Sources<'a> = Vec<(Option<Part<'a>>, usize)>;

impl ColumnSources {
    /// The sources of no columns.
    pub(crate) const NONE: Self = Self {
        sources: vec![],
        validity: vec![],
    };

    /// The sources of `payload`. `key` is the key column if the join writes it: its first use in the payload is
    /// [`ColumnSource::Key`]. Under GFUR no column is carried.
    pub(crate) fn of(
        stream: &Arc<Stream>,
        payload: &[&Column],
        key: Option<&Column>,
        materialization: Materialization,
    ) -> Result<Self> {
        let sources = sources_of(payload, key, materialization);
        let validity = sources.iter().zip(payload).filter_map(|(source, column)| {
            let valid = match source {
                ColumnSource::WithNulls(..) => column.on_cuda()?.valid.as_ref()?,
                _ => return None,
            };
            Some((valid, column.rows()))
        });
        let validity: Vec<(&Memory, usize)> = validity.collect();
        let words = validity.chunks(COLUMNS_A_WORD).map(|columns| {
            let bitmaps: Vec<&Memory> = columns.iter().map(|(valid, _)| *valid).collect();
            let rows = columns.first().map_or(0, |(_, rows)| *rows);
            validity_words::pack(stream, &bitmaps, rows)
        });
        Ok(Self {
            validity: words.collect::<Result<_>>()?,
            sources,
        })
    }

    /// Whether a column is gathered, so that the join must write row ids.
    pub(crate) fn needs_rows(&self) -> bool {
        self.sources.contains(&ColumnSource::ByRow)
    }

    /// Whether the join must write the key.
    pub(crate) fn writes_key(&self) -> bool {
        self.sources.contains(&ColumnSource::Key)
    }

    /// Columns with NULLs that are carried.
    pub(crate) fn with_nulls(&self) -> usize {
        let with_nulls = |source: &&ColumnSource| matches!(source, ColumnSource::WithNulls(..));
        self.sources.iter().filter(with_nulls).count()
    }

    /// The carried columns, validity last, and the bytes of a value of each.
    pub(crate) fn carried<'a>(&'a self, payload: &[&'a Column]) -> Vec<(&'a Memory, usize)> {
        let values = self
            .sources
            .iter()
            .zip(payload)
            .filter_map(|(source, column)| {
                match source {
                    ColumnSource::Carried(_) | ColumnSource::WithNulls(..) => {}
                    ColumnSource::Key | ColumnSource::ByRow => return None,
                }
                Some((&column.on_cuda()?.values, carried_bytes(column)?))
            });
        let validity = self.validity.iter().map(|words| (words, 4));
        values.chain(validity).collect()
    }

    /// The columns that the join kernel of an index reads: in the order of the rows, not partitioned.
    pub(crate) fn in_row_order<'a>(&'a self, payload: &[&'a Column]) -> Sources<'a> {
        let carried = self.carried(payload).into_iter();
        let mut sources: Sources<'a> = carried
            .map(|(values, bytes)| (Some(values.into()), bytes))
            .collect();
        if self.needs_rows() {
            sources.push((None, 4));
        }
        sources
    }
}

/// The size of what a join under GFTR carries of `payload`, of `rows` rows.
pub(crate) fn carried_payload(payload: &[&Column], key: Option<&Column>, rows: usize) -> Payload {
    let sources = sources_of(payload, key, Materialization::Gftr);
    let mut size = Payload {
        rows,
        bytes: 0,
        columns: 0,
        with_rows: sources.contains(&ColumnSource::ByRow),
    };
    let mut with_nulls = 0usize;
    for (source, column) in sources.iter().zip(payload) {
        match source {
            ColumnSource::Key | ColumnSource::ByRow => continue,
            ColumnSource::Carried(_) => {}
            ColumnSource::WithNulls(..) => with_nulls += 1,
        }
        size.bytes += carried_bytes(column).unwrap_or_default();
        size.columns += 1;
    }
    size.bytes += 4 * with_nulls.div_ceil(COLUMNS_A_WORD);
    size
}

fn sources_of(
    payload: &[&Column],
    key: Option<&Column>,
    materialization: Materialization,
) -> Vec<ColumnSource> {
    let (mut carried, mut with_nulls) = (0, 0);
    let mut key_taken = false;
    let sources = payload.iter().map(|column| {
        let is_key = key.is_some_and(|key| std::ptr::eq(key, *column)) && !key_taken;
        if is_key {
            key_taken = true;
            return ColumnSource::Key;
        }
        if materialization == Materialization::Gfur || carried_bytes(column).is_none() {
            return ColumnSource::ByRow;
        }
        carried += 1;
        match column
            .on_cuda()
            .is_some_and(|values| values.valid.is_some())
        {
            true => {
                with_nulls += 1;
                ColumnSource::WithNulls(carried - 1, with_nulls - 1)
            }
            false => ColumnSource::Carried(carried - 1),
        }
    });
    sources.collect()
}

/// Bytes of a value if a join can carry the column: 4, 8 or 16.
fn carried_bytes(column: &Column) -> Option<usize> {
    let bytes = width(&column.on_cuda()?.data_type)?;
    matches!(bytes, 4 | 8 | 16).then_some(bytes)
}
