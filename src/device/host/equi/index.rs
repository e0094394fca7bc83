//! Equi-joins by each strategy (hash, partitioned hash and sort-merge: \[W\] 3.1). In: key columns. Out: an index of
//! the build rows by key, in which each probe row finds a range.
//!
//! A key is a word: the order key of one narrow column, or the group id of any other keys.

use std::hash::BuildHasher;
use std::sync::Arc;

use arrow::buffer::{BooleanBuffer, ScalarBuffer};
use hashbrown::{DefaultHashBuilder, HashMap};
use rayon::prelude::*;

use crate::device::budget::{Budget, Lease};
use crate::device::data::buffer::{Buffer, check_chunk_rows};
use crate::device::data::column::Column;
use crate::device::data::keys::NO_GROUP;
use crate::device::data::opaque::Opaque;
use crate::device::data::ranges::{OrderedRows, Ranges};
use crate::device::data::structures::EquiIndex;
use crate::device::host::columns::values::sequence;
use crate::device::host::keys::group_ids;
use crate::device::host::keys::group_ids::GroupTable;
use crate::device::host::keys::order_keys::{natural, plain_values};
use crate::device::host::keys::sort::{KeyedRow, sort_by_key};
use crate::error::Result;
use crate::ir::strategies::EquiStrategy;

/// How probe keys are looked up.
#[derive(Debug)]
pub(crate) struct EquiTable {
    /// The numbering of the keys; `None` if order keys are compared.
    groups: Option<GroupTable>,
    finder: Finder,
    _leases: (Lease, Option<Lease>),
}

/// Positions `begin .. end` in the order of the index.
type Span = (u32, u32);

#[derive(Debug)]
enum Finder {
    /// The rows with key `least + i` have the positions `begins[i] .. begins[i + 1]`.
    Direct {
        least: u64,
        begins: Vec<u32>,
    },
    Hash(HashMap<u64, Span>),
    /// One table for each value of the lowest bits of the hash.
    Partitioned(Partitions),
    /// The key at each position.
    SortMerge(Vec<u64>),
}

#[derive(Debug, Default)]
struct Partitions {
    hasher: DefaultHashBuilder,
    tables: Vec<HashMap<u64, Span>>,
}

impl Partitions {
    /// `count` empty partitions; `count` is a power of two.
    fn new(count: usize) -> Self {
        Self {
            hasher: DefaultHashBuilder::default(),
            tables: (0..count).map(|_| HashMap::new()).collect(),
        }
    }

    fn of(&self, key: u64) -> usize {
        self.hasher.hash_one(key) as usize & (self.tables.len() - 1)
    }
}

/// The target number of rows in a partition.
const PARTITION_ROWS: usize = 1 << 12;

/// By default, keys are addressed directly if their values span at most `DENSE` times the rows plus [`FEW_ADDRESSES`].
const DENSE: u64 = 4;
const FEW_ADDRESSES: u64 = 1 << 10;

/// The most addresses of a forced direct index. Keys with a wider span are replaced by their group ids.
const MOST_ADDRESSES: u64 = 1 << 26;

/// By default, the most rows of a single hash table, built by one thread.
const ONE_TABLE: usize = 1 << 18;

/// Rough bytes of the structures for each row, for the reservation: the row with its key, a second copy if it moves to
/// its partition, and an entry of a table.
const ROW_BYTES: u64 = 72;

/// Rows that one task looks up.
const TASK_ROWS: usize = 1 << 14;

/// The key words of rows, and which rows have one.
struct Words {
    words: ScalarBuffer<u64>,
    /// Holds the reservation of the words.
    _held: Buffer<u64>,
    valid: Option<BooleanBuffer>,
}

impl Words {
    /// The order keys of a single narrow column; `None` for other keys.
    fn natural(
        budget: &Arc<Budget>,
        columns: &[&Column],
        null_equal: bool,
    ) -> Result<Option<Self>> {
        let [column] = columns else {
            return Ok(None);
        };
        if null_equal {
            return Ok(None);
        }
        let keys = natural(budget, &plain_values(column.on_host()?)?)?;
        let Some(keys) = keys else {
            return Ok(None);
        };
        Ok(Some(Self {
            words: keys.values.on_host()?.clone(),
            valid: match &keys.valid {
                Some(valid) => Some(valid.on_host()?.clone()),
                None => None,
            },
            _held: keys.values,
        }))
    }

    fn ids(budget: &Arc<Budget>, ids: &Buffer<u32>) -> Result<Self> {
        let lease = budget.lease(ids.len() as u64 * 8, "equi keys")?;
        let ids = ids.on_host()?;
        let valid = BooleanBuffer::collect_bool(ids.len(), |i| ids[i] != NO_GROUP);
        let words = Buffer::host(ids.iter().map(|id| u64::from(*id)).collect(), lease);
        Ok(Self {
            words: words.on_host()?.clone(),
            _held: words,
            valid: Some(valid),
        })
    }

    fn get(&self, row: usize) -> Option<u64> {
        let valid = self.valid.as_ref().is_none_or(|valid| valid.value(row));
        valid.then(|| self.words[row])
    }

