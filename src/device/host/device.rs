//! The host's own cores as a device: plain Rust on a thread pool. It is the executable specification of every primitive.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{ArrayRef, BooleanArray};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::DataType;
use parking_lot::Mutex;
use rayon::ThreadPool;
use rayon::prelude::*;

use crate::device::budget::Budget;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::keys::{KeyDomain, Keys};
use crate::device::data::matches::{Bound, FirstProbe, Matches};
use crate::device::data::opaque::Opaque;
use crate::device::data::ranges::{Pairs, Ranges, Sorted};
use crate::device::data::results::{Aggregated, Paired, SetCounting, SetCounts, SetMatches};
use crate::device::data::structures::{
    EquiBuild, EquiIndex, Flags, GroupDomain, SetIndex, ZonedKeys,
};
use crate::device::host::aggregate::strategies;
use crate::device::host::columns::flags;
use crate::device::host::columns::values;
use crate::device::host::columns::values::bytes_of;
use crate::device::host::equi::{index, single_pass};
use crate::device::host::expr::{row_program, string_predicate};
use crate::device::host::keys::{group_ids, order_keys, sort};
use crate::device::host::semi::key_bitmap;
use crate::device::host::sets::index as sets;
use crate::device::host::theta::{expand, range, range_fold, zone_map};
use crate::device::key_bitmap::{KeyBits, KeyRange};
use crate::device::lazy_column::Payload;
use crate::device::primitives::device::Device;
use crate::error::{BowtieError, Result};
use crate::ir::comparison::Comparison;
use crate::ir::fold::Fold;
use crate::ir::row_program::RowProgram;
use crate::ir::set_predicate::{SetTechnique, SetTest};
use crate::ir::strategies::{EquiStrategy, GroupStrategy, Materialization};
use crate::ir::text_predicate::{TextSlice, TextTest};

/// The host's cores and memory.
#[derive(Debug, Clone)]
pub(crate) struct HostDevice {
    budget: Arc<Budget>,
    cancelled: Arc<AtomicBool>,
    pool: Arc<ThreadPool>,
}

impl HostDevice {
    /// All cores, under `budget`.
    pub(crate) fn new(budget: Arc<Budget>) -> Result<Self> {
        Ok(Self {
            budget,
            cancelled: Arc::default(),
            pool: threads()?,
        })
    }
}

impl HostDevice {
    /// The same device, whose long primitives end soon after `cancelled` is set.
    pub(crate) fn cancelled_by(&self, cancelled: Arc<AtomicBool>) -> Self {
        Self {
            cancelled,
            ..self.clone()
        }
    }
}

/// Whether what values take together may pass the offsets of a type.
fn has_short_offsets(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Utf8 | DataType::Binary | DataType::List(_) | DataType::Map(..)
    )
}

/// The process's one pool of threads for the host device: opening another device for another limit starts no more.
fn threads() -> Result<Arc<ThreadPool>> {
    static POOL: Mutex<Option<Arc<ThreadPool>>> = Mutex::new(None);
    let mut started = POOL.lock();
    if let Some(pool) = started.as_ref() {
        return Ok(Arc::clone(pool));
    }
    let pool = rayon::ThreadPoolBuilder::new()
        .thread_name(|i| format!("bowtie-host-{i}"))
        .build()
        .map_err(|e| BowtieError::TooLarge(format!("cannot start the host's threads: {e}")))?;
    Ok(Arc::clone(started.insert(Arc::new(pool))))
}

impl Device for HostDevice {
    fn name(&self) -> &str {
        "host"
    }

    fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    fn attach(&self, budget: Arc<Budget>, cancelled: Arc<AtomicBool>) -> Result<Arc<dyn Device>> {
        Ok(Arc::new(Self {
            budget,
            cancelled,
            pool: Arc::clone(&self.pool),
        }))
    }

    fn go_on(&self) -> Result<()> {
        match self.cancelled.load(Ordering::Relaxed) {
            true => Err(BowtieError::Cancelled),
            false => Ok(()),
        }
    }

    fn tested_pairs(&self) -> u64 {
        1 << 26
    }

    fn searched_sets(&self) -> u64 {
        1 << 16
    }

    fn concurrent_pieces(&self) -> usize {
        self.pool.current_num_threads()
    }

    fn piece_rows(&self) -> usize {
        // Few enough to stay in cache.
        8192
    }

    fn for_each_piece(
        &self,
        pieces: usize,
        each: &(dyn Fn(usize) -> Result<()> + Sync),
    ) -> Result<()> {
        self.pool
            .install(|| (0..pieces).into_par_iter().try_for_each(each))?;
        self.go_on()
    }

    fn streamed_rows(&self) -> RangeInclusive<u64> {
        1 << 20..=1 << 20
    }

