//! Indexes of one side's rows by equal keys, and the ranges that the other side's rows have in them (`kernels/equi.cu`; \[W\]
//! section 3.1).
//!
//! ```text
//! direct, hash:   key ─► address, or slot of a table ─► its rows: one, or those brought together by counting (CSR)
//! partitioned:    both sides by the highest bits of the mixed key, a table of distinct keys for each partition in shared memory
//! sort-merge:     both sides by all bits of the mixed key, ranges along the merge path
//! ```

use std::sync::Arc;

use super::CudaDevice;
use super::equi_choice::{Build, choose};
use super::equi_keys::{Addresses, EquiKeys, Keying, Width};
use super::equi_part::{CAPACITY, Carried, Depth, Partitioned, SLOTS, partition_bits};
use super::queue::{Arg, Memory, Part, Queue, Shape};
use super::rows::memory;
use super::scan::EXCLUSIVE_U32;
use super::values::bitmap_bytes;
use crate::device::buffer::{self, Buffer, Column, EquiIndex, Ranges, Sorted};
use crate::device::check_chunk_rows;
use crate::error::{BowtieError, Result};
use crate::spec::EquiStrategy;

/// How keys of the other side are found.
#[derive(Debug)]
pub(crate) struct EquiTable {
    keying: Keying,
    finder: Finder,
}

#[derive(Debug)]
enum Finder {
    /// No row can match.
    Nothing,
    Direct(Grouped<DirectTable>),
    Hash(Grouped<HashTable>),
    Partitioned {
        /// Distinct mixed keys, in order, and where the rows of each begin.
        keys: Memory,
        width: Width,
        segments: Memory,
        /// Where the partitions of the distinct keys begin.
        starts: Memory,
        bits: u32,
    },
    SortMerge(Partitioned),
}

/// The share of the budget that an array of addresses may take.
const ROOM_SHARE: u64 = 8;

/// A table of groups of rows, and where each group's rows begin.
#[derive(Debug)]
struct Grouped<T> {
    table: T,
    /// Whether a group is one row, by whose number it goes.
    unique: bool,
    segments: Memory,
}

/// Rows by the distance of their key from the least one.
#[derive(Debug)]
pub(super) struct DirectTable {
    pub rows: Memory,
    pub addresses: Addresses,
}

/// Open addressing in device memory.
#[derive(Debug)]
pub(super) struct HashTable {
    pub slots: Memory,
    pub mask: u32,
    /// The build side's keys, which long ones are compared with.
    pub keys: Memory,
}

/// A table in which a key is found.
pub(super) trait Lookup {
    /// The kernels that write rows, and groups, for keys of so many bytes.
    fn kernels(&self, width: Width) -> [&'static str; 2];
    /// The table as the first arguments of both.
    fn arguments(&self) -> [Vec<Arg>; 2];
    /// Numbers of groups.
    fn groups(&self) -> usize;
}

impl Lookup for DirectTable {
    fn kernels(&self, width: Width) -> [&'static str; 2] {
        match width {
            Width::Four => ["equi_direct_probe_u32", "equi_direct_places_u32"],
            Width::Eight => ["equi_direct_probe_u64", "equi_direct_places_u64"],
        }
    }

    fn arguments(&self) -> [Vec<Arg>; 2] {
        let places = vec![self.addresses.least.into(), (self.groups() as u32).into()];
        let rows = [vec![(&self.rows).into()], places.clone()].concat();
        [rows, places]
    }

    fn groups(&self) -> usize {
        self.addresses.count as usize
    }
}

impl Lookup for HashTable {
    fn kernels(&self, width: Width) -> [&'static str; 2] {
        match width {
            Width::Four => ["equi_table_probe_u32", "equi_table_slots_u32"],
            Width::Eight => ["equi_table_probe_u64", "equi_table_slots_u64"],
        }
    }

    fn arguments(&self) -> [Vec<Arg>; 2] {
        let table = vec![(&self.slots).into(), self.mask.into(), (&self.keys).into()];
        [table.clone(), table]
    }

