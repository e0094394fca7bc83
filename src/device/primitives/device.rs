//! A device: memory and primitives, behind one trait object.
//!
//! Each primitive is about one box of a paper's figure and works on whole columns. The host's implementation (`device/host`)
//! is the executable specification of every other one. Nothing here knows SQL: keys are order-preserving words, rows are
//! `u32` ids inside a chunk (so a chunk has fewer than 2^32 - 1 rows), pair counts are `u64`.

use std::fmt::Debug;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow::array::ArrayRef;
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::DataType;

use crate::device::budget::Budget;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::keys::{KeyDomain, Keys};
use crate::device::data::matches::{Bound, FirstProbe, Matches};
use crate::device::data::ranges::{Pairs, Ranges, Sorted};
use crate::device::data::results::{
    Aggregated, Joined, Kept, Paired, SetCounting, SetCounts, SetMatches,
};
use crate::device::data::structures::{
    EquiBuild, EquiIndex, Flags, GroupDomain, SetIndex, ZonedKeys,
};
use crate::device::key_bitmap::{KeyBits, KeyRange};
use crate::device::lazy_column::Payload;
use crate::device::presorted::Ascending;
use crate::error::{BowtieError, Result};
use crate::ir::comparison::Comparison;
use crate::ir::fold::Fold;
use crate::ir::row_program::RowProgram;
use crate::ir::set_predicate::{SetTechnique, SetTest};
use crate::ir::strategies::{EquiStrategy, GroupStrategy, Materialization};
use crate::ir::text_predicate::{TextSlice, TextTest};

/// One device as an operator sees it: its memory, its primitives, and a budget that every allocation is leased from.
pub(crate) trait Device: Debug + Send + Sync {
    /// As shown in EXPLAIN, such as `host`.
    fn name(&self) -> &str;

    /// The budget that allocations are leased from.
    fn budget(&self) -> &Arc<Budget>;

    /// The same device with a queue of its own and another budget: one for each execution of an operator. Long primitives
    /// of the handle end with [`BowtieError::Cancelled`] soon after `cancelled` is set.
    ///
    /// [`BowtieError::Cancelled`]: crate::error::BowtieError::Cancelled
    fn attach(&self, budget: Arc<Budget>, cancelled: Arc<AtomicBool>) -> Result<Arc<dyn Device>>;

    /// [`BowtieError::Cancelled`] when nobody waits for the work any more.
    ///
    /// [`BowtieError::Cancelled`]: crate::error::BowtieError::Cancelled
    fn go_on(&self) -> Result<()>;

    /// Pairs of a tile that is tested pair by pair: what takes some tenths of a second, so that its output begins soon.
    fn tested_pairs(&self) -> u64;

    /// Rows of a chunk that search an index of sets at once, so that their output begins soon.
    fn searched_sets(&self) -> u64;

    /// How many pieces of output are worth computing at the same time.
    fn concurrent_pieces(&self) -> usize;

    /// Rows of the first chunk of the streamed side and of the longest one, as each has twice as many as the one before: few enough
    /// to begin and to cancel soon, then enough to keep the device and the bus busy.
    fn streamed_rows(&self) -> RangeInclusive<u64>;

    /// Most rows that are grouped at once: the groups of several chunks are merged on the host.
    fn grouped_rows(&self) -> u64;

    /// Rows of one piece of output, when memory allows: enough to amortise its overhead.
    fn piece_rows(&self) -> usize;

    /// Calls `each` with `0 .. pieces`, at the same time where the device can; the first error ends it.
    fn for_each_piece(
        &self,
        pieces: usize,
        each: &(dyn Fn(usize) -> Result<()> + Sync),
    ) -> Result<()>;

    // ---- the border ------------------------------------------------------------------------------------------------

    /// Whether uploading copies columns of a type, so that nothing is gained by copying their parts together before.
    fn copies_uploads(&self, data_type: &DataType) -> bool;

    /// Whether uploading takes long enough to read another chunk of the streamed side meanwhile.
    fn reads_ahead(&self) -> bool;

    /// Host → device: a column from its parts, of which there is at least one.
    fn upload(&self, parts: &[ArrayRef]) -> Result<Arc<Column>>;

    /// Whether columns of type `from` had better be uploaded as they are and cast to `to` on the device. Only casts that
    /// neither fail nor make a NULL of a value are.
    fn widens(&self, from: &DataType, to: &DataType) -> bool;

