//! Equi-joins in two steps: build an index of the build rows by key, then find the range of index positions of each
//! probe row. The ranges are expanded to matches later (`kernels/equi/equi.cu`; \[W\] 3.1, which has no direct
//! address).
//!
//! ```text
//! direct, hash:   key ─► address, or slot of a table ─► its build rows: one, or a segment after a counting sort (CSR);
//!                 keys that were made to collide in a hash table are sorted instead
//! partitioned:    both sides by the highest bits of the mixed key, a table of distinct keys per partition
//! sort-merge:     both sides by all bits of the mixed key, ranges along the merge path
//! ```

use std::sync::Arc;

use crate::device::cuda::columns::layout::bitmap_bytes;
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::equi::choose::{Build, choose};
use crate::device::cuda::equi::key_words::{Addresses, EquiKeys, KeyEncoding};
use crate::device::cuda::equi::partition::{
    CAPACITY, Depth, Partitioned, PayloadColumn, SLOTS, partition_bits,
};
use crate::device::cuda::equi::tables::{DirectTable, Grouped, HashTable, by_rows};
use crate::device::cuda::keys::key_width::Width;
use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::{Memory, Part};
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::buffer::{Buffer, check_chunk_rows};
use crate::device::data::column::Column;
use crate::device::data::opaque::Opaque;
use crate::device::data::ranges::{OrderedRows, Ranges};
use crate::device::data::structures::EquiIndex;
use crate::error::Result;
use crate::ir::strategies::EquiStrategy;

/// The index of a build side: the encoding of its keys, and the structure in which a probe key is found.
#[derive(Debug)]
pub(crate) struct EquiTable {
    keying: KeyEncoding,
    /// `None` if no build row can match.
    finder: Option<Finder>,
}

#[derive(Debug)]
enum Finder {
    Direct(Grouped<DirectTable>),
    Hash(Grouped<HashTable>),
    Partitioned {
        /// Distinct mixed keys in ascending order; `segments` has the first build position of each, and the end.
        keys: Memory,
        width: Width,
        segments: Memory,
        /// First distinct key of each of the `2^bits` partitions, and the end.
        starts: Memory,
        bits: u32,
    },
    SortMerge(Partitioned),
}

/// A direct table may take one `MEMORY_SHARE`th of the memory budget.
const MEMORY_SHARE: u64 = 8;

impl CudaDevice {
    /// Indexes the build rows by the key columns `base`. Without `wanted` the strategy is chosen. An error if the chunk
    /// has too many rows for row ids of 32 bits.
    pub(crate) fn index_keys(
        &self,
        base: &[&Column],
        null_equal: bool,
        wanted: Option<EquiStrategy>,
    ) -> Result<EquiIndex> {
        let rows = base.first().map_or(0, |column| column.rows());
        check_chunk_rows(rows)?;
        let (keys, keying, addresses, strategy) = self.keys_for(base, null_equal, wanted)?;
        let stream = &self.stream;
        let indexed = match strategy {
            _ if rows == 0 => None,
            EquiStrategy::Direct => {
                let (table, unique) = stream.direct_table(&keys, addresses)?;
                let (rows, grouped) = stream.group_rows(table, unique, &keys)?;
                Some((rows, Finder::Direct(grouped)))
            }
            EquiStrategy::Hash => match stream.hash_table(&keys)? {
                Some((table, unique)) => {
                    let (rows, grouped) = stream.group_rows(table, unique, &keys)?;
                    Some((rows, Finder::Hash(grouped)))
                }
                None => stream.sorted_index(&keys)?,
            },
            EquiStrategy::PartitionedHash => stream.partitioned_index(&keys)?,
            EquiStrategy::SortMerge => stream.sorted_index(&keys)?,
        };
        let (rows, finder) = match indexed {
            Some((rows, finder)) => (rows, Some(finder)),
            None => (stream.no_rows()?, None),
        };
        let strategy = match finder {
            Some(Finder::SortMerge(_)) => EquiStrategy::SortMerge,
            _ => strategy,
        };
        Ok(EquiIndex {
            rows: by_rows(rows),
            strategy,
            table: Opaque::new(EquiTable { keying, finder }),
        })
    }

