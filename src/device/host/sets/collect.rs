//! Sinks of the matches that techniques find: lists, counts or existence.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::device::budget::{Budget, Lease};
use crate::device::host::sets::encode::encoding::Sets;
use crate::device::host::sets::encode::members::Members;
use crate::device::host::sets::self_join::SelfJoinHalf;
use crate::error::Result;

/// Receives the matches of a block of probe sets.
pub(crate) trait Sink {
    /// Whether only the existence of a match matters, not the number.
    const FIRST_ONLY: bool;

    /// Probe set `i` of the block matches indexed position `position`. Called once for a match.
    fn found(&mut self, i: usize, position: usize);

    /// Whether further matches of probe set `i` are not needed.
    fn is_full(&self, i: usize) -> bool;

    /// Reserves memory for the matches received so far.
    fn settle(&mut self) -> Result<()>;
}

/// A list of matches for each probe set.
pub(crate) struct Lists {
    lists: Vec<Vec<u32>>,
    leases: Vec<Lease>,
    leased: usize,
    budget: Arc<Budget>,
}

impl Lists {
    /// The least number of matches that a reservation adds.
    const STEP: usize = 1 << 8;

    pub(crate) fn new(sets: usize, budget: &Arc<Budget>) -> Self {
        Self {
            lists: vec![vec![]; sets],
            leases: vec![],
            leased: 0,
            budget: Arc::clone(budget),
        }
    }

    /// The number of matches of each set, the concatenated lists, and their reservations.
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

/// The number of matching rows of each probe set, and on request of each indexed position.
pub(crate) struct Counts<'a> {
    pub(crate) counts: Vec<u32>,
    pub(crate) indexed: &'a [AtomicU32],
    /// The first probe position of the block.
    pub(crate) first: usize,
    /// The rows of the indexed positions, and of the probe positions.
    pub(crate) members: [&'a Members; 2],
    pub(crate) mirror: Option<Mirror<'a>>,
}

/// In a self join, the matches that follow by symmetry.
pub(crate) struct Mirror<'a> {
    pub(crate) half: SelfJoinHalf,
    pub(crate) sets: &'a Sets,
    /// By probe position.
    pub(crate) counts: &'a [AtomicU32],
}

fn add(counts: &[AtomicU32], at: usize, rows: impl FnOnce() -> u32) {
    if let Some(count) = counts.get(at) {
        count.fetch_add(rows(), Ordering::Relaxed);
    }
}

impl Sink for Counts<'_> {
    const FIRST_ONLY: bool = false;

    fn found(&mut self, i: usize, position: usize) {
        let (at, [indexed, probe]) = (self.first + i, self.members);
        self.counts[i] += indexed.count(position);
        add(self.indexed, position, || probe.count(at));
        if let Some(mirror) = &self.mirror
            && mirror.half.mirrors(mirror.sets, at, position)
        {
            add(mirror.counts, position, || indexed.count(at));
            add(self.indexed, at, || probe.count(position));
        }
    }

    fn is_full(&self, _: usize) -> bool {
        false
    }

    fn settle(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Whether each probe set has a match.
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
