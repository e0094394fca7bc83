//! Errors below the plan, and the reasons why a plan node is not replaced.
//!
//! [`BowtieError`] is the error below `exec` (`device`, `ops`, `runtime`); `exec` converts it to a `DataFusionError`. A
//! [`Decline`] is no error: DataFusion's node stays, and the reason is shown.

use std::fmt;
use std::sync::Arc;

use arrow::error::ArrowError;
#[cfg(feature = "datafusion")]
use datafusion::error::DataFusionError;

#[cfg(feature = "datafusion")]
mod conversions;
#[cfg(feature = "datafusion")]
pub(crate) mod device_failure;
#[cfg(feature = "datafusion")]
pub(crate) mod panics;

/// An error of the device layers.
#[derive(Debug, Clone)]
pub(crate) enum BowtieError {
    /// A lease that the device's budget, or an allocation that the card, refused; all figures in bytes. Half of the rows need less,
    /// and other queries may give some back.
    OutOfDeviceMemory {
        what: &'static str,
        /// The node that asked, once the error has left its step.
        operator: Option<&'static str>,
        requested: u64,
        in_use: u64,
        limit: u64,
        limit_of: LimitOf,
    },
    /// A limit of a representation, such as offsets of 32 bits: one `what` has `size` and may have `most` of `unit`. Half of the rows have
    /// fewer, but no memory that others give back helps.
    MustSplit {
        what: &'static str,
        size: u64,
        most: u64,
        unit: &'static str,
    },
    /// A device's driver failed, or is not there.
    Device(String),
    /// An Arrow kernel failed.
    Arrow(Arc<ArrowError>),
    /// A DataFusion expression or accumulator failed.
    #[cfg(feature = "datafusion")]
    DataFusion(Arc<DataFusionError>),
    /// A program met a row or a candidate that DataFusion's own expressions have to evaluate. The caller evaluates with
    /// them instead, so users never see this.
    NeedsDataFusion,
    /// The stream was dropped while a step ran; users never see this.
    Cancelled,
    /// A defect of this crate.
    Internal(String),
}

/// Who sets a limit of device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LimitOf {
    /// The option `bowtie.device_memory` of a session.
    Session,
    /// Whoever built the `BowtieRuntime`.
    Runtime,
    /// The device's own memory.
    Device,
    /// The driver, which has less than the limits allow: other processes use the card.
    Driver,
}

impl LimitOf {
    /// Where the bytes are reserved, and how to have more of them.
    pub(crate) fn words(self) -> (&'static str, &'static str) {
        let raise = "raise it, lower bowtie.chunk_rows, or run fewer queries at the same time";
        match self {
            Self::Session => ("under bowtie.device_memory", raise),
            Self::Runtime => ("under the limit of the BowtieRuntime", raise),
            Self::Device => (
                "on the device",
                "lower bowtie.chunk_rows, or run fewer queries at the same time",
            ),
            Self::Driver => (
                "and the GPU has no more free",
                "end other processes that use it, lower bowtie.chunk_rows, or run fewer queries at the same time",
            ),
        }
    }
}

pub(crate) type Result<T, E = BowtieError> = std::result::Result<T, E>;

/// For what is only faster: the caller has another way, which needs less memory.
pub(crate) trait IfItFits<T> {
    /// `None` if the error [is divisible](BowtieError::is_divisible): memory, or a representation, does not suffice.
    fn if_it_fits(self) -> Result<Option<T>>;
}

