//! [`Gathered`]: the chunks that a task gathers, and gives up on the device for steps that need the memory.

use std::sync::Arc;

use crate::device::primitives::device::Device;
use crate::exec::input::chunk::InputChunk;
use crate::exec::memory::on_request::Evictable;
use crate::exec::memory::spill::Spilling;
use crate::exec::memory::step::{self, OnRefusal};

/// Chunks that a task gathers.
pub(crate) struct Gathered {
    pub(crate) chunks: Vec<InputChunk>,
    pub(crate) device: Arc<dyn Device>,
    pub(crate) spilling: Option<Spilling>,
}

impl Gathered {
    pub(crate) fn new(device: &Arc<dyn Device>, spilling: Option<&Spilling>) -> Self {
        Self {
            chunks: vec![],
            device: Arc::clone(device),
            spilling: spilling.cloned(),
        }
    }
}

impl Evictable for Gathered {
    fn holds_device_memory(&self) -> bool {
        self.chunks.iter().any(|chunk| chunk.resident().is_some())
    }

    fn evict_for_others(&mut self) -> crate::error::Result<()> {
        let spilling = self.spilling.as_ref();
        evict_each(self.chunks.iter_mut(), self.device.as_ref(), spilling)
    }
}

/// Evicts chunks, each in a step. What neither the memory pool nor a file takes stays.
pub(crate) fn evict_each<'a>(
    chunks: impl Iterator<Item = &'a mut InputChunk>,
    device: &dyn Device,
    spilling: Option<&Spilling>,
) -> crate::error::Result<()> {
    for chunk in chunks.filter(|chunk| chunk.resident().is_some()) {
        if spilling.is_none() && !chunk.has_room_on_host() {
            return Ok(());
        }
        step::shared(device, OnRefusal::Shrink, |_| {
            chunk.evict(spilling);
            Ok(())
        })?;
    }
    Ok(())
}
