//! Errors of devices as DataFusion's, and back.

use std::sync::Arc;

use datafusion::error::DataFusionError;

use crate::error::BowtieError;

impl BowtieError {
    /// An expression of the query failed on some row.
    pub(crate) fn is_of_expressions(&self) -> bool {
        matches!(self, Self::Arrow(_) | Self::DataFusion(_)) && !self.is_out_of_host_memory()
    }

    /// Whether DataFusion's memory pool refused. The caller may spill to files and retry.
    pub(crate) fn is_out_of_host_memory(&self) -> bool {
        let Self::DataFusion(error) = self else {
            return false;
        };
        matches!(error.find_root(), DataFusionError::ResourcesExhausted(_))
    }
}

impl From<DataFusionError> for BowtieError {
    fn from(e: DataFusionError) -> Self {
        Self::DataFusion(Arc::new(e))
    }
}

impl From<BowtieError> for DataFusionError {
    fn from(e: BowtieError) -> Self {
        match e {
            BowtieError::OutOfDeviceMemory { .. } | BowtieError::MustSplit { .. } => {
                DataFusionError::ResourcesExhausted(e.to_string())
            }
            BowtieError::Arrow(e) => match Arc::try_unwrap(e) {
                Ok(e) => e.into(),
                Err(shared) => DataFusionError::External(Box::new(shared)),
            },
            BowtieError::DataFusion(e) => match Arc::try_unwrap(e) {
                Ok(e) => e,
                Err(shared) => DataFusionError::Shared(shared),
            },
            BowtieError::Device(_) | BowtieError::NeedsDataFusion | BowtieError::Cancelled => {
                DataFusionError::Execution(e.to_string())
            }
            BowtieError::Internal(_) => DataFusionError::Internal(e.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::common::human_readable_size;

    use crate::error::readable_size;

    #[test]
    fn sizes_are_shown_as_datafusion_shows_them() {
        for bits in [0, 9, 10, 11, 19, 20, 21, 29, 30, 31, 39, 40, 41, 50] {
            for bytes in [(1u64 << bits) - 1, 1 << bits, (1 << bits) + (1 << bits) / 3] {
                let expected = human_readable_size(usize::try_from(bytes).unwrap());
                assert_eq!(readable_size(bytes), expected);
            }
        }
    }
}
