//! Where matches go that a technique finds: lists of them, or their counts alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::device::budget::{Budget, Lease};
use crate::device::host::sets::encode::encoding::Sets;
use crate::device::host::sets::self_join::Half;
use crate::error::Result;

/// Matches of a block of searching sets.
pub(crate) trait Sink {
    /// Whether the first match of a searching set is as good as all.
    const FIRST_ONLY: bool;

    /// Searching set `i` of the block matches indexed position `position`: said once.
    fn found(&mut self, i: usize, position: usize);

    /// Whether more matches of searching set `i` would be of no use.
    fn is_full(&self, i: usize) -> bool;

    /// Leases what it holds by now.
    fn settle(&mut self) -> Result<()>;
}

/// A list for each searching set.
pub(crate) struct Lists {
    lists: Vec<Vec<u32>>,
    leases: Vec<Lease>,
    leased: usize,
    budget: Arc<Budget>,
}

impl Lists {
    /// Matches that are leased at once, at least.
    const STEP: usize = 1 << 8;

    pub(crate) fn new(sets: usize, budget: &Arc<Budget>) -> Self {
        Self {
            lists: vec![vec![]; sets],
            leases: vec![],
            leased: 0,
            budget: Arc::clone(budget),
        }
    }

    /// How many each set has, the matches of all one after the other, and their leases.
    pub(crate) fn finish(mut self) -> Result<(Vec<u32>, Vec<u32>, Vec<Lease>)> {
        self.settle()?;
        let counts = self.lists.iter().map(|list| list.len() as u32).collect();
        Ok((counts, self.lists.concat(), self.leases))
    }
}

impl Sink for Lists {
    const FIRST_ONLY: bool = false;

    fn found(&mut self, i: usize, position: usize) {
        self.lists[i].push(position as u32);
    }

    fn is_full(&self, _: usize) -> bool {
        false
    }

    fn settle(&mut self) -> Result<()> {
        let held: usize = self.lists.iter().map(Vec::len).sum();
        if held > self.leased {
            let more = (held - self.leased).max(Self::STEP).max(self.leased / 2);
            let lease = self.budget.lease(more as u64 * 4, "matches of sets")?;
            self.leases.push(lease);
            self.leased += more;
        }
        Ok(())
    }
}

/// How many each searching set has, and each indexed position if these are counted.
pub(crate) struct Counts<'a> {
    pub(crate) counts: Vec<u32>,
    pub(crate) indexed: &'a [AtomicU32],
    pub(crate) mirror: Option<Mirror<'a>>,
}

/// Matches that follow from others, where both sides are the same sets.
pub(crate) struct Mirror<'a> {
    pub(crate) half: Half,
    pub(crate) sets: &'a Sets,
    /// The block's first searching position.
    pub(crate) first: usize,
    /// By searching position.
    pub(crate) counts: &'a [AtomicU32],
}

fn add_one(counts: &[AtomicU32], at: usize) {
    if let Some(count) = counts.get(at) {
        count.fetch_add(1, Ordering::Relaxed);
    }
}

impl Sink for Counts<'_> {
    const FIRST_ONLY: bool = false;

    fn found(&mut self, i: usize, position: usize) {
        self.counts[i] += 1;
        add_one(self.indexed, position);
        if let Some(mirror) = &self.mirror {
            let at = mirror.first + i;
            if mirror.half.mirrors(mirror.sets, at, position) {
                add_one(mirror.counts, position);
                add_one(self.indexed, at);
            }
        }
    }

    fn is_full(&self, _: usize) -> bool {
        false
    }

    fn settle(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Whether each searching set has one.
pub(crate) struct Exists {
    pub(crate) counts: Vec<u32>,
}

impl Sink for Exists {
    const FIRST_ONLY: bool = true;

    fn found(&mut self, i: usize, _: usize) {
        self.counts[i] = 1;
    }

    fn is_full(&self, i: usize) -> bool {
        self.counts[i] > 0
    }

    fn settle(&mut self) -> Result<()> {
        Ok(())
    }
}