    /// The build side's key words, their encoding, their addresses (of direct address only; otherwise none) and the
    /// strategy. Direct address with too wide a range changes the keys to group ids.
    pub(crate) fn keys_for<'a>(
        &self,
        base: &[&'a Column],
        null_equal: bool,
        wanted: Option<EquiStrategy>,
    ) -> Result<(EquiKeys<'a>, KeyEncoding, Addresses, EquiStrategy)> {
        let (mut keys, mut keying) = self.equi_keys(base, null_equal)?;
        let build = Build {
            rows: keys.rows,
            width: keys.width,
            numbered: matches!(keying, KeyEncoding::Groups(_)),
            cache_bytes: self.stream.gpu.cache_bytes,
            table_bytes: self.stream.budget.limit() / MEMORY_SHARE,
        };
        let addresses = match build.may_be_direct(wanted) {
            true => self.addresses(base, &keying)?,
            false => None,
        };
        let strategy = choose(&build, addresses, wanted);
        let addresses = match (strategy, addresses) {
            (EquiStrategy::Direct, Some(addresses)) if build.allows(addresses) => addresses,
            (EquiStrategy::Direct, _) => {
                (keys, keying) = self.equi_groups(base, null_equal)?;
                let groups = self.addresses(base, &keying)?;
                groups.unwrap_or(Addresses { least: 0, count: 0 })
            }
            _ => Addresses { least: 0, count: 0 },
        };
        Ok((keys, keying, addresses, strategy))
    }

    /// The probe rows in an order that suits the strategy, and the range of index positions of each. Probe rows that
    /// cannot match may be missing.
    pub(crate) fn search_keys(
        &self,
        index: &EquiIndex,
        columns: &[&Column],
    ) -> Result<(OrderedRows, Ranges)> {
        let table: &EquiTable = index.table.get()?;
        let stream = &self.stream;
        let keys = self.equi_keys_in(&table.keying, columns)?;
        let none = || Ok((by_rows(stream.no_rows()?), stream.no_ranges()?));
        let Some(finder) = table.finder.as_ref().filter(|_| keys.rows > 0) else {
            return none();
        };
        match finder {
            Finder::Direct(grouped) => stream.look_up(grouped, &keys),
            Finder::Hash(grouped) => stream.look_up(grouped, &keys),
            Finder::Partitioned {
                keys: distinct,
                width,
                segments,
                starts,
                bits,
            } => {
                let Some((rows, probe)) = stream.in_partitions(&keys, Depth::Bits(*bits))? else {
                    return none();
                };
                let (pieces, count, mut shape) = stream.pieces(&probe, starts, *bits, true)?;
                let groups = stream.alloc(probe.rows * 4, "groups")?;
                let status = stream.zeroed(4, "groups")?;
                shape.shared = (4 * SLOTS + width.bytes() * CAPACITY) as u32;
                let kernel = match width {
                    Width::Four => kernels::EQUI_PART_FIND_U32,
                    Width::Eight => kernels::EQUI_PART_FIND_U64,
                };
                let args = (
                    distinct.into(),
                    (&probe.keys).into(),
                    (&pieces).into(),
                    (&count).into(),
                    (CAPACITY as u32).into(),
                    (SLOTS as u32).into(),
                    (&groups).into(),
                    (&status).into(),
                );
                // SAFETY: pieces name rows of both sides' keys, which are mixed and partitioned by the same bits;
                // `groups` holds a word for each probe row; the shared memory has room for the table.
                unsafe { stream.launch(kernel, shape, &args)? };
                let ranges = stream.ranges_of_groups(&groups, probe.rows, segments)?;
                Ok((by_rows(rows), ranges))
            }
            Finder::SortMerge(build) => {
                let Some((rows, probe)) = stream.in_partitions(&keys, Depth::Whole)? else {
                    return none();
                };
                let ranges = stream.merge_ranges(build, &probe)?;
                Ok((by_rows(rows), ranges))
            }
        }
    }
}

impl Stream {
    /// The ranges of no probe rows.
    pub(crate) fn no_ranges(self: &Arc<Self>) -> Result<Ranges> {
        Ok(Ranges {
            lo: self.no_rows()?,
            hi: self.no_rows()?,
        })
    }