    fn keyed(&self) -> Vec<KeyedRow> {
        let rows = 0..self.words.len();
        rows.filter_map(|row| {
            let key = self.get(row)?;
            Some(KeyedRow {
                key,
                row: row as u32,
            })
        })
        .collect()
    }
}

/// Indexes the rows of `base`, the build side.
pub(crate) fn index(
    budget: &Arc<Budget>,
    base: &[&Column],
    null_equal: bool,
    wanted: Option<EquiStrategy>,
    check_cancelled: &(dyn Fn() -> Result<()> + Sync),
) -> Result<EquiIndex> {
    let rows = base.first().map_or(0, |column| column.rows());
    check_chunk_rows(rows)?;
    let lease = budget.lease(rows as u64 * ROW_BYTES, "equi-join index")?;
    let rows_lease = budget.lease(rows as u64 * 4, "sorted rows")?;
    let mut groups = None;
    let mut by_ids = || -> Result<Words> {
        let (ids, domain) = group_ids::group_keys(budget, base, null_equal)?;
        groups = Some(domain);
        Words::ids(budget, &ids)
    };
    let words = match Words::natural(budget, base, null_equal)? {
        Some(words) => words,
        None => by_ids()?,
    };
    let mut keyed = words.keyed();
    let mut addresses = address_span(&keyed);
    let dense = addresses.is_some_and(|(_, span)| span <= DENSE * rows as u64 + FEW_ADDRESSES);
    let strategy = wanted.unwrap_or(match dense {
        true => EquiStrategy::Direct,
        false if rows <= ONE_TABLE => EquiStrategy::Hash,
        // Built by several threads.
        false => EquiStrategy::PartitionedHash,
    });
    check_cancelled()?;
    let mut of_addresses = None;
    if strategy == EquiStrategy::Direct {
        let lease = |span: u64| budget.lease(span.saturating_mul(8), "equi-join index");
        let span = addresses.map_or(0, |(_, span)| span);
        of_addresses = match span <= MOST_ADDRESSES {
            true => lease(span).ok(),
            false => None,
        };
        if of_addresses.is_none() {
            keyed = by_ids()?.keyed();
            addresses = address_span(&keyed);
            of_addresses = Some(lease(addresses.map_or(0, |(_, span)| span))?);
        }
    }
    let (order, finder) = match strategy {
        EquiStrategy::Direct => {
            let (least, span) = addresses.unwrap_or((0, 0));
            let (order, begins) = by_address(&keyed, least, span as usize);
            (order, Finder::Direct { least, begins })
        }
        EquiStrategy::Hash => {
            let (order, table) = by_hash(&keyed, 0);
            (order, Finder::Hash(table))
        }
        EquiStrategy::PartitionedHash => {
            let (order, partitions) = by_partition(&keyed, check_cancelled)?;
            (order, Finder::Partitioned(partitions))
        }
        EquiStrategy::SortMerge => {
            sort_by_key(&mut keyed);
            check_cancelled()?;
            let keys = keyed.iter().map(|k| k.key).collect();
            (rows_of(&keyed), Finder::SortMerge(keys))
        }
    };
    Ok(EquiIndex {
        rows: OrderedRows {
            rows: Buffer::host(order, rows_lease),
            keys: None,
            segments: None,
        },
        strategy,
        table: Opaque::new(EquiTable {
            groups,
            finder,
            _leases: (lease, of_addresses),
        }),
    })
}

/// The least key, and the number of addresses from it to the greatest; `None` without rows.
fn address_span(keyed: &[KeyedRow]) -> Option<(u64, u64)> {
    let least = keyed.iter().map(|k| k.key).min()?;
    let most = keyed.iter().map(|k| k.key).max()?;
    Some((least, (most - least).saturating_add(1)))
}

fn rows_of(keyed: &[KeyedRow]) -> Vec<u32> {
    keyed.iter().map(|k| k.row).collect()
}

/// Rows ordered by address, and where the rows of each address begin.
fn by_address(keyed: &[KeyedRow], least: u64, span: usize) -> (Vec<u32>, Vec<u32>) {
    let mut begins = vec![0u32; span + 1];
    for k in keyed {
        begins[(k.key - least) as usize + 1] += 1;
    }
    for address in 0..span {
        begins[address + 1] += begins[address];
    }
    let mut next = begins.clone();
    let mut order = vec![0; keyed.len()];
    for k in keyed {
        let at = &mut next[(k.key - least) as usize];
        order[*at as usize] = k.row;
        *at += 1;
    }
    (order, begins)
}

/// Rows with equal keys adjacent, and each key's range of positions. Positions begin at `first`.
fn by_hash(keyed: &[KeyedRow], first: u32) -> (Vec<u32>, HashMap<u64, Span>) {
    let mut table: HashMap<u64, Span> = HashMap::new();
    for k in keyed {
        table.entry(k.key).or_default().1 += 1;
    }
    let mut begin = first;
    for span in table.values_mut() {
        // Empty ranges: the end advances as rows are placed.
        let rows = span.1;
        *span = (begin, begin);
        begin += rows;
    }
    let mut order = vec![0; keyed.len()];
    for k in keyed {
        if let Some((_, end)) = table.get_mut(&k.key) {
            order[(*end - first) as usize] = k.row;
            *end += 1;
        }
    }
    (order, table)
}

