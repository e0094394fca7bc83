//! The distinct values of a column that ascends: those that begin runs, found and kept in one pass.
//!
//! Tables are often in the order of a key: of a time, or of what they are clustered by. Then equal values lie side by side, and neither a
//! table nor bits need say which have been seen (\[D\]'s set operations read sorted relations alone).

use super::key_bits::{kind, loads};
use super::launch::Deciding;
use crate::device::buffer::Column;
use crate::device::cuda::CudaDevice;
use crate::device::cuda::numbers::Number;
use crate::device::cuda::values::{Values, width};
use crate::error::Result;

/// Values that the host looks at before a kernel is made: so many in no order hardly ascend.
const LOOKED_AT: usize = 64;

impl CudaDevice {
    /// The distinct values of a column of integers without NULLs; `None` where it is another one or does not ascend, and of so few rows
    /// that a kernel would be compiled for longer than the usual ways take.
    pub(in crate::device::cuda) fn distinct_of_ascending(
        &self,
        column: &Column,
    ) -> Result<Option<Column>> {
        let rows = column.rows();
        let Some(number) = Number::of(column) else {
            return Ok(None);
        };
        let values = number.values;
        let (true, None, Some(kind), Some(bytes @ (4 | 8))) = (
            rows as u64 >= self.rows_before_compiling,
            &values.valid,
            kind(&number),
            width(&values.data_type),
        ) else {
            return Ok(None);
        };
        if !self.ascends_at_first(number, rows, bytes)? {
            return Ok(None);
        }
        let kinds = [(kind, false)];
        let program = loads(&kinds);
        let columns = [column];
        let of = (&columns[..], &[values][..], &kinds[..]);
        let kept = self.kept_in_one_pass(rows, (&program, Deciding::Run), of, &columns)?;
        let Some(kept) = kept else {
            return Ok(None);
        };
        if let Some((_, columns)) = kept {
            return Ok(columns.into_iter().next());
        }
        // Every row has a value of its own.
        let all = (&values.values).into();
        let all = self.queue.copy_of(all, rows * bytes, "group keys")?;
        let all = Values {
            data_type: values.data_type.clone(),
            values: all,
            valid: None,
            original: None,
            made: Some(self.queue.mark()?),
        };
        Ok(Some(Column::cuda(all, rows)))
    }

    fn ascends_at_first(&self, number: Number<'_>, rows: usize, bytes: usize) -> Result<bool> {
        let mut first = vec![0; LOOKED_AT.min(rows) * bytes];
        self.queue.read_few(&mut first, &number.values.values, 0)?;
        let words = first.chunks_exact(bytes).map(|value| {
            let word = value
                .iter()
                .rev()
                .fold(0, |word, byte| word << 8 | u64::from(*byte));
            word ^ number.sign.unwrap_or_default()
        });
        Ok(words.is_sorted())
    }
}
