//! Gathers the left side's chunks before the right side is read.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::error::Result;
use futures::TryStreamExt;

use crate::device::primitives::device::Device;
use crate::error::BowtieError;
use crate::exec::blocking::{joined, spawn_blocking};
use crate::exec::input::chunk::{Input, InputChunk, InputStream};
use crate::exec::memory::make_way::or_make_way;
use crate::exec::memory::spill::Spilling;
use crate::exec::memory::step::{self, OnRefusal};

/// Whether the join emits rows even if the left side is empty.
pub(crate) fn needs_right_without_left(kind: JoinType) -> bool {
    matches!(
        kind,
        JoinType::Right | JoinType::Full | JoinType::RightAnti | JoinType::RightMark
    )
}

/// All chunks of a side. They are evicted when others wait for device memory, and spilled when the memory pool is full.
pub(crate) async fn gather(
    mut chunks: InputStream,
    device: &Arc<dyn Device>,
    spilling: Option<&Spilling>,
) -> Result<Vec<InputChunk>> {
    let mut gathered: Vec<InputChunk> = vec![];
    loop {
        let evicts = spilling.cloned();
        let on = Arc::clone(device);
        let evict = move |gathered: &mut Vec<InputChunk>| {
            step::shared(on.as_ref(), OnRefusal::Shrink, |_| {
                for chunk in gathered {
                    chunk.evict(evicts.as_ref());
                }
                Ok(())
            })
        };
        let (before, input) = or_make_way(device, gathered, chunks.try_next(), evict).await?;
        gathered = before;
        let Some(input) = input else {
            return Ok(gathered);
        };
        let memory_pressure = matches!(input, Input::MemoryPressure);
        gathered.extend(input.into_chunk());
        if let Some(spilling) = spilling
            && (memory_pressure || spilling.pool_is_full())
        {
            let spilling = spilling.clone();
            gathered = joined(spawn_blocking(move || {
                for chunk in &mut gathered {
                    chunk.leave_host(&spilling)?;
                }
                Ok::<_, BowtieError>(gathered)
            }))
            .await??;
        }
    }
}
