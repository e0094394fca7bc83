//! The threads of the process for work on the host: one pool of all cores, whatever the devices and their budgets.

use std::sync::Arc;

use parking_lot::Mutex;
use rayon::ThreadPool;

use crate::error::{BowtieError, Result};

/// The pool, started once.
pub(crate) fn pool() -> Result<Arc<ThreadPool>> {
    static POOL: Mutex<Option<Arc<ThreadPool>>> = Mutex::new(None);
    let mut started = POOL.lock();
    if let Some(pool) = started.as_ref() {
        return Ok(Arc::clone(pool));
    }
    let pool = rayon::ThreadPoolBuilder::new()
        .thread_name(|i| format!("bowtie-host-{i}"))
        .build()
        .map_err(|e| BowtieError::Device(format!("cannot start the host's threads: {e}")))?;
    Ok(Arc::clone(started.insert(Arc::new(pool))))
}

/// Runs `work`, whose parallel iterators use the pool. They never use rayon's global pool: an application may block all threads of that in
/// waits for queries, which would then wait for these threads.
pub(crate) fn in_pool<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T> {
    Ok(pool()?.install(work))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::thread;

    use rayon::prelude::*;

    use super::*;

    #[test]
    fn parallel_iterators_use_the_pool() {
        let names = in_pool(|| {
            let name = |_| thread::current().name().unwrap_or_default().to_string();
            (0..1000).into_par_iter().map(name).collect::<BTreeSet<_>>()
        });
        let names = names.unwrap();
        let of_pool = names.iter().all(|name| name.starts_with("bowtie-host-"));
        assert!(!names.is_empty() && of_pool, "{names:?}");
    }
}
