//! The process's runtime: every future of this crate runs on its threads, while the calling thread waits without the GIL.
//!
//! ```text
//!  Python thread ── spawn ──► worker thread: plan, execute
//!       │ detached from Python       │
//!       │ every 50 ms: signals?      ▼
//!       └──────── channel ◄──── result
//! ```

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use datafusion::common::exec_datafusion_err;
use datafusion::error::Result;
use futures::FutureExt;
use pyo3::prelude::*;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::AbortHandle;

use crate::error::{ExecutionError, panic_text, to_python};

/// How often a waiting thread asks Python for signals.
const SIGNALS: Duration = Duration::from_millis(50);

/// How long the end of the interpreter waits for tasks that do not yield.
const AT_EXIT: Duration = Duration::from_secs(1);

/// The handle of the runtime, and the process that made it.
static SHARED: OnceLock<(u32, Handle)> = OnceLock::new();

/// The runtime itself, until the interpreter ends.
static OWNED: Mutex<Option<Runtime>> = Mutex::new(None);

/// # Errors
/// In a process that was forked from the one that made the runtime: its threads are not there.
pub fn handle() -> PyResult<&'static Handle> {
    let (process, handle) = match SHARED.get() {
        Some(shared) => shared,
        None => start()?,
    };
    if *process == std::process::id() {
        return Ok(handle);
    }
    Err(ExecutionError::new_err(
        "this process was forked from one that had used datafusion_bowtie, and threads do not survive a fork: start worker processes with \
         multiprocessing's method 'spawn' or 'forkserver', and connect in each of them",
    ))
}

fn start() -> PyResult<&'static (u32, Handle)> {
    let mut owned = OWNED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(shared) = SHARED.get() {
        return Ok(shared);
    }
    let runtime = Builder::new_multi_thread()
        .enable_all()
        .thread_name("datafusion-bowtie")
        .build()
        .map_err(|error| {
            ExecutionError::new_err(format!(
                "the threads of datafusion_bowtie could not be started: {error}"
            ))
        })?;
    let handle = runtime.handle().clone();
    *owned = Some(runtime);
    Ok(SHARED.get_or_init(|| (std::process::id(), handle)))
}

/// Ends all queries. Python calls it at its end: a thread that dropped an imported buffer later would need an interpreter that is gone.
#[pyfunction]
pub fn shutdown(py: Python<'_>) {
    if SHARED
        .get()
        .is_none_or(|(process, _)| *process != std::process::id())
    {
        return;
    }
    py.detach(|| {
        let runtime = OWNED.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(runtime) = runtime {
            runtime.shutdown_timeout(AT_EXIT);
        }
    });
}

/// Runs `work` and waits for it without the GIL. A signal whose handler raises, such as Ctrl-C, ends both.
///
/// # Errors
/// That of `work`, that of a signal's handler, or a panic's text.
pub fn wait<T, F>(py: Python<'_>, work: F) -> PyResult<T>
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    let runtime = handle()?;
    let (sender, receiver) = mpsc::sync_channel(1);
    let task = runtime.spawn(async move {
        let result = AssertUnwindSafe(work).catch_unwind().await;
        let result =
            result.unwrap_or_else(|panic| Err(exec_datafusion_err!("{}", panic_text(&*panic))));
        // Whoever stopped waiting has aborted this task, too.
        let _ = sender.send(result);
    });
    let _task = Abort(task.abort_handle());
    py.detach(move || {
        loop {
            match receiver.recv_timeout(SIGNALS) {
                Ok(result) => return result.map_err(to_python),
                // None when the interpreter ends, which ends the query.
                Err(RecvTimeoutError::Timeout) => {
                    Python::try_attach(|py| py.check_signals()).unwrap_or(Ok(()))?;
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(ExecutionError::new_err(
                        "the query was cancelled: the interpreter ends",
                    ));
                }
            }
        }
    })
}

/// Aborts a task that nobody waits for any more: its future is dropped where it yields next, and its device work with it.
struct Abort(AbortHandle);

impl Drop for Abort {
    fn drop(&mut self) {
        self.0.abort();
    }
}
