//! Group ids by the hashes of all keys.

use crate::device::cuda::aggregate::directory::{self, GroupKeys};
use crate::device::cuda::aggregate::{dense_ids, sample};
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::keys::group_ids;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::data::column::Column;
use crate::error::Result;

/// The group id of each row, and the number of groups.
pub(crate) fn ids_by_all_keys(
    device: &CudaDevice,
    rows: usize,
    keys: &[&Column],
) -> Result<(Memory, usize)> {
    let numbered = |keys: &GroupKeys<'_>| {
        let profile = sample::profile(&device.stream, keys, rows)?;
        directory::hashed_ids(&device.stream, keys, rows, profile.limit)
    };
    if let Some(of) = dense_ids::key_digits(&device.stream, keys, rows)?
        && let Some((word, bits)) = dense_ids::packed(&device.stream, &of, rows)?
    {
        return numbered(&GroupKeys::Plain(&word, bits));
    }
    let base = group_ids::base_keys(device, keys, true)?;
    numbered(&GroupKeys::of(&device.stream, &base.values()?, rows)?)
}