    fn grouped_rows(&self) -> u64 {
        // A dropped stream waits for no longer than these take.
        1 << 19
    }

    fn copies_uploads(&self, _data_type: &DataType) -> bool {
        false
    }

    fn reads_ahead(&self) -> bool {
        false
    }

    fn upload(&self, parts: &[ArrayRef]) -> Result<Arc<Column>> {
        values::upload(&self.budget, parts).map(Arc::new)
    }

    fn widens(&self, _from: &DataType, _to: &DataType) -> bool {
        // Where the rows are read there are as many cores.
        false
    }

    fn upload_ahead(&self, parts: &[ArrayRef], _wanted: &DataType) -> Result<Arc<Column>> {
        self.upload(parts)
    }

    fn upload_late(&self, parts: &[ArrayRef], _payload: &Arc<Payload>) -> Result<Arc<Column>> {
        self.upload(parts)
    }

    fn receive(&self, _column: &Column) -> Result<()> {
        Ok(())
    }

    fn download(&self, column: &Column) -> Result<ArrayRef> {
        Ok(Arc::clone(column.on_host()?))
    }

    fn read(&self, words: &Buffer<u32>) -> Result<ScalarBuffer<u32>> {
        Ok(words.on_host()?.clone())
    }

    fn gather(&self, column: &Column, rows: &Buffer<u32>) -> Result<Column> {
        values::gather(&self.budget, column, rows)
    }

    fn concat(&self, parts: &[&Column]) -> Result<Column> {
        let parts: Vec<ArrayRef> = parts
            .iter()
            .map(|part| part.on_host().cloned())
            .collect::<Result<_>>()?;
        let bytes = bytes_of(&parts)?;
        // Offsets of 32 bits count no more.
        if bytes > i32::MAX as u64 && has_short_offsets(parts[0].data_type()) {
            return Err(BowtieError::OutOfDeviceMemory {
                what: "one column put together",
                requested: bytes,
                in_use: self.budget.in_use(),
                limit: i32::MAX as u64,
            });
        }
        values::upload(&self.budget, &parts)
    }

    fn nulls(&self, data_type: &DataType, rows: usize) -> Result<Column> {
        values::nulls(&self.budget, data_type, rows)
    }

    fn compact(&self, rows: &Buffer<u32>, keep: &BooleanArray) -> Result<Buffer<u32>> {
        values::compact(&self.budget, rows, keep)
    }

    fn sequence(&self, from: u32, len: usize) -> Result<Buffer<u32>> {
        values::sequence(&self.budget, from, len)
    }

    fn map(&self, rows: usize, program: &RowProgram, columns: &[&Column]) -> Result<Vec<Column>> {
        let go_on = || self.go_on();
        self.pool
            .install(|| row_program::map(&self.budget, rows, program, columns, &go_on))
    }

    fn test_text(
        &self,
        column: &Column,
        other: Option<&Column>,
        test: &TextTest,
    ) -> Result<Column> {
        let go_on = || self.go_on();
        self.pool
            .install(|| string_predicate::test_text(&self.budget, column, other, test, &go_on))
    }

    fn slice_text(&self, column: &Column, slice: TextSlice) -> Result<Column> {
        self.go_on()?;
        string_predicate::slice_text(&self.budget, column, slice)
    }

    fn keep(&self, flags: &Column, columns: &[&Column]) -> Result<Option<(usize, Vec<Column>)>> {
        let rows = row_program::rows_where(&self.budget, flags)?;
        if rows.len() == flags.rows() {
            return Ok(None);
        }
        let kept = columns.iter().map(|column| self.gather(column, &rows));
        Ok(Some((rows.len(), kept.collect::<Result<_>>()?)))
    }

    fn order_keys(&self, base: &Column) -> Result<(Keys, KeyDomain)> {
        self.pool
            .install(|| order_keys::order_keys(&self.budget, base))
    }

    fn order_keys_in(&self, domain: &KeyDomain, column: &Column) -> Result<Keys> {
        self.pool
            .install(|| order_keys::order_keys_in(&self.budget, domain, column))
    }

    fn group_keys(&self, base: &[&Column], null_equal: bool) -> Result<(Buffer<u32>, GroupDomain)> {
        let (ids, domain) = group_ids::group_keys(&self.budget, base, null_equal)?;
        let domain = GroupDomain {
            groups: domain.groups(),
            table: Opaque::new(domain),
        };
        Ok((ids, domain))
    }

    fn group_keys_in(&self, domain: &GroupDomain, columns: &[&Column]) -> Result<Buffer<u32>> {
        self.pool
            .install(|| group_ids::group_keys_in(&self.budget, domain.table.get()?, columns))
    }

