//! [`by_halves`]: work on the rows of a chunk. If memory does not suffice for all rows, it is done on their halves, and
//! on halves of these.

use std::ops::Range;

use crate::error::{BowtieError, Result};

/// The answer to a failure of the work on some rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Repeat the work on the same rows: something was evicted.
    Repeat,
    /// Work on their halves, one after the other. Fail if the rows cannot be halved.
    Halve,
    /// Leave the halves of these rows, and the rows after them, for a later call.
    Pause,
    /// Fail.
    Fail,
}

/// How far, and where, rows are halved.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Halving {
    /// Ranges of at most this number of rows are not halved. If memory does not hold them, nothing useful fits.
    pub(crate) least: usize,
    /// The second half begins a multiple of this number of rows after the first.
    pub(crate) aligned: usize,
}

impl Halving {
    /// Halves down to `least` rows, anywhere.
    pub(crate) const fn down_to(least: usize) -> Self {
        Self { least, aligned: 1 }
    }

    /// Both halves, the first one first; `None` for too few rows.
    pub(crate) fn halves(self, rows: &Range<usize>) -> Option<[Range<usize>; 2]> {
        let middle = rows.start + (rows.len() / 2).next_multiple_of(self.aligned);
        let may = rows.len() > self.least && rows.start < middle && middle < rows.end;
        may.then_some([rows.start..middle, middle..rows.end])
    }
}

/// Some rows of a chunk.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) rows: Range<usize>,
    /// The rows cannot be halved: a failure of the work on them is final.
    pub(crate) is_last: bool,
}

/// Runs `work` on all `rows`, part by part in row order. `answer` decides what follows a failure. A failed attempt must
/// leave no effect.
pub(crate) fn by_halves<R: ?Sized>(
    run: &mut R,
    rows: Range<usize>,
    halving: Halving,
    work: impl FnMut(&mut R, &Part) -> Result<()>,
    answer: impl FnMut(&mut R, &BowtieError) -> Result<Answer>,
) -> Result<()> {
    let mut parts = vec![rows];
    next_parts(run, &mut parts, halving, work, answer)?;
    match parts.is_empty() {
        true => Ok(()),
        false => Err(BowtieError::Internal(
            "a pause where there is no later call".into(),
        )),
    }
}

/// As [`by_halves`], on the rows of `parts`, the last part first, until `answer` asks for a pause. The rest stays in
/// `parts`.
pub(crate) fn next_parts<R: ?Sized>(
    run: &mut R,
    parts: &mut Vec<Range<usize>>,
    halving: Halving,
    mut work: impl FnMut(&mut R, &Part) -> Result<()>,
    mut answer: impl FnMut(&mut R, &BowtieError) -> Result<Answer>,
) -> Result<()> {
    while let Some(rows) = parts.pop() {
        let halves = halving.halves(&rows);
        let part = Part {
            rows,
            is_last: halves.is_none(),
        };
        let Err(error) = work(run, &part) else {
            continue;
        };
        match (answer(run, &error)?, halves) {
            (Answer::Repeat, _) => parts.push(part.rows),
            (Answer::Pause, halves) => {
                match halves {
                    Some([first, second]) => parts.extend([second, first]),
                    None => parts.push(part.rows),
                }
                return Ok(());
            }
            (Answer::Halve, Some([first, second])) => parts.extend([second, first]),
            (Answer::Halve, None) | (Answer::Fail, _) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALVING: Halving = Halving {
        least: 2,
        aligned: 1,
    };

    fn refused(size: u64, most: u64) -> BowtieError {
        BowtieError::MustSplit {
            what: "part",
            size,
            most,
            unit: "rows",
        }
    }

    /// The parts on which the work succeeds, if memory suffices for `most` rows.
    fn done(rows: Range<usize>, halving: Halving, most: usize) -> Result<Vec<(usize, usize)>> {
        let mut parts = vec![];
        let work = |parts: &mut Vec<_>, part: &Part| match part.rows.len() <= most {
            true => {
                parts.push((part.rows.start, part.rows.end));
                Ok(())
            }
            false => Err(refused(part.rows.len() as u64, most as u64)),
        };
        by_halves(&mut parts, rows, halving, work, |_, _| Ok(Answer::Halve))?;
        Ok(parts)
    }

    #[test]
    fn parts_come_in_order() {
        assert_eq!(done(5..15, HALVING, 10).unwrap(), [(5, 15)]);
        assert_eq!(
            done(5..15, HALVING, 3).unwrap(),
            [(5, 7), (7, 10), (10, 12), (12, 15)]
        );
        assert!(matches!(
            done(5..15, HALVING, 1),
            Err(BowtieError::MustSplit { size: 2, .. })
        ));
        assert_eq!(done(3..3, HALVING, 0).unwrap(), [(3, 3)]);
    }

    #[test]
    fn parts_begin_at_whole_words() {
        let words = Halving {
            least: 0,
            aligned: 64,
        };
        assert_eq!(words.halves(&(0..64)), None);
        assert_eq!(words.halves(&(0..65)), Some([0..64, 64..65]));
        assert_eq!(words.halves(&(128..1000)), Some([128..576, 576..1000]));
        assert_eq!(words.halves(&(64..64)), None);
    }

    #[test]
    fn evicted_rows_are_tried_again_before_they_are_halved() {
        let (mut attempts, mut evictable) = (vec![], 1);
        let work = |attempts: &mut Vec<_>, part: &Part| {
            attempts.push((part.rows.clone(), part.is_last));
            match part.rows.len() <= 2 {
                true => Ok(()),
                false => Err(refused(part.rows.len() as u64, 2)),
            }
        };
        let answer = |_: &mut Vec<_>, _: &BowtieError| {
            evictable -= 1;
            Ok(match evictable >= 0 {
                true => Answer::Repeat,
                false => Answer::Halve,
            })
        };
        by_halves(&mut attempts, 0..4, HALVING, work, answer).unwrap();
        let expected = [(0..4, false), (0..4, false), (0..2, true), (2..4, true)];
        assert_eq!(attempts, expected);
    }

    #[test]
    fn after_a_pause_the_rest_is_done() {
        let all = 0..10;
        let (mut done, mut parts, mut calls) = (vec![], vec![all], 0);
        // Only one part fits until the caller has taken it.
        let work = |fits: &mut Vec<Range<usize>>, part: &Part| match part.rows.len() <= 5
            && fits.is_empty()
        {
            true => {
                fits.push(part.rows.clone());
                Ok(())
            }
            false => Err(refused(part.rows.len() as u64, 5)),
        };
        let answer = |fits: &mut Vec<_>, _: &BowtieError| match fits.is_empty() {
            true => Ok(Answer::Halve),
            false => Ok(Answer::Pause),
        };
        while !parts.is_empty() {
            let mut some = vec![];
            next_parts(&mut some, &mut parts, HALVING, work, answer).unwrap();
            done.extend(some.into_iter().flatten());
            calls += 1;
        }
        assert_eq!(done, Vec::from_iter(0..10));
        assert!(calls > 2, "{calls}");
        let paused = by_halves(&mut vec![], 0..10, HALVING, work, answer);
        assert!(matches!(paused, Err(BowtieError::Internal(_))));
    }

    #[test]
    fn other_errors_end_the_work() {
        let work = |_: &mut (), _: &Part| Err(BowtieError::Cancelled);
        let failed = by_halves(&mut (), 0..100, HALVING, work, |(), _| Ok(Answer::Fail));
        assert!(matches!(failed, Err(BowtieError::Cancelled)));
    }
}
