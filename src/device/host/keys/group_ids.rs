//! Group ids: rows that are equal in all key columns get the same dense `u32`.
//!
//! A single narrow column is hashed by its order key, and a single column of text or binary by its bytes. Other keys are hashed in Arrow's row format, over order keys (so
//! that −0.0 equals 0.0, as in DataFusion) and, for wide types, over the values themselves.

use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, Rows, SortField};
use hashbrown::HashMap;
use rayon::prelude::*;

use crate::device::budget::{Budget, Lease};
use crate::device::data::buffer::{Buffer, check_chunk_rows};
use crate::device::data::column::Column;
use crate::device::data::keys::NO_GROUP;
use crate::device::host::keys::order_keys::{natural, natural_array, plain_values, validity};
use crate::error::{BowtieError, Result};

/// The groups of a base side, for lookups of the other side's rows.
#[derive(Debug)]
pub(crate) struct GroupTable {
    table: Table,
    groups: u32,
    null_equal: bool,
    _lease: Lease,
}

#[derive(Debug)]
enum Table {
    Word(HashMap<u64, u32>),
    Bytes(HashMap<Vec<u8>, u32>),
    Row {
        converter: RowConverter,
        ids: HashMap<Vec<u8>, u32>,
    },
}

impl GroupTable {
    pub(crate) fn groups(&self) -> u32 {
        self.groups
    }
}

/// Rough bytes of a hash table's entry, for the reservation.
const ENTRY_BYTES: u64 = 24;

/// Rows that one task looks up.
const TASK_ROWS: usize = 1 << 14;

/// Group ids of the rows of `base`, dense from 0, and the groups. Rows with a NULL have `NO_GROUP` unless `null_equal`.
pub(crate) fn group_keys(
    budget: &Arc<Budget>,
    base: &[&Column],
    null_equal: bool,
) -> Result<(Buffer<u32>, GroupTable)> {
    let rows = base.first().map_or(0, |c| c.rows());
    check_chunk_rows(rows)?;
    let ids_lease = budget.lease(rows as u64 * 4, "group ids")?;
    let table_lease = budget.lease(rows as u64 * ENTRY_BYTES, "group table")?;
    let mut ids = Vec::with_capacity(rows);
    let keys = KeyRows::new(budget, arrays_of(base)?, null_equal, None)?;
    let mut next = 0u32;
    let mut fresh = || {
        let id = next;
        next += 1;
        id
    };
    let table = match keys {
        KeyRows::Words { words, valid } => {
            let mut table = HashMap::new();
            for (i, word) in words.on_host()?.iter().enumerate() {
                ids.push(match is_valid(&valid, i) {
                    true => *table.entry(*word).or_insert_with(&mut fresh),
                    false => NO_GROUP,
                });
            }
            Table::Word(table)
        }
        KeyRows::Bytes { array, valid } => {
            let mut table: HashMap<Vec<u8>, u32> = HashMap::new();
            each_value(&array, |i, bytes| {
                ids.push(match is_valid(&valid, i) {
                    true => *table.entry_ref(bytes).or_insert_with(&mut fresh),
                    false => NO_GROUP,
                });
            });
            Table::Bytes(table)
        }
        KeyRows::Rows {
            converter,
            rows: key_rows,
            valid,
        } => {
            let mut table: HashMap<Vec<u8>, u32> = HashMap::new();
            for (i, row) in key_rows.iter().enumerate() {
                ids.push(match is_valid(&valid, i) {
                    true => *table.entry_ref(row.as_ref()).or_insert_with(&mut fresh),
                    false => NO_GROUP,
                });
            }
            Table::Row {
                converter: converter.ok_or_else(|| {
                    BowtieError::Internal("keys of a base without a row converter".into())
                })?,
                ids: table,
            }
        }
    };
    let domain = GroupTable {
        table,
        groups: next,
        null_equal,
        _lease: table_lease,
    };
    Ok((Buffer::host(ids, ids_lease), domain))
}

