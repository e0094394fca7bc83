//! Sticky errors: after some errors a card's context refuses all work of all queries until the process ends. That card is
//! given up: new queries on it are errors, or use another device under `auto`. Other cards go on.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use cudarc::driver::DriverError;
use cudarc::driver::sys::CUresult;
use parking_lot::Mutex;

use crate::error::{BowtieError, Result};

/// The cards with errors, by ordinal.
static CARDS: Mutex<Option<Cards>> = Mutex::new(None);

/// Within this time after an unknown error a second one says that the card is lost. A card that fell off the bus, and a driver that was reset,
/// answer so each time; a single one may be of the call.
const IN_A_ROW: Duration = Duration::from_secs(600);

/// What became of the cards.
#[derive(Debug, Default)]
struct Cards(HashMap<u32, Card>);

#[derive(Debug, Default)]
struct Card {
    /// When its last error was an unknown one.
    unknown: Option<Instant>,
    /// The first sticky error.
    lost: Option<String>,
}

/// Whether the context of card `ordinal` cannot be used any more after `error`, which is recorded then.
pub(crate) fn record(ordinal: u32, error: DriverError, what: &str) -> bool {
    let mut cards = CARDS.lock();
    cards
        .get_or_insert_default()
        .record(ordinal, error, what, Instant::now())
}

/// # Errors
/// After a sticky error of card `ordinal`.
pub(crate) fn check_not_lost(ordinal: u32) -> Result<()> {
    match CARDS.lock().as_ref() {
        Some(cards) => cards.check(ordinal),
        None => Ok(()),
    }
}

impl Cards {
    fn record(
        &mut self,
        ordinal: u32,
        DriverError(error): DriverError,
        what: &str,
        now: Instant,
    ) -> bool {
        let card = self.0.entry(ordinal).or_default();
        let unknown = (error == CUresult::CUDA_ERROR_UNKNOWN).then_some(now);
        let both = unknown.zip(card.unknown);
        let is_second =
            both.is_some_and(|(now, before)| now.saturating_duration_since(before) <= IN_A_ROW);
        card.unknown = unknown;
        let sticky = is_second || is_sticky(error);
        if sticky {
            card.lost.get_or_insert_with(|| what.to_string());
        }
        sticky
    }

    fn check(&self, ordinal: u32) -> Result<()> {
        match self.0.get(&ordinal).and_then(|card| card.lost.as_ref()) {
            None => Ok(()),
            Some(what) => Err(BowtieError::Device(format!(
                "this process cannot use the GPU cuda:{ordinal} any more, since {what}: restart the process, or SET bowtie.device = 'host'"
            ))),
        }
    }
}

/// Whether a context that was opened cannot be used any more, by the driver's documentation.
fn is_sticky(error: CUresult) -> bool {
    use CUresult::*;
    matches!(
        error,
        // A kernel failed.
        CUDA_ERROR_ILLEGAL_ADDRESS
            | CUDA_ERROR_ILLEGAL_INSTRUCTION
            | CUDA_ERROR_MISALIGNED_ADDRESS
            | CUDA_ERROR_INVALID_ADDRESS_SPACE
            | CUDA_ERROR_INVALID_PC
            | CUDA_ERROR_HARDWARE_STACK_ERROR
            | CUDA_ERROR_LAUNCH_FAILED
            | CUDA_ERROR_LAUNCH_TIMEOUT
            | CUDA_ERROR_ASSERT
            | CUDA_ERROR_TENSOR_MEMORY_LEAK
            // The card or its links failed.
            | CUDA_ERROR_ECC_UNCORRECTABLE
            | CUDA_ERROR_NVLINK_UNCORRECTABLE
            | CUDA_ERROR_CONTAINED
            | CUDA_ERROR_EXTERNAL_DEVICE
            // The card, its context or the service that shares it is gone.
            | CUDA_ERROR_NO_DEVICE
            | CUDA_ERROR_DEVICE_UNAVAILABLE
            | CUDA_ERROR_CONTEXT_IS_DESTROYED
            | CUDA_ERROR_INVALID_CONTEXT
            | CUDA_ERROR_MPS_CLIENT_TERMINATED
            | CUDA_ERROR_MPS_RPC_FAILURE
            // The driver is shut down, or was started by a process that this one was forked from.
            | CUDA_ERROR_NOT_INITIALIZED
            | CUDA_ERROR_DEINITIALIZED
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOST: DriverError = DriverError(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    const UNKNOWN: DriverError = DriverError(CUresult::CUDA_ERROR_UNKNOWN);
    const PASSING: DriverError = DriverError(CUresult::CUDA_ERROR_INVALID_VALUE);

    #[test]
    fn a_sticky_error_gives_up_its_card_alone() {
        let mut cards = Cards::default();
        let now = Instant::now();
        assert!(!cards.record(1, PASSING, "a failed", now));
        cards.check(1).unwrap();
        assert!(cards.record(1, LOST, "b failed", now));
        assert!(cards.record(1, LOST, "c failed", now));
        cards.check(0).unwrap();
        let told = cards.check(1).unwrap_err().to_string();
        assert!(told.contains("cuda:1"), "{told}");
        assert!(told.contains("since b failed: restart"), "{told}");
    }

    #[test]
    fn unknown_errors_are_sticky_from_the_second_in_a_row_on() {
        let mut cards = Cards::default();
        let now = Instant::now();
        for error in [UNKNOWN, PASSING, UNKNOWN] {
            assert!(!cards.record(0, error, "a failed", now));
        }
        // That of another card, and a much later one.
        assert!(!cards.record(1, UNKNOWN, "b failed", now));
        let later = now + IN_A_ROW + Duration::from_millis(1);
        assert!(!cards.record(0, UNKNOWN, "b failed", later));
        cards.check(0).unwrap();
        assert!(cards.record(0, UNKNOWN, "c failed", later + IN_A_ROW));
        let told = cards.check(0).unwrap_err().to_string();
        assert!(told.contains("since c failed"), "{told}");
        cards.check(1).unwrap();
    }

    #[test]
    fn only_errors_that_stay_are_sticky() {
        for passing in [
            CUresult::CUDA_ERROR_OUT_OF_MEMORY,
            CUresult::CUDA_ERROR_INVALID_VALUE,
            CUresult::CUDA_ERROR_NOT_READY,
            CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU,
            CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
            CUresult::CUDA_ERROR_UNKNOWN,
        ] {
            assert!(!is_sticky(passing), "{passing:?}");
        }
        for sticky in [
            CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
            CUresult::CUDA_ERROR_LAUNCH_FAILED,
            CUresult::CUDA_ERROR_NVLINK_UNCORRECTABLE,
            CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED,
            CUresult::CUDA_ERROR_DEINITIALIZED,
        ] {
            assert!(is_sticky(sticky), "{sticky:?}");
        }
    }
}
