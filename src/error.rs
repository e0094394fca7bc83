//! What can go wrong below the plan, and why a plan node is left as it was.
//!
//! [`BowtieError`] is the error of the layers that know nothing of DataFusion (`device`, `column`, `ops`); it becomes a
//! `DataFusionError` at the edge of `exec`. A [`Decline`] is no error: the CPU node stays, and the reason is shown.

use std::fmt;
use std::sync::Arc;

use arrow::error::ArrowError;
use datafusion::common::human_readable_size;
use datafusion::error::DataFusionError;

/// An error of the device layers.
#[derive(Debug, Clone)]
pub(crate) enum BowtieError {
    /// A lease that the device's budget refused. The caller may split its chunk and try again.
    OutOfDeviceMemory {
        what: &'static str,
        requested: u64,
        in_use: u64,
        limit: u64,
    },
    /// A limit of the representation, such as 2^32 - 1 rows in one chunk.
    TooLarge(String),
    /// A device's driver failed, or is not there.
    Device(String),
    /// An Arrow kernel failed.
    Arrow(Arc<ArrowError>),
    /// A DataFusion expression or accumulator failed.
    DataFusion(Arc<DataFusionError>),
    /// A program met a pair that DataFusion's own expressions must decide. Who runs the program leaves the tile to them, so
    /// nobody sees it.
    NeedsHost,
    /// The stream was dropped while a step ran; nobody sees it.
    Cancelled,
    /// A defect of this crate.
    Internal(String),
}

pub(crate) type Result<T, E = BowtieError> = std::result::Result<T, E>;

/// A part may take more than the mean by this share of it.
const PARTS_DIFFER_BY: u64 = 4;
/// Whatever is in use, one part of so many of the limit is counted on.
const LEAST_ROOM_SHARE: u64 = 8;
/// Of as many parts one that asks for too much is cut again.
const MOST_PARTS: u64 = 64;

impl BowtieError {
    pub(crate) fn is_out_of_device_memory(&self) -> bool {
        matches!(self, Self::OutOfDeviceMemory { .. })
    }

    /// A refused lease of no more than there is altogether: others may give it back.
    pub(crate) fn may_be_of_the_moment(&self) -> bool {
        match self {
            Self::OutOfDeviceMemory {
                requested, limit, ..
            } => requested <= limit,
            _ => false,
        }
    }

    /// Of how many parts one might fit beside what is in use, where what was asked for is more than there is altogether: no room that
    /// others make would be enough.
    pub(crate) fn parts_that_may_fit(&self) -> Option<u64> {
        match self {
            Self::OutOfDeviceMemory {
                requested,
                in_use,
                limit,
                ..
            } if requested > limit => {
                // Parts are not alike, so that of some more of them more fit at once.
                let with_some_more = requested.saturating_add(requested / PARTS_DIFFER_BY);
                // Some of what is in use is given back before they ask.
                let room = limit.saturating_sub(*in_use).max(limit / LEAST_ROOM_SHARE);
                Some(with_some_more.div_ceil(room.max(1)).min(MOST_PARTS))
            }
            _ => None,
        }
    }

    /// An expression of the query failed on some row.
    pub(crate) fn is_of_expressions(&self) -> bool {
        matches!(self, Self::Arrow(_) | Self::DataFusion(_)) && !self.is_out_of_host_memory()
    }

    /// DataFusion's memory pool refused. The caller may take what it can to files and try again.
    pub(crate) fn is_out_of_host_memory(&self) -> bool {
        let Self::DataFusion(error) = self else {
            return false;
        };
        matches!(error.find_root(), DataFusionError::ResourcesExhausted(_))
    }
}

fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

impl fmt::Display for BowtieError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfDeviceMemory {
                what,
                requested,
                in_use,
                limit,
            } => write!(
                f,
                "bowtie: device memory exhausted: {what} needs {} while {} of {} are reserved; raise bowtie.device_memory, \
                 lower bowtie.chunk_rows, or run fewer queries at the same time",
                human_readable_size(to_usize(*requested)),
                human_readable_size(to_usize(*in_use)),
                human_readable_size(to_usize(*limit)),
            ),
            Self::TooLarge(message) | Self::Device(message) => write!(f, "bowtie: {message}"),
            Self::Arrow(e) => write!(f, "{e}"),
            Self::DataFusion(e) => write!(f, "{e}"),
            Self::NeedsHost => f.write_str("bowtie: a pair is left to DataFusion's expressions"),
            Self::Cancelled => f.write_str("bowtie: the query was cancelled"),
            Self::Internal(message) => write!(
                f,
                "bowtie: internal error: {message}; please report it, and SET bowtie.offload = 'off' meanwhile"
            ),
        }
    }
}

impl std::error::Error for BowtieError {}

impl From<ArrowError> for BowtieError {
    fn from(e: ArrowError) -> Self {
        Self::Arrow(Arc::new(e))
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
            BowtieError::OutOfDeviceMemory { .. } | BowtieError::TooLarge(_) => {
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
            BowtieError::Device(_) | BowtieError::NeedsHost | BowtieError::Cancelled => {
                DataFusionError::Execution(e.to_string())
            }
            BowtieError::Internal(_) => DataFusionError::Internal(e.to_string()),
        }
    }
}

/// Why a node of the plan is left to DataFusion; shown by `bowtie_explain`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decline(pub String);

impl Decline {
    pub(crate) fn because<T>(reason: impl Into<String>) -> Result<T, Decline> {
        Err(Decline(reason.into()))
    }
}

impl fmt::Display for Decline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::BowtieError;

    #[test]
    fn parts_fit_where_they_differ_by_a_quarter() {
        let beside = |in_use, requested, limit| {
            let error = BowtieError::OutOfDeviceMemory {
                what: "matches",
                requested,
                in_use,
                limit,
            };
            error.parts_that_may_fit()
        };
        let parts = |requested, limit| beside(0, requested, limit);
        assert_eq!(parts(100, 100), None);
        assert_eq!(parts(101, 100), Some(2));
        assert_eq!(parts(160, 100), Some(2));
        assert_eq!(parts(164, 100), Some(3));
        assert_eq!(parts(800, 100), Some(10));
        assert_eq!(parts(3, 0), Some(3));
        assert_eq!(parts(u64::MAX, 1), Some(64));
        assert_eq!(beside(40, 400, 100), Some(9));
        assert_eq!(beside(100, 400, 100), Some(42));
        assert_eq!(beside(40, 100, 100), None);
        assert_eq!(BowtieError::NeedsHost.parts_that_may_fit(), None);
    }
}
