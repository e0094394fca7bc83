//! Connected components by a lock-free union-find (`kernels/graph/components.cu` has the same), and what is first in each of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rayon::prelude::*;

use crate::device::budget::{Budget, Lease};
use crate::device::data::buffer::Buffer;
use crate::device::data::structures::Components;
use crate::error::{BowtieError, Result};

/// Pairs or nodes that one task handles.
const TASK_ROWS: usize = 1 << 14;

/// A tree for each set of nodes, by the parents of nodes. A parent is never above its child in number, so that a root is the least node of
/// its set. A node that is no root never is one again, and its parent is always one of its ancestors, whichever of them a thread sees.
#[derive(Debug)]
pub(crate) struct Trees {
    parents: Vec<AtomicU32>,
    _lease: Lease,
}

impl Trees {
    /// Each node a tree by itself.
    pub(crate) fn new(budget: &Arc<Budget>, nodes: usize) -> Result<Self> {
        let lease = budget.lease(nodes as u64 * 4, "components")?;
        Ok(Self {
            parents: (0..nodes as u32).map(AtomicU32::new).collect(),
            _lease: lease,
        })
    }

    fn parent(&self, node: u32) -> u32 {
        self.parents[node as usize].load(Ordering::Relaxed)
    }

    /// The root of a node's tree. Path halving: each node on the way gets its grandparent as its parent.
    fn root(&self, mut node: u32) -> u32 {
        let mut parent = self.parent(node);
        while parent != node {
            let grandparent = self.parent(parent);
            if grandparent == parent {
                return parent;
            }
            self.parents[node as usize].store(grandparent, Ordering::Relaxed);
            (node, parent) = (parent, grandparent);
        }
        node
    }

    /// Merges the trees of two nodes.
    fn merge(&self, a: u32, b: u32) {
        let (mut a, mut b) = (self.root(a), self.root(b));
        while a != b {
            let (low, high) = (a.min(b), a.max(b));
            let parent = &self.parents[high as usize];
            match parent.compare_exchange(high, low, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                // Another thread was sooner.
                Err(seen) => (a, b) = (self.root(seen), self.root(low)),
            }
        }
    }

    /// Merges the trees of each pair of nodes. A pair with a number that is no node merges nothing.
    pub(crate) fn connect(
        &self,
        check_cancelled: &(dyn Fn() -> Result<()> + Sync),
        left: &[u32],
        right: &[u32],
    ) -> Result<()> {
        if left.len() != right.len() {
            return Err(BowtieError::Internal("halves of pairs".into()));
        }
        let pieces = left.par_chunks(TASK_ROWS).zip(right.par_chunks(TASK_ROWS));
        let nodes = self.parents.len();
        pieces.try_for_each(|(left, right)| {
            check_cancelled()?;
            for (a, b) in left.iter().zip(right) {
                if a != b && (*a as usize) < nodes && (*b as usize) < nodes {
                    self.merge(*a, *b);
                }
            }
            Ok(())
        })
    }

    /// The root of each node, and the number of roots.
    pub(crate) fn components(&self, budget: &Arc<Budget>) -> Result<Components> {
        let nodes = self.parents.len();
        let lease = budget.lease(nodes as u64 * 4, "components")?;
        let mut roots = vec![0u32; nodes];
        let count = roots.par_chunks_mut(TASK_ROWS).enumerate();
        let count = count.map(|(task, roots)| {
            let mut count = 0;
            for (i, root) in roots.iter_mut().enumerate() {
                let node = (task * TASK_ROWS + i) as u32;
                *root = self.root(node);
                count += usize::from(*root == node);
            }
            count
        });
        let count = count.sum();
        Ok(Components {
            roots: Buffer::host(roots, lease),
            count,
        })
    }
}

/// The first row of each of the `items`, whose numbers `of_row` has.
pub(crate) fn first_rows(
    budget: &Arc<Budget>,
    of_row: &[u32],
    items: usize,
) -> Result<Buffer<u32>> {
    let lease = budget.lease(items as u64 * 4, "first rows")?;
    let mut first = vec![u32::MAX; items];
    for (row, item) in (0u32..).zip(of_row) {
        if let Some(first) = first.get_mut(*item as usize) {
            *first = row.min(*first);
        }
    }
    Ok(Buffer::host(first, lease))
}

