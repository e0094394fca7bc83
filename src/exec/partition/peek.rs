//! [`Peek`]: the first chunks of an input, read ahead to decide how to process it.

use datafusion::error::Result;
use futures::{StreamExt, TryStreamExt, stream};

use crate::exec::input::chunk::{InputChunk, InputStream};

/// The first chunks of an input, and the stream of the rest.
pub(crate) struct Peek {
    pub chunks: Vec<InputChunk>,
    /// `None` if the input has no more chunks.
    rest: Option<InputStream>,
}

impl Peek {
    /// Reads at most `most` chunks. It stops early at the end of the input or at a chunk that signals memory pressure.
    pub(crate) async fn of(input: InputStream, most: usize) -> Result<Self> {
        let first = Self {
            chunks: vec![],
            rest: Some(input),
        };
        first.up_to(most).await
    }

    /// Reads on until there are `most` chunks.
    pub(crate) async fn up_to(mut self, most: usize) -> Result<Self> {
        while self.chunks.len() < most
            && let Some(rest) = &mut self.rest
        {
            match rest.try_next().await? {
                Some(chunk) => self.chunks.push(chunk),
                None => self.rest = None,
            }
            if self
                .chunks
                .last()
                .is_some_and(InputChunk::is_memory_pressure)
            {
                break;
            }
        }
        Ok(self)
    }

    /// Whether these are all chunks of the input.
    pub(crate) fn are_all(&self) -> bool {
        self.rest.is_none()
    }

    /// All chunks of the input, in their order.
    pub(crate) fn all(self) -> InputStream {
        let rest = self.rest.unwrap_or_else(|| stream::empty().boxed());
        stream::iter(self.chunks.into_iter().map(Ok))
            .chain(rest)
            .boxed()
    }
}
