//! Gathers the left side's chunks before the right side is read.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::error::Result;
use futures::TryStreamExt;

use crate::device::primitives::device::Device;
use crate::exec::blocking::blocking_task;
use crate::exec::input::chunk::{Input, InputChunk, InputStream};
use crate::exec::input::gathered::Gathered;
use crate::exec::memory::on_request::await_or_evict;
use crate::exec::memory::spill::Spilling;

/// Whether the join emits rows even if the left side is empty.
pub(crate) fn needs_right_without_left(kind: JoinType) -> bool {
    matches!(
        kind,
        JoinType::Right | JoinType::Full | JoinType::RightAnti | JoinType::RightMark
    )
}

/// All chunks of a side that have rows. They are evicted when others wait for device memory, and spilled when the memory pool is full.
pub(crate) async fn gather(
    mut chunks: InputStream,
    device: &Arc<dyn Device>,
    spilling: Option<&Spilling>,
) -> Result<Vec<InputChunk>> {
    let mut gathered = Gathered::new(device, spilling);
    loop {
        let input;
        (gathered, input) = await_or_evict(device, gathered, chunks.try_next()).await?;
        let Some(input) = input else {
            return Ok(gathered.chunks);
        };
        let memory_pressure = matches!(input, Input::MemoryPressure);
        let chunk = input.into_chunk();
        gathered
            .chunks
            .extend(chunk.filter(|chunk| chunk.rows() > 0));
        if let Some(spilling) = spilling
            && (memory_pressure || spilling.pool_is_full())
        {
            let spilling = spilling.clone();
            let spill = move || {
                for chunk in &mut gathered.chunks {
                    chunk.leave_host(&spilling)?;
                }
                Ok(gathered)
            };
            gathered = blocking_task(spill).await?;
        }
    }
}