/// A hash of each row's key. NULLs are equal.
pub(crate) fn key_hashes(budget: &Arc<Budget>, base: &[&Column]) -> Result<Vec<u64>> {
    let (keys, n) = row_keys(budget, base)?;
    Ok((0..n)
        .into_par_iter()
        .map(|i| {
            let mut hasher = DefaultHasher::new();
            hasher.write(keys.row(i).as_ref());
            hasher.finish()
        })
        .collect())
}

/// The columns' arrays.
fn arrays_of(columns: &[&Column]) -> Result<Vec<ArrayRef>> {
    let arrays = columns.iter().map(|column| column.on_host().cloned());
    arrays.collect()
}

/// Keys in row format, where NULLs are equal.
fn row_keys(budget: &Arc<Budget>, base: &[&Column]) -> Result<(Rows, usize)> {
    let n = base.first().map_or(0, |column| column.rows());
    match KeyRows::new(budget, arrays_of(base)?, true, None)? {
        KeyRows::Rows { rows, .. } => Ok((rows, n)),
        KeyRows::Words { .. } | KeyRows::Bytes { .. } => {
            Err(BowtieError::Internal("NULL has no word".into()))
        }
    }
}

/// Looks up rows in parallel; each task converts the keys of its own rows.
pub(crate) fn group_keys_in(
    budget: &Arc<Budget>,
    domain: &GroupTable,
    columns: &[&Column],
) -> Result<Buffer<u32>> {
    let rows = columns.first().map_or(0, |c| c.rows());
    let lease = budget.lease(rows as u64 * 4, "group ids")?;
    let arrays = arrays_of(columns)?;
    let tasks: Vec<usize> = (0..rows).step_by(TASK_ROWS).collect();
    let ids: Vec<Vec<u32>> = tasks
        .into_par_iter()
        .map(|from| {
            let len = TASK_ROWS.min(rows - from);
            let part = arrays.iter().map(|array| array.slice(from, len)).collect();
            domain.find(budget, part)
        })
        .collect::<Result<_>>()?;
    Ok(Buffer::host(ids.concat(), lease))
}

impl GroupTable {
    fn find(&self, budget: &Arc<Budget>, arrays: Vec<ArrayRef>) -> Result<Vec<u32>> {
        let converter = match &self.table {
            Table::Word(_) | Table::Bytes(_) => None,
            Table::Row { converter, .. } => Some(converter),
        };
        let keys = KeyRows::new(budget, arrays, self.null_equal, converter)?;
        Ok(match (&self.table, keys) {
            (Table::Word(table), KeyRows::Words { words, valid }) => words
                .on_host()?
                .iter()
                .enumerate()
                .map(|(i, word)| match is_valid(&valid, i) {
                    true => table.get(word).copied().unwrap_or(NO_GROUP),
                    false => NO_GROUP,
                })
                .collect(),
            (Table::Bytes(table), KeyRows::Bytes { array, valid }) => {
                let mut ids = Vec::with_capacity(array.len());
                // Neighbours are often equal.
                let mut last: Option<(&[u8], u32)> = None;
                each_value(&array, |i, bytes| {
                    ids.push(match (is_valid(&valid, i), last) {
                        (false, _) => NO_GROUP,
                        (true, Some((known, id))) if known == bytes => id,
                        (true, _) => {
                            let id = table.get(bytes).copied().unwrap_or(NO_GROUP);
                            last = Some((bytes, id));
                            id
                        }
                    });
                });
                ids
            }
            (Table::Row { ids, .. }, KeyRows::Rows { rows, valid, .. }) => rows
                .iter()
                .enumerate()
                .map(|(i, row)| match is_valid(&valid, i) {
                    true => ids.get(row.as_ref()).copied().unwrap_or(NO_GROUP),
                    false => NO_GROUP,
                })
                .collect(),
            _ => {
                return Err(BowtieError::Internal(
                    "key columns of different types".into(),
                ));
            }
        })
    }
}

