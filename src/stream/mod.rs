//! Batches → chunks: host batches are gathered into chunks that fit the device's budget.

mod chunk;
mod chunker;
mod evaluator;
mod sizes;

pub(crate) use chunk::{ChunkShape, Failures, Parts, StagedChunk};
pub(crate) use chunker::{ChunkLimits, Chunker, Role, has_small_dictionary};
pub(crate) use evaluator::{Evaluated, Evaluator};
pub(crate) use sizes::{array_bytes, batch_bytes, elements_of};
