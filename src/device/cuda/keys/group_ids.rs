//! Group ids by equality of key columns of fixed width, and of text up to a length limit (`kernels/keys/groups.cu`).
//!
//! In: the key columns of a base. Out: a group id for each row, and a domain in which rows of other columns are looked
//! up. Rows become tuples of words (`pack.rs`); group ids number the distinct tuples in their order. Columns that
//! kernels cannot read are grouped by the host fallback, and its ids are one more key column.

use std::sync::Arc;

use crate::device::cuda::columns::rows;
use crate::device::cuda::columns::to_host;
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::keys::key_column::{self, KeyColumn};
use crate::device::cuda::keys::pack::{self, KeyValues, Layout};
use crate::device::cuda::keys::tuples::{self, Distinct, Significance};
use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::opaque::Opaque;
use crate::device::data::structures::GroupDomain;
use crate::device::primitives::keys::KeyPrimitives;
use crate::error::{BowtieError, Result};

/// The group domain of a base on a GPU, in which rows of other columns are looked up.
#[derive(Debug)]
pub(crate) struct GroupTable {
    layout: Layout,
    /// `None` when no row of the base is in a group.
    distinct: Option<Distinct>,
    /// The domain of the columns grouped by the host fallback. Its ids are the first column of the tuples.
    on_host: Option<Box<GroupDomain>>,
    /// For each column whether the host fallback groups it.
    by_fallback: Vec<bool>,
}

impl GroupTable {
    /// The number of groups in the domain.
    pub(crate) fn groups(&self) -> u32 {
        self.distinct.as_ref().map_or(0, |d| d.len() as u32)
    }
}

/// The key columns of a base.
#[derive(Debug)]
pub(crate) struct BaseKeys<'a> {
    resident: Vec<KeyColumn<'a>>,
    /// For each of `resident` the words of its text, 0 for other types.
    words: Vec<usize>,
    by_fallback: Vec<bool>,
    /// The group ids of the columns grouped by the host fallback, and their domain.
    fallback_ids: Option<(Buffer<u32>, GroupDomain)>,
}

impl BaseKeys<'_> {
    fn ids(&self) -> Result<Option<&Memory>> {
        self.fallback_ids
            .as_ref()
            .map(|(ids, _)| memory(ids))
            .transpose()
    }

    /// Whether the host fallback groups some columns.
    pub(crate) fn uses_fallback(&self) -> bool {
        self.fallback_ids.is_some()
    }

    /// The key columns for packing into tuples, the ids of the host fallback first.
    pub(crate) fn values(&self) -> Result<Vec<KeyValues<'_>>> {
        key_values(self.ids()?, &self.resident, &self.words)
    }
}

/// The group ids of the rows of `base`, and their domain.
pub(crate) fn groups(
    device: &CudaDevice,
    base: &[&Column],
    null_equal: bool,
) -> Result<(Buffer<u32>, GroupDomain)> {
    let keys = base_keys(device, base, null_equal)?;
    if keys.resident.is_empty()
        && let Some(fallback_ids) = keys.fallback_ids
    {
        return Ok(fallback_ids);
    }
    let rows = base.first().map_or(0, |column| column.rows());
    let grouped = match keys.ids()? {
        Some(ids) if !null_equal => Some(rows::bits_of_groups(&device.stream, ids, rows)?),
        _ => None,
    };
    let columns = keys.values()?;
    let (ids, mut groups) = group_keys(&device.stream, &columns, rows, null_equal, grouped)?;
    groups.on_host = keys.fallback_ids.map(|(_, domain)| Box::new(domain));
    groups.by_fallback = keys.by_fallback;
    let groups = GroupDomain {
        groups: groups.groups(),
        table: Opaque::new(groups),
    };
    Ok((ids, groups))
}

/// The key columns of a base in device memory. Nested columns and long text are grouped together by the host
/// fallback; its ids are one more column.
pub(crate) fn base_keys<'a>(
    device: &CudaDevice,
    base: &[&'a Column],
    null_equal: bool,
) -> Result<BaseKeys<'a>> {
    let (mut resident, mut words, mut on_host) = (vec![], vec![], vec![]);
    let mut by_fallback = Vec::with_capacity(base.len());
    for column in base {
        let key = key_column::base_key(device, column)?;
        by_fallback.push(key.is_none());
        match key {
            Some((key, of_key)) => {
                resident.push(key);
                words.push(of_key);
            }
            None => on_host.push(to_host::column_to_host(device, column)?),
        }
    }
    let fallback_ids = match on_host.is_empty() {
        true => None,
        false => {
            let on_host: Vec<&Column> = on_host.iter().collect();
            let (ids, domain) = device.fallback.group_keys(&on_host, null_equal)?;
            Some((to_host::words_from_host(device, &ids, "group ids")?, domain))
        }
    };
    Ok(BaseKeys {
        resident,
        words,
        by_fallback,
        fallback_ids,
    })
}

