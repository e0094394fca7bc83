//! [`DeviceFailure`]: whether an error that left the layers of devices tells that a device did not run a node.

use datafusion::error::DataFusionError;

use crate::error::{BowtieError, LimitOf};

/// How messages of refused device memory begin.
const OUT_OF_MEMORY: &str = "bowtie: device memory exhausted: ";
/// How messages of a limit of a representation begin.
const MUST_SPLIT: &str = "bowtie: one ";
/// How messages of a GPU that was named and does not open begin.
const UNAVAILABLE: &str = "bowtie.device = ";

/// Why a device did not run a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeviceFailure {
    /// Reservations, or a limit of a representation: another query may fit.
    Limit,
    /// The driver, which has no memory or fails, or the card itself: other queries may fail, too.
    Card,
}

impl DeviceFailure {
    /// `None` if the error is another one, such as of an expression. DataFusion's errors hold text, so that the text tells.
    pub(crate) fn of(error: &DataFusionError) -> Option<Self> {
        match error.find_root() {
            DataFusionError::ResourcesExhausted(told) if told.starts_with(OUT_OF_MEMORY) => {
                let is_of_driver = told.contains(LimitOf::Driver.words().0);
                Some(if is_of_driver {
                    Self::Card
                } else {
                    Self::Limit
                })
            }
            DataFusionError::ResourcesExhausted(told) => {
                told.starts_with(MUST_SPLIT).then_some(Self::Limit)
            }
            DataFusionError::Configuration(told) => {
                told.starts_with(UNAVAILABLE).then_some(Self::Card)
            }
            DataFusionError::Execution(told) => {
                let is_device = told.starts_with("bowtie: ")
                    && *told != BowtieError::Cancelled.to_string()
                    && *told != BowtieError::NeedsDataFusion.to_string();
                is_device.then_some(Self::Card)
            }
            _ => None,
        }
    }

    pub(crate) fn is_of_card(self) -> bool {
        self == Self::Card
    }
}

#[cfg(test)]
mod tests {
    use arrow::error::ArrowError;

    use super::*;

    #[test]
    fn errors_of_datafusion_tell_what_failed() {
        let refused = BowtieError::refused_by;
        let of =
            |error: BowtieError| DeviceFailure::of(&error.in_operator("BowtieJoinExec").into());
        assert_eq!(of(refused(LimitOf::Session)), Some(DeviceFailure::Limit));
        assert_eq!(of(refused(LimitOf::Runtime)), Some(DeviceFailure::Limit));
        assert_eq!(of(refused(LimitOf::Device)), Some(DeviceFailure::Limit));
        assert_eq!(of(refused(LimitOf::Driver)), Some(DeviceFailure::Card));
        let split = BowtieError::MustSplit {
            what: "sort",
            size: 5,
            most: 4,
            unit: "rows",
        };
        assert_eq!(of(split), Some(DeviceFailure::Limit));
        assert_eq!(
            of(BowtieError::Device("a launch failed".into())),
            Some(DeviceFailure::Card)
        );
        for other in [
            BowtieError::Cancelled,
            BowtieError::NeedsDataFusion,
            BowtieError::Internal("a tile".into()),
            ArrowError::DivideByZero.into(),
            DataFusionError::Execution("overflow on abs".into()).into(),
            DataFusionError::ResourcesExhausted("the pool has no more".into()).into(),
        ] {
            let told = other.to_string();
            assert_eq!(of(other), None, "{told}");
        }
    }
}