    /// The same as `upload` for work to come, beside the work at hand: the column can be used once [`Device::receive`] was
    /// called for it. Its type is `wanted`: that of the parts, or one to which the device [widens](Device::widens) it.
    fn upload_ahead(&self, parts: &[ArrayRef], wanted: &DataType) -> Result<Arc<Column>>;

    /// A column of which rows are only gathered for the output: it may stay where it is until so many of them are that its
    /// upload pays.
    fn upload_late(&self, parts: &[ArrayRef], payload: &Arc<Payload>) -> Result<Arc<Column>>;

    /// What is done from now on sees a column that was uploaded ahead.
    fn receive(&self, column: &Column) -> Result<()>;

    /// Device → host.
    fn download(&self, column: &Column) -> Result<ArrayRef>;

    /// Device → host.
    fn read(&self, words: &Buffer<u32>) -> Result<ScalarBuffer<u32>>;

    // ---- moving values ---------------------------------------------------------------------------------------------

    /// `column[rows[i]]` at place `i`.
    fn gather(&self, column: &Column, rows: &Buffer<u32>) -> Result<Column>;

    /// The values of the pairs `from .. from + len` of a product: pair `p` is of row `p / rows` of the input that is `repeated`, and of
    /// row `p % rows` of the other one, which has so many. `None` where they are to be gathered by row ids.
    fn of_product(
        &self,
        _column: &Column,
        _repeated: bool,
        _rows: usize,
        _from: u64,
        _len: usize,
    ) -> Result<Option<Column>> {
        Ok(None)
    }

    /// The rows of all `parts` together, one after the other: at least one part, and all of one type.
    fn concat(&self, parts: &[&Column]) -> Result<Column>;

    /// `column[0 .. rows]` set to NULL.
    fn nulls(&self, data_type: &DataType, rows: usize) -> Result<Column>;

    /// The entries of `rows` whose `keep` is set, in order. `keep` comes from a residual evaluated on the host.
    fn compact(&self, rows: &Buffer<u32>, keep: &arrow::array::BooleanArray)
    -> Result<Buffer<u32>>;

    /// `from, from + 1, …`, `len` of them.
    fn sequence(&self, from: u32, len: usize) -> Result<Buffer<u32>>;

    // ---- expressions -----------------------------------------------------------------------------------------------

    /// Evaluates a program on `rows` rows of its `columns`, in the order in which it numbers them: a column for each output.
    /// [`BowtieError::NeedsHost`] where it meets a row that it cannot decide.
    fn map(&self, rows: usize, program: &RowProgram, columns: &[&Column]) -> Result<Vec<Column>>;

    /// A Boolean for each row of a column of text or binary values, or of a dictionary of these: what the test says of its value, NULL
    /// where it has none. `other` is the other column that the test reads.
    fn test_text(&self, column: &Column, other: Option<&Column>, test: &TextTest)
    -> Result<Column>;

    /// The same characters of each value of a column of text that is no dictionary.
    fn slice_text(&self, column: &Column, slice: TextSlice) -> Result<Column>;

    /// The rows for which a Boolean column is true, in order: how many they are, and of them these columns; `None` if all are.
    /// NULL is not.
    fn keep(&self, flags: &Column, columns: &[&Column]) -> Result<Option<(usize, Vec<Column>)>>;

    /// The rows for which the only output of a program is true, of the columns `kept`: what [`Device::map`] and [`Device::keep`] make.
    fn select(
        &self,
        rows: usize,
        program: &RowProgram,
        columns: &[&Column],
        kept: &[&Column],
    ) -> Result<Option<(usize, Vec<Column>)>> {
        select_by_flags(self, rows, program, columns, kept)
    }

    // ---- keys ------------------------------------------------------------------------------------------------------

    /// Order keys of `base`, and the domain in which other columns become comparable with them.
    fn order_keys(&self, base: &Column) -> Result<(Keys, KeyDomain)>;

    /// Order keys of `column`, comparable with the keys of the domain's base column (not with one another when the
    /// domain is ranked).
    fn order_keys_in(&self, domain: &KeyDomain, column: &Column) -> Result<Keys>;