/// Key columns in hashable form. `valid` marks the rows that belong to a group.
enum KeyRows {
    Words {
        words: Buffer<u64>,
        valid: Option<BooleanBuffer>,
    },
    /// A column of text or binary.
    Bytes {
        array: ArrayRef,
        valid: Option<BooleanBuffer>,
    },
    Rows {
        converter: Option<RowConverter>,
        rows: Rows,
        valid: Option<BooleanBuffer>,
    },
}

/// Whether values are text or binary of any length, which are equal if their bytes are.
fn has_bytes(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
    )
}

/// Calls `each` with the number and the bytes of every row, also of NULLs, of a column that [has bytes](has_bytes).
fn each_value<'a>(array: &'a ArrayRef, mut each: impl FnMut(usize, &'a [u8])) {
    macro_rules! values {
        ($column:expr) => {{
            let column = $column;
            let is_whole = column.null_count() == 0;
            for i in 0..column.len() {
                // What a NULL's place holds may be anything.
                each(
                    i,
                    match is_whole || column.is_valid(i) {
                        true => column.value(i).as_ref(),
                        false => &[],
                    },
                );
            }
        }};
    }
    match array.data_type() {
        DataType::Utf8 => values!(array.as_string::<i32>()),
        DataType::LargeUtf8 => values!(array.as_string::<i64>()),
        DataType::Utf8View => values!(array.as_string_view()),
        DataType::Binary => values!(array.as_binary::<i32>()),
        DataType::LargeBinary => values!(array.as_binary::<i64>()),
        _ => values!(array.as_binary_view()),
    }
}

impl KeyRows {
    /// `converter`: the base's converter, for lookups in its domain.
    fn new(
        budget: &Arc<Budget>,
        arrays: Vec<ArrayRef>,
        null_equal: bool,
        converter: Option<&RowConverter>,
    ) -> Result<Self> {
        let arrays: Vec<ArrayRef> = arrays.iter().map(plain_values).collect::<Result<_>>()?;
        // Where NULLs are equal, NULL needs a key of its own, which only the row format has.
        if let [array] = arrays.as_slice()
            && !null_equal
            && let Some(keys) = natural(budget, array)?
        {
            let valid = match &keys.valid {
                Some(valid) => Some(valid.on_host()?.clone()),
                None => None,
            };
            return Ok(Self::Words {
                words: keys.values,
                valid,
            });
        }
        if let [array] = arrays.as_slice()
            && !null_equal
            && has_bytes(array.data_type())
        {
            return Ok(Self::Bytes {
                valid: validity(array),
                array: Arc::clone(array),
            });
        }
        let valid = match null_equal {
            true => None,
            false => arrays
                .iter()
                .filter_map(validity)
                .reduce(|all, one| &all & &one),
        };
        let hashable: Vec<ArrayRef> = arrays
            .iter()
            .map(|array| Ok(natural_array(budget, array)?.unwrap_or_else(|| Arc::clone(array))))
            .collect::<Result<_>>()?;
        match converter {
            Some(converter) => Ok(Self::Rows {
                rows: converter.convert_columns(&hashable)?,
                converter: None,
                valid,
            }),
            None => {
                let fields = hashable
                    .iter()
                    .map(|array| SortField::new(array.data_type().clone()))
                    .collect();
                let converter = RowConverter::new(fields)?;
                Ok(Self::Rows {
                    rows: converter.convert_columns(&hashable)?,
                    converter: Some(converter),
                    valid,
                })
            }
        }
    }
}

