//! What lies on a device: [`Buffer`]s of words, [`Column`]s of values, and the structures that primitives hand to one
//! another. Every one of them holds its [`Lease`]; where it lies is known to the device alone.

use arrow::array::{Array, ArrayRef};
use arrow::buffer::{BooleanBuffer, ScalarBuffer};
use arrow::datatypes::ArrowNativeType;

use super::budget::Lease;

/// A device array of words.
#[derive(Debug)]
pub(crate) struct Buffer<T: ArrowNativeType> {
    storage: WordStorage<T>,
    _lease: Lease,
}

#[derive(Debug)]
enum WordStorage<T: ArrowNativeType> {
    Host(ScalarBuffer<T>),
}

impl<T: ArrowNativeType> Buffer<T> {
    pub(super) fn host(values: Vec<T>, lease: Lease) -> Self {
        Self {
            storage: WordStorage::Host(values.into()),
            _lease: lease,
        }
    }

    /// The words, when they lie in the host's memory.
    pub(super) fn on_host(&self) -> &ScalarBuffer<T> {
        let WordStorage::Host(values) = &self.storage;
        values
    }

    pub(crate) fn len(&self) -> usize {
        self.on_host().len()
    }
}

/// A device array of values of one Arrow type.
#[derive(Debug)]
pub(crate) struct Column {
    rows: usize,
    storage: ColumnStorage,
    bytes: u64,
    _lease: Lease,
}

#[derive(Debug)]
enum ColumnStorage {
    Host(ArrayRef),
}

impl Column {
    pub(super) fn host(array: ArrayRef, lease: Lease) -> Self {
        Self {
            rows: array.len(),
            storage: ColumnStorage::Host(array),
            bytes: lease.bytes(),
            _lease: lease,
        }
    }

    pub(super) fn on_host(&self) -> &ArrayRef {
        let ColumnStorage::Host(array) = &self.storage;
        array
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
///
/// [`KeyDomain`]: super::KeyDomain
#[derive(Debug)]
pub(crate) struct Keys {
    pub(super) values: Buffer<u64>,
    /// Rows whose value is not NULL; `None` when all are. A NULL satisfies no comparison.
    pub(super) valid: Option<BooleanBuffer>,
}

impl Keys {
    pub(crate) fn rows(&self) -> usize {
        self.values.len()
    }
}

/// Rows of a chunk in the order (group, key), with rows that can match nothing left out.
#[derive(Debug)]
pub(crate) struct Sorted {
    /// Row id at each sorted position.
    pub(crate) rows: Buffer<u32>,
    /// Keys at each sorted position; `None` when only grouped.
    pub(super) keys: Option<Buffer<u64>>,
    /// Group `g` lies at positions `segments[g] .. segments[g + 1]`; `None` when all rows are one group.
    pub(super) segments: Option<Buffer<u32>>,
}

impl Sorted {
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }
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

/// Matching row ids, one of each side a pair.
#[derive(Debug)]
pub(crate) struct Pairs {
    pub(crate) searching: Buffer<u32>,
    pub(crate) sorted: Buffer<u32>,
}