    fn groups(&self) -> usize {
        self.mask as usize + 1
    }
}

impl CudaDevice {
    /// Indexes the rows of a base.
    pub(super) fn index_keys(
        &self,
        base: &[&Column],
        null_equal: bool,
        wanted: Option<EquiStrategy>,
    ) -> Result<EquiIndex> {
        let rows = base.first().map_or(0, |column| column.rows());
        check_chunk_rows(rows)?;
        let (keys, keying, addresses, strategy) = self.keys_for(base, null_equal, wanted)?;
        let queue = &self.queue;
        let (rows, finder) = match rows {
            0 => (queue.sequence(0, 0)?, Finder::Nothing),
            _ => match strategy {
                EquiStrategy::Direct => {
                    let (table, unique) = queue.direct_table(&keys, addresses)?;
                    let (rows, grouped) = queue.group_rows(table, unique, &keys)?;
                    (rows, Finder::Direct(grouped))
                }
                EquiStrategy::Hash => {
                    let (table, unique) = queue.hash_table(&keys)?;
                    let (rows, grouped) = queue.group_rows(table, unique, &keys)?;
                    (rows, Finder::Hash(grouped))
                }
                EquiStrategy::PartitionedHash => queue.partitioned_index(&keys)?,
                EquiStrategy::SortMerge => match queue.by_all_bits(&keys)? {
                    None => (queue.sequence(0, 0)?, Finder::Nothing),
                    Some((rows, sorted)) => (rows, Finder::SortMerge(sorted)),
                },
            },
        };
        Ok(EquiIndex {
            sorted: by_rows(rows),
            strategy,
            table: buffer::EquiTable::Cuda(EquiTable { keying, finder }),
        })
    }

    /// A base's keys, their addresses, and the strategy for them.
    pub(super) fn keys_for<'a>(
        &self,
        base: &[&'a Column],
        null_equal: bool,
        wanted: Option<EquiStrategy>,
    ) -> Result<(EquiKeys<'a>, Keying, Addresses, EquiStrategy)> {
        let (mut keys, mut keying) = self.equi_keys(base, null_equal)?;
        let build = Build {
            rows: keys.rows,
            width: keys.width,
            numbered: matches!(keying, Keying::Groups(_)),
            cache_bytes: self.queue.gpu.cache_bytes,
            room: self.queue.budget.limit() / ROOM_SHARE,
        };
        let addresses = match build.may_be_direct(wanted) {
            true => self.addresses(base, &keying)?,
            false => None,
        };
        let strategy = choose(&build, addresses, wanted);
        let addresses = match (strategy, addresses) {
            (EquiStrategy::Direct, Some(addresses)) if build.has_room_for(addresses) => addresses,
            (EquiStrategy::Direct, _) => {
                (keys, keying) = self.equi_groups(base, null_equal)?;
                let groups = self.addresses(base, &keying)?;
                groups.unwrap_or(Addresses { least: 0, count: 0 })
            }
            _ => Addresses { least: 0, count: 0 },
        };
        Ok((keys, keying, addresses, strategy))
    }

