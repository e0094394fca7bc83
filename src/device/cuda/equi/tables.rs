//! Tables in which equal keys find each other: rows by address, or by hash, and those of one key side by side (`kernels/equi/equi_direct.cuh`,
//! `kernels/equi/equi_table.cuh`, `kernels/equi/equi_csr.cuh`; \[W\] section 3.1).

use std::sync::Arc;

use crate::device::cuda::columns::scan::EXCLUSIVE_U32;
use crate::device::cuda::equi::key_words::{Addresses, EquiKeys};
use crate::device::cuda::keys::key_width::Width;
use crate::device::cuda::runtime::launch::{Arg, Shape};
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::buffer::Buffer;
use crate::device::data::ranges::{OrderedRows, Ranges};
use crate::error::{BowtieError, Result};

/// A table of groups of rows, and where each group's rows begin.
#[derive(Debug)]
pub(crate) struct Grouped<T> {
    table: T,
    /// Whether a group is one row, by whose number it goes.
    unique: bool,
    segments: Memory,
}

/// Rows by the distance of their key from the least one.
#[derive(Debug)]
pub(crate) struct DirectTable {
    pub rows: Memory,
    pub addresses: Addresses,
}

/// Open addressing in device memory.
#[derive(Debug)]
pub(crate) struct HashTable {
    pub slots: Memory,
    pub mask: u32,
    /// The build side's keys, which long ones are compared with.
    pub keys: Memory,
}

/// A table in which a key is found.
pub(crate) trait Lookup {
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

/// Rows in some order, by no key that others could be compared with.
pub(crate) fn by_rows(rows: Buffer<u32>) -> OrderedRows {
    OrderedRows {
        rows,
        keys: None,
        segments: None,
    }
}

/// The memory of words that this device made.
fn owned(words: Buffer<u32>) -> Result<Memory> {
    words
        .into_cuda()
        .ok_or_else(|| BowtieError::Internal("the host's words were given to a GPU".into()))
}

/// Groups that a scan takes at once: a longer chunk is halved.
const MOST_GROUPS: usize = (1 << 31) - 1;

/// What kernels found out (`kernels/equi/equi_emit.cuh`).
const DUPLICATE_KEYS: u32 = 1;

impl Stream {
    /// The array of rows by address, and whether no two rows have one.
    pub(crate) fn direct_table(
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
    pub(crate) fn hash_table(self: &Arc<Self>, keys: &EquiKeys<'_>) -> Result<(HashTable, bool)> {
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
    pub(crate) fn group_rows<T: Lookup>(
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
        if groups > MOST_GROUPS {
            return Err(BowtieError::OutOfDeviceMemory {
                what: "the groups of one equi-join",
                requested: groups as u64,
                in_use: 0,
                limit: MOST_GROUPS as u64,
            });
        }
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

    pub(crate) fn look_up<T: Lookup>(
        self: &Arc<Self>,
        grouped: &Grouped<T>,
        keys: &EquiKeys<'_>,
    ) -> Result<(OrderedRows, Ranges)> {
        let groups = self.found(&grouped.table, !grouped.unique, keys)?;
        let ranges = self.ranges_of_groups(&groups, keys.rows, &grouped.segments)?;
        Ok((by_rows(self.sequence(0, keys.rows)?), ranges))
    }

    pub(crate) fn ranges_of_groups(
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
}