    /// Group ids of the rows of `base` by equality of all columns: dense from 0, in any order, [`NO_GROUP`] for rows with a NULL
    /// unless `null_equal`.
    fn group_keys(&self, base: &[&Column], null_equal: bool) -> Result<(Buffer<u32>, GroupDomain)>;

    /// Group ids of other rows in a domain: [`NO_GROUP`] for a row that equals none of the base.
    fn group_keys_in(&self, domain: &GroupDomain, columns: &[&Column]) -> Result<Buffer<u32>>;

    // ---- equi-joins (\[W\] section 3) -------------------------------------------------------------------------------

    /// Indexes the rows of `base` by equality of all columns; rows with a NULL match nothing unless `null_equal`. Without
    /// `strategy` the device chooses one for the keys at hand.
    fn equi_index(
        &self,
        base: &[&Column],
        null_equal: bool,
        strategy: Option<EquiStrategy>,
    ) -> Result<EquiIndex>;

    /// The other side's rows in the order that suits the strategy, and the range in the index of each. Rows that match nothing
    /// may be left out.
    fn equi_search(&self, index: &EquiIndex, columns: &[&Column]) -> Result<(Sorted, Ranges)>;

    /// Prepares one side of an inner join whose pairs are put together at once, for payload columns of that side and as many
    /// probes as come, of which a choice may look at the first; `None` where pairs had better be found by [`Device::equi_index`] first.
    fn equi_build(
        &self,
        keys: &[&Column],
        null_equal: bool,
        strategy: Option<EquiStrategy>,
        payload: &[&Column],
        materialization: Option<Materialization>,
        first: Option<FirstProbe<'_>>,
    ) -> Result<Option<EquiBuild>>;

    /// All pairs of the rows of `build` with those of `keys` and `payload`. `build_payload` is what the build was prepared for.
    fn equi_join(
        &self,
        build: &EquiBuild,
        build_payload: &[&Column],
        keys: &[&Column],
        payload: &[&Column],
    ) -> Result<Paired>;

    // ---- joins of sides that ascend (\[D\]) ----------------------------------------------------------------------------

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

    /// The probe rows that have a build row, or those that have none, of the columns `kept`: as [`Device::keep`] says it. `None` as above;
    /// build keys may have repeats.
    fn merge_keep(
        &self,
        _keys: Ascending<'_>,
        _matched: bool,
        _kept: &[&Column],
    ) -> Result<Option<Kept>> {
        Ok(None)
    }

    // ---- existence by direct address ---------------------------------------------------------------------------------

    /// Where the keys of rows lie. Values of all columns [are addresses](crate::device::key_bitmap::are_addresses).
    fn key_range(&self, columns: &[&Column]) -> Result<KeyRange>;

    /// Sets the bit of every row's key that lies in the range of the bits; a NULL among its columns only where NULLs are equal.
    fn set_key_bits(&self, bits: &KeyBits, columns: &[&Column]) -> Result<()>;

    /// Where the keys of rows lie as far as a sample of them says, with some room at both ends; `None` where all of them are looked
    /// at as soon.
    fn likely_key_range(&self, _columns: &[&Column]) -> Result<Option<KeyRange>> {
        Ok(None)
    }

    /// What [`Device::set_key_bits`] does; and where those keys lie that have no bit, if not more of them.
    fn set_key_bits_inside(&self, bits: &KeyBits, columns: &[&Column]) -> Result<KeyRange> {
        self.set_key_bits(bits, columns)?;
        Ok(bits.unless_held(self.key_range(columns)?))
    }

    /// Sets the flag of every row `first + i` whose key's bit is set, of flags of which none but these was set before. `first` is a
    /// multiple of 64, and so is the number of rows, unless they are the last.
    fn flag_keys(
        &self,
        bits: &KeyBits,
        columns: &[&Column],
        flags: &Flags,
        first: usize,
    ) -> Result<()>;

    /// The rows whose key's bit is `set`, of the columns `kept`: what [`Device::flag_keys`] and [`Device::keep`] make.
    fn select_keys(
        &self,
        bits: &KeyBits,
        columns: &[&Column],
        set: bool,
        kept: &[&Column],
    ) -> Result<Option<(usize, Vec<Column>)>> {
        select_keys_by_flags(self, bits, columns, set, kept)
    }

    // ---- set joins (\[B\] chapters 4 to 6) ------------------------------------------------------------------------

