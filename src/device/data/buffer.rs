//! What lies on a device: [`Buffer`]s of words, [`Bits`], [`Column`]s of values, and the structures that primitives hand to
//! one another. Every one of them holds its [`Lease`]; where it lies is known to the device alone.

use std::sync::OnceLock;

use arrow::array::{Array, ArrayRef, AsArray, make_array};
use arrow::buffer::{BooleanBuffer, ScalarBuffer};
use arrow::datatypes::{ArrowNativeType, DataType, UInt32Type};

use crate::device::budget::Lease;
use crate::device::host::sets::collect::SetTally;
use crate::error::{BowtieError, Result};
use crate::ir::set_predicate::SetTechnique;
use crate::ir::strategies::{EquiStrategy, GroupStrategy, Materialization};

/// A device array of words.
#[derive(Debug)]
pub(crate) struct Buffer<T: ArrowNativeType> {
    len: usize,
    storage: WordStorage<T>,
}

#[derive(Debug)]
enum WordStorage<T: ArrowNativeType> {
    Host(ScalarBuffer<T>, #[expect(dead_code, reason = "held")] Lease),
    /// With what was read of it to the host.
    Cuda(
        crate::device::cuda::runtime::stream::Memory,
        OnceLock<ScalarBuffer<T>>,
    ),
}

impl<T: ArrowNativeType> Buffer<T> {
    pub(crate) fn host(values: Vec<T>, lease: Lease) -> Self {
        Self {
            len: values.len(),
            storage: WordStorage::Host(values.into(), lease),
        }
    }

    pub(crate) fn host_shared(values: ScalarBuffer<T>, lease: Lease) -> Self {
        Self {
            len: values.len(),
            storage: WordStorage::Host(values, lease),
        }
    }

    /// `len` words of a GPU's memory.
    pub(crate) fn cuda(memory: crate::device::cuda::runtime::stream::Memory, len: usize) -> Self {
        Self {
            len,
            storage: WordStorage::Cuda(memory, OnceLock::new()),
        }
    }

    /// The words of a buffer that the host device made. A device gets its own buffers only.
    pub(crate) fn on_host(&self) -> &ScalarBuffer<T> {
        match &self.storage {
            WordStorage::Host(values, _) => values,
            WordStorage::Cuda(..) => unreachable!("a GPU's buffer was given to the host device"),
        }
    }

    /// Its memory, when it lies on a GPU.
    pub(crate) fn on_cuda(&self) -> Option<&crate::device::cuda::runtime::stream::Memory> {
        match &self.storage {
            WordStorage::Host(..) => None,
            WordStorage::Cuda(memory, _) => Some(memory),
        }
    }

    /// The same to keep.
    pub(crate) fn into_cuda(self) -> Option<crate::device::cuda::runtime::stream::Memory> {
        match self.storage {
            WordStorage::Host(..) => None,
            WordStorage::Cuda(memory, _) => Some(memory),
        }
    }