    /// Reads word `at` of `words`, of 32 bits.
    pub(crate) fn read_word32(&self, words: &Memory, at: usize) -> Result<u32> {
        let mut bytes = [0; 4];
        self.read_few(&mut bytes, words, at * 4)?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// The row ids and mixed keys of the rows that can match, partitioned or sorted as `depth` says. `None` if no row
    /// can match.
    fn in_partitions(
        self: &Arc<Self>,
        keys: &EquiKeys<'_>,
        depth: Depth,
    ) -> Result<Option<(Buffer<u32>, Partitioned)>> {
        let kept = self.kept_keys(keys)?;
        let (words, n, carried): (Part<'_>, usize, PayloadColumn<'_>) = match &kept {
            None => (keys.words()?, keys.rows, PayloadColumn::ROWS),
            Some((rows, words)) => {
                let of_rows = PayloadColumn {
                    values: Some(memory(rows)?.into()),
                    bytes: 4,
                };
                (words.into(), rows.len(), of_rows)
            }
        };
        if n == 0 {
            return Ok(None);
        }
        let mut parts = self.partition(words, keys.width, n, &[carried], depth)?;
        Ok(parts
            .columns
            .pop()
            .map(|rows| (Buffer::cuda(rows, n), parts)))
    }

    /// The build rows sorted by key; `None` if no row can match.
    fn sorted_index(
        self: &Arc<Self>,
        keys: &EquiKeys<'_>,
    ) -> Result<Option<(Buffer<u32>, Finder)>> {
        let sorted = self.in_partitions(keys, Depth::Whole)?;
        Ok(sorted.map(|(rows, sorted)| (rows, Finder::SortMerge(sorted))))
    }

    /// The build rows sorted by key, and the distinct keys with their segments and partitions; `None` if no row can
    /// match.
    fn partitioned_index(
        self: &Arc<Self>,
        keys: &EquiKeys<'_>,
    ) -> Result<Option<(Buffer<u32>, Finder)>> {
        let Some((rows, sorted)) = self.in_partitions(keys, Depth::Whole)? else {
            return Ok(None);
        };
        let (n, width) = (sorted.rows, sorted.width);
        let heads = self.alloc(bitmap_bytes(n), "equi-join groups")?;
        let kernel = match width {
            Width::Four => kernels::EQUI_HEADS_U32,
            Width::Eight => kernels::EQUI_HEADS_U64,
        };
        let args = ((&sorted.keys).into(), (&heads).into(), (n as u32).into());
        // SAFETY: `sorted` holds n keys, `heads` n bits.
        unsafe { self.launch(kernel, Shape::rows(n), &args)? };
        let (offsets, distinct) = self.select_offsets(&heads, n)?;
        let firsts = self.select_at(&heads, n, &offsets, distinct, None)?;
        let of_distinct =
            self.gather_values(&sorted.keys, memory(&firsts)?, distinct, width.bytes())?;
        // The segment of the last key ends where the rows end.
        let ended = self.alloc((distinct + 1) * 4, "equi-join groups")?;
        memory(&firsts)?.copy_to(distinct * 4, &ended, 0)?;
        let args = ((n as u32).into(), ended.word(distinct)?.into(), 1u32.into());
        // SAFETY: `ended` has room for the one word.
        unsafe { self.launch(kernels::ROWS_SEQUENCE, Shape::rows(1), &args)? };
        let bits = partition_bits(distinct);
        let starts = self.partition_starts(&of_distinct, width, distinct, bits)?;
        let finder = Finder::Partitioned {
            keys: of_distinct,
            width,
            segments: ended,
            starts,
            bits,
        };
        Ok(Some((rows, finder)))
    }

    /// The range of build positions with the key of each probe position; both sides are sorted by mixed keys.
    pub(crate) fn merge_ranges(
        self: &Arc<Self>,
        build: &Partitioned,
        probe: &Partitioned,
    ) -> Result<Ranges> {
        let (n, m) = (build.rows, probe.rows);
        let kernels = match build.width {
            Width::Four => [kernels::EQUI_MERGE_LOWER_U32, kernels::EQUI_MERGE_UPPER_U32],
            Width::Eight => [kernels::EQUI_MERGE_LOWER_U64, kernels::EQUI_MERGE_UPPER_U64],
        };
        let bound = |kernel| -> Result<Buffer<u32>> {
            let out = self.alloc(m * 4, "range bounds")?;
            let args = (
                (&build.keys).into(),
                (n as u32).into(),
                (&probe.keys).into(),
                (m as u32).into(),
                (&out).into(),
            );
            // SAFETY: both sides' keys are sorted, n and m of them, together fewer than 2^32; `out` holds m words.
            unsafe { self.launch(kernel, Shape::blocks_of(n + m, 4096, 256), &args)? };
            Ok(Buffer::cuda(out, m))
        };
        Ok(Ranges {
            lo: bound(kernels[0])?,
            hi: bound(kernels[1])?,
        })
    }
}