    /// Indexes the lists of a column as sets of their elements, where a column that is no list holds sets of one element; rows whose
    /// list is NULL match nothing, nor do those that are NULL in any of `not_null`. Only rows of one group match one another where
    /// there are `groups` (ids, and how many). Without `technique` the device chooses one for the sets at hand, of which `searching` is
    /// a chunk of the other side's; one that cannot serve them is replaced by the nearest.
    fn set_index(
        &self,
        lists: &Column,
        groups: Option<(&Buffer<u32>, u32)>,
        not_null: &[&Keys],
        test: SetTest,
        technique: Option<SetTechnique>,
        searching: &Column,
    ) -> Result<SetIndex>;

    /// The matches of each row of the other side. `groups` are its ids, where the index has groups.
    fn set_search(
        &self,
        index: &SetIndex,
        lists: &Column,
        groups: Option<&Buffer<u32>>,
        not_null: &[&Keys],
    ) -> Result<SetMatches>;

    /// How many matches rows have, without lists of them.
    fn set_count(
        &self,
        index: &SetIndex,
        lists: &Column,
        groups: Option<&Buffer<u32>>,
        counting: SetCounting,
    ) -> Result<SetCounts>;

    /// How often each row id below `rows` stands in `list`.
    fn occurrences(&self, list: &Buffer<u32>, rows: usize) -> Result<Buffer<u32>>;

    // ---- theta joins -----------------------------------------------------------------------------------------------

    /// Sorts row ids by group (of so many), then by key, then by row id. Rows in no group, rows with a NULL key and rows
    /// that are NULL in any of `not_null` are left out.
    fn sort(
        &self,
        rows: usize,
        key: Option<&Keys>,
        groups: Option<(&Buffer<u32>, u32)>,
        not_null: &[&Keys],
    ) -> Result<Sorted>;

    /// Keys in the order of `sorted`, with the minimum and maximum of each block ("zone maps").
    fn zone_keys(&self, keys: &Keys, sorted: &Sorted) -> Result<ZonedKeys>;

