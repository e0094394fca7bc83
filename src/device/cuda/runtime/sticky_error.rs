//! A card that is lost to the process: after some errors its context refuses all work, also that of queries that did nothing wrong,
//! until the process ends. New queries are told so, or go to the host under `auto`. With one card all are given up.

use std::sync::OnceLock;

use cudarc::driver::DriverError;
use cudarc::driver::sys::CUresult;

use crate::error::{BowtieError, Result};

/// The first lasting error of the process.
#[derive(Debug, Default)]
pub(crate) struct Loss(OnceLock<String>);

static LOSS: Loss = Loss(OnceLock::new());

/// Notes an error, if it lasts; whether it does.
pub(crate) fn note(error: DriverError, what: &str) -> bool {
    LOSS.note(error, what)
}

/// An error once a lasting one was met.
pub(crate) fn check_not_lost() -> Result<()> {
    LOSS.check()
}

impl Loss {
    fn note(&self, error: DriverError, what: &str) -> bool {
        let lasts = lasts(error);
        if lasts {
            self.0.get_or_init(|| what.to_string());
        }
        lasts
    }

    fn check(&self) -> Result<()> {
        match self.0.get() {
            None => Ok(()),
            Some(what) => Err(BowtieError::Device(format!(
                "GPUs take no more work of this process, since {what}: restart the process, or SET bowtie.device = 'host'"
            ))),
        }
    }
}

/// As the driver's documentation says: the context can be used no more.
fn lasts(error: DriverError) -> bool {
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
    fn lasting_errors_are_remembered() {
        let loss = Loss::default();
        assert!(!loss.note(DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY), "a"));
        loss.check().unwrap();
        assert!(loss.note(
            DriverError(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS),
            "b failed"
        ));
        assert!(loss.note(DriverError(CUresult::CUDA_ERROR_LAUNCH_FAILED), "c failed"));
        let told = loss.check().unwrap_err().to_string();
        assert!(told.contains("since b failed: restart"), "{told}");
    }
}
