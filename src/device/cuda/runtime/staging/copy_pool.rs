//! [`CopyPool`]: threads that help with large copies, piece by piece.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::Builder;

use parking_lot::{Condvar, Mutex};

use crate::error::{BowtieError, Result};

/// A copy in pieces, which several threads take in turn.
pub(crate) trait Pieces: Sync {
    /// Copies the next piece; false if none is left.
    fn copy_next(&self) -> Result<bool>;
}

/// Threads that take pieces of all running copies round robin, so that a short copy does not wait for a long one. Idle
/// threads sleep.
#[derive(Debug)]
pub(crate) struct CopyPool(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Signalled when a copy begins, or the pool ends.
    began: Condvar,
    /// Signalled when the last helper of a finished copy stops.
    left: Condvar,
}

#[derive(Debug, Default)]
struct State {
    copies: Vec<Copy>,
    /// The index of the copy that is served next.
    turn: usize,
    /// The number of copies so far, from which each gets its own.
    count: u64,
    over: bool,
}

/// A running copy, with its helpers.
struct Copy {
    number: u64,
    pieces: &'static dyn Pieces,
    helpers: usize,
    /// Whether no piece is left.
    ended: bool,
    error: Option<BowtieError>,
}

impl std::fmt::Debug for Copy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "copy {} with {} helpers", self.number, self.helpers)
    }
}

impl State {
    /// The next copy with pieces left.
    fn next(&mut self) -> Option<&mut Copy> {
        let copies = self.copies.len();
        let at = (0..copies)
            .map(|i| (self.turn + i) % copies)
            .find(|at| !self.copies[*at].ended)?;
        self.turn = at + 1;
        Some(&mut self.copies[at])
    }

    fn copy(&mut self, number: u64) -> Option<&mut Copy> {
        self.copies.iter_mut().find(|copy| copy.number == number)
    }
}

/// Copies one piece. A panic becomes an error, so that nobody waits for the copy forever.
fn copy_next(pieces: &dyn Pieces) -> Result<bool> {
    catch_unwind(AssertUnwindSafe(|| pieces.copy_next()))
        .unwrap_or_else(|_| Err(BowtieError::Internal("a copy panicked".into())))
}

impl CopyPool {
    /// A pool of `threads` threads with this name; fewer if the system has no more.
    pub(crate) fn new(name: &str, threads: usize) -> Self {
        let shared = Arc::new(Shared::default());
        for _ in 0..threads {
            let shared = Arc::clone(&shared);
            // Without helpers, the calling thread copies alone.
            let _ = Builder::new()
                .name(name.into())
                .spawn(move || shared.help());
        }
        Self(shared)
    }

    /// Copies all pieces: on the calling thread, and on the pool's threads if there are `several`.
    pub(crate) fn copy(&self, pieces: &dyn Pieces, several: bool) -> Result<()> {
        if !several {
            while copy_next(pieces)? {}
            return Ok(());
        }
        let helped = self.0.begin(pieces);
        let mut own = Ok(true);
        while matches!(own, Ok(true)) && helped.has_no_error() {
            own = copy_next(pieces);
        }
        match (helped.end(), own) {
            (Some(error), _) | (None, Err(error)) => Err(error),
            (None, Ok(_)) => Ok(()),
        }
    }
}

impl Drop for CopyPool {
    fn drop(&mut self) {
        self.0.state.lock().over = true;
        self.0.began.notify_all();
    }
}

impl Shared {
    fn help(&self) {
        let mut state = self.state.lock();
        while !state.over {
            let Some(copy) = state.next() else {
                self.began.wait(&mut state);
                continue;
            };
            copy.helpers += 1;
            let (number, pieces) = (copy.number, copy.pieces);
            drop(state);
            let copied = copy_next(pieces);
            state = self.state.lock();
            // It stays as long as it has helpers.
            let Some(copy) = state.copy(number) else {
                continue;
            };
            copy.helpers -= 1;
            match copied {
                Ok(more) => copy.ended |= !more,
                Err(error) => {
                    copy.ended = true;
                    copy.error.get_or_insert(error);
                }
            }
            if copy.ended && copy.helpers == 0 {
                self.left.notify_all();
            }
        }
    }

