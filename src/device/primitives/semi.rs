//! [`SemiPrimitives`].

use crate::device::data::column::Column;
use crate::device::data::key_bitmap::{KeyBitmap, KeyRange};
use crate::device::data::results::{Joined, Kept};
use crate::device::data::structures::Flags;
use crate::device::presorted::Ascending;
use crate::device::primitives::expr::ExprPrimitives;
use crate::device::primitives::rows::RowPrimitives;
use crate::error::Result;
use crate::ir::strategies::Materialization;

/// Existence of keys by a bitmap, and joins of presorted sides (\[D\]).
pub(crate) trait SemiPrimitives: RowPrimitives + ExprPrimitives {
    /// All pairs of two sides whose keys ascend as they lie there, those of the build side without repeats. `None` where they do not, which
    /// is not known before, or where the device has no better way for such sides.
    fn merge_join(
        &self,
        _keys: Ascending<'_>,
        _materialization: Option<Materialization>,
        _build_payload: &[&Column],
        _payload: &[&Column],
    ) -> Result<Option<Joined>> {
        Ok(None)
    }

    /// The probe rows that have a build row, or those that have none, of the columns `kept`: as [`ExprPrimitives::keep`] says it. `None` as above;
    /// build keys may have repeats.
    fn merge_keep(
        &self,
        _keys: Ascending<'_>,
        _matched: bool,
        _kept: &[&Column],
    ) -> Result<Option<Kept>> {
        Ok(None)
    }

    /// Where the keys of rows lie. Values of all columns [are addresses](crate::device::data::key_bitmap::are_addresses).
    fn key_range(&self, columns: &[&Column]) -> Result<KeyRange>;

    /// Sets the bit of every row's key that lies in the range of the bits; a NULL among its columns only where NULLs are equal.
    fn set_key_bits(&self, bits: &KeyBitmap, columns: &[&Column]) -> Result<()>;

    /// Where the keys of rows lie as far as a sample of them says, with some room at both ends; `None` where all of them are looked
    /// at as soon.
    fn likely_key_range(&self, _columns: &[&Column]) -> Result<Option<KeyRange>> {
        Ok(None)
    }

    /// What [`SemiPrimitives::set_key_bits`] does; and where those keys lie that have no bit, if not more of them.
    fn set_key_bits_inside(&self, bits: &KeyBitmap, columns: &[&Column]) -> Result<KeyRange> {
        self.set_key_bits(bits, columns)?;
        Ok(bits.unless_held(self.key_range(columns)?))
    }

    /// Sets the flag of every row `first + i` whose key's bit is set, of flags of which none but these was set before. `first` is a
    /// multiple of 64, and so is the number of rows, unless they are the last.
    fn flag_keys(
        &self,
        bits: &KeyBitmap,
        columns: &[&Column],
        flags: &Flags,
        first: usize,
    ) -> Result<()>;

    /// The rows whose key's bit is `set`, of the columns `kept`: what [`SemiPrimitives::flag_keys`] and [`ExprPrimitives::keep`] make.
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
