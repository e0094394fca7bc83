//! [`KeyPrimitives`] of the CPU backend.

use crate::device::data::buffer::{Bits, Buffer};
use crate::device::data::column::Column;
use crate::device::data::keys::{KeyDomain, Keys};
use crate::device::data::opaque::Opaque;
use crate::device::data::ranges::OrderedRows;
use crate::device::data::structures::GroupDomain;
use crate::device::host::device::HostDevice;
use crate::device::host::keys::order_keys::HostKeys;
use crate::device::host::keys::{group_ids, order_keys, sort, sort_rows};
use crate::device::primitives::device::Device as _;
use crate::device::primitives::keys::{KeyPrimitives, SortKey};
use crate::error::Result;

impl KeyPrimitives for HostDevice {
    fn order_keys(&self, base: &Column) -> Result<(Keys, KeyDomain)> {
        self.pool
            .install(|| order_keys::order_keys(&self.budget, base))
    }

    fn order_keys_in(&self, domain: &KeyDomain, column: &Column) -> Result<Keys> {
        self.pool
            .install(|| order_keys::order_keys_in(&self.budget, domain, column))
    }

    fn keys_among(&self, keys: Keys, of_rows: &Bits) -> Result<Keys> {
        let of_rows = of_rows.on_host()?;
        let valid = match &keys.valid {
            Some(valid) => valid.on_host()? & of_rows,
            None => of_rows.clone(),
        };
        Ok(Keys {
            valid: Some(Bits::Host(valid)),
            ..keys
        })
    }

    fn are_ordered(&self, low: &Keys, high: &Keys, strictly: bool) -> Result<bool> {
        let (low, high) = (HostKeys::new(low)?, HostKeys::new(high)?);
        let rows = 0..low.words.len();
        Ok(rows.into_iter().all(|row| {
            let (from, to) = (low.words[row], high.words[row]);
            let is_ordered = from < to || (from == to && !strictly);
            !low.is_valid(row) || (high.is_valid(row) && is_ordered)
        }))
    }

    fn group_keys(&self, base: &[&Column], null_equal: bool) -> Result<(Buffer<u32>, GroupDomain)> {
        let (ids, domain) = group_ids::group_keys(&self.budget, base, null_equal)?;
        let domain = GroupDomain {
            groups: domain.groups(),
            table: Opaque::new(domain),
        };
        Ok((ids, domain))
    }

    fn group_keys_in(&self, domain: &GroupDomain, columns: &[&Column]) -> Result<Buffer<u32>> {
        self.pool
            .install(|| group_ids::group_keys_in(&self.budget, domain.table.get()?, columns))
    }

    fn sort(
        &self,
        rows: usize,
        key: Option<&Keys>,
        groups: Option<(&Buffer<u32>, u32)>,
        not_null: &[&Keys],
    ) -> Result<OrderedRows> {
        self.pool
            .install(|| sort::sort(&self.budget, rows, key, groups, not_null))
    }

    fn search_order(
        &self,
        rows: usize,
        key: Option<&Keys>,
        groups: Option<(&Buffer<u32>, u32)>,
        not_null: &[&Keys],
    ) -> Result<OrderedRows> {
        match sort::ascends(rows, key, groups)? {
            true => sort::by_row(&self.budget, rows),
            false => self.sort(rows, key, groups, not_null),
        }
    }

    fn sort_rows(
        &self,
        rows: usize,
        keys: &[SortKey<'_>],
        limit: Option<usize>,
    ) -> Result<Buffer<u32>> {
        self.pool.install(|| {
            sort_rows::sort_rows(&self.budget, &|| self.check_cancelled(), rows, keys, limit)
        })
    }
}
