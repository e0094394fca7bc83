//! The tables of direct address and hash joins: build keys enter, a table from key to build row, or to the segment of
//! its rows, leaves (`kernels/equi/equi_direct.cuh`, `kernels/equi/equi_table.cuh`, `kernels/equi/equi_csr.cuh`; \[W\]
//! 3.1, which has no direct address).

use std::sync::Arc;

use crate::device::cuda::columns::rows;
use crate::device::cuda::columns::scan::{self, EXCLUSIVE_U32};
use crate::device::cuda::equi::key_words::{Addresses, EquiKeys};
use crate::device::cuda::keys::key_width::Width;
use crate::device::cuda::runtime::arguments::{EitherWidth, U32, U64};
use crate::device::cuda::runtime::kernels::{self, Kernel};
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::buffer::Buffer;
use crate::device::data::ranges::{OrderedRows, Ranges};
use crate::error::{BowtieError, Result};

/// A table from key to group, and the first position of each group (of one key) among the rows, and the end.
#[derive(Debug)]
pub(crate) struct Grouped<T> {
    table: T,
    /// Whether keys are unique: then a group is one row, and its number is the row id.
    unique: bool,
    segments: Memory,
}

/// Direct table: a row id of 32 bits per address, all bits set if there is none.
#[derive(Debug)]
pub(crate) struct DirectTable {
    pub rows: Memory,
    pub addresses: Addresses,
}

/// Hash table with open addressing in device memory: slots of 64 bits, a power of two of them.
#[derive(Debug)]
pub(crate) struct HashTable {
    pub slots: Memory,
    /// Number of slots, less one.
    pub mask: u32,
    /// The build keys if they have 8 bytes, with which probe keys are compared; empty for keys of 4 bytes.
    pub keys: Memory,
}

/// What a table's kernels find of each key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    Row,
    Group,
}

/// A table that maps a key to a row or to a group.
pub(crate) trait Lookup {
    /// Writes what is wanted of each key to `out`; none where the key is not in the table. Keys are of the table's width,
    /// and `out` holds a word for each.
    fn find(
        &self,
        stream: &Stream,
        keys: &EquiKeys<'_>,
        wanted: Wanted,
        out: &Memory,
    ) -> Result<()>;
    /// Group numbers are below this.
    fn groups(&self) -> usize;
}

/// The kernels of a direct table for keys of width `N`: [`U32`] or [`U64`].
struct DirectKernels<N> {
    /// Keys, their validity and number, least key and number of addresses, rows by address, and the status.
    build: Kernel<(U64, U64, U32, N, U32, U64, U64)>,
    /// Rows by address, least key and number of addresses, keys, their validity and number, and the row of each.
    rows: Kernel<(U64, N, U32, U64, U64, U32, U64)>,
    /// The same with the address of each, for which no table is read.
    places: Kernel<(N, U32, U64, U64, U32, U64)>,
}

const DIRECT_4: DirectKernels<U32> = DirectKernels {
    build: kernels::EQUI_DIRECT_BUILD_U32,
    rows: kernels::EQUI_DIRECT_PROBE_U32,
    places: kernels::EQUI_DIRECT_PLACES_U32,
};

const DIRECT_8: DirectKernels<U64> = DirectKernels {
    build: kernels::EQUI_DIRECT_BUILD_U64,
    rows: kernels::EQUI_DIRECT_PROBE_U64,
    places: kernels::EQUI_DIRECT_PLACES_U64,
};

impl DirectTable {
    fn find_by<N: EitherWidth>(
        &self,
        kernels: &DirectKernels<N>,
        (stream, keys): (&Stream, &EquiKeys<'_>),
        wanted: Wanted,
        out: &Memory,
    ) -> Result<()> {
        let (least, count) = (N::of(self.addresses.least), (self.groups() as u32).into());
        let (words, valid) = (keys.words()?.into(), keys.valid().into());
        let (n, out, shape) = (
            (keys.rows as u32).into(),
            out.into(),
            Shape::rows(keys.rows),
        );
        if wanted == Wanted::Row {
            let args = ((&self.rows).into(), least, count, words, valid, n, out);
            // SAFETY: the table has a word for each address; keys and their validity have `keys.rows` rows, and `out`
            // holds a word for each.
            return unsafe { stream.launch(kernels.rows, shape, &args) };
        }
        let args = (least, count, words, valid, n, out);
        // SAFETY: the same.
        unsafe { stream.launch(kernels.places, shape, &args) }
    }
}

impl Lookup for DirectTable {
    fn find(
        &self,
        stream: &Stream,
        keys: &EquiKeys<'_>,
        wanted: Wanted,
        out: &Memory,
    ) -> Result<()> {
        match keys.width {
            Width::Four => self.find_by(&DIRECT_4, (stream, keys), wanted, out),
            Width::Eight => self.find_by(&DIRECT_8, (stream, keys), wanted, out),
        }
    }