    fn equi_index(
        &self,
        base: &[&Column],
        null_equal: bool,
        strategy: Option<EquiStrategy>,
    ) -> Result<EquiIndex> {
        self.pool
            .install(|| index::index(&self.budget, base, null_equal, strategy, &|| self.go_on()))
    }

    fn equi_search(&self, index: &EquiIndex, columns: &[&Column]) -> Result<(Sorted, Ranges)> {
        self.pool
            .install(|| index::search(&self.budget, index, columns, &|| self.go_on()))
    }

    fn equi_build(
        &self,
        keys: &[&Column],
        null_equal: bool,
        strategy: Option<EquiStrategy>,
        payload: &[&Column],
        materialization: Option<Materialization>,
        _first: Option<FirstProbe<'_>>,
    ) -> Result<Option<EquiBuild>> {
        // Pairs that are made piece by piece stay in the cores' caches.
        if materialization != Some(Materialization::Gftr) {
            return Ok(None);
        }
        let index = self.equi_index(keys, null_equal, strategy)?;
        let build = single_pass::EquiBuild::new(&self.budget, index, payload)?;
        Ok(Some(EquiBuild {
            strategy: build.index().strategy,
            // The only one that it has.
            materialization: Materialization::Gftr,
            build: Opaque::new(build),
        }))
    }

    fn equi_join(
        &self,
        build: &EquiBuild,
        _build_payload: &[&Column],
        keys: &[&Column],
        payload: &[&Column],
    ) -> Result<Paired> {
        let build: &single_pass::EquiBuild = build.build.get()?;
        let (searching, ranges) = self.equi_search(build.index(), keys)?;
        single_pass::join(&self.budget, build, &searching, &ranges, payload)
    }

    fn key_range(&self, columns: &[&Column]) -> Result<KeyRange> {
        self.pool
            .install(|| key_bitmap::range(&self.budget, columns, &|| self.go_on()))
    }

    fn set_key_bits(&self, bits: &KeyBits, columns: &[&Column]) -> Result<()> {
        self.pool
            .install(|| key_bitmap::set(&self.budget, bits, columns, &|| self.go_on()))
    }

    fn flag_keys(
        &self,
        bits: &KeyBits,
        columns: &[&Column],
        flags: &Flags,
        first: usize,
    ) -> Result<()> {
        let flags = (flags.0.get::<flags::Flags>()?, first);
        self.pool
            .install(|| key_bitmap::flag(&self.budget, bits, columns, flags, &|| self.go_on()))
    }

    fn set_index(
        &self,
        lists: &Column,
        groups: Option<(&Buffer<u32>, u32)>,
        not_null: &[&Keys],
        test: SetTest,
        technique: Option<SetTechnique>,
        searching: &Column,
    ) -> Result<SetIndex> {
        let go_on = || self.go_on();
        let by = (technique, searching);
        let index = self
            .pool
            .install(|| sets::index(&self.budget, lists, groups, not_null, test, by, &go_on))?;
        Ok(SetIndex {
            technique: index.technique(),
            index: Opaque::new(index),
        })
    }

    fn set_search(
        &self,
        index: &SetIndex,
        lists: &Column,
        groups: Option<&Buffer<u32>>,
        not_null: &[&Keys],
    ) -> Result<SetMatches> {
        let (index, go_on) = (index.index.get()?, || self.go_on());
        self.pool
            .install(|| sets::search(&self.budget, index, lists, groups, not_null, &go_on))
    }

    fn set_count(
        &self,
        index: &SetIndex,
        lists: &Column,
        groups: Option<&Buffer<u32>>,
        counting: SetCounting,
    ) -> Result<SetCounts> {
        let (index, go_on) = (index.index.get()?, || self.go_on());
        self.pool
            .install(|| sets::count(&self.budget, index, lists, groups, counting, &go_on))
    }

    fn occurrences(&self, list: &Buffer<u32>, rows: usize) -> Result<Buffer<u32>> {
        sets::occurrences(&self.budget, list, rows)
    }

    fn sort(
        &self,
        rows: usize,
        key: Option<&Keys>,
        groups: Option<(&Buffer<u32>, u32)>,
        not_null: &[&Keys],
    ) -> Result<Sorted> {
        self.pool
            .install(|| sort::sort(&self.budget, rows, key, groups, not_null))
    }

    fn zone_keys(&self, keys: &Keys, sorted: &Sorted) -> Result<ZonedKeys> {
        zone_map::zone_keys(&self.budget, keys, sorted).map(|keys| ZonedKeys(Opaque::new(keys)))
    }

