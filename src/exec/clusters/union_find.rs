//! [`UnionFind`]: disjoint sets of the numbers 0, 1, …, merged pair by pair.

use datafusion::error::Result;

use crate::exec::clusters::table_memory::TableMemory;

/// A forest with a tree for each set. A parent is never above its child in number, so that the root is the least number of its set.
#[derive(Debug, Default)]
pub(super) struct UnionFind {
    parents: Vec<u32>,
}

impl UnionFind {
    /// Adds numbers up to `length`, each a set by itself.
    ///
    /// # Errors
    /// The memory pool's.
    pub(super) fn extend_to(&mut self, length: usize, memory: &TableMemory) -> Result<()> {
        let known = self.parents.len();
        memory.vec_room(&mut self.parents, length.saturating_sub(known))?;
        self.parents.extend(known as u32..length as u32);
        Ok(())
    }

    /// Merges the sets of two numbers.
    pub(super) fn union(&mut self, a: u32, b: u32) {
        let (a, b) = (self.find(a), self.find(b));
        self.parents[a.max(b) as usize] = a.min(b);
    }

    /// The root of a number's set. On the way each number gets its grandparent for a parent, which halves the path.
    fn find(&mut self, number: u32) -> u32 {
        let mut at = number as usize;
        loop {
            let parent = self.parents[at];
            if parent as usize == at {
                return parent;
            }
            let grandparent = self.parents[parent as usize];
            self.parents[at] = grandparent;
            at = grandparent as usize;
        }
    }

    /// The root of each number's set.
    pub(super) fn into_roots(mut self) -> Vec<u32> {
        // Parents come first, so theirs are roots by then.
        for number in 0..self.parents.len() {
            self.parents[number] = self.parents[self.parents[number] as usize];
        }
        self.parents
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::execution::memory_pool::{MemoryPool, UnboundedMemoryPool};

    use super::*;

    fn roots(numbers: u32, pairs: impl IntoIterator<Item = (u32, u32)>) -> Vec<u32> {
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        let mut sets = UnionFind::default();
        let memory = TableMemory::new("sets", &pool);
        sets.extend_to(numbers as usize, &memory).unwrap();
        for (a, b) in pairs {
            sets.union(a, b);
        }
        sets.into_roots()
    }

    #[test]
    fn sets_have_their_least_number_for_a_root() {
        assert!(roots(0, []).is_empty());
        assert_eq!(roots(3, []), [0, 1, 2]);
        assert_eq!(
            roots(7, [(5, 6), (1, 1), (6, 2), (3, 4), (4, 3)]),
            [0, 1, 2, 3, 3, 2, 2]
        );
    }

    #[test]
    fn chains_of_any_direction() {
        let n = 100_000;
        let whole = vec![0; n as usize];
        assert_eq!(roots(n, (1..n).map(|i| (i - 1, i))), whole);
        assert_eq!(roots(n, (1..n).rev().map(|i| (i, i - 1))), whole);
        // Every other link first.
        let even = (1..n).filter(|i| i % 2 == 0);
        let odd = (1..n).filter(|i| i % 2 == 1);
        assert_eq!(roots(n, even.chain(odd).map(|i| (i - 1, i))), whole);
    }
}
