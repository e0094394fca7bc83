//! [`KeyPrimitives`] of an NVIDIA GPU: each by kernels, or by the host fallback where kernels cannot read the key
//! column.

use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::keys::ranks::Ranks;
use crate::device::cuda::runtime::access::valid_memory;
use crate::device::data::buffer::{Bits, Buffer};
use crate::device::data::column::Column;
use crate::device::data::keys::{KeyDomain, Keys};
use crate::device::data::ranges::OrderedRows;
use crate::device::data::structures::GroupDomain;
use crate::device::primitives::keys::{KeyPrimitives, SortKey};
use crate::error::Result;

impl KeyPrimitives for CudaDevice {
    fn order_keys(&self, base: &Column) -> Result<(Keys, KeyDomain)> {
        if let Some((key, words)) = self.base_key(base)? {
            return self.stream.order_keys(key.source()?, words, base.rows());
        }
        let (keys, domain) = self.fallback.order_keys(&self.column_to_host(base)?)?;
        Ok((self.keys_from_host(&keys)?, domain))
    }

    fn order_keys_in(&self, domain: &KeyDomain, column: &Column) -> Result<Keys> {
        // The base decides whether the host fallback makes the keys: its text may be too long.
        let of_the_host = match domain {
            KeyDomain::Ranked(ranks) => ranks.0.find::<Ranks>().is_none(),
            KeyDomain::Natural | KeyDomain::Offset { .. } => false,
        };
        if !of_the_host && let Some(key) = self.key_column(column)? {
            return self
                .stream
                .order_keys_in(domain, key.source()?, column.rows());
        }
        let keys = self
            .fallback
            .order_keys_in(domain, &self.column_to_host(column)?)?;
        self.keys_from_host(&keys)
    }

    fn keys_among(&self, keys: Keys, of_rows: &Bits) -> Result<Keys> {
        let rows = keys.rows();
        let of_rows = valid_memory(Some(of_rows))?;
        let known = valid_memory(keys.valid.as_ref())?;
        let valid = match (of_rows, known.or(of_rows)) {
            (Some(of_rows), Some(known)) => {
                Some(Bits::cuda(self.stream.bits_and(of_rows, known, rows)?))
            }
            _ => None,
        };
        Ok(Keys { valid, ..keys })
    }

    fn are_ordered(&self, low: &Keys, high: &Keys, strictly: bool) -> Result<bool> {
        self.stream.are_ordered(low, high, strictly)
    }

    fn group_keys(&self, base: &[&Column], null_equal: bool) -> Result<(Buffer<u32>, GroupDomain)> {
        self.groups(base, null_equal)
    }

    fn group_keys_in(&self, domain: &GroupDomain, columns: &[&Column]) -> Result<Buffer<u32>> {
        self.groups_in(domain, columns)
    }

    fn sort(
        &self,
        rows: usize,
        key: Option<&Keys>,
        groups: Option<(&Buffer<u32>, u32)>,
        not_null: &[&Keys],
    ) -> Result<OrderedRows> {
        self.stream.sort(rows, key, groups, not_null)
    }

    fn search_order(
        &self,
        rows: usize,
        key: Option<&Keys>,
        groups: Option<(&Buffer<u32>, u32)>,
        not_null: &[&Keys],
    ) -> Result<OrderedRows> {
        self.sort(rows, key, groups, not_null)
    }

    fn sort_rows(
        &self,
        rows: usize,
        keys: &[SortKey<'_>],
        limit: Option<usize>,
    ) -> Result<Buffer<u32>> {
        let mut columns = vec![];
        for key in keys {
            match self.sort_key(key.column)? {
                Some((column, words)) => columns.push((column, words, key.options)),
                None => return self.sort_rows_on_host(rows, keys, limit),
            }
        }
        self.stream.sort_rows(rows, &columns, limit)
    }
}
