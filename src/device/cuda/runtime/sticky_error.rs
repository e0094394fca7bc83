//! Sticky errors: after some errors a card's context refuses all work of all queries until the process ends. That card is
//! given up: new queries on it are errors, or use another device under `auto`. Other cards go on.

use std::collections::HashMap;

use cudarc::driver::sys::CUresult;
use cudarc::driver::{DriverError, result};
use parking_lot::Mutex;

use crate::error::{BowtieError, Result};

/// The contexts that were opened, and their first sticky errors.
#[derive(Debug, Default)]
pub(crate) struct Cards {
    /// The card's ordinal by the handle of its context.
    ordinals: HashMap<usize, u32>,
    /// The first sticky error of each card.
    lost: HashMap<u32, String>,
    /// A sticky error of an unknown context, which may be any card's.
    unknown: Option<String>,
}

static CARDS: Mutex<Option<Cards>> = Mutex::new(None);

/// Registers `context` as that of card `ordinal`.
pub(crate) fn know(context: usize, ordinal: u32) {
    let mut cards = CARDS.lock();
    cards
        .get_or_insert_default()
        .ordinals
        .insert(context, ordinal);
}

/// Whether an error is sticky; if so, it is noted for the context of the calling thread.
pub(crate) fn pinned_word(error: DriverError, what: &str) -> bool {
    let sticky = is_sticky(error);
    if sticky {
        // The driver reads the current context from the thread's own state, which works after the error, too.
        let context = result::ctx::get_current().ok().flatten();
        let context = context.map(|context| context as usize);
        CARDS
            .lock()
            .get_or_insert_default()
            .pinned_word(context, what);
    }
    sticky
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
    fn pinned_word(&mut self, context: Option<usize>, what: &str) {
        let ordinal = context.and_then(|context| self.ordinals.get(&context));
        match ordinal {
            Some(ordinal) => {
                let lost = self.lost.entry(*ordinal);
                lost.or_insert_with(|| what.to_string());
            }
            None => {
                self.unknown.get_or_insert_with(|| what.to_string());
            }
        }
    }

    fn check(&self, ordinal: u32) -> Result<()> {
        match self.lost.get(&ordinal).or(self.unknown.as_ref()) {
            None => Ok(()),
            Some(what) => Err(BowtieError::Device(format!(
                "this process cannot use the GPU cuda:{ordinal} any more, since {what}: restart the process, or SET bowtie.device = 'host'"
            ))),
        }
    }
}

/// Whether the context cannot be used any more, by the driver's documentation.
fn is_sticky(error: DriverError) -> bool {
    use CUresult::*;
    matches!(
        error.0,
        CUDA_ERROR_ILLEGAL_ADDRESS
            | CUDA_ERROR_ILLEGAL_INSTRUCTION
            | CUDA_ERROR_MISALIGNED_ADDRESS
            | CUDA_ERROR_INVALID_ADDRESS_SPACE
            | CUDA_ERROR_INVALID_PC
            | CUDA_ERROR_HARDWARE_STACK_ERROR
            | CUDA_ERROR_LAUNCH_FAILED
            | CUDA_ERROR_LAUNCH_TIMEOUT
            | CUDA_ERROR_ASSERT
            | CUDA_ERROR_ECC_UNCORRECTABLE
            | CUDA_ERROR_CONTEXT_IS_DESTROYED
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sticky_error_gives_up_its_card_alone() {
        let mut cards = Cards::default();
        cards.ordinals.extend([(100, 0), (200, 1)]);
        cards.pinned_word(Some(200), "b failed");
        cards.pinned_word(Some(200), "c failed");
        cards.check(0).unwrap();
        let told = cards.check(1).unwrap_err().to_string();
        assert!(told.contains("cuda:1"), "{told}");
        assert!(told.contains("since b failed: restart"), "{told}");
        // The card is unknown.
        cards.pinned_word(None, "d failed");
        let told = cards.check(0).unwrap_err().to_string();
        assert!(told.contains("since d failed"), "{told}");
    }

    #[test]
    fn only_errors_that_stay_are_sticky() {
        assert!(!is_sticky(DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY)));
        assert!(is_sticky(DriverError(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS)));
        assert!(is_sticky(DriverError(CUresult::CUDA_ERROR_LAUNCH_FAILED)));
    }
}
