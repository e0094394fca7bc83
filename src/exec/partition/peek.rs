//! [`Peek`]: the first chunks of an input, read ahead to decide how to process it.

use std::sync::Arc;

use datafusion::error::Result;
use futures::{StreamExt, TryStreamExt, stream};

use crate::exec::input::chunk::{Input, InputChunk, InputStream};
use crate::exec::input::gathered::Gathered;
use crate::exec::memory::on_request::await_or_evict;
use crate::exec::partition::limits::Limits;

/// The first chunks of an input, and the stream of the rest.
pub(crate) struct Peek {
    held: Gathered,
    /// Whether the memory pool refused the chunk after these. Nothing more is read ahead then.
    pub memory_pressure: bool,
    /// `None` if the input has no more chunks.
    rest: Option<InputStream>,
}

impl Peek {
    /// Reads at most `most` chunks. It stops early at the end of the input or at memory pressure.
    pub(crate) async fn of(input: InputStream, limits: &Limits, most: usize) -> Result<Self> {
        let first = Self {
            held: Gathered::new(&limits.device, limits.spilling.as_ref()),
            memory_pressure: false,
            rest: Some(input),
        };
        first.up_to(most).await
    }

    /// Reads on until there are `most` chunks.
    pub(crate) async fn up_to(mut self, most: usize) -> Result<Self> {
        while self.known_chunks() < most
            && !self.memory_pressure
            && let Some(rest) = &mut self.rest
        {
            let device = Arc::clone(&self.held.device);
            let next;
            (self.held, next) = await_or_evict(&device, self.held, rest.try_next()).await?;
            match next {
                Some(Input::Chunk(chunk)) => self.held.chunks.push(chunk),
                Some(Input::MemoryPressure) => self.memory_pressure = true,
                None => self.rest = None,
            }
        }
        Ok(self)
    }

    /// The chunks that were read.
    pub(crate) fn chunks(&self) -> &[InputChunk] {
        &self.held.chunks
    }

    /// The number of chunks that were read, and of one that the memory pool refused.
    pub(crate) fn known_chunks(&self) -> usize {
        self.chunks().len() + usize::from(self.memory_pressure)
    }

    /// Whether these are all chunks of the input.
    pub(crate) fn are_all(&self) -> bool {
        self.rest.is_none()
    }

    /// All chunks of the input, in their order.
    pub(crate) fn all(self) -> InputStream {
        let chunks = self.held.chunks.into_iter().map(Input::Chunk);
        let signal = self.memory_pressure.then_some(Input::MemoryPressure);
        let rest = self.rest.unwrap_or_else(|| stream::empty().boxed());
        stream::iter(chunks.chain(signal).map(Ok))
            .chain(rest)
            .boxed()
    }
}
