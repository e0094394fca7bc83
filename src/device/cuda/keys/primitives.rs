//! [`KeyPrimitives`] of an NVIDIA GPU: each by kernels, or by the host fallback where kernels cannot read the key
//! column.

use crate::device::cuda::columns::rows;
use crate::device::cuda::columns::to_host;
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::fallback;
use crate::device::cuda::keys::group_ids;
use crate::device::cuda::keys::key_column;
use crate::device::cuda::keys::order_keys;
use crate::device::cuda::keys::ranks::Ranks;
use crate::device::cuda::keys::sort;
use crate::device::cuda::keys::sort_rows;
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
        if let Some((key, words)) = key_column::base_key(self, base)? {
            return order_keys::order_keys(&self.stream, key.source()?, words, base.rows());
        }
        let (keys, domain) = self
            .fallback
            .order_keys(&to_host::column_to_host(self, base)?)?;
        Ok((fallback::keys_from_host(self, &keys)?, domain))
    }

    fn order_keys_in(&self, domain: &KeyDomain, column: &Column) -> Result<Keys> {
        // The base decides whether the host fallback makes the keys: its text may be too long.
        let of_the_host = match domain {
            KeyDomain::Ranked(ranks) => ranks.0.find::<Ranks>().is_none(),
            KeyDomain::Natural | KeyDomain::Offset { .. } => false,
        };
        if !of_the_host && let Some(key) = key_column::key_column(self, column)? {
            return order_keys::order_keys_in(&self.stream, domain, key.source()?, column.rows());
        }
        let keys = self
            .fallback
            .order_keys_in(domain, &to_host::column_to_host(self, column)?)?;
        fallback::keys_from_host(self, &keys)
    }

    fn keys_among(&self, keys: Keys, of_rows: &Bits) -> Result<Keys> {
        let rows = keys.rows();
        let of_rows = valid_memory(Some(of_rows))?;
        let known = valid_memory(keys.valid.as_ref())?;
        let valid = match (of_rows, known.or(of_rows)) {
            (Some(of_rows), Some(known)) => Some(Bits::cuda(rows::bits_and(
                &self.stream,
                of_rows,
                known,
                rows,
            )?)),
            _ => None,
        };
        Ok(Keys { valid, ..keys })
    }

    fn are_ordered(&self, low: &Keys, high: &Keys, strictly: bool) -> Result<bool> {
        order_keys::are_ordered(&self.stream, low, high, strictly)
    }

    fn group_keys(&self, base: &[&Column], null_equal: bool) -> Result<(Buffer<u32>, GroupDomain)> {
        group_ids::groups(self, base, null_equal)
    }

    fn group_keys_in(&self, domain: &GroupDomain, columns: &[&Column]) -> Result<Buffer<u32>> {
        group_ids::groups_in(self, domain, columns)
    }

    fn sort(
        &self,
        rows: usize,
        key: Option<&Keys>,
        groups: Option<(&Buffer<u32>, u32)>,
        not_null: &[&Keys],
    ) -> Result<OrderedRows> {
        sort::sort(&self.stream, rows, key, groups, not_null)
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
            match sort_rows::sort_key(self, key.column)? {
                Some((column, words)) => columns.push((column, words, key.options)),
                None => return fallback::sort_rows_on_host(self, rows, keys, limit),
            }
        }
        sort_rows::sort_rows(&self.stream, rows, &columns, limit)
    }
}
