//! [`RightKeys`]: what a null-aware anti join (NOT IN) must know of the right side before its result is known.
//!
//! A single NULL among the right keys empties the result, whatever the condition evaluates to, or raises, on other
//! rows. DataFusion evaluates no condition on a batch with a NULL, nor on later batches. Here rows are chunked
//! differently, and partitioning reorders them, so the join keeps an error of the condition until the right side has
//! ended.

use std::sync::Arc;

use arrow::array::Array;

use crate::error::{BowtieError, Result};
use crate::exec::input::chunk::InputChunk;
use crate::exec::join::tiles::matrix::Matrix;
use crate::ir::side::Side;

/// What is known of the right keys so far.
#[derive(Debug, Default)]
pub(crate) struct RightKeys {
    any: bool,
    null: bool,
    /// The error that the condition raised on some match.
    failed: Option<BowtieError>,
}

impl RightKeys {
    /// Whether the right side had a row.
    pub(crate) fn any(&self) -> bool {
        self.any
    }

    /// Adds the keys of a right chunk. A key expression that failed on some row, of either side, is an error even
    /// beside a NULL.
    pub(crate) fn add(&mut self, matrix: &mut Matrix, chunk: &InputChunk) -> Result<()> {
        // The column of a failed expression consists of NULLs, which are no keys.
        for left in matrix.left() {
            matrix.check_keys(Side::Left, left)?;
        }
        matrix.check_keys(Side::Right, chunk)?;
        self.any |= chunk.rows() > 0;
        if self.null {
            return Ok(());
        }
        let spec = Arc::clone(&matrix.spec);
        for key in spec.theta.keys(Side::Right) {
            let parts = match chunk.parts(key) {
                Err(error) if error.is_out_of_host_memory() => {
                    matrix.leave_pool()?;
                    chunk.parts(key)?
                }
                parts => parts?,
            };
            self.null |= parts.iter().any(|part| part.null_count() > 0);
        }
        Ok(())
    }

    /// Keeps an error of the condition until the right side has ended.
    pub(crate) fn condition_failed(&mut self, error: BowtieError) {
        self.failed = Some(error);
    }

    /// Whether no further match can change the result.
    pub(crate) fn are_decided(&self) -> bool {
        self.null || self.failed.is_some()
    }

    /// Whether a right key is NULL, after the right side has ended. Fails with the condition's error if none is.
    pub(crate) fn have_null(&mut self) -> Result<bool> {
        match self.failed.take() {
            Some(error) if !self.null => Err(error),
            _ => Ok(self.null),
        }
    }
}
