//! Gathers the left side's chunks before the right side is read.

use datafusion::common::JoinType;
use datafusion::error::Result;
use futures::TryStreamExt;

use crate::error::BowtieError;
use crate::exec::blocking::{joined, spawn_blocking};
use crate::exec::input::chunk::{Input, InputChunk, InputStream};
use crate::exec::memory::spill::Spilling;

/// Whether the join emits rows even if the left side is empty.
pub(crate) fn needs_right_without_left(kind: JoinType) -> bool {
    matches!(
        kind,
        JoinType::Right | JoinType::Full | JoinType::RightAnti | JoinType::RightMark
    )
}

/// All chunks of a side. They are spilled when the memory pool is full.
pub(crate) async fn gather(
    mut chunks: InputStream,
    spilling: Option<&Spilling>,
) -> Result<Vec<InputChunk>> {
    let mut gathered: Vec<InputChunk> = vec![];
    while let Some(input) = chunks.try_next().await? {
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
    Ok(gathered)
}