impl<T> IfItFits<T> for Result<T> {
    fn if_it_fits(self) -> Result<Option<T>> {
        match self {
            Ok(made) => Ok(Some(made)),
            Err(error) if error.is_divisible() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// A part may need more than the mean by this share of it.
const SKEW_MARGIN: u64 = 4;
/// Whatever is in use, this share of the limit counts as free: some of what is in use is given back before the parts ask.
const LEAST_FREE_SHARE: u64 = 8;
/// Parts at most; one that still needs too much is cut again.
const MOST_SPLITS: u64 = 64;

impl BowtieError {
    /// The error with the name of the node whose step failed, where users look for it.
    pub(crate) fn in_operator(mut self, name: &'static str) -> Self {
        match &mut self {
            Self::OutOfDeviceMemory { operator, .. } => {
                operator.get_or_insert(name);
            }
            Self::Internal(message) => *message = format!("{message} in {name}"),
            _ => {}
        }
        self
    }

    /// Whether the same work may succeed on fewer rows.
    pub(crate) fn is_divisible(&self) -> bool {
        matches!(
            self,
            Self::OutOfDeviceMemory { .. } | Self::MustSplit { .. }
        )
    }

    /// Whether device memory that is given back helps.
    pub(crate) fn is_out_of_device_memory(&self) -> bool {
        matches!(self, Self::OutOfDeviceMemory { .. })
    }

    /// Whether the same work may succeed on the same rows once others give memory back: a refusal of no more than the whole budget.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::OutOfDeviceMemory {
                requested, limit, ..
            } => requested <= limit,
            _ => false,
        }
    }

    /// The number of equal parts of the rows, one of which may fit beside what is in use; `None` where the error does not tell that they
    /// must be cut: it [is transient](Self::is_transient), or not divisible.
    pub(crate) fn splits_that_fit(&self) -> Option<u64> {
        let (size, free) = match *self {
            Self::OutOfDeviceMemory {
                requested,
                in_use,
                limit,
                ..
            } if requested > limit => {
                let free = limit.saturating_sub(in_use).max(limit / LEAST_FREE_SHARE);
                (requested, free)
            }
            Self::MustSplit { size, most, .. } => (size, most),
            _ => return None,
        };
        let largest = size.saturating_add(size / SKEW_MARGIN);
        Some(largest.div_ceil(free.max(1)).min(MOST_SPLITS))
    }
}

/// A number of a unit.
fn amount(number: u64, unit: &str) -> String {
    match unit {
        "bytes" => readable_size(number),
        unit => format!("{number} {unit}"),
    }
}

/// A number of bytes, as DataFusion shows it: in the largest unit of which there are two.
fn readable_size(bytes: u64) -> String {
    let units = [("TB", 40), ("GB", 30), ("MB", 20), ("KB", 10)];
    let unit = units.into_iter().find(|(_, bits)| bytes >= 2 << bits);
    let (name, bits) = unit.unwrap_or(("B", 0));
    format!("{:.1} {name}", bytes as f64 / (1u64 << bits) as f64)
}

