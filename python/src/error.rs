//! DataFusion's errors as Python's exceptions: the class says what kind of error it is, the message is the engine's.

use std::any::Any;
use std::error::Error as StdError;

use arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use pyo3::import_exception;
use pyo3::prelude::*;

import_exception!(datafusion_bowtie.errors, ConfigurationError);
import_exception!(datafusion_bowtie.errors, ExecutionError);
import_exception!(datafusion_bowtie.errors, FileError);
import_exception!(datafusion_bowtie.errors, NotSupportedError);
import_exception!(datafusion_bowtie.errors, PlanError);
import_exception!(datafusion_bowtie.errors, ResourcesError);

/// The exception for an error of the engine, by its root.
pub fn to_python(error: DataFusionError) -> PyErr {
    let message = error.strip_backtrace();
    match Kind::of(&error) {
        Kind::Plan => PlanError::new_err(message),
        Kind::Configuration => ConfigurationError::new_err(message),
        Kind::Resources => ResourcesError::new_err(message),
        Kind::NotSupported => NotSupportedError::new_err(message),
        Kind::File => FileError::new_err(message),
        Kind::Execution => ExecutionError::new_err(message),
    }
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Plan,
    Configuration,
    Execution,
    Resources,
    NotSupported,
    File,
}

impl Kind {
    fn of(error: &DataFusionError) -> Self {
        match error.find_root() {
            DataFusionError::SQL(..)
            | DataFusionError::Plan(_)
            | DataFusionError::SchemaError(..) => Self::Plan,
            DataFusionError::Configuration(_) => Self::Configuration,
            DataFusionError::ResourcesExhausted(_) => Self::Resources,
            DataFusionError::NotImplemented(_) => Self::NotSupported,
            DataFusionError::ObjectStore(_) | DataFusionError::IoError(_) => Self::File,
            DataFusionError::ArrowError(error, _) => match &**error {
                ArrowError::NotYetImplemented(_) => Self::NotSupported,
                ArrowError::IoError(..) => Self::File,
                ArrowError::ExternalError(error) if is_of_files(&**error) => Self::File,
                _ => Self::Execution,
            },
            DataFusionError::External(error) if is_of_files(&**error) => Self::File,
            // The first of several that were found.
            DataFusionError::Collection(errors) => errors.first().map_or(Self::Execution, Self::of),
            _ => Self::Execution,
        }
    }
}

fn is_of_files(error: &(dyn StdError + 'static)) -> bool {
    error.is::<object_store::Error>() || error.is::<std::io::Error>()
}

/// What a panic said.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    let said = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!(
        "the engine panicked, which is a bug: {}",
        said.unwrap_or("no message")
    )
}
