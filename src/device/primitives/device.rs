//! [`Device`]: memory and primitives behind one trait object.
//!
//! Each primitive corresponds to about one box of a paper's figure and works on whole columns. The host's
//! implementation (`device/host`) is the executable specification of every other one. Nothing here depends on SQL: keys
//! are order-preserving words, rows are `u32` ids inside a chunk (so a chunk has fewer than 2^32 - 1 rows), match
//! counts are `u64`.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::device::budget::Budget;
use crate::device::primitives::aggregate::AggregatePrimitives;
use crate::device::primitives::equi::EquiPrimitives;
use crate::device::primitives::expr::ExprPrimitives;
use crate::device::primitives::fast_paths::FastPaths;
use crate::device::primitives::folds::FoldPrimitives;
use crate::device::primitives::graph::GraphPrimitives;
use crate::device::primitives::intervals::IntervalPrimitives;
use crate::device::primitives::keys::KeyPrimitives;
use crate::device::primitives::rows::RowPrimitives;
use crate::device::primitives::semi::SemiPrimitives;
use crate::device::primitives::sets::SetPrimitives;
use crate::device::primitives::theta::ThetaPrimitives;
use crate::device::primitives::transfer::TransferPrimitives;
use crate::device::profile::DeviceProfile;
use crate::error::Result;

/// A device as an operator sees it: its memory, its primitives, and a budget in which every allocation is reserved.
pub(crate) trait Device:
    TransferPrimitives
    + RowPrimitives
    + ExprPrimitives
    + KeyPrimitives
    + ThetaPrimitives
    + IntervalPrimitives
    + FoldPrimitives
    + EquiPrimitives
    + SemiPrimitives
    + SetPrimitives
    + AggregatePrimitives
    + GraphPrimitives
    + FastPaths
    + Debug
    + Send
    + Sync
{
    /// The name in EXPLAIN, such as `host`.
    fn name(&self) -> &str;

    /// The budget in which allocations are reserved.
    fn budget(&self) -> &Arc<Budget>;

    /// A handle to the same device with a stream and a budget of its own, for one execution of an operator. Long
    /// primitives of the handle fail with [`BowtieError::Cancelled`] soon after `cancelled` is set.
    ///
    /// [`BowtieError::Cancelled`]: crate::error::BowtieError::Cancelled
    fn attach(&self, budget: Arc<Budget>, cancelled: Arc<AtomicBool>) -> Result<Arc<dyn Device>>;

    /// [`BowtieError::Cancelled`] if the execution was cancelled.
    ///
    /// [`BowtieError::Cancelled`]: crate::error::BowtieError::Cancelled
    fn check_cancelled(&self) -> Result<()>;

    /// Calls `each` with `0 .. pieces`, concurrently if the device can. The first error ends it.
    fn for_each_piece(
        &self,
        pieces: usize,
        each: &(dyn Fn(usize) -> Result<()> + Sync),
    ) -> Result<()>;

    /// Calls `each` with `0 .. tasks` on the cores of the host, concurrently. The first error ends it.
    fn for_each_on_host(
        &self,
        tasks: usize,
        each: &(dyn Fn(usize) -> Result<()> + Sync),
    ) -> Result<()>;

    /// The constants of the device.
    fn profile(&self) -> &DeviceProfile;
}