/// The group ids of other rows in a domain.
pub(crate) fn groups_in(
    device: &CudaDevice,
    domain: &GroupDomain,
    columns: &[&Column],
) -> Result<Buffer<u32>> {
    let from_fallback = |domain: &GroupDomain, columns: &[&Column]| {
        let on_host: Vec<Column> = columns
            .iter()
            .map(|column| to_host::column_to_host(device, column))
            .collect::<Result<_>>()?;
        let on_host: Vec<&Column> = on_host.iter().collect();
        let ids = device.fallback.group_keys_in(domain, &on_host)?;
        to_host::words_from_host(device, &ids, "group ids")
    };
    let Some(groups) = domain.table.find::<GroupTable>() else {
        return from_fallback(domain, columns);
    };
    // The base decides which columns the host fallback groups: its text may be too long.
    let (mut resident, mut on_host) = (vec![], vec![]);
    for (column, by_fallback) in columns.iter().zip(&groups.by_fallback) {
        match by_fallback {
            true => on_host.push(*column),
            false => resident.push(key_column::key_column(device, column)?.ok_or_else(|| {
                BowtieError::Internal("a key column of another type than its base".into())
            })?),
        }
    }
    let ids = groups
        .on_host
        .as_deref()
        .map(|domain| from_fallback(domain, &on_host))
        .transpose()?;
    let rows = columns.first().map_or(0, |column| column.rows());
    let words = vec![0; resident.len()];
    let columns = key_values(ids.as_ref().map(memory).transpose()?, &resident, &words)?;
    group_keys_in(&device.stream, groups, &columns, rows)
}

/// Key columns for packing into tuples: group ids, if there are any, and the columns with the words of their text.
pub(crate) fn key_values<'a>(
    ids: Option<&'a Memory>,
    resident: &'a [KeyColumn<'a>],
    words: &[usize],
) -> Result<Vec<KeyValues<'a>>> {
    let of_ids = ids.map(|ids| Ok(KeyValues::ids(ids)));
    let resident = resident
        .iter()
        .zip(words)
        .map(|(column, words)| KeyValues::of(column.source()?, *words));
    of_ids.into_iter().chain(resident).collect()
}

/// The group ids of `rows` rows by equality of all `columns`, and their domain. `grouped`: rows that may be in a
/// group at all, apart from what the columns' NULLs tell.
pub(crate) fn group_keys(
    stream: &Arc<Stream>,
    columns: &[KeyValues<'_>],
    rows: usize,
    null_equal: bool,
    grouped: Option<Memory>,
) -> Result<(Buffer<u32>, GroupTable)> {
    let mut layout = Layout::of(columns, null_equal);
    let tuples = pack::pack(stream, &layout, columns, rows)?;
    let kept = match null_equal {
        true => grouped,
        false => all_valid(
            stream,
            columns.iter().filter_map(|c| c.valid),
            rows,
            grouped,
        )?,
    };
    let (ids, distinct) =
        match tuples::runs(stream, &tuples, kept.as_ref(), Significance::MostVarying)? {
            Some((runs, distinct)) => {
                drop(tuples);
                layout.places = distinct.places();
                (tuples::run_ids(stream, &runs)?, Some(distinct))
            }
            None => (Buffer::cuda(tuples::no_groups(stream, rows)?, rows), None),
        };
    let domain = GroupTable {
        layout,
        distinct,
        on_host: None,
        by_fallback: vec![],
    };
    Ok((ids, domain))
}

/// The group ids of other rows in a domain.
pub(crate) fn group_keys_in(
    stream: &Arc<Stream>,
    domain: &GroupTable,
    columns: &[KeyValues<'_>],
    rows: usize,
) -> Result<Buffer<u32>> {
    if !domain.layout.fits(columns) {
        return Err(BowtieError::Internal(
            "key columns of different types".into(),
        ));
    }
    let Some(distinct) = &domain.distinct else {
        return Ok(Buffer::cuda(tuples::no_groups(stream, rows)?, rows));
    };
    let tuples = pack::pack(stream, &domain.layout, columns, rows)?;
    // A NULL is in a group only where the base has a NULL in the same column.
    let unmatched_validity = domain.layout.unmatched_validity(columns);
    let valid = all_valid(stream, unmatched_validity, rows, None)?;
    tuples::find_ids(stream, Some(distinct), &tuples, valid.as_ref())
}

/// The rows that are valid in all bitmaps and set in `rows_set`; `None` where that is every row.
pub(crate) fn all_valid<'a>(
    stream: &Arc<Stream>,
    bitmaps: impl Iterator<Item = &'a Memory>,
    rows: usize,
    rows_set: Option<Memory>,
) -> Result<Option<Memory>> {
    let mut all = rows_set;
    for valid in bitmaps {
        let both = rows::bits_and(stream, all.as_ref().unwrap_or(valid), valid, rows)?;
        all = Some(both);
    }
    Ok(all)
}