fn by_partition(
    keyed: &[KeyedRow],
    check_cancelled: &(dyn Fn() -> Result<()> + Sync),
) -> Result<(Vec<u32>, Partitions)> {
    let count = keyed.len().div_ceil(PARTITION_ROWS).next_power_of_two();
    let mut partitions = Partitions::new(count);
    let mut begins = vec![0usize; count + 1];
    for k in keyed {
        begins[partitions.of(k.key) + 1] += 1;
    }
    for p in 0..count {
        begins[p + 1] += begins[p];
    }
    let mut next = begins.clone();
    let mut parted = vec![KeyedRow { key: 0, row: 0 }; keyed.len()];
    for k in keyed {
        let at = &mut next[partitions.of(k.key)];
        parted[*at] = *k;
        *at += 1;
    }
    let made: Vec<(Vec<u32>, HashMap<u64, Span>)> = (0..count)
        .into_par_iter()
        .map(|p| {
            check_cancelled()?;
            Ok(by_hash(&parted[begins[p]..begins[p + 1]], begins[p] as u32))
        })
        .collect::<Result<_>>()?;
    let (orders, tables): (Vec<_>, Vec<_>) = made.into_iter().unzip();
    partitions.tables = tables;
    Ok((orders.concat(), partitions))
}

/// The range in the index of each row of `columns`.
pub(crate) fn search(
    budget: &Arc<Budget>,
    index: &EquiIndex,
    columns: &[&Column],
    check_cancelled: &(dyn Fn() -> Result<()> + Sync),
) -> Result<(OrderedRows, Ranges)> {
    let rows = columns.first().map_or(0, |column| column.rows());
    let table = index.table.get::<EquiTable>()?;
    let lo_lease = budget.lease(rows as u64 * 4, "range bounds")?;
    let hi_lease = budget.lease(rows as u64 * 4, "range bounds")?;
    let words = match &table.groups {
        Some(groups) => Words::ids(budget, &group_ids::group_keys_in(budget, groups, columns)?)?,
        None => Words::natural(budget, columns, false)?.ok_or_else(|| {
            crate::error::BowtieError::Internal("key columns of different types".into())
        })?,
    };
    let spans = |span_of: &(dyn Fn(u64) -> Option<Span> + Sync)| -> Result<Vec<Span>> {
        let tasks: Vec<usize> = (0..rows).step_by(TASK_ROWS).collect();
        let found: Vec<Vec<Span>> = tasks
            .into_par_iter()
            .map(|from| {
                check_cancelled()?;
                Ok((from..rows.min(from + TASK_ROWS))
                    .map(|row| words.get(row).and_then(span_of).unwrap_or_default())
                    .collect())
            })
            .collect::<Result<_>>()?;
        Ok(found.concat())
    };
    let (order, spans) = match &table.finder {
        Finder::Direct { least, begins } => {
            let spans = spans(&|key| {
                let address = usize::try_from(key.checked_sub(*least)?).ok()?;
                Some((*begins.get(address)?, *begins.get(address + 1)?))
            })?;
            (sequence(budget, 0, rows)?, spans)
        }
        Finder::Hash(table) => {
            let spans = spans(&|key| table.get(&key).copied())?;
            (sequence(budget, 0, rows)?, spans)
        }
        Finder::Partitioned(partitions) => {
            let spans = spans(&|key| partitions.tables[partitions.of(key)].get(&key).copied())?;
            (sequence(budget, 0, rows)?, spans)
        }
        Finder::SortMerge(keys) => {
            let mut probe = words.keyed();
            sort_by_key(&mut probe);
            let lease = budget.lease(probe.len() as u64 * 4, "sorted rows")?;
            let spans = merge(keys, &probe);
            (Buffer::host(rows_of(&probe), lease), spans)
        }
    };
    let (lo, hi) = spans.into_iter().map(non_empty).unzip();
    Ok((
        OrderedRows {
            rows: order,
            keys: None,
            segments: None,
        },
        Ranges {
            lo: Buffer::host(lo, lo_lease),
            hi: Buffer::host(hi, hi_lease),
        },
    ))
}

fn non_empty((lo, hi): Span) -> Span {
    match lo < hi {
        true => (lo, hi),
        false => (0, 0),
    }
}

/// The positions of each probe key among ascending `keys`.
fn merge(keys: &[u64], probe: &[KeyedRow]) -> Vec<Span> {
    let (mut lo, mut hi) = (0, 0);
    let mut spans = Vec::with_capacity(probe.len());
    for k in probe {
        while lo < keys.len() && keys[lo] < k.key {
            lo += 1;
        }
        hi = hi.max(lo);
        while hi < keys.len() && keys[hi] == k.key {
            hi += 1;
        }
        spans.push((lo as u32, hi as u32));
    }
    spans
}

#[cfg(test)]
mod tests;
