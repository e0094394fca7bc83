//! [`Refusal`]: why a node is not offloaded.

use std::sync::Arc;

use datafusion::error::DataFusionError;

use crate::error::Decline;

/// Why a node is not offloaded: it is declined, or the options contradict the query.
#[derive(Debug, Clone)]
pub(crate) enum Refusal {
    Decline(Decline),
    /// The query fails with it.
    Error(Arc<DataFusionError>),
}

impl Refusal {
    /// The reason of a declined node.
    ///
    /// # Errors
    /// The error that the query fails with.
    pub(crate) fn declined(self) -> Result<Decline, DataFusionError> {
        match self {
            Self::Decline(decline) => Ok(decline),
            Self::Error(error) => Err(DataFusionError::Shared(error)),
        }
    }
}

impl From<Decline> for Refusal {
    fn from(decline: Decline) -> Self {
        Self::Decline(decline)
    }
}

impl From<DataFusionError> for Refusal {
    fn from(error: DataFusionError) -> Self {
        Self::Error(Arc::new(error))
    }
}
