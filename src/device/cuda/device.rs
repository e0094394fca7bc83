//! An NVIDIA GPU as a device, through the driver alone.
//!
//! ```text
//! runtime/driver.rs    is there a driver, which GPUs does it know
//! runtime/gpu.rs       one card: context, kernels by family, staging rings; opened once in the process
//! runtime/stream.rs     one stream of work, its leased memory, launching kernels
//! staging/transfer.rs   copies through pinned memory
//! columns/fixed_width.rs    columns of fixed width, and all columns across the border; columns/storage.rs columns/var_width.rs columns/indirect.rs those of other types
//! columns/cast_on_upload.rs     narrow columns sent as they are, and cast there
//! columns/concat.rs    pieces put together
//! generated/   programs over rows as kernels of their own, made at run time; filters in one pass
//! columns/lazy.rs      payload columns that are uploaded when that pays
//! keys/order_keys.rs columns/rows.rs keys/sort.rs columns/scan.rs theta/range.rs theta/zone_map.rs theta/wavelet_tree.rs theta/brute_force.rs theta/pair_program.rs theta/range_fold.rs    one for each family of kernels
//! expr/string_predicate.rs tests of text, and characters of it
//! theta/choose_count.rs     which way counts tested matches soonest: a walk, an index, or tiles
//! theta/cross_product.rs   columns of a product of two inputs
//! runtime/cancellable.rs  candidates tested in launches that a cancelled query ends after
//! keys/tuples.rs    rows as tuples of words, sorted and found: keys/key_column.rs, keys/pack.rs keys/group_ids.rs by equality, keys/ranks.rs by order
//! equi/key_words.rs equi/index.rs equi/tables.rs equi/partition.rs equi/single_pass.rs equi/materialize.rs equi/sample.rs equi/choose.rs    equi-joins: keys, indexes, partitions, pairs put together
//! semi/key_bitmap.rs  a bit for each key, where only existence is asked
//! sets/        set joins: lists as sets of numbers, techniques, lists of matches
//! aggregate/fold.rs aggregate/strategies.rs    aggregates over groups: columns to accumulators and back; each strategy, of which aggregate/choose.rs
//!                               chooses by a sample (aggregate/sample.rs)
//! aggregate/dense_ids.rs aggregate/directory.rs aggregate/partition.rs    ids by direct address, by hashing; rows in parts, or sorted
//! aggregate/accumulators.rs aggregate/shared_layout.rs    the kernels that add rows to groups, and their shared memory
//! fallback.rs      what has no kernel, or no type here: the host's primitive, with its arguments brought down
//! ```
//!
//! Work of one [`CudaDevice`] handle is done in order on one stream, so primitives need not wait for one another; they wait
//! only where the host needs a number. Errors of a kernel are seen at the next such place.

#![allow(unsafe_code)]

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{ArrayRef, BooleanArray};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::DataType;

use crate::device::budget::Budget;
use crate::device::cuda::columns::fixed_width::Values;
use crate::device::cuda::columns::lazy::Late;
use crate::device::cuda::columns::storage::Stored;
use crate::device::cuda::columns::{cast_on_upload, fixed_width, storage};
use crate::device::cuda::keys::ranks::Ranks;
use crate::device::cuda::runtime::access::{flag_words, memory};
use crate::device::cuda::runtime::gpu::Gpu;
use crate::device::cuda::runtime::stream::Queue;
use crate::device::cuda::semi::presorted;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::keys::{KeyDomain, Keys};
use crate::device::data::matches::{Bound, FirstProbe, Matches};
use crate::device::data::opaque::Opaque;
use crate::device::data::ranges::{Pairs, Ranges, Sorted};
use crate::device::data::results::{
    Aggregated, Joined, Kept, Paired, SetCounting, SetCounts, SetMatches,
};
use crate::device::data::structures::{
    EquiBuild, EquiIndex, Flags, GroupDomain, SetIndex, ZonedKeys,
};
use crate::device::host::columns::values::kept;
use crate::device::host::device::HostDevice;
use crate::device::key_bitmap::{KeyBits, KeyRange};
use crate::device::lazy_column::Payload;
use crate::device::presorted::Ascending;
use crate::device::primitives::device::{Device, select_by_flags, select_keys_by_flags};
use crate::error::{BowtieError, Result};
use crate::ir::comparison::Comparison;
use crate::ir::fold::Fold;
use crate::ir::row_program::RowProgram;
use crate::ir::set_predicate::{SetTechnique, SetTest};
use crate::ir::strategies::{EquiStrategy, GroupStrategy, Materialization};
use crate::ir::text_predicate::{TextSlice, TextTest};