    /// For each row of `searching` the sorted positions that lie in its group and satisfy all bounds. If `searching` is sorted
    /// by keys, these are the first bound's.
    fn range_bounds(
        &self,
        sorted: &Sorted,
        searching: &Sorted,
        bounds: &[Bound<'_>],
        groups: Option<&Buffer<u32>>,
    ) -> Result<Ranges>;

    /// How many candidates pass all tests, for each searching position; with `exists_only`, 1 or 0.
    /// [`BowtieError::NeedsHost`] where the program meets a candidate that it cannot decide.
    fn count_matches(&self, matches: Matches<'_>, exists_only: bool) -> Result<Buffer<u32>>;

    /// Exclusive prefix sums, one longer than `counts`; the last is the total.
    fn scan(&self, counts: &Buffer<u32>) -> Result<Buffer<u64>>;

    /// The last of `offsets`.
    fn total(&self, offsets: &Buffer<u64>) -> Result<u64>;

    /// Where a piece that begins at pair `from` should end: at the end of a searching row's pairs, and after at most
    /// `target` pairs, or after at most `most` when one row alone has more than `target`.
    fn piece_end(&self, offsets: &Buffer<u64>, from: u64, target: u64, most: u64) -> Result<u64>;

    /// The pairs numbered `from .. from + len` in the order (searching position, sorted position).
    fn expand(
        &self,
        matches: Matches<'_>,
        offsets: &Buffer<u64>,
        from: u64,
        len: usize,
    ) -> Result<Pairs>;

    /// Matches a searching row must have on average for untested ranges to be emitted on the host, as slices of the sorted
    /// side's columns beside repeated values; `None` where expanding and gathering is faster at any length.
    fn long_run(&self) -> Option<u64>;

    /// The counts of searching positions by row id, 0 for rows that `searching` leaves out.
    fn row_counts(
        &self,
        searching: &Sorted,
        counts: &Buffer<u32>,
        rows: usize,
    ) -> Result<Buffer<u32>>;

    /// How many ranges cover each of `rows` rows of the sorted side.
    fn cover(&self, sorted: &Sorted, ranges: &Ranges, rows: usize) -> Result<Buffer<u32>>;

    /// The share of `sample × sample` pairs, spread evenly over both sides, that satisfies `left OP right`; 0 to 1.
    fn sample_selectivity(
        &self,
        tests: &[(&Keys, Comparison, &Keys)],
        sample: usize,
    ) -> Result<Vec<f64>>;

    // ---- matched rows ----------------------------------------------------------------------------------------------

    /// `rows` flags, none set.
    fn flags(&self, rows: usize) -> Result<Flags>;

    /// Sets the flags of rows `first + rows[i]`. May be called from several threads.
    fn set_flags(&self, flags: &Flags, first: usize, rows: &Buffer<u32>) -> Result<()>;

    /// Sets the flag of every row `first + i` whose count is not zero.
    fn set_flags_counted(&self, flags: &Flags, first: usize, counts: &Buffer<u32>) -> Result<()>;

    /// Those of rows `from .. from + len` whose flag is `set`, ascending, counted from `from`.
    fn flagged_rows(
        &self,
        flags: &Flags,
        from: usize,
        len: usize,
        set: bool,
    ) -> Result<Buffer<u32>>;

    /// Whether each of flags `from .. from + len` is `set`, as a Boolean column.
    fn flag_column(&self, flags: &Flags, from: usize, len: usize, set: bool) -> Result<Column>;

    // ---- fused aggregates ------------------------------------------------------------------------------------------

    /// `value × weight` for each row, wrapping as DataFusion's SUM does; NULL where the value is or the weight is 0.
    fn weigh(&self, values: &Column, weights: &Buffer<u32>) -> Result<Column>;

    /// The sum of a column as a column of one row: wrapping as DataFusion's SUM does, NULL when every row is.
    fn sum(&self, values: &Column) -> Result<Column>;

    /// The weight of each row (Int64), 0 where `values` is NULL.
    fn weigh_count(&self, values: Option<&Column>, weights: &Buffer<u32>) -> Result<Column>;

    /// For each of `rows` searching rows the sum of `values`, a column of the sorted side, over its range; NULL when
    /// there is none that is not NULL. Tests are not applied.
    fn range_sum(&self, values: &Column, matches: Matches<'_>, rows: usize) -> Result<Column>;

    /// For each of `rows` searching rows how many rows of its range (Int64) are not NULL in `values`.
    fn range_count(&self, values: &Column, matches: Matches<'_>, rows: usize) -> Result<Column>;

    /// For each of `rows` searching rows the least (`max`: greatest) of `values` over its range; NULL when there is none.
    fn range_extreme(
        &self,
        values: &Column,
        matches: Matches<'_>,
        rows: usize,
        max: bool,
    ) -> Result<Column>;

    // ---- grouped aggregation (\[W\] section 3.2) -------------------------------------------------------------------

    /// Groups of `rows` rows that are equal in all of `keys`, NULLs too, in any order; one group, also of no rows, without
    /// keys. And the folds over each group's rows, of values that are not NULL; a count of no column counts rows. By a strategy
    /// or the nearest one that the device has for these keys and folds; by the best if none is given.
    fn aggregate(
        &self,
        rows: usize,
        keys: &[&Column],
        folds: &[(Fold, Option<&Column>)],
        strategy: Option<GroupStrategy>,
    ) -> Result<Aggregated>;
}

/// \[D\]'s SELECT in its steps: flag, scan, compact.
pub(crate) fn select_by_flags<D: Device + ?Sized>(
    device: &D,
    rows: usize,
    program: &RowProgram,
    columns: &[&Column],
    kept: &[&Column],
) -> Result<Option<(usize, Vec<Column>)>> {
    match device.map(rows, program, columns)?.as_slice() {
        [flags] => device.keep(flags, kept),
        _ => Err(BowtieError::Internal(
            "a predicate of several columns".into(),
        )),
    }
}

/// The keys of all rows are tested first.
pub(crate) fn select_keys_by_flags<D: Device + ?Sized>(
    device: &D,
    bits: &KeyBits,
    columns: &[&Column],
    set: bool,
    kept: &[&Column],
) -> Result<Option<(usize, Vec<Column>)>> {
    let rows = columns.first().map_or(0, |column| column.rows());
    let flags = device.flags(rows)?;
    device.flag_keys(bits, columns, &flags, 0)?;
    let flags = device.flag_column(&flags, 0, rows, set)?;
    device.keep(&flags, kept)
}