    fn begin(&self, pieces: &dyn Pieces) -> Helped<'_> {
        // SAFETY: helpers find the copy in the list only until `Helped` is dropped, which waits until no helper uses it
        // any more; the caller's borrow outlives `Helped`.
        let pieces = unsafe { std::mem::transmute::<&dyn Pieces, &'static dyn Pieces>(pieces) };
        let mut state = self.state.lock();
        state.count += 1;
        let number = state.count;
        state.copies.push(Copy {
            number,
            pieces,
            helpers: 0,
            ended: false,
            error: None,
        });
        drop(state);
        self.began.notify_all();
        Helped {
            shared: self,
            number,
        }
    }

    /// Removes a copy from the list once it has no helpers. Returns its error.
    fn end(&self, number: u64) -> Option<BowtieError> {
        let mut state = self.state.lock();
        loop {
            let copy = state.copy(number)?;
            copy.ended = true;
            if copy.helpers == 0 {
                break;
            }
            self.left.wait(&mut state);
        }
        let at = state.copies.iter().position(|copy| copy.number == number)?;
        state.copies.remove(at).error
    }
}

/// A copy that other threads help with until this is dropped.
struct Helped<'a> {
    shared: &'a Shared,
    number: u64,
}

impl Helped<'_> {
    /// Whether no helper has failed.
    fn has_no_error(&self) -> bool {
        let mut state = self.shared.state.lock();
        let copy = state.copy(self.number);
        copy.is_none_or(|copy| copy.error.is_none())
    }

    fn end(self) -> Option<BowtieError> {
        self.shared.end(self.number)
    }
}

impl Drop for Helped<'_> {
    fn drop(&mut self) {
        let _ = self.shared.end(self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Counts its pieces, one of which fails or panics.
    struct Counted {
        next: AtomicUsize,
        pieces: usize,
        done: AtomicUsize,
        fails: Option<(usize, bool)>,
    }

    impl Counted {
        fn new(pieces: usize, fails: Option<(usize, bool)>) -> Self {
            Self {
                next: AtomicUsize::new(0),
                pieces,
                done: AtomicUsize::new(0),
                fails,
            }
        }
    }

    impl Pieces for Counted {
        fn copy_next(&self) -> Result<bool> {
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            match self.fails {
                Some((piece, true)) if piece == at => panic!("a piece"),
                Some((piece, false)) if piece == at => {
                    return Err(BowtieError::Internal("a piece".into()));
                }
                _ if at >= self.pieces => return Ok(false),
                _ => {}
            }
            self.done.fetch_add(1, Ordering::Relaxed);
            Ok(true)
        }
    }

    #[test]
    fn every_piece_is_copied_once() {
        for threads in [0, 1, 3] {
            let copiers = CopyPool::new("test", threads);
            std::thread::scope(|scope| {
                for pieces in [0, 1, 2, 31, 1000] {
                    let copiers = &copiers;
                    scope.spawn(move || {
                        for several in [true, false] {
                            let copy = Counted::new(pieces, None);
                            copiers.copy(&copy, several).unwrap();
                            assert_eq!(copy.done.into_inner(), pieces);
                        }
                    });
                }
            });
            assert!(copiers.0.state.lock().copies.is_empty());
        }
    }

    #[test]
    fn a_piece_that_fails_fails_its_copy_alone() {
        let copiers = CopyPool::new("test", 3);
        for panics in [false, true] {
            let fails = Counted::new(100, Some((50, panics)));
            let error = copiers.copy(&fails, true).unwrap_err().to_string();
            assert!(
                error.contains("a piece") || error.contains("panicked"),
                "{error}"
            );
            copiers.copy(&Counted::new(100, None), true).unwrap();
        }
        assert!(copiers.0.state.lock().copies.is_empty());
    }
}
