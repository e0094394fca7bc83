//! Batches → chunks: host batches are gathered into chunks that fit the device's budget.

mod chunk;
mod chunker;
mod evaluator;

pub(crate) use chunk::StagedChunk;
pub(crate) use chunker::{ChunkLimits, Chunker, Role, has_small_dictionary};
pub(crate) use evaluator::{Evaluated, Evaluator};