    fn groups(&self) -> usize {
        self.addresses.count as usize
    }
}

impl Lookup for HashTable {
    fn find(
        &self,
        stream: &Stream,
        keys: &EquiKeys<'_>,
        wanted: Wanted,
        out: &Memory,
    ) -> Result<()> {
        let kernel = match (wanted, keys.width) {
            (Wanted::Row, Width::Four) => kernels::EQUI_TABLE_PROBE_U32,
            (Wanted::Row, Width::Eight) => kernels::EQUI_TABLE_PROBE_U64,
            (Wanted::Group, Width::Four) => kernels::EQUI_TABLE_SLOTS_U32,
            (Wanted::Group, Width::Eight) => kernels::EQUI_TABLE_SLOTS_U64,
        };
        let args = (
            (&self.slots).into(),
            self.mask.into(),
            (&self.keys).into(),
            keys.words()?.into(),
            keys.valid().into(),
            (keys.rows as u32).into(),
            out.into(),
        );
        // SAFETY: the table is one of keys of this width; keys and their validity have `keys.rows` rows, and `out` holds a
        // word for each.
        unsafe { stream.launch(kernel, Shape::rows(keys.rows), &args) }
    }

    fn groups(&self) -> usize {
        self.mask as usize + 1
    }
}

/// Rows in an order without keys or segments.
pub(crate) fn by_rows(rows: Buffer<u32>) -> OrderedRows {
    OrderedRows {
        rows,
        keys: None,
        segments: None,
    }
}

/// The device memory of words that this device allocated.
fn owned(words: Buffer<u32>) -> Result<Memory> {
    words
        .into_cuda()
        .ok_or_else(|| BowtieError::Internal("the host's words were given to a GPU".into()))
}

/// Groups that one scan takes, at most; a chunk with more is halved, as if it were out of memory.
const MOST_GROUPS: usize = (1 << 31) - 1;

/// The bit of the status word for duplicate build keys (`kernels/equi/equi_emit.cuh`).
const DUPLICATE_KEYS: u32 = 1;
/// That for build keys that collide too often (the same).
const TOO_FAR: u32 = 4;

/// Builds the direct table; with it, whether build keys are unique.
pub(crate) fn direct_table(
    stream: &Arc<Stream>,
    keys: &EquiKeys<'_>,
    addresses: Addresses,
) -> Result<(DirectTable, bool)> {
    let rows = stream.filled(addresses.count as usize * 4, 0xFF, "equi-join table")?;
    let status = stream.zeroed(4, "equi-join table")?;
    let (place, out) = ((keys, addresses), (&rows, &status));
    match keys.width {
        Width::Four => fill_direct_table(stream, &DIRECT_4, place, out)?,
        Width::Eight => fill_direct_table(stream, &DIRECT_8, place, out)?,
    }
    let unique = stream.read_word32(&status, 0)? & DUPLICATE_KEYS == 0;
    Ok((DirectTable { rows, addresses }, unique))
}

fn fill_direct_table<N: EitherWidth>(
    stream: &Stream,
    kernels: &DirectKernels<N>,
    (keys, addresses): (&EquiKeys<'_>, Addresses),
    (rows, status): (&Memory, &Memory),
) -> Result<()> {
    let args = (
        keys.words()?.into(),
        keys.valid().into(),
        (keys.rows as u32).into(),
        N::of(addresses.least),
        (addresses.count as u32).into(),
        rows.into(),
        status.into(),
    );
    // SAFETY: keys and their validity have `keys.rows` rows; `rows` holds a word for each address, all bits set.
    unsafe { stream.launch(kernels.build, Shape::rows(keys.rows), &args) }
}

/// Builds the hash table, and finds whether build keys are unique. `None` if many keys collide, as only keys that were made for it do: the
/// caller sorts them.
pub(crate) fn hash_table(
    stream: &Arc<Stream>,
    keys: &EquiKeys<'_>,
) -> Result<Option<(HashTable, bool)>> {
    let slots = (2 * keys.rows).next_power_of_two().max(2);
    let table = stream.filled(slots * 8, 0xFF, "equi-join table")?;
    let status = stream.zeroed(4, "equi-join table")?;
    let kernel = match keys.width {
        Width::Four => kernels::EQUI_TABLE_BUILD_U32,
        Width::Eight => kernels::EQUI_TABLE_BUILD_U64,
    };
    // A slot holds a whole key of 4 bytes; keys of 8 bytes are compared with this copy.
    let own = match keys.width {
        Width::Four => stream.alloc(0, "equi-join keys")?,
        Width::Eight => stream.copy_of(keys.words()?, keys.rows * 8, "equi-join keys")?,
    };
    let mask = (slots - 1) as u32;
    let args = (
        keys.words()?.into(),
        keys.valid().into(),
        (keys.rows as u32).into(),
        (&table).into(),
        mask.into(),
        (&status).into(),
    );
    // SAFETY: keys and their validity have `keys.rows` rows; there are at least twice as many slots of 64 bits, all
    // bits set.
    unsafe { stream.launch(kernel, Shape::rows(keys.rows), &args)? };
    let status = stream.read_word32(&status, 0)?;
    if status & TOO_FAR != 0 {
        return Ok(None);
    }
    let table = HashTable {
        slots: table,
        mask,
        keys: own,
    };
    Ok(Some((table, status & DUPLICATE_KEYS == 0)))
}

/// The row or the group of each key; none where the key is not in the table.
fn found<T: Lookup>(
    stream: &Arc<Stream>,
    table: &T,
    wanted: Wanted,
    keys: &EquiKeys<'_>,
) -> Result<Memory> {
    let out = stream.alloc(keys.rows * 4, "groups")?;
    table.find(stream, keys, wanted, &out)?;
    Ok(out)
}

/// The build rows with the rows of a group side by side (counting sort), and the table with its segments.
pub(crate) fn group_rows<T: Lookup>(
    stream: &Arc<Stream>,
    table: T,
    unique: bool,
    keys: &EquiKeys<'_>,
) -> Result<(Buffer<u32>, Grouped<T>)> {
    let n = keys.rows;
    if unique {
        let segments = rows::sequence(stream, 0, n + 1)?;
        let grouped = Grouped {
            table,
            unique,
            segments: owned(segments)?,
        };
        return Ok((rows::sequence(stream, 0, n)?, grouped));
    }
    let of_rows = found(stream, &table, Wanted::Group, keys)?;
    let groups = table.groups();
    if groups > MOST_GROUPS {
        return Err(BowtieError::MustSplit {
            what: "hash table of an equi-join",
            size: groups as u64,
            most: MOST_GROUPS as u64,
            unit: "distinct keys",
        });
    }
    let counts = stream.zeroed(groups * 4, "equi-join groups")?;
    let args = ((&of_rows).into(), (n as u32).into(), (&counts).into());
    // SAFETY: `of_rows` holds n groups, each below the length of `counts`, or none.
    unsafe { stream.launch(kernels::EQUI_CSR_COUNT, Shape::rows(n), &args)? };
    let segments = scan::scan(stream, EXCLUSIVE_U32, &counts, groups, "equi-join groups")?;
    drop(counts);
    let kept = stream.read_word32(&segments, groups)? as usize;
    let rows = stream.alloc(kept * 4, "sorted rows")?;
    let taken = stream.zeroed(groups * 4, "equi-join groups")?;
    let args = (
        (&of_rows).into(),
        (n as u32).into(),
        (&segments).into(),
        (&taken).into(),
        (&rows).into(),
    );
    // SAFETY: segments are the prefix sums of the groups' counts, so each row has a place among the kept rows.
    unsafe { stream.launch(kernels::EQUI_CSR_PLACE, Shape::rows(n), &args)? };
    let grouped = Grouped {
        table,
        unique,
        segments,
    };
    Ok((Buffer::cuda(rows, kept), grouped))
}

/// The probe rows, and the range of build positions of each.
pub(crate) fn look_up<T: Lookup>(
    stream: &Arc<Stream>,
    grouped: &Grouped<T>,
    keys: &EquiKeys<'_>,
) -> Result<(OrderedRows, Ranges)> {
    let wanted = match grouped.unique {
        true => Wanted::Row,
        false => Wanted::Group,
    };
    let groups = found(stream, &grouped.table, wanted, keys)?;
    let ranges = ranges_of_groups(stream, &groups, keys.rows, &grouped.segments)?;
    Ok((by_rows(rows::sequence(stream, 0, keys.rows)?), ranges))
}

/// The range of build positions of each of `n` groups, from the segments; an empty range for no group.
pub(crate) fn ranges_of_groups(
    stream: &Arc<Stream>,
    groups: &Memory,
    n: usize,
    segments: &Memory,
) -> Result<Ranges> {
    let lo = stream.alloc(n * 4, "range bounds")?;
    let hi = stream.alloc(n * 4, "range bounds")?;
    let counts = stream.alloc(n * 4, "match counts")?;
    let args = (
        groups.into(),
        (n as u32).into(),
        segments.into(),
        (&lo).into(),
        (&hi).into(),
        (&counts).into(),
    );
    // SAFETY: each of n groups is none, or has a segment and one behind it; the other buffers hold n words.
    unsafe { stream.launch(kernels::EQUI_CSR_RANGES, Shape::rows(n), &args)? };
    Ok(Ranges {
        lo: Buffer::cuda(lo, n),
        hi: Buffer::cuda(hi, n),
    })
}
