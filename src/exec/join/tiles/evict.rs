//! Evicts chunks of a join: from the device to the host, and from the host to files.

use std::sync::Arc;

use crate::error::Result;
use crate::exec::input::chunk::InputChunk;
use crate::exec::input::gathered::evict_each;
use crate::exec::join::tiles::matrix::Matrix;

impl Matrix {
    /// Downloads rows that are only on the device; false if there are none.
    pub(crate) fn evict(&mut self) -> bool {
        let mut evicted = false;
        for chunk in self.left.iter_mut().chain(&mut self.right) {
            evicted |= chunk.evict(self.spilling.as_ref());
        }
        if evicted {
            self.resident_left = None;
            self.resident_right = None;
        }
        evicted
    }

    /// Whether rows are on the device.
    pub(crate) fn is_resident(&self) -> bool {
        let mut chunks = self.left.iter().chain(&self.right);
        self.resident_left.is_some()
            || self.resident_right.is_some()
            || chunks.any(|chunk| chunk.resident().is_some())
    }

    /// Evicts all rows, those that the host has too without a copy, chunk by chunk.
    pub(crate) fn leave_device(&mut self) -> Result<()> {
        let device = Arc::clone(&self.device);
        self.resident_left = None;
        self.resident_right = None;
        let chunks = self.left.iter_mut().chain(&mut self.right);
        evict_each(chunks, device.as_ref(), self.spilling.as_ref())
    }

    /// Spills all left chunks except `left_chunk` if the memory pool is nearly full.
    pub(crate) fn relieve_pool(&mut self, left_chunk: usize) -> Result<()> {
        let spilling = self.spilling.as_ref();
        let Some(spilling) = spilling.filter(|spilling| spilling.pool_is_tight()) else {
            return Ok(());
        };
        for (i, chunk) in self.left.iter_mut().enumerate() {
            if i != left_chunk {
                chunk.leave_host(spilling)?;
            }
        }
        Ok(())
    }

    /// Spills all chunks; false if none took memory of the pool.
    pub(crate) fn leave_pool(&mut self) -> Result<bool> {
        let Some(spilling) = &self.spilling else {
            return Ok(false);
        };
        let mut left = false;
        for chunk in self.left.iter_mut().chain(&mut self.right) {
            left |= chunk.leave_host(spilling)?;
        }
        if left {
            // Their lazy columns refer to the spilled rows.
            self.resident_left = None;
            self.resident_right = None;
        }
        Ok(left)
    }

    /// Spills all chunks after the pool refused memory; false if that was done before, since the last success.
    pub(crate) fn leave_pool_once(&mut self) -> Result<bool> {
        match std::mem::replace(&mut self.left_pool, true) {
            true => Ok(false),
            false => self.leave_pool(),
        }
    }

    /// Reads a spilled left chunk, if the pool has memory for all of it.
    pub(crate) fn load_left(&mut self, left_chunk: usize) -> Result<()> {
        self.unload_but(left_chunk);
        let load = |matrix: &Self| matrix.left.get(left_chunk).map_or(Ok(()), InputChunk::load);
        let loaded = match load(self) {
            Err(error) if error.is_out_of_host_memory() && self.leave_pool()? => load(self),
            loaded => loaded,
        };
        match loaded {
            Err(error) if error.is_out_of_host_memory() => Ok(()),
            loaded => loaded,
        }
    }

    /// Frees the memory of spilled left chunks, except of `left_chunk`, which is in use.
    pub(crate) fn unload_but(&self, left_chunk: usize) {
        let others = self.left.iter().enumerate();
        for (_, chunk) in others.filter(|(i, _)| *i != left_chunk) {
            chunk.unload();
        }
    }
}
