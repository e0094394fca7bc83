//! [`Passes`]: a tile whose matches are found by several range joins, one after the other, in which nothing is tested.

use crate::error::Result;
use crate::exec::transfer::staged_chunk::Parts;
use crate::ir::side::Side;
use crate::spec::guard::Guard;
use crate::spec::interval::OverlapPasses;
use crate::spec::join::{JoinSpec, MatchSpec};

/// What a tile's matches are found by.
#[derive(Debug)]
pub(crate) struct Passes {
    /// The ways to find the matches of a tile, each by two passes.
    ways: Vec<OverlapPasses>,
    /// The left and the right chunk for which a way was chosen last, and which.
    chosen: Option<((usize, usize), Option<usize>)>,
}

impl Passes {
    pub(crate) fn of(spec: &JoinSpec) -> Self {
        Self {
            ways: OverlapPasses::of(spec),
            chosen: None,
        }
    }

    /// The condition of a pass, by its number.
    pub(crate) fn spec(&self, pass: usize) -> &MatchSpec {
        &self.ways[pass / 2].passes[pass % 2]
    }

    /// The first and the second pass over tiles of these chunks; `None` if all matches are found at once.
    pub(crate) fn choose(
        &mut self,
        chunks: (usize, usize),
        parts: impl Fn(Side, usize) -> Result<Parts>,
    ) -> Result<Option<[usize; 2]>> {
        let known = self.chosen.filter(|(of, _)| *of == chunks);
        let way = match known {
            Some((_, way)) => way,
            None => self.way_of(&parts)?,
        };
        self.chosen = Some((chunks, way));
        Ok(way.map(|way| [2 * way, 2 * way + 1]))
    }

    fn way_of(&self, parts: &impl Fn(Side, usize) -> Result<Parts>) -> Result<Option<usize>> {
        let holds = |guard: &Guard| guard.holds(parts);
        for (at, way) in self.ways.iter().enumerate() {
            let [first, second] = &way.guards;
            if holds(first)? && holds(second)? {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }
}