/// Pairs of one piece of output: enough to keep the card and the bus busy.
const PIECE_ROWS: usize = 1 << 20;

/// A GPU, as one operator uses it.
#[derive(Debug)]
pub(crate) struct CudaDevice {
    pub(crate) name: String,
    pub(crate) queue: Arc<Queue>,
    /// The host's primitives, for what has no kernel. Its memory is the host's, so it is not counted.
    pub(crate) twin: HostDevice,
    pub(crate) cancelled: Arc<AtomicBool>,
    /// Of programs over rows.
    pub(crate) rows_before_compiling: u64,
    /// Of both sides of a join, where it is worth looking whether they ascend.
    pub(crate) least_merged_rows: usize,
}

impl CudaDevice {
    /// GPU `ordinal`, of whose memory at most `limit` bytes are leased (`None`: nine tenths of what was free when the process
    /// opened it).
    ///
    /// # Errors
    /// When there is no driver, when it is too old, or when it knows no such GPU.
    pub(crate) fn open(ordinal: u32, limit: Option<u64>) -> Result<Self> {
        let gpu = Gpu::open(ordinal)?;
        let limit = match limit {
            Some(limit) => limit,
            None => gpu.free_bytes / 10 * 9,
        };
        Ok(Self {
            name: format!("cuda:{ordinal}"),
            queue: Queue::new(gpu, Budget::new(limit))?,
            twin: HostDevice::new(Budget::new(u64::MAX))?,
            cancelled: Arc::default(),
            rows_before_compiling: crate::device::cuda::codegen::launch::ROWS_BEFORE_COMPILING,
            least_merged_rows: presorted::LEAST_MERGED_ROWS,
        })
    }
}