impl fmt::Display for BowtieError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfDeviceMemory {
                what,
                operator,
                requested,
                in_use,
                limit,
                limit_of,
            } => {
                let (place, remedy) = limit_of.words();
                let of = operator
                    .map(|name| format!(" of {name}"))
                    .unwrap_or_default();
                // Memory that no budget counts, of the driver: it tells no figures.
                if *limit == 0 {
                    return write!(
                        f,
                        "bowtie: device memory exhausted: {what}{of} needs memory, and the GPU or the host has no more free; {remedy}"
                    );
                }
                let [requested, in_use, limit] =
                    [requested, in_use, limit].map(|bytes| readable_size(*bytes));
                write!(
                    f,
                    "bowtie: device memory exhausted: {what}{of} needs {requested} while {in_use} of {limit} are reserved {place}; {remedy}"
                )
            }
            Self::MustSplit {
                what,
                size,
                most,
                unit,
            } => write!(
                f,
                "bowtie: one {what} holds at most {}, not {}; lower bowtie.chunk_rows, or SET bowtie.offload = 'off' for this query",
                amount(*most, unit),
                amount(*size, unit),
            ),
            Self::Device(message) => write!(f, "bowtie: {message}"),
            Self::Arrow(e) => write!(f, "{e}"),
            #[cfg(feature = "datafusion")]
            Self::DataFusion(e) => write!(f, "{e}"),
            Self::NeedsDataFusion => {
                f.write_str("bowtie: DataFusion has to evaluate this expression")
            }
            Self::Cancelled => f.write_str("bowtie: the query was cancelled"),
            Self::Internal(message) => write!(
                f,
                "bowtie: internal error: {message}; please report it with the query and datafusion-bowtie {}, and SET bowtie.offload = \
                 'off' meanwhile",
                env!("CARGO_PKG_VERSION"),
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

/// The reason why a node of the plan is left to DataFusion; `bowtie_explain` shows it.
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
impl BowtieError {
    /// For tests: the refusal of 3 MB for matches, where 6 MB of 8 MB are reserved.
    fn refused_by(limit_of: LimitOf) -> Self {
        Self::OutOfDeviceMemory {
            what: "matches",
            operator: None,
            requested: 3 << 20,
            in_use: 6 << 20,
            limit: 8 << 20,
            limit_of,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_fit_where_they_differ_by_a_quarter() {
        let beside = |in_use, requested, limit| {
            let error = BowtieError::OutOfDeviceMemory {
                what: "matches",
                operator: None,
                requested,
                in_use,
                limit,
                limit_of: LimitOf::Device,
            };
            error.splits_that_fit()
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
        assert_eq!(BowtieError::NeedsDataFusion.splits_that_fit(), None);
    }

    #[test]
    fn a_refusal_names_the_limit_and_how_to_raise_it() {
        let told = |limit_of| BowtieError::refused_by(limit_of).to_string();
        let frame = "bowtie: device memory exhausted: matches needs 3.0 MB while 6.0 MB of 8.0 MB are reserved";
        let rest = "lower bowtie.chunk_rows, or run fewer queries at the same time";
        assert_eq!(
            told(LimitOf::Session),
            format!("{frame} under bowtie.device_memory; raise it, {rest}")
        );
        assert_eq!(
            told(LimitOf::Runtime),
            format!("{frame} under the limit of the BowtieRuntime; raise it, {rest}")
        );
        assert_eq!(
            told(LimitOf::Device),
            format!("{frame} on the device; {rest}")
        );
        assert_eq!(
            told(LimitOf::Driver),
            format!(
                "{frame} and the GPU has no more free; end other processes that use it, {rest}"
            )
        );
    }

    #[test]
    fn a_refusal_without_figures_shows_none() {
        let refused = BowtieError::OutOfDeviceMemory {
            what: "the driver's part",
            operator: Some("BowtieJoinExec"),
            requested: 0,
            in_use: 0,
            limit: 0,
            limit_of: LimitOf::Driver,
        };
        let told = refused.to_string();
        assert!(
            told.starts_with(
                "bowtie: device memory exhausted: the driver's part of BowtieJoinExec needs memory, and the GPU"
            ),
            "{told}"
        );
        assert!(!told.contains("0.0"), "{told}");
    }

    #[test]
    fn errors_name_the_operator_whose_step_failed() {
        let refused = BowtieError::refused_by(LimitOf::Device);
        let refused = refused.in_operator("BowtieJoinExec");
        assert!(refused.is_transient());
        let text = refused.in_operator("BowtieDownloadExec").to_string();
        assert!(
            text.starts_with(
                "bowtie: device memory exhausted: matches of BowtieJoinExec needs 3.0 MB"
            ),
            "{text}"
        );
        let defect = BowtieError::Internal("a tile without a request".into());
        let text = defect.in_operator("BowtieJoinExec").to_string();
        assert!(
            text.starts_with(
                "bowtie: internal error: a tile without a request in BowtieJoinExec; please"
            ),
            "{text}"
        );
        let other = BowtieError::Device("it failed".into());
        assert_eq!(
            other.in_operator("BowtieJoinExec").to_string(),
            "bowtie: it failed"
        );
    }

    #[test]
    fn a_limit_of_a_representation_is_not_out_of_memory() {
        let text = |size| BowtieError::MustSplit {
            what: "column of text on a GPU",
            size,
            most: 1 << 31,
            unit: "bytes",
        };
        let error = text(5 << 30);
        assert!(error.is_divisible() && !error.is_transient());
        assert_eq!(error.splits_that_fit(), Some(4));
        assert_eq!(
            error.to_string(),
            "bowtie: one column of text on a GPU holds at most 2.0 GB, not 5.0 GB; lower bowtie.chunk_rows, or SET bowtie.offload = \
             'off' for this query"
        );
        let rows = BowtieError::MustSplit {
            what: "sort",
            size: 5,
            most: 4,
            unit: "rows",
        };
        assert!(
            rows.to_string()
                .contains("one sort holds at most 4 rows, not 5 rows;")
        );
    }
}
