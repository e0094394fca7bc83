//! For tests: how often this thread made the specs and programs of a plan.

use std::cell::RefCell;
use std::collections::BTreeMap;

/// What makes a spec or a program of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Maker {
    JoinSpec,
    GroupSpec,
    FusedSpec,
    ResidentSpec,
    RowProgram,
}

thread_local! {
    static CALLS: RefCell<BTreeMap<Maker, usize>> = const { RefCell::new(BTreeMap::new()) };
}

pub(crate) fn count(maker: Maker) {
    CALLS.with_borrow_mut(|calls| *calls.entry(maker).or_default() += 1);
}

/// The calls since the last time.
pub(crate) fn take() -> BTreeMap<Maker, usize> {
    CALLS.take()
}