impl Device for CudaDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn budget(&self) -> &Arc<Budget> {
        &self.queue.budget
    }

    fn attach(&self, budget: Arc<Budget>, cancelled: Arc<AtomicBool>) -> Result<Arc<dyn Device>> {
        Ok(Arc::new(Self {
            name: self.name.clone(),
            queue: Queue::new(Arc::clone(&self.queue.gpu), budget)?,
            twin: self.twin.cancelled_by(Arc::clone(&cancelled)),
            cancelled,
            rows_before_compiling: self.rows_before_compiling,
            least_merged_rows: self.least_merged_rows,
        }))
    }

    fn go_on(&self) -> Result<()> {
        match self.cancelled.load(Ordering::Relaxed) {
            true => Err(BowtieError::Cancelled),
            false => Ok(()),
        }
    }

    fn tested_pairs(&self) -> u64 {
        1 << 36
    }

    fn searched_sets(&self) -> u64 {
        1 << 24
    }

    fn concurrent_pieces(&self) -> usize {
        1
    }

    fn piece_rows(&self) -> usize {
        PIECE_ROWS
    }

    fn for_each_piece(
        &self,
        pieces: usize,
        each: &(dyn Fn(usize) -> Result<()> + Sync),
    ) -> Result<()> {
        for piece in 0..pieces {
            each(piece)?;
            self.go_on()?;
        }
        Ok(())
    }

    fn streamed_rows(&self) -> RangeInclusive<u64> {
        // Each chunk ends with a copy that nothing of the next one overlaps: at 4M rows of 8 bytes the bus is filled by 72 %, at 32M
        // by 99 %.
        1 << 22..=1 << 25
    }

    fn grouped_rows(&self) -> u64 {
        u64::MAX
    }

    fn copies_uploads(&self, data_type: &DataType) -> bool {
        storage::is_sent_in_parts(data_type)
    }

    fn reads_ahead(&self) -> bool {
        true
    }

    fn upload(&self, parts: &[ArrayRef]) -> Result<Arc<Column>> {
        let column = self.queue.upload(parts, parts[0].data_type())?;
        self.receive(&column)?;
        Ok(Arc::new(column))
    }

    fn widens(&self, from: &DataType, to: &DataType) -> bool {
        cast_on_upload::kernel(from, to).is_some()
    }

    fn upload_ahead(&self, parts: &[ArrayRef], wanted: &DataType) -> Result<Arc<Column>> {
        self.queue.upload(parts, wanted).map(Arc::new)
    }

    fn upload_late(&self, parts: &[ArrayRef], payload: &Arc<Payload>) -> Result<Arc<Column>> {
        let late = Late::new(parts, payload)?;
        let rows = late.rows();
        Ok(Arc::new(Column::cuda(late, rows)))
    }

    fn receive(&self, column: &Column) -> Result<()> {
        column.stored().map_or(Ok(()), Stored::receive)
    }

    fn download(&self, column: &Column) -> Result<ArrayRef> {
        self.queue.download(column)
    }

    fn read(&self, words: &Buffer<u32>) -> Result<ScalarBuffer<u32>> {
        self.words_to_host(words)
    }

    fn gather(&self, column: &Column, rows: &Buffer<u32>) -> Result<Column> {
        match column.stored() {
            Some(stored) => self.gather_stored(stored, rows),
            None => {
                let gathered = self.twin.gather(column, &self.host_words(rows)?)?;
                // It goes on to the output, or to an expression: both are on the host.
                let lease = self
                    .queue
                    .budget
                    .lease(gathered.bytes(), "output columns")?;
                Ok(Column::host(Arc::clone(gathered.on_host()?), lease))
            }
        }
    }

    fn of_product(
        &self,
        column: &Column,
        repeated: bool,
        rows: usize,
        from: u64,
        len: usize,
    ) -> Result<Option<Column>> {
        self.product_column(column, repeated, rows, from, len)
    }

    fn concat(&self, parts: &[&Column]) -> Result<Column> {
        self.concat_columns(parts)
    }

    fn nulls(&self, data_type: &DataType, rows: usize) -> Result<Column> {
        self.queue.nulls(data_type, rows)
    }

    fn compact(&self, rows: &Buffer<u32>, keep: &BooleanArray) -> Result<Buffer<u32>> {
        let keep = kept(rows.len(), keep)?;
        let bits = self.queue.upload_bits(&keep, "compacted rows")?;
        self.queue.select(&bits, keep.len(), Some(memory(rows)?))
    }

    fn sequence(&self, from: u32, len: usize) -> Result<Buffer<u32>> {
        self.queue.sequence(from, len)
    }

    fn map(&self, rows: usize, program: &RowProgram, columns: &[&Column]) -> Result<Vec<Column>> {
        self.go_on()?;
        self.map_rows(rows, program, columns)
    }

    fn select(
        &self,
        rows: usize,
        program: &RowProgram,
        columns: &[&Column],
        kept: &[&Column],
    ) -> Result<Option<(usize, Vec<Column>)>> {
        self.go_on()?;
        match self.select_generated(rows, program, columns, kept)? {
            Some(selected) => Ok(selected),
            None => select_by_flags(self, rows, program, columns, kept),
        }
    }

    fn test_text(
        &self,
        column: &Column,
        other: Option<&Column>,
        test: &TextTest,
    ) -> Result<Column> {
        self.go_on()?;
        self.tested(column, other, test)
    }

    fn slice_text(&self, column: &Column, slice: TextSlice) -> Result<Column> {
        self.go_on()?;
        self.sliced(column, slice)
    }

    fn keep(&self, flags: &Column, columns: &[&Column]) -> Result<Option<(usize, Vec<Column>)>> {
        self.kept(flags, columns)
    }

    fn order_keys(&self, base: &Column) -> Result<(Keys, KeyDomain)> {
        if let Some((key, words)) = self.base_key(base)? {
            return self.queue.order_keys(key.source()?, words, base.rows());
        }
        let (keys, domain) = self.twin.order_keys(&self.column_to_host(base)?)?;
        Ok((self.keys_from_host(&keys)?, domain))
    }

    fn order_keys_in(&self, domain: &KeyDomain, column: &Column) -> Result<Keys> {
        // The base decides, whose text may be too long.
        let of_the_host = match domain {
            KeyDomain::Ranked(ranks) => ranks.0.find::<Ranks>().is_none(),
            KeyDomain::Natural | KeyDomain::Offset { .. } => false,
        };
        if !of_the_host && let Some(key) = self.key_column(column)? {
            return self
                .queue
                .order_keys_in(domain, key.source()?, column.rows());
        }
        let keys = self
            .twin
            .order_keys_in(domain, &self.column_to_host(column)?)?;
        self.keys_from_host(&keys)
    }

    fn group_keys(&self, base: &[&Column], null_equal: bool) -> Result<(Buffer<u32>, GroupDomain)> {
        self.groups(base, null_equal)
    }

    fn group_keys_in(&self, domain: &GroupDomain, columns: &[&Column]) -> Result<Buffer<u32>> {
        self.groups_in(domain, columns)
    }

    fn equi_index(
        &self,
        base: &[&Column],
        null_equal: bool,
        strategy: Option<EquiStrategy>,
    ) -> Result<EquiIndex> {
        self.index_keys(base, null_equal, strategy)
    }

    fn equi_search(&self, index: &EquiIndex, columns: &[&Column]) -> Result<(Sorted, Ranges)> {
        self.search_keys(index, columns)
    }

    fn equi_build(
        &self,
        keys: &[&Column],
        null_equal: bool,
        strategy: Option<EquiStrategy>,
        payload: &[&Column],
        materialization: Option<Materialization>,
        first: Option<FirstProbe<'_>>,
    ) -> Result<Option<EquiBuild>> {
        let build =
            self.prepare_build(keys, null_equal, strategy, payload, materialization, first)?;
        Ok(build.map(|build| EquiBuild {
            strategy: build.strategy(),
            materialization: build.materialization(),
            build: Opaque::new(build),
        }))
    }

    fn equi_join(
        &self,
        build: &EquiBuild,
        build_payload: &[&Column],
        keys: &[&Column],
        payload: &[&Column],
    ) -> Result<Paired> {
        self.go_on()?;
        self.join_at_once(build.build.get()?, build_payload, keys, payload)
    }

    fn merge_join(
        &self,
        keys: Ascending<'_>,
        materialization: Option<Materialization>,
        build_payload: &[&Column],
        payload: &[&Column],
    ) -> Result<Option<Joined>> {
        self.go_on()?;
        self.merged_pairs(keys, materialization, build_payload, payload)
    }

    fn merge_keep(
        &self,
        keys: Ascending<'_>,
        matched: bool,
        kept: &[&Column],
    ) -> Result<Option<Kept>> {
        self.go_on()?;
        self.merged_rows(keys, matched, kept)
    }

    fn key_range(&self, columns: &[&Column]) -> Result<KeyRange> {
        self.range_of_keys(columns)
    }

    fn set_key_bits(&self, bits: &KeyBits, columns: &[&Column]) -> Result<()> {
        self.go_on()?;
        self.set_bits_of_keys(bits, columns, false).map(|_| ())
    }

    fn likely_key_range(&self, columns: &[&Column]) -> Result<Option<KeyRange>> {
        self.go_on()?;
        self.likely_range_of_keys(columns)
    }

    fn set_key_bits_inside(&self, bits: &KeyBits, columns: &[&Column]) -> Result<KeyRange> {
        self.go_on()?;
        match self.set_bits_of_keys(bits, columns, true)? {
            Some(outside) => Ok(outside),
            None => Ok(bits.unless_held(self.key_range(columns)?)),
        }
    }

    fn flag_keys(
        &self,
        bits: &KeyBits,
        columns: &[&Column],
        flags: &Flags,
        first: usize,
    ) -> Result<()> {
        self.go_on()?;
        self.flag_keys_found(bits, columns, flags, first)
    }

    fn select_keys(
        &self,
        bits: &KeyBits,
        columns: &[&Column],
        set: bool,
        kept: &[&Column],
    ) -> Result<Option<(usize, Vec<Column>)>> {
        self.go_on()?;
        match self.select_keys_generated(bits, columns, set, kept)? {
            Some(selected) => Ok(selected),
            None => select_keys_by_flags(self, bits, columns, set, kept),
        }
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
        self.go_on()?;
        let index = self.index_sets(lists, groups, not_null, test, technique, searching)?;
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
        self.search_sets(index, lists, groups, not_null)
    }

    fn set_count(
        &self,
        index: &SetIndex,
        lists: &Column,
        groups: Option<&Buffer<u32>>,
        counting: SetCounting,
    ) -> Result<SetCounts> {
        self.count_sets(index, lists, groups, counting)
    }

    fn occurrences(&self, list: &Buffer<u32>, rows: usize) -> Result<Buffer<u32>> {
        self.count_occurrences(list, rows)
    }

    fn sort(
        &self,
        rows: usize,
        key: Option<&Keys>,
        groups: Option<(&Buffer<u32>, u32)>,
        not_null: &[&Keys],
    ) -> Result<Sorted> {
        self.queue.sort(rows, key, groups, not_null)
    }

    fn zone_keys(&self, keys: &Keys, sorted: &Sorted) -> Result<ZonedKeys> {
        self.queue
            .zone_keys(keys, sorted)
            .map(|keys| ZonedKeys(Opaque::new(keys)))
    }

    fn range_bounds(
        &self,
        sorted: &Sorted,
        searching: &Sorted,
        bounds: &[Bound<'_>],
        groups: Option<&Buffer<u32>>,
    ) -> Result<Ranges> {
        self.queue.range_bounds(sorted, searching, bounds, groups)
    }

    fn count_matches(&self, matches: Matches<'_>, exists_only: bool) -> Result<Buffer<u32>> {
        self.go_on()?;
        let go_on = || self.go_on();
        if let Some(program) = &matches.program {
            let counted = self
                .queue
                .program_count(matches, program, exists_only, &go_on)?;
            return match counted {
                Some(counts) => Ok(counts),
                None => self.count_on_twin(matches, exists_only),
            };
        }
        if matches.tests.is_empty() {
            return self.queue.range_counts(matches.ranges, exists_only);
        }
        self.count_soonest(matches, exists_only, &go_on)
    }

    fn scan(&self, counts: &Buffer<u32>) -> Result<Buffer<u64>> {
        self.queue.scan_offsets(counts)
    }

    fn total(&self, offsets: &Buffer<u64>) -> Result<u64> {
        match offsets.len() {
            0 => Ok(0),
            len => self.queue.read_word(memory(offsets)?, len - 1),
        }
    }

    fn piece_end(&self, offsets: &Buffer<u64>, from: u64, target: u64, most: u64) -> Result<u64> {
        self.queue.piece_end(offsets, from, target, most)
    }

    fn expand(
        &self,
        matches: Matches<'_>,
        offsets: &Buffer<u64>,
        from: u64,
        len: usize,
    ) -> Result<Pairs> {
        if let Some(program) = &matches.program {
            let pairs = self
                .queue
                .program_expand(matches, program, offsets, from, len, &|| self.go_on())?;
            return match pairs {
                Some(pairs) => Ok(pairs),
                None => self.expand_on_twin(matches, offsets, from, len),
            };
        }
        match matches.tests.is_empty() {
            true => self.queue.expand_ranges(
                matches.sorted,
                matches.searching,
                matches.ranges,
                offsets,
                from,
                len,
            ),
            false => match self
                .queue
                .zones_expand(matches, offsets, from, len, &|| self.go_on())?
            {
                Some(pairs) => Ok(pairs),
                None => self.expand_on_twin(matches, offsets, from, len),
            },
        }
    }

    fn long_run(&self) -> Option<u64> {
        // The bus: a run's columns cross it once, its pairs not at all.
        Some(1024)
    }

    fn row_counts(
        &self,
        searching: &Sorted,
        counts: &Buffer<u32>,
        rows: usize,
    ) -> Result<Buffer<u32>> {
        self.queue.scatter(&searching.rows, counts, rows)
    }

    fn cover(&self, sorted: &Sorted, ranges: &Ranges, rows: usize) -> Result<Buffer<u32>> {
        self.queue.cover(sorted, ranges, rows)
    }

    fn sample_selectivity(
        &self,
        tests: &[(&Keys, Comparison, &Keys)],
        sample: usize,
    ) -> Result<Vec<f64>> {
        let mut shares = Vec::with_capacity(tests.len());
        for (left, op, right) in tests {
            let (left, right) = (self.sample(left, sample)?, self.sample(right, sample)?);
            shares.extend(
                self.twin
                    .sample_selectivity(&[(&left, *op, &right)], sample)?,
            );
        }
        Ok(shares)
    }

    fn flags(&self, rows: usize) -> Result<Flags> {
        let bytes = fixed_width::bitmap_bytes(rows);
        self.queue.zeroed(bytes, "match flags").map(Flags::cuda)
    }

    fn set_flags(&self, flags: &Flags, first: usize, rows: &Buffer<u32>) -> Result<()> {
        self.queue.set_flags(flag_words(flags)?, first, rows)
    }

    fn set_flags_counted(&self, flags: &Flags, first: usize, counts: &Buffer<u32>) -> Result<()> {
        self.queue
            .set_flags_counted(flag_words(flags)?, first, counts)
    }

    fn flagged_rows(
        &self,
        flags: &Flags,
        from: usize,
        len: usize,
        set: bool,
    ) -> Result<Buffer<u32>> {
        let bits = self.queue.bits_slice(flag_words(flags)?, from, len, !set)?;
        self.queue.select(&bits, len, None)
    }

    fn flag_column(&self, flags: &Flags, from: usize, len: usize, set: bool) -> Result<Column> {
        let values = Values {
            data_type: DataType::Boolean,
            values: self.queue.bits_slice(flag_words(flags)?, from, len, !set)?,
            valid: None,
            original: None,
            made: Some(self.queue.mark()?),
        };
        Ok(Column::cuda(values, len))
    }

    fn weigh(&self, values: &Column, weights: &Buffer<u32>) -> Result<Column> {
        if let Some(weighed) = self.queue.weigh(values, weights)? {
            return Ok(weighed);
        }
        let weighed = self
            .twin
            .weigh(&self.column_to_host(values)?, &self.host_words(weights)?)?;
        self.column_from_host(&weighed)
    }

    fn sum(&self, values: &Column) -> Result<Column> {
        if let Some(sum) = self.queue.sum(values)? {
            return Ok(sum);
        }
        let sum = self.twin.sum(&self.column_to_host(values)?)?;
        self.column_from_host(&sum)
    }

    fn weigh_count(&self, values: Option<&Column>, weights: &Buffer<u32>) -> Result<Column> {
        if let Some(counts) = self.queue.weigh_count(values, weights)? {
            return Ok(counts);
        }
        let values = values
            .map(|values| self.column_to_host(values))
            .transpose()?;
        let counts = self
            .twin
            .weigh_count(values.as_ref(), &self.host_words(weights)?)?;
        self.column_from_host(&counts)
    }

    fn range_sum(&self, values: &Column, matches: Matches<'_>, rows: usize) -> Result<Column> {
        if let Some(sums) = self.queue.range_sum(values, matches, rows)? {
            return Ok(sums);
        }
        self.on_twin(values, matches, |twin, values, matches| {
            twin.range_sum(values, matches, rows)
        })
    }

    fn range_count(&self, values: &Column, matches: Matches<'_>, rows: usize) -> Result<Column> {
        if let Some(counts) = self.queue.range_count(values, matches, rows)? {
            return Ok(counts);
        }
        self.on_twin(values, matches, |twin, values, matches| {
            twin.range_count(values, matches, rows)
        })
    }

    fn range_extreme(
        &self,
        values: &Column,
        matches: Matches<'_>,
        rows: usize,
        max: bool,
    ) -> Result<Column> {
        if let Some(column) = values.on_cuda()
            && values.rows() > 0
        {
            let keys = match self.queue.total_keys(column, values.rows())? {
                Some(floats) => floats,
                None => self.order_keys(values)?.0,
            };
            return self.queue.range_extreme(column, &keys, matches, rows, max);
        }
        self.on_twin(values, matches, |twin, values, matches| {
            twin.range_extreme(values, matches, rows, max)
        })
    }

    fn aggregate(
        &self,
        rows: usize,
        keys: &[&Column],
        folds: &[(Fold, Option<&Column>)],
        strategy: Option<GroupStrategy>,
    ) -> Result<Aggregated> {
        self.go_on()?;
        if rows > 0
            && let Some(aggregated) = self.aggregate_here(rows, keys, folds, strategy)?
        {
            return Ok(aggregated);
        }
        self.aggregate_on_twin(rows, keys, folds, strategy)
    }
}
