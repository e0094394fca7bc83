//! [`Peek`]: a look at an input.

use datafusion::error::Result;
use futures::{StreamExt, TryStreamExt, stream};

use crate::exec::input::chunk::{InputChunk, InputStream};

/// The first chunks of an input, by which it is decided what becomes of all.
pub(crate) struct Peek {
    pub chunks: Vec<InputChunk>,
    /// `None` where there are no others.
    rest: Option<InputStream>,
}

impl Peek {
    /// At most so many; fewer where there are no more, or whoever makes room has to come before.
    pub(crate) async fn of(input: InputStream, most: usize) -> Result<Self> {
        let first = Self {
            chunks: vec![],
            rest: Some(input),
        };
        first.up_to(most).await
    }

    /// The same with more of them.
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

    /// Whether there are no others.
    pub(crate) fn are_all(&self) -> bool {
        self.rest.is_none()
    }

    /// All chunks in their order.
    pub(crate) fn all(self) -> InputStream {
        let rest = self.rest.unwrap_or_else(|| stream::empty().boxed());
        stream::iter(self.chunks.into_iter().map(Ok))
            .chain(rest)
            .boxed()
    }
}