    /// The range of each of the other side's rows.
    pub(super) fn search_keys(
        &self,
        index: &EquiIndex,
        columns: &[&Column],
    ) -> Result<(Sorted, Ranges)> {
        let table = index.table.on_cuda()?;
        let queue = &self.queue;
        let keys = self.equi_keys_in(&table.keying, columns)?;
        if keys.rows == 0 || matches!(table.finder, Finder::Nothing) {
            return Ok((by_rows(queue.sequence(0, 0)?), queue.no_ranges()?));
        }
        match &table.finder {
            Finder::Nothing => Ok((by_rows(queue.sequence(0, 0)?), queue.no_ranges()?)),
            Finder::Direct(grouped) => queue.look_up(grouped, &keys),
            Finder::Hash(grouped) => queue.look_up(grouped, &keys),
            Finder::Partitioned {
                keys: distinct,
                width,
                segments,
                starts,
                bits,
            } => {
                let Some((rows, probe)) = queue.in_partitions(&keys, Depth::Bits(*bits))? else {
                    return Ok((by_rows(queue.sequence(0, 0)?), queue.no_ranges()?));
                };
                let (pieces, count, mut shape) = queue.pieces(&probe, starts, *bits, true)?;
                let groups = queue.alloc(probe.rows * 4, "groups")?;
                let status = queue.zeroed(4, "groups")?;
                shape.shared = (4 * SLOTS + width.bytes() * CAPACITY) as u32;
                let kernel = match width {
                    Width::Four => "equi_part_find_u32",
                    Width::Eight => "equi_part_find_u64",
                };
                let args = [
                    distinct.into(),
                    (&probe.keys).into(),
                    (&pieces).into(),
                    (&count).into(),
                    (CAPACITY as u32).into(),
                    (SLOTS as u32).into(),
                    (&groups).into(),
                    (&status).into(),
                ];
                // SAFETY: pieces name rows of both sides' keys, which are mixed and in partitions of the same bits; `groups` holds a
                // word for each of the probe's rows; the shared memory has room for the table.
                unsafe { queue.launch(kernel, shape, &args)? };
                let ranges = queue.ranges_of_groups(&groups, probe.rows, segments)?;
                Ok((by_rows(rows), ranges))
            }
            Finder::SortMerge(build) => {
                let Some((rows, probe)) = queue.in_partitions(&keys, Depth::Whole)? else {
                    return Ok((by_rows(queue.sequence(0, 0)?), queue.no_ranges()?));
                };
                let ranges = queue.merge_ranges(build, &probe)?;
                Ok((by_rows(rows), ranges))
            }
        }
    }
}

/// Rows in some order, by no key that others could be compared with.
fn by_rows(rows: Buffer<u32>) -> Sorted {
    Sorted {
        rows,
        keys: None,
        segments: None,
    }
}

impl buffer::EquiTable {
    fn on_cuda(&self) -> Result<&EquiTable> {
        match self {
            Self::Cuda(table) => Ok(table),
            Self::Host(_) => Err(BowtieError::Internal(
                "the host's index was given to a GPU".into(),
            )),
        }
    }
}

/// The memory of words that this device made.
fn owned(words: Buffer<u32>) -> Result<Memory> {
    words
        .into_cuda()
        .ok_or_else(|| BowtieError::Internal("the host's words were given to a GPU".into()))
}

/// What kernels found out (`kernels/equi_emit.cuh`).
const DUPLICATE_KEYS: u32 = 1;

impl Queue {
    fn no_ranges(self: &Arc<Self>) -> Result<Ranges> {
        Ok(Ranges {
            lo: self.sequence(0, 0)?,
            hi: self.sequence(0, 0)?,
        })
    }

