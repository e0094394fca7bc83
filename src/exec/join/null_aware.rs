//! [`RightKeys`]: what a null-aware anti join, which answers NOT IN, must know of the right side before its result is known.
//!
//! One NULL among the right keys empties the result, whatever the condition says or raises on other rows. DataFusion evaluates no
//! condition on a batch with a NULL, nor on those that follow. Chunks are cut in other places than batches and come in another
//! order where both sides are partitioned, so the join keeps what the condition raises until the right side has ended.

use std::sync::Arc;

use arrow::array::Array;

use crate::error::{BowtieError, Result};
use crate::exec::input::chunk::InputChunk;
use crate::exec::join::tiles::matrix::Matrix;
use crate::ir::side::Side;

#[derive(Debug, Default)]
pub(crate) struct RightKeys {
    any: bool,
    null: bool,
    /// What the condition raised on some match.
    failed: Option<BowtieError>,
}

impl RightKeys {
    /// Whether there was a row.
    pub(crate) fn any(&self) -> bool {
        self.any
    }

    /// Adds those of the chunk. A key whose expression fails on some row, of either side, is an error even beside a NULL.
    pub(crate) fn add(&mut self, matrix: &mut Matrix, chunk: &InputChunk) -> Result<()> {
        // The column of such a key holds NULLs, which say nothing.
        for left in matrix.left() {
            matrix.keys_have_values(Side::Left, left)?;
        }
        matrix.keys_have_values(Side::Right, chunk)?;
        self.any |= chunk.rows() > 0;
        if self.null {
            return Ok(());
        }
        let spec = Arc::clone(&matrix.spec);
        for (_, key) in &spec.theta.equalities {
            let parts = match chunk.parts(*key) {
                Err(error) if error.is_out_of_host_memory() => {
                    matrix.leave_pool()?;
                    chunk.parts(*key)?
                }
                parts => parts?,
            };
            self.null |= parts.iter().any(|part| part.null_count() > 0);
        }
        Ok(())
    }

    pub(crate) fn condition_failed(&mut self, error: BowtieError) {
        self.failed = Some(error);
    }

    /// Whether no further match can change the result.
    pub(crate) fn are_decided(&self) -> bool {
        self.null || self.failed.is_some()
    }

    /// Whether a key is NULL, once the right side has ended; what the condition raised, if none is.
    pub(crate) fn have_null(&mut self) -> Result<bool> {
        match self.failed.take() {
            Some(error) if !self.null => Err(error),
            _ => Ok(self.null),
        }
    }
}
