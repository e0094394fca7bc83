//! Folds of matches as the walk over zone maps, or a pair program on its candidates, finds them. In: matches, and values by build position. Out: a fold of
//! each probe position.

use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use crate::device::data::matches::Matches;
use crate::device::host::theta::pair_program::Bound;
use crate::device::host::theta::zone_map::{self, HostMatches, LEAF, Span, bits_of};
use crate::error::{BowtieError, Result};

/// Matches that are found anew for each fold.
pub(super) struct WalkedFold<'a> {
    matches: HostMatches<'a>,
    program: Option<Bound<'a>>,
    cancelled: &'a AtomicBool,
}

impl<'a> WalkedFold<'a> {
    pub(super) fn new(matches: Matches<'a>, cancelled: &'a AtomicBool) -> Result<Self> {
        Ok(Self {
            program: matches.program.map(Bound::new).transpose()?,
            matches: HostMatches::new(&matches)?,
            cancelled,
        })
    }

    /// The fold of the values of each probe position's matches; `zero` without one.
    pub(super) fn fold<V: Copy + Send + Sync>(
        &self,
        values: &[V],
        zero: V,
        combine: &(impl Fn(V, V) -> V + Sync),
    ) -> Result<Vec<V>> {
        let mut folded = vec![zero; self.matches.lo.len()];
        let groups = folded.par_chunks_mut(LEAF).enumerate();
        groups.try_for_each_init(
            || self.program.as_ref().map(Bound::scratch),
            |scratch, (group, folded)| {
                if self.cancelled.load(Ordering::Relaxed) {
                    return Err(BowtieError::Cancelled);
                }
                let visit = |row: usize, span: Span| {
                    let folded = &mut folded[row - group * LEAF];
                    let all = match span {
                        Span::All(positions) => values[positions].iter().copied().reduce(combine),
                        Span::Bits { base, bits } => {
                            bits_of(bits).map(|bit| values[base + bit]).reduce(combine)
                        }
                    };
                    *folded = all.map_or(*folded, |all| combine(*folded, all));
                    true
                };
                match (&self.program, scratch) {
                    (Some(program), Some(scratch)) => program.walk(
                        scratch,
                        &self.matches,
                        group,
                        u64::MAX,
                        self.cancelled,
                        visit,
                    ),
                    _ => {
                        zone_map::walk(&self.matches, group, u64::MAX, visit);
                        Ok(())
                    }
                }
            },
        )?;
        Ok(folded)
    }
}