    fn range_bounds(
        &self,
        sorted: &Sorted,
        searching: &Sorted,
        bounds: &[Bound<'_>],
        groups: Option<&Buffer<u32>>,
    ) -> Result<Ranges> {
        self.pool
            .install(|| range::range_bounds(&self.budget, sorted, searching, bounds, groups))
    }

    fn count_matches(&self, matches: Matches<'_>, exists_only: bool) -> Result<Buffer<u32>> {
        self.pool
            .install(|| expand::count_matches(&self.budget, matches, exists_only, &self.cancelled))
    }

    fn scan(&self, counts: &Buffer<u32>) -> Result<Buffer<u64>> {
        expand::scan(&self.budget, counts)
    }

    fn total(&self, offsets: &Buffer<u64>) -> Result<u64> {
        Ok(offsets.on_host()?.last().copied().unwrap_or(0))
    }

    fn piece_end(&self, offsets: &Buffer<u64>, from: u64, target: u64, most: u64) -> Result<u64> {
        expand::piece_end(offsets, from, target, most)
    }

    fn expand(
        &self,
        matches: Matches<'_>,
        offsets: &Buffer<u64>,
        from: u64,
        len: usize,
    ) -> Result<Pairs> {
        expand::expand(&self.budget, matches, offsets, (from, len), &self.cancelled)
    }

    fn long_run(&self) -> Option<u64> {
        // A batch costs about as much as gathering some hundred rows.
        Some(1024)
    }

    fn row_counts(
        &self,
        searching: &Sorted,
        counts: &Buffer<u32>,
        rows: usize,
    ) -> Result<Buffer<u32>> {
        range::row_counts(&self.budget, searching, counts, rows)
    }

    fn cover(&self, sorted: &Sorted, ranges: &Ranges, rows: usize) -> Result<Buffer<u32>> {
        range::cover(&self.budget, sorted, ranges, rows)
    }

    fn sample_selectivity(
        &self,
        tests: &[(&Keys, Comparison, &Keys)],
        sample: usize,
    ) -> Result<Vec<f64>> {
        tests
            .iter()
            .map(|(left, op, right)| values::sample_selectivity(left, *op, right, sample))
            .collect()
    }

    fn flags(&self, rows: usize) -> Result<Flags> {
        flags::Flags::new(&self.budget, rows).map(|flags| Flags(Opaque::new(flags)))
    }

    fn set_flags(&self, flags: &Flags, first: usize, rows: &Buffer<u32>) -> Result<()> {
        for row in rows.on_host()?.iter() {
            flags.0.get::<flags::Flags>()?.set(first + *row as usize);
        }
        Ok(())
    }

    fn set_flags_counted(&self, flags: &Flags, first: usize, counts: &Buffer<u32>) -> Result<()> {
        for (row, count) in counts.on_host()?.iter().enumerate() {
            if *count > 0 {
                flags.0.get::<flags::Flags>()?.set(first + row);
            }
        }
        Ok(())
    }

    fn flagged_rows(
        &self,
        flags: &Flags,
        from: usize,
        len: usize,
        set: bool,
    ) -> Result<Buffer<u32>> {
        flags
            .0
            .get::<flags::Flags>()?
            .rows_where(&self.budget, from, len, set)
    }

    fn flag_column(&self, flags: &Flags, from: usize, len: usize, set: bool) -> Result<Column> {
        flags
            .0
            .get::<flags::Flags>()?
            .column(&self.budget, from, len, set)
    }

    fn weigh(&self, values: &Column, weights: &Buffer<u32>) -> Result<Column> {
        range_fold::weigh(&self.budget, values, weights)
    }

    fn sum(&self, values: &Column) -> Result<Column> {
        range_fold::sum(&self.budget, values)
    }

    fn weigh_count(&self, values: Option<&Column>, weights: &Buffer<u32>) -> Result<Column> {
        range_fold::weigh_count(&self.budget, values, weights)
    }

    fn range_sum(&self, values: &Column, matches: Matches<'_>, rows: usize) -> Result<Column> {
        self.pool
            .install(|| range_fold::range_sum(&self.budget, values, matches, rows))
    }

    fn range_count(&self, values: &Column, matches: Matches<'_>, rows: usize) -> Result<Column> {
        range_fold::range_count(&self.budget, values, matches, rows)
    }

    fn range_extreme(
        &self,
        values: &Column,
        matches: Matches<'_>,
        rows: usize,
        max: bool,
    ) -> Result<Column> {
        self.pool
            .install(|| range_fold::range_extreme(&self.budget, values, matches, rows, max))
    }

    fn aggregate(
        &self,
        rows: usize,
        keys: &[&Column],
        folds: &[(Fold, Option<&Column>)],
        strategy: Option<GroupStrategy>,
    ) -> Result<Aggregated> {
        let go_on = || self.go_on();
        self.pool
            .install(|| strategies::aggregate(&self.budget, rows, keys, folds, strategy, &go_on))
    }
}
