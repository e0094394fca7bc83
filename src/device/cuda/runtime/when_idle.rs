//! [`WhenIdle`]: does something once no work was done for a while. So an idle card gets back what its memory pool keeps.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Watches for the end of work. Its thread lives from the end of some work until that was followed by a quiet time.
#[derive(Debug)]
pub(crate) struct WhenIdle {
    /// The quiet time.
    quiet: Duration,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    /// When work ended last.
    ended: Instant,
    is_watched: bool,
}

impl WhenIdle {
    /// For work that is followed by `quiet` without any.
    pub(crate) fn after(quiet: Duration) -> Self {
        let state = State {
            ended: Instant::now(),
            is_watched: false,
        };
        Self {
            quiet,
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Notes that some work ended. If none does for the quiet time, and `is_idle` says that none runs, `act` is done by a thread, once.
    pub(crate) fn work_ended(
        &self,
        is_idle: impl Fn() -> bool + Send + 'static,
        act: impl FnOnce() + Send + 'static,
    ) {
        let mut state = self.state.lock();
        state.ended = Instant::now();
        if state.is_watched {
            return;
        }
        let (watched, quiet) = (Arc::clone(&self.state), self.quiet);
        let watch = move || {
            loop {
                let idle_at = watched.lock().ended + quiet;
                let left = idle_at.saturating_duration_since(Instant::now());
                if !left.is_zero() {
                    thread::sleep(left);
                } else if is_idle() {
                    break;
                } else {
                    thread::sleep(quiet);
                }
            }
            // Work that ends from now on is watched by another thread.
            watched.lock().is_watched = false;
            act();
        };
        let thread = thread::Builder::new().name("bowtie-idle".into());
        state.is_watched = thread.spawn(watch).is_ok();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn it_is_done_once_after_the_last_work() {
        let quiet = Duration::from_millis(200);
        let idle = WhenIdle::after(quiet);
        let (tell, done) = mpsc::channel();
        let asked = Arc::new(AtomicUsize::new(0));
        let work_ends = || {
            let (tell, asked) = (tell.clone(), Arc::clone(&asked));
            // The first time it is asked, work still runs.
            let is_idle = move || asked.fetch_add(1, Ordering::Relaxed) > 0;
            let ended = Instant::now();
            idle.work_ended(is_idle, move || tell.send(Instant::now()).unwrap());
            ended
        };
        for _ in 0..20 {
            work_ends();
        }
        let last = work_ends();
        let first_act = done.recv_timeout(Duration::from_secs(60)).unwrap();
        assert!(first_act - last >= 2 * quiet);
        assert!(done.try_recv().is_err());
        assert_eq!(asked.load(Ordering::Relaxed), 2);
        // More work is watched again.
        let last = work_ends();
        let second_act = done.recv_timeout(Duration::from_secs(60)).unwrap();
        assert!(second_act - last >= quiet);
        assert_eq!(asked.load(Ordering::Relaxed), 3);
    }
}