fn is_valid(valid: &Option<BooleanBuffer>, row: usize) -> bool {
    valid.as_ref().is_none_or(|valid| valid.value(row))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float64Array, Int32Array, StringArray};

    use super::*;

    fn column(array: ArrayRef) -> Column {
        Column::host(array, Budget::new(0).lease(0, "test").unwrap())
    }

    #[test]
    fn rows_of_several_tasks_find_their_own_groups() {
        let budget = Budget::new(u64::MAX);
        let n = 2 * TASK_ROWS + 5;
        let text = (0..n).map(|i| (i % 11 != 0).then(|| format!("{}", i * 7 % 20_011)));
        let base = column(Arc::new(text.collect::<StringArray>()));
        for null_equal in [false, true] {
            let (ids, domain) = group_keys(&budget, &[&base], null_equal).unwrap();
            let found = group_keys_in(&budget, &domain, &[&base]).unwrap();
            assert_eq!(ids.on_host().unwrap(), found.on_host().unwrap());
        }
    }

    #[test]
    fn zeros_are_equal_and_nulls_are_in_no_group() {
        let budget = Budget::new(u64::MAX);
        let base = column(Arc::new(Float64Array::from(vec![
            Some(-0.0),
            Some(0.0),
            None,
            Some(1.0),
        ])));
        let (ids, domain) = group_keys(&budget, &[&base], false).unwrap();
        assert_eq!(ids.on_host().unwrap().as_ref(), [0, 0, NO_GROUP, 1]);
        let other = column(Arc::new(Float64Array::from(vec![
            Some(1.0),
            None,
            Some(7.0),
        ])));
        let ids = group_keys_in(&budget, &domain, &[&other]).unwrap();
        assert_eq!(ids.on_host().unwrap().as_ref(), [1, NO_GROUP, NO_GROUP]);
    }

    #[test]
    fn text_and_binary_are_grouped_by_their_bytes() {
        let budget = Budget::new(u64::MAX);
        let long = "longer than a view holds itself";
        let base = [Some("a"), None, Some(""), Some(long), Some("a"), Some(long)];
        let other = [Some(long), Some("b"), None, Some(""), Some("a"), Some("a")];
        for data_type in [
            DataType::Utf8,
            DataType::LargeUtf8,
            DataType::Utf8View,
            DataType::Binary,
            DataType::LargeBinary,
            DataType::BinaryView,
        ] {
            let of_type = |values: &[Option<&str>]| {
                let text: ArrayRef = Arc::new(StringArray::from(values.to_vec()));
                column(arrow::compute::cast(&text, &data_type).unwrap())
            };
            let (ids, table) = group_keys(&budget, &[&of_type(&base)], false).unwrap();
            assert_eq!(ids.on_host().unwrap().to_vec(), [0, NO_GROUP, 1, 2, 0, 2]);
            assert_eq!(table.groups(), 3);
            let ids = group_keys_in(&budget, &table, &[&of_type(&other)]).unwrap();
            let expected = [2, NO_GROUP, NO_GROUP, 1, 0, 0];
            assert_eq!(ids.on_host().unwrap().to_vec(), expected, "{data_type}");
        }
    }

    #[test]
    fn several_columns_and_equal_nulls() {
        let budget = Budget::new(u64::MAX);
        let a = column(Arc::new(Int32Array::from(vec![Some(1), None, Some(1)])));
        let b = column(Arc::new(StringArray::from(vec![
            Some("x"),
            Some("x"),
            None,
        ])));
        let (ids, domain) = group_keys(&budget, &[&a, &b], true).unwrap();
        assert_eq!(
            (ids.on_host().unwrap().as_ref(), domain.groups()),
            ([0, 1, 2].as_slice(), 3)
        );
        let (ids, domain) = group_keys(&budget, &[&a, &b], false).unwrap();
        assert_eq!(ids.on_host().unwrap().as_ref(), [0, NO_GROUP, NO_GROUP]);
        let ids = group_keys_in(&budget, &domain, &[&a, &b]).unwrap();
        assert_eq!(ids.on_host().unwrap().as_ref(), [0, NO_GROUP, NO_GROUP]);
    }
}