/// For each node the first one of its component in `order`.
pub(crate) fn first_of_component(
    budget: &Arc<Budget>,
    roots: &[u32],
    order: &[u32],
) -> Result<Buffer<u32>> {
    if roots.len() != order.len() {
        return Err(BowtieError::Internal("an order of other nodes".into()));
    }
    let lease = budget.lease(roots.len() as u64 * 4, "clusters")?;
    let _work = budget.lease(roots.len() as u64 * 4, "clusters")?;
    let mut first = vec![u32::MAX; roots.len()];
    for node in order {
        let first = &mut first[roots[*node as usize] as usize];
        if *first == u32::MAX {
            *first = *node;
        }
    }
    let clusters = roots.par_iter().with_min_len(TASK_ROWS);
    let clusters: Vec<u32> = clusters.map(|root| first[*root as usize]).collect();
    Ok(Buffer::host(clusters, lease))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The roots by a search from each node that none has reached, and the number of components.
    fn searched(nodes: usize, pairs: &[(u32, u32)]) -> (Vec<u32>, usize) {
        let mut neighbours = vec![vec![]; nodes];
        for (a, b) in pairs {
            if (*a as usize) < nodes && (*b as usize) < nodes {
                neighbours[*a as usize].push(*b);
                neighbours[*b as usize].push(*a);
            }
        }
        let (mut roots, mut count) = (vec![u32::MAX; nodes], 0);
        for root in 0..nodes as u32 {
            if roots[root as usize] != u32::MAX {
                continue;
            }
            count += 1;
            let mut reached = vec![root];
            while let Some(node) = reached.pop() {
                if roots[node as usize] == u32::MAX {
                    roots[node as usize] = root;
                    reached.extend(&neighbours[node as usize]);
                }
            }
        }
        (roots, count)
    }

    fn check(nodes: usize, batches: &[Vec<(u32, u32)>], what: &str) {
        let budget = Budget::new(u64::MAX);
        let trees = Trees::new(&budget, nodes).unwrap();
        for pairs in batches {
            let (left, right): (Vec<u32>, Vec<u32>) = pairs.iter().copied().unzip();
            trees.connect(&|| Ok(()), &left, &right).unwrap();
        }
        let components = trees.components(&budget).unwrap();
        let (roots, count) = searched(nodes, &batches.concat());
        assert_eq!(components.roots.on_host().unwrap()[..], roots, "{what}");
        assert_eq!(components.count, count, "{what}");
        // In the opposite order the last node of each component is the first one.
        let order: Vec<u32> = (0..nodes as u32).rev().collect();
        let first = first_of_component(&budget, &roots, &order).unwrap();
        let mut last = vec![0; nodes];
        for (node, root) in (0..).zip(&roots) {
            last[*root as usize] = node;
        }
        let last: Vec<u32> = roots.iter().map(|root| last[*root as usize]).collect();
        assert_eq!(first.on_host().unwrap()[..], last, "{what}");
        drop((trees, components, first));
        assert_eq!(budget.in_use(), 0);
    }

    #[test]
    fn components_are_those_of_a_search() {
        let mut state = 3u64;
        let mut random = move |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            ((state >> 33) % below) as u32
        };
        check(0, &[], "no nodes");
        check(3, &[], "no pairs");
        check(2, &[vec![(0, u32::MAX), (2, 1)]], "pairs of no nodes");
        for nodes in [1, 2, 10, 1_000, 50_000] {
            for share in [4, 2, 1] {
                let batches: Vec<Vec<(u32, u32)>> = (0..3)
                    .map(|_| {
                        let pairs = 0..nodes / share / 2;
                        pairs
                            .map(|_| (random(nodes as u64), random(nodes as u64)))
                            .collect()
                    })
                    .collect();
                check(nodes, &batches, &format!("{nodes} nodes, share {share}"));
            }
        }
    }

    #[test]
    fn chains_cycles_and_stars() {
        let n = 200_000u32;
        let up = || (1..n).map(|i| (i - 1, i));
        let check = |pairs: Vec<(u32, u32)>, what| check(n as usize, &[pairs], what);
        check(up().collect(), "a chain");
        check(up().rev().collect(), "a chain from behind");
        check(up().map(|(a, b)| (b, a)).collect(), "a chain backwards");
        check(up().chain([(n - 1, 0)]).collect(), "a cycle");
        check((0..n).map(|i| (i, n / 2)).collect(), "a star");
        check((0..n).map(|i| (n - 1, i)).collect(), "a star of the last");
        // 65 537 is prime to the number of nodes, so links come in no order.
        let link = |i: u32| (u64::from(i) * 65_537 % u64::from(n)) as u32;
        let apart = (0..n).map(link).filter(|i| *i > 0).map(|i| (i, i - 1));
        check(apart.collect(), "a chain in no order");
    }

    #[test]
    fn first_rows_of_items() {
        let budget = Budget::new(u64::MAX);
        let first = first_rows(&budget, &[u32::MAX, 2, 0, 2, 0, 1, 9], 3).unwrap();
        assert_eq!(first.on_host().unwrap()[..], [2, 5, 1]);
    }
}
