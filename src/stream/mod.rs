//! Batches → chunks: host batches are gathered into chunks that fit the device's budget.

mod chunk;
mod chunker;

pub(crate) use chunk::StagedChunk;
pub(crate) use chunker::{ChunkLimits, Chunker, Evaluated, Evaluator, has_small_dictionary};