    /// A word of 32 bits.
    pub(super) fn read_word32(&self, words: &Memory, at: usize) -> Result<u32> {
        let mut bytes = [0; 4];
        self.read_few(&mut bytes, words, at * 4)?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// The array of rows by address, and whether no two rows have one.
    pub(super) fn direct_table(
        self: &Arc<Self>,
        keys: &EquiKeys<'_>,
        addresses: Addresses,
    ) -> Result<(DirectTable, bool)> {
        let rows = self.filled(addresses.count as usize * 4, 0xFF, "equi-join table")?;
        let status = self.zeroed(4, "equi-join table")?;
        let kernel = match keys.width {
            Width::Four => "equi_direct_build_u32",
            Width::Eight => "equi_direct_build_u64",
        };
        let args = [
            keys.words()?.into(),
            keys.valid().into(),
            (keys.rows as u32).into(),
            addresses.least.into(),
            (addresses.count as u32).into(),
            (&rows).into(),
            (&status).into(),
        ];
        // SAFETY: keys and their validity are of so many rows; `rows` holds a word for each address, all set.
        unsafe { self.launch(kernel, Shape::rows(keys.rows), &args)? };
        let unique = self.read_word32(&status, 0)? & DUPLICATE_KEYS == 0;
        Ok((DirectTable { rows, addresses }, unique))
    }

    /// The hash table of the keys, and whether no two rows have the same.
    pub(super) fn hash_table(self: &Arc<Self>, keys: &EquiKeys<'_>) -> Result<(HashTable, bool)> {
        let slots = (2 * keys.rows).next_power_of_two().max(2);
        let table = self.filled(slots * 8, 0xFF, "equi-join table")?;
        let status = self.zeroed(4, "equi-join table")?;
        let kernel = match keys.width {
            Width::Four => "equi_table_build_u32",
            Width::Eight => "equi_table_build_u64",
        };
        // Slots hold short keys whole; with long ones they are compared.
        let own = match keys.width {
            Width::Four => self.alloc(0, "equi-join keys")?,
            Width::Eight => self.copy_of(keys.words()?, keys.rows * 8, "equi-join keys")?,
        };
        let mask = (slots - 1) as u32;
        let args = [
            keys.words()?.into(),
            keys.valid().into(),
            (keys.rows as u32).into(),
            (&table).into(),
            mask.into(),
            (&status).into(),
        ];
        // SAFETY: keys and their validity are of so many rows; there are twice as many slots of 64 bits, all set.
        unsafe { self.launch(kernel, Shape::rows(keys.rows), &args)? };
        let unique = self.read_word32(&status, 0)? & DUPLICATE_KEYS == 0;
        let table = HashTable {
            slots: table,
            mask,
            keys: own,
        };
        Ok((table, unique))
    }

    /// What is found for each key: its row, or its group.
    fn found<T: Lookup>(
        self: &Arc<Self>,
        table: &T,
        groups: bool,
        keys: &EquiKeys<'_>,
    ) -> Result<Memory> {
        let out = self.alloc(keys.rows * 4, "groups")?;
        let which = usize::from(groups);
        let [of_rows, of_groups] = table.arguments();
        let mut args = if groups { of_groups } else { of_rows };
        args.extend::<[Arg; 4]>([
            keys.words()?.into(),
            keys.valid().into(),
            (keys.rows as u32).into(),
            (&out).into(),
        ]);
        let kernel = table.kernels(keys.width)[which];
        // SAFETY: the table is one of keys of this width; keys and their validity are of so many rows, of which `out` holds a word each.
        unsafe { self.launch(kernel, Shape::rows(keys.rows), &args)? };
        Ok(out)
    }

    /// The build side's rows, those of a group side by side.
    fn group_rows<T: Lookup>(
        self: &Arc<Self>,
        table: T,
        unique: bool,
        keys: &EquiKeys<'_>,
    ) -> Result<(Buffer<u32>, Grouped<T>)> {
        let n = keys.rows;
        if unique {
            let segments = self.sequence(0, n + 1)?;
            let grouped = Grouped {
                table,
                unique,
                segments: owned(segments)?,
            };
            return Ok((self.sequence(0, n)?, grouped));
        }
        let of_rows = self.found(&table, true, keys)?;
        let groups = table.groups();
        let counts = self.zeroed(groups * 4, "equi-join groups")?;
        let args = [(&of_rows).into(), (n as u32).into(), (&counts).into()];
        // SAFETY: `of_rows` holds n groups, each below the length of `counts`, or none.
        unsafe { self.launch("equi_csr_count", Shape::rows(n), &args)? };
        let segments = self.scan(EXCLUSIVE_U32, &counts, groups, "equi-join groups")?;
        drop(counts);
        let kept = self.read_word32(&segments, groups)? as usize;
        let rows = self.alloc(kept * 4, "sorted rows")?;
        let taken = self.zeroed(groups * 4, "equi-join groups")?;
        let args = [
            (&of_rows).into(),
            (n as u32).into(),
            (&segments).into(),
            (&taken).into(),
            (&rows).into(),
        ];
        // SAFETY: segments are the prefix sums of the groups' counts, so each row has a place among those kept.
        unsafe { self.launch("equi_csr_place", Shape::rows(n), &args)? };
        let grouped = Grouped {
            table,
            unique,
            segments,
        };
        Ok((Buffer::cuda(rows, kept), grouped))
    }

    fn look_up<T: Lookup>(
        self: &Arc<Self>,
        grouped: &Grouped<T>,
        keys: &EquiKeys<'_>,
    ) -> Result<(Sorted, Ranges)> {
        let groups = self.found(&grouped.table, !grouped.unique, keys)?;
        let ranges = self.ranges_of_groups(&groups, keys.rows, &grouped.segments)?;
        Ok((by_rows(self.sequence(0, keys.rows)?), ranges))
    }

    fn ranges_of_groups(
        self: &Arc<Self>,
        groups: &Memory,
        n: usize,
        segments: &Memory,
    ) -> Result<Ranges> {
        let lo = self.alloc(n * 4, "range bounds")?;
        let hi = self.alloc(n * 4, "range bounds")?;
        let counts = self.alloc(n * 4, "match counts")?;
        let args = [
            groups.into(),
            (n as u32).into(),
            segments.into(),
            (&lo).into(),
            (&hi).into(),
            (&counts).into(),
        ];
        // SAFETY: each of n groups is none, or has a segment and one behind it; the others hold n words.
        unsafe { self.launch("equi_csr_ranges", Shape::rows(n), &args)? };
        Ok(Ranges {
            lo: Buffer::cuda(lo, n),
            hi: Buffer::cuda(hi, n),
        })
    }

    /// Keys that may match, in partitions, and their rows; `None` when there are none.
    fn in_partitions(
        self: &Arc<Self>,
        keys: &EquiKeys<'_>,
        depth: Depth,
    ) -> Result<Option<(Buffer<u32>, Partitioned)>> {
        let kept = self.kept_keys(keys)?;
        let (words, n, carried): (Part<'_>, usize, Carried<'_>) = match &kept {
            None => (keys.words()?, keys.rows, Carried::ROWS),
            Some((rows, words)) => {
                let of_rows = Carried {
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

    fn by_all_bits(
        self: &Arc<Self>,
        keys: &EquiKeys<'_>,
    ) -> Result<Option<(Buffer<u32>, Partitioned)>> {
        self.in_partitions(keys, Depth::Whole)
    }

    /// Rows by key, the distinct keys, and the partitions of these.
    fn partitioned_index(self: &Arc<Self>, keys: &EquiKeys<'_>) -> Result<(Buffer<u32>, Finder)> {
        let Some((rows, sorted)) = self.by_all_bits(keys)? else {
            return Ok((self.sequence(0, 0)?, Finder::Nothing));
        };
        let (n, width) = (sorted.rows, sorted.width);
        let heads = self.alloc(bitmap_bytes(n), "equi-join groups")?;
        let kernel = match width {
            Width::Four => "equi_heads_u32",
            Width::Eight => "equi_heads_u64",
        };
        let args = [(&sorted.keys).into(), (&heads).into(), (n as u32).into()];
        // SAFETY: `sorted` holds n keys, `heads` n bits.
        unsafe { self.launch(kernel, Shape::rows(n), &args)? };
        let (offsets, distinct) = self.select_offsets(&heads, n)?;
        let firsts = self.select_at(&heads, n, &offsets, distinct, None)?;
        let of_distinct =
            self.gather_values(&sorted.keys, memory(&firsts)?, distinct, width.bytes())?;
        // The rows of the last key end where all rows do.
        let ended = self.alloc((distinct + 1) * 4, "equi-join groups")?;
        self.copy_into(memory(&firsts)?.into(), &ended, distinct * 4)?;
        let args = [(n as u32).into(), ended.word(distinct), 1u32.into()];
        // SAFETY: there is room for the one word.
        unsafe { self.launch("rows_sequence", Shape::rows(1), &args)? };
        let bits = partition_bits(distinct);
        let starts = self.partition_starts(&of_distinct, width, distinct, bits)?;
        let finder = Finder::Partitioned {
            keys: of_distinct,
            width,
            segments: ended,
            starts,
            bits,
        };
        Ok((rows, finder))
    }

    /// For each probe position the build positions with its key.
    pub(super) fn merge_ranges(
        self: &Arc<Self>,
        build: &Partitioned,
        probe: &Partitioned,
    ) -> Result<Ranges> {
        let (n, m) = (build.rows, probe.rows);
        let kernels = match build.width {
            Width::Four => ["equi_merge_lower_u32", "equi_merge_upper_u32"],
            Width::Eight => ["equi_merge_lower_u64", "equi_merge_upper_u64"],
        };
        let bound = |kernel| -> Result<Buffer<u32>> {
            let out = self.alloc(m * 4, "range bounds")?;
            let args = [
                (&build.keys).into(),
                (n as u32).into(),
                (&probe.keys).into(),
                (m as u32).into(),
                (&out).into(),
            ];
            // SAFETY: both sides' keys ascend, n and m of them, together fewer than 2^32; `out` holds m words.
            unsafe { self.launch(kernel, Shape::blocks_of(n + m, 4096, 256), &args)? };
            Ok(Buffer::cuda(out, m))
        };
        Ok(Ranges {
            lo: bound(kernels[0])?,
            hi: bound(kernels[1])?,
        })
    }
}
