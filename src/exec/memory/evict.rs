//! Eviction from a join matrix: rows leave the device for the host, and the host for files.

use crate::error::Result;
use crate::exec::input::chunk::InputChunk;
use crate::exec::join::tiles::matrix::Matrix;

impl Matrix {
    /// Takes rows that are on the device alone to the host; false where there are none.
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

    /// Takes left chunks but this one out of the memory pool, where it is nearly full.
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

    /// Takes all chunks out of the memory pool; false where none was there.
    pub(crate) fn leave_pool(&mut self) -> Result<bool> {
        let Some(spilling) = &self.spilling else {
            return Ok(false);
        };
        let mut left = false;
        for chunk in self.left.iter_mut().chain(&mut self.right) {
            left |= chunk.leave_host(spilling)?;
        }
        if left {
            // Their late columns are on the host.
            self.resident_left = None;
            self.resident_right = None;
        }
        Ok(left)
    }

    /// The same after the pool refused; false where it was done before since the last success.
    pub(crate) fn leave_pool_once(&mut self) -> Result<bool> {
        match std::mem::replace(&mut self.left_pool, true) {
            true => Ok(false),
            false => self.leave_pool(),
        }
    }

    /// Reads a left chunk that is in a file, if the pool has room for all of it.
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

    /// Gives the memory of left chunks back that are in files, but for this one, which is worked on.
    pub(crate) fn unload_but(&self, left_chunk: usize) {
        let others = self.left.iter().enumerate();
        for (_, chunk) in others.filter(|(i, _)| *i != left_chunk) {
            chunk.unload();
        }
    }
}
