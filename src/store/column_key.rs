//! [`ColumnKey`]: what a stored column was made of. Equal keys mean equal values, so a stored column is never stale.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::store::array_key::{ArrayAddress, ArraysHandle, ArraysKey};
use crate::store::file_key::{FileColumn, FilePlace, FileVersion};

/// What a stored column was made of.
#[derive(Debug)]
pub(crate) enum ColumnKey {
    Arrays(ArraysKey),
    Files(Arc<FileColumn>),
}

/// Finds a key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum ColumnHandle {
    Arrays(ArraysHandle),
    Files(Arc<FileColumn>),
}

/// Where a stored column comes from: one array belongs to one table, and so does a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    Array(ArrayAddress),
    File(FilePlace),
}

/// Columns of a table.
#[derive(Debug, Clone)]
pub(crate) enum TableColumns {
    /// Those made of any of these arrays.
    Arrays(HashSet<ArrayAddress>),
    /// Those of this name of any of these files.
    Files {
        files: HashSet<FilePlace>,
        column: Arc<str>,
    },
}

/// The versions of files that are known to be there.
pub(crate) type CurrentFiles = HashMap<FilePlace, Arc<FileVersion>>;

impl ColumnHandle {
    /// The first part of its column. A column of files has one.
    pub(crate) fn origin(&self) -> Option<Origin> {
        match self {
            Self::Arrays(arrays) => Some(Origin::Array(arrays.first())),
            Self::Files(column) => {
                let first = column.rows.first()?;
                Some(Origin::File(first.file.place()))
            }
        }
    }
}

impl ColumnKey {
    /// Whether its table is gone, so that nobody can ask for it.
    pub(crate) fn is_dead(&self) -> bool {
        match self {
            Self::Arrays(arrays) => arrays.is_dead(),
            Self::Files(column) => column.is_dead(),
        }
    }

    /// Whether it is one of these columns.
    pub(crate) fn is_any_of(&self, columns: &TableColumns) -> bool {
        match (self, columns) {
            (Self::Arrays(key), TableColumns::Arrays(arrays)) => key.has_any_of(arrays),
            (Self::Files(key), TableColumns::Files { files, column }) => {
                let mut rows = key.rows.iter();
                key.name == *column && rows.any(|rows| files.contains(&rows.file.place()))
            }
            _ => false,
        }
    }

    /// Whether a file that it was made of has another version now.
    pub(crate) fn is_older_than(&self, current: &CurrentFiles) -> bool {
        let Self::Files(column) = self else {
            return false;
        };
        column.rows.iter().any(|rows| {
            let now = current.get(&rows.file.place());
            now.is_some_and(|now| now.is_newer_than(&rows.file))
        })
    }
}