    /// The words on the host, brought there by `read` when they are first asked for.
    pub(crate) fn read_once(
        &self,
        read: impl FnOnce() -> Result<ScalarBuffer<T>>,
    ) -> Result<ScalarBuffer<T>> {
        let known = match &self.storage {
            WordStorage::Host(values, _) => return Ok(values.clone()),
            WordStorage::Cuda(_, known) => known,
        };
        match known.get() {
            Some(words) => Ok(words.clone()),
            None => {
                let words = read()?;
                Ok(known.get_or_init(|| words).clone())
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

/// A device array of bits, 32 of them in a word, the first in the lowest.
#[derive(Debug)]
pub(crate) enum Bits {
    Host(BooleanBuffer),
    Cuda(crate::device::cuda::runtime::stream::Memory),
}

impl Bits {
    /// The bits that the host device made.
    pub(crate) fn on_host(&self) -> &BooleanBuffer {
        match self {
            Self::Host(bits) => bits,
            Self::Cuda(_) => unreachable!("a GPU's bits were given to the host device"),
        }
    }
}

/// A device array of values of one Arrow type.
#[derive(Debug)]
pub(crate) struct Column {
    rows: usize,
    storage: ColumnStorage,
    bytes: u64,
}

#[derive(Debug)]
enum ColumnStorage {
    Host(ArrayRef, Lease),
    Cuda(Box<crate::device::cuda::columns::storage::Stored>),
}

impl Column {
    pub(crate) fn host(array: ArrayRef, lease: Lease) -> Self {
        Self {
            rows: array.len(),
            bytes: lease.bytes(),
            storage: ColumnStorage::Host(array, lease),
        }
    }

    pub(crate) fn cuda(
        stored: impl Into<crate::device::cuda::columns::storage::Stored>,
        rows: usize,
    ) -> Self {
        let stored = stored.into();
        Self {
            rows,
            bytes: stored.bytes(),
            storage: ColumnStorage::Cuda(Box::new(stored)),
        }
    }

    /// The array of a column that the host device made, or that a GPU leaves on the host.
    pub(crate) fn on_host(&self) -> &ArrayRef {
        match &self.storage {
            ColumnStorage::Host(array, _) => array,
            ColumnStorage::Cuda(_) => unreachable!("a GPU's column was given to the host device"),
        }
    }

    /// Whether its values lie elsewhere than in the host's memory.
    pub(crate) fn lies_on_device(&self) -> bool {
        self.stored().is_some()
    }

    /// How a GPU stores it, when one does.
    pub(crate) fn stored(&self) -> Option<&crate::device::cuda::columns::storage::Stored> {
        match &self.storage {
            ColumnStorage::Host(..) => None,
            ColumnStorage::Cuda(stored) => Some(stored),
        }
    }

    pub(crate) fn into_stored(self) -> Option<crate::device::cuda::columns::storage::Stored> {
        match self.storage {
            ColumnStorage::Host(..) => None,
            ColumnStorage::Cuda(stored) => Some(*stored),
        }
    }

    /// Its values, when they lie on a GPU and are of fixed width.
    pub(crate) fn on_cuda(&self) -> Option<&crate::device::cuda::columns::fixed_width::Values> {
        match self.stored() {
            Some(crate::device::cuda::columns::storage::Stored::Fixed(values)) => Some(values),
            _ => None,
        }
    }

    pub(crate) fn into_cuda(self) -> Option<crate::device::cuda::columns::fixed_width::Values> {
        match self.into_stored() {
            Some(crate::device::cuda::columns::storage::Stored::Fixed(values)) => Some(values),
            _ => None,
        }
    }

    /// Its values, of 32 bits without a sign and without NULLs, as numbers of rows.
    pub(crate) fn into_row_numbers(self) -> Result<Buffer<u32>> {
        let Self { rows, storage, .. } = self;
        match storage {
            ColumnStorage::Host(array, lease) => {
                let numbers = array.as_primitive_opt::<UInt32Type>();
                let numbers = numbers.map(|numbers| numbers.values().clone());
                numbers.map(|numbers| Buffer::host_shared(numbers, lease))
            }
            ColumnStorage::Cuda(stored) => {
                let numbers = stored.into_row_numbers();
                numbers.map(|numbers| Buffer::cuda(numbers, rows))
            }
        }
        .ok_or_else(|| BowtieError::Internal("row numbers of another type".into()))
    }

    /// The same words under another type of their width.
    pub(crate) fn relabel(self, data_type: &DataType) -> Result<Self> {
        let Self {
            rows,
            storage,
            bytes,
        } = self;
        let storage = match storage {
            ColumnStorage::Host(array, lease) if array.data_type() != data_type => {
                let data = array.to_data().into_builder().data_type(data_type.clone());
                ColumnStorage::Host(make_array(data.build()?), lease)
            }
            ColumnStorage::Host(array, lease) => ColumnStorage::Host(array, lease),
            ColumnStorage::Cuda(stored) => ColumnStorage::Cuda(Box::new(stored.relabel(data_type))),
        };
        Ok(Self {
            rows,
            storage,
            bytes,
        })
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes that its rows take.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Order-preserving keys of a column: `a < b` exactly when `keys[a] < keys[b]`, among keys of one [`KeyDomain`].
#[derive(Debug)]
pub(crate) struct Keys {
    pub(crate) values: Buffer<u64>,
    /// Rows whose value is not NULL; `None` when all are. A NULL satisfies no comparison.
    pub(crate) valid: Option<Bits>,
}

impl Keys {
    pub(crate) fn rows(&self) -> usize {
        self.values.len()
    }
}

/// How values of other columns become comparable with a base column's keys.
#[derive(Debug)]
pub(crate) enum KeyDomain {
    /// Keys depend on the value alone.
    Natural,
    /// `key = value - low + 1`; values outside `low ..= high` are clamped to 0 and `high - low + 2`.
    Offset { low: i128, high: i128 },
    /// Ranks among the base column's distinct values.
    Ranked(Ranks),
}

impl KeyDomain {
    /// The distance from `low`, where the values up to `high`, and one more on either side, span at most 64 bits.
    pub(crate) fn offset(low: i128, high: i128) -> Option<Self> {
        let span = high.checked_sub(low)?;
        (span <= i128::from(u64::MAX - 2)).then_some(Self::Offset { low, high })
    }
}

/// The sorted distinct values of a base column.
#[derive(Debug)]
pub(crate) enum Ranks {
    Host(crate::device::host::keys::order_keys::Ranks),
    Cuda(crate::device::cuda::keys::ranks::Ranks),
}

impl Ranks {
    pub(crate) fn on_host(&self) -> &crate::device::host::keys::order_keys::Ranks {
        match self {
            Self::Host(ranks) => ranks,
            Self::Cuda(_) => unreachable!("a GPU's ranks were given to the host device"),
        }
    }
}

/// The groups of a base side, in which rows of the other side are looked up.
#[derive(Debug)]
pub(crate) enum GroupDomain {
    Host(crate::device::host::keys::group_ids::Groups),
    Cuda(crate::device::cuda::keys::group_ids::Groups),
}

impl GroupDomain {
    pub(crate) fn on_host(&self) -> &crate::device::host::keys::group_ids::Groups {
        match self {
            Self::Host(groups) => groups,
            Self::Cuda(_) => unreachable!("a GPU's groups were given to the host device"),
        }
    }

    /// Number of groups; ids are below it.
    pub(crate) fn groups(&self) -> u32 {
        match self {
            Self::Host(groups) => groups.groups(),
            Self::Cuda(groups) => groups.groups(),
        }
    }
}

/// Rows of a chunk in the order (group, key), with rows that can match nothing left out.
#[derive(Debug)]
pub(crate) struct Sorted {
    /// Row id at each sorted position.
    pub(crate) rows: Buffer<u32>,
    /// Keys at each sorted position; `None` when only grouped.
    pub(crate) keys: Option<Buffer<u64>>,
    /// Group `g` lies at positions `segments[g] .. segments[g + 1]`; `None` when all rows are one group.
    pub(crate) segments: Option<Buffer<u32>>,
}

impl Sorted {
    /// Rows in an order without keys.
    pub(crate) fn of_rows(rows: Buffer<u32>) -> Self {
        Self {
            rows,
            keys: None,
            segments: None,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }
}

/// Rows of one side by their keys, in which each row of the other side has a range.
#[derive(Debug)]
pub(crate) struct EquiIndex {
    /// Rows of one key stand side by side; those that can match nothing may be left out.
    pub(crate) sorted: Sorted,
    pub(crate) strategy: EquiStrategy,
    pub(crate) table: EquiTable,
}

/// How keys are found.
#[derive(Debug)]
pub(crate) enum EquiTable {
    Host(crate::device::host::equi::index::EquiTable),
    Cuda(crate::device::cuda::equi::index::EquiTable),
}

impl EquiTable {
    pub(crate) fn on_host(&self) -> &crate::device::host::equi::index::EquiTable {
        match self {
            Self::Host(table) => table,
            Self::Cuda(_) => unreachable!("a GPU's index was given to the host device"),
        }
    }
}

/// One side's lists as sets, by a technique in which the other side's find their matches.
#[derive(Debug)]
pub(crate) enum SetIndex {
    Host(Box<crate::device::host::sets::index::SetIndex>),
    Cuda(Box<crate::device::cuda::sets::index::SetIndex>),
}

impl SetIndex {
    pub(crate) fn technique(&self) -> SetTechnique {
        match self {
            Self::Host(index) => index.technique(),
            Self::Cuda(index) => index.technique(),
        }
    }

    pub(crate) fn on_host(&self) -> &crate::device::host::sets::index::SetIndex {
        match self {
            Self::Host(index) => index,
            Self::Cuda(_) => unreachable!("a GPU's index was given to the host device"),
        }
    }
}

/// The matches of searching rows as lists.
#[derive(Debug)]
pub(crate) struct SetMatches {
    /// The matching rows of the indexed side, list after list: a row stands in as many as it matches. The lists are its segments, so
    /// that no range is taken for all rows.
    pub(crate) matches: Sorted,
    /// The searching rows in the order of their lists; those that can match nothing may be left out.
    pub(crate) searching: Sorted,
    /// Where in `matches` the list of each searching row lies. Every position lies in one.
    pub(crate) ranges: Ranges,
    pub(crate) tally: SetTally,
}

/// Which matches of sets are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SetCounting {
    /// Those of searching rows: 1 or 0.
    Exists,
    /// Those of searching rows.
    Searching,
    /// Those of the rows of both sides.
    Both,
}

/// How many matches rows have.
#[derive(Debug)]
pub(crate) struct SetCounts {
    /// The searching rows by position; those that can match nothing may be left out.
    pub(crate) searching: Sorted,
    /// By position.
    pub(crate) counts: Buffer<u32>,
    /// Of each indexed row, where they are counted.
    pub(crate) indexed: Option<Buffer<u32>>,
    pub(crate) tally: SetTally,
}

/// One side of an inner join, prepared so that pairs are put together at once.
#[derive(Debug)]
pub(crate) enum EquiBuild {
    Host(Box<crate::device::host::equi::single_pass::EquiBuild>),
    Cuda(Box<crate::device::cuda::equi::single_pass::EquiBuild>),
}

impl EquiBuild {
    pub(crate) fn strategy(&self) -> EquiStrategy {
        match self {
            Self::Host(build) => build.index().strategy,
            Self::Cuda(build) => build.strategy(),
        }
    }

    pub(crate) fn materialization(&self) -> Materialization {
        match self {
            // Its pairs are put together at once by this alone.
            Self::Host(_) => Materialization::Gftr,
            Self::Cuda(build) => build.materialization(),
        }
    }

    pub(crate) fn on_host(&self) -> &crate::device::host::equi::single_pass::EquiBuild {
        match self {
            Self::Host(build) => build,
            Self::Cuda(_) => unreachable!("a GPU's build side was given to the host device"),
        }
    }
}

/// Rows that are kept: how many, and their columns; `None` if all are.
pub(crate) type Kept = Option<(usize, Vec<Column>)>;

/// Pairs of an equi-join, put together: a column for each of the payload's, in any order of rows.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) rows: usize,
    pub(crate) build: Vec<Column>,
    pub(crate) probe: Vec<Column>,
}

/// What became of pairs that were to be put together at once.
#[derive(Debug)]
pub(crate) enum Paired {
    All(Joined),
    /// Several build rows have one key: sort-merge takes that as it comes.
    SharedKeys,
    /// So many pairs had better leave piece by piece.
    TooMany,
}

/// For every searching position the sorted positions `lo .. hi` that its row matches (`lo == hi`: none).
#[derive(Debug)]
pub(crate) struct Ranges {
    pub(crate) lo: Buffer<u32>,
    pub(crate) hi: Buffer<u32>,
}

impl Ranges {
    pub(crate) fn rows(&self) -> usize {
        self.lo.len()
    }
}

/// Groups of rows, and what was folded over each.
#[derive(Debug)]
pub(crate) struct Aggregated {
    pub(crate) groups: usize,
    /// One column for each key, a row a group.
    pub(crate) keys: Vec<Column>,
    /// One column for each fold, a row a group.
    pub(crate) states: Vec<Column>,
    /// What grouped them; nothing did without keys.
    pub(crate) strategy: Option<GroupStrategy>,
}

/// Matching row ids, one of each side a pair.
#[derive(Debug)]
pub(crate) struct Pairs {
    pub(crate) searching: Buffer<u32>,
    pub(crate) sorted: Buffer<u32>,
}

/// Keys in sorted order with the extremes of their blocks.
#[derive(Debug)]
pub(crate) enum ZonedKeys {
    Host(crate::device::host::theta::zone_map::ZonedKeys),
    Cuda(crate::device::cuda::theta::zone_map::ZonedKeys),
}

impl ZonedKeys {
    pub(crate) fn on_host(&self) -> &crate::device::host::theta::zone_map::ZonedKeys {
        match self {
            Self::Host(keys) => keys,
            Self::Cuda(_) => unreachable!("a GPU's zone maps were given to the host device"),
        }
    }
}

/// One bit a row of a chunk: has it matched?
#[derive(Debug)]
pub(crate) enum Flags {
    Host(crate::device::host::columns::flags::Flags),
    /// Words of 32 bits.
    Cuda(crate::device::cuda::runtime::stream::Memory),
}

impl Flags {
    pub(crate) fn on_host(&self) -> &crate::device::host::columns::flags::Flags {
        match self {
            Self::Host(flags) => flags,
            Self::Cuda(_) => unreachable!("a GPU's flags were given to the host device"),
        }
    }
}
