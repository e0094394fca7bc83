//! The native module of the Python package `datafusion_bowtie`, whose classes in Python are the interface.
//!
//! ```text
//!  datafusion_bowtie/connection.py ─► context ─► frame ─► runtime: wait without the GIL, with signals
//!       tables of Python  ─► imported, interned           │   (valid_buffers checks them)
//!       paths and URLs    ─► files                        ├─► stream, values: rows for Python
//!       parameters        ─► parameters                   └─► reports: of plans, profiles
//! ```

#![forbid(unsafe_code)]

mod context;

mod error;
mod files;
mod frame;
mod head;
mod imported;
mod interned;
mod parameters;
mod reports;
mod runtime;
mod stream;
mod valid_buffers;
mod values;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[pyo3::pymodule(name = "_lib")]
mod native {
    #[pymodule_export]
    use crate::context::Context;
    #[pymodule_export]
    use crate::frame::Frame;
    #[pymodule_export]
    use crate::head::Head;
    #[pymodule_export]
    use crate::imported::ImportedTable;
    #[pymodule_export]
    use crate::runtime::shutdown;
    #[pymodule_export]
    use crate::stream::Batches;

    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "Python's name")]
    const version: &str = env!("CARGO_PKG_VERSION");
    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "Python's name")]
    const datafusion_version: &str = datafusion::DATAFUSION_VERSION;
}
