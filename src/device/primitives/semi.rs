//! [`SemiPrimitives`].

use crate::device::data::column::Column;
use crate::device::data::key_bitmap::{KeyBitmap, KeyRange};
use crate::device::data::structures::Flags;
use crate::device::primitives::expr::ExprPrimitives;
use crate::device::primitives::rows::RowPrimitives;
use crate::error::Result;

/// Existence of keys by a bitmap, and joins of presorted sides (\[D\]'s relations are sorted; the algorithm is another
/// one).
pub(crate) trait SemiPrimitives: RowPrimitives + ExprPrimitives {
    /// The range of the keys of rows. The types of all columns [are
    /// addresses](crate::device::data::key_bitmap::are_addresses).
    fn key_range(&self, columns: &[&Column]) -> Result<KeyRange>;

    /// Sets the bit of every row's key that is in the range of the bitmap. Rows with a NULL count only if NULLs are
    /// equal.
    fn set_key_bits(&self, bits: &KeyBitmap, columns: &[&Column]) -> Result<()>;

    /// As [`SemiPrimitives::set_key_bits`]. Returns a range that covers all keys outside the bitmap, and may cover
    /// others.
    fn set_key_bits_inside(&self, bits: &KeyBitmap, columns: &[&Column]) -> Result<KeyRange> {
        self.set_key_bits(bits, columns)?;
        Ok(bits.unless_held(self.key_range(columns)?))
    }

    /// Sets the flag of each row `first + i` whose key's bit is set. None of these flags is set before. `first` is a
    /// multiple of 64, and so is the number of rows, unless they are the last.
    fn flag_keys(
        &self,
        bits: &KeyBitmap,
        columns: &[&Column],
        flags: &Flags,
        first: usize,
    ) -> Result<()>;

    /// The rows whose key's bit is `set`, of the columns `kept`: [`SemiPrimitives::flag_keys`] and
    /// [`ExprPrimitives::keep`] in one step.
    fn select_keys(
        &self,
        bits: &KeyBitmap,
        columns: &[&Column],
        set: bool,
        kept: &[&Column],
    ) -> Result<Option<(usize, Vec<Column>)>> {
        self.select_keys_by_flags(bits, columns, set, kept)
    }

    /// As [`SemiPrimitives::select_keys`], in two steps.
    fn select_keys_by_flags(
        &self,
        bits: &KeyBitmap,
        columns: &[&Column],
        set: bool,
        kept: &[&Column],
    ) -> Result<Option<(usize, Vec<Column>)>> {
        let rows = columns.first().map_or(0, |column| column.rows());
        let flags = self.flags(rows)?;
        self.flag_keys(bits, columns, &flags, 0)?;
        let flags = self.flag_column(&flags, 0, rows, set)?;
        self.keep(&flags, kept)
    }
}
