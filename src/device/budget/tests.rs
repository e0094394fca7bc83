//! Reservations in budgets and their parents.

use std::time::Instant;

use parking_lot::Mutex;

use super::*;

#[test]
fn a_lease_is_given_back_and_the_peak_stays() {
    let budget = Budget::new(100);
    let lease = budget.lease(60, "test").unwrap();
    assert!(budget.lease(41, "test").is_err());
    drop(lease);
    assert_eq!((budget.in_use(), budget.peak()), (0, 60));
    budget.lease(100, "test").unwrap();
}

#[test]
fn a_child_leases_from_its_parent_and_a_refusal_leaves_no_trace() {
    let parent = Budget::new(100);
    let (a, b) = (parent.child(), parent.child());
    let held = a.lease(70, "test").unwrap();
    let refused = b.lease(40, "keys").unwrap_err();
    assert!(refused.is_divisible());
    assert!(refused.to_string().contains("keys needs 40.0 B"));
    assert_eq!((a.in_use(), b.in_use(), parent.in_use()), (70, 0, 70));
    drop(held);
    assert_eq!((parent.in_use(), parent.peak()), (0, 70));
}

#[test]
fn who_waits_is_woken_by_a_release() {
    let root = Budget::new(100);
    let (session, others) = (root.child_of(80), root.child());
    let held = others.lease(70, "others").unwrap();
    let in_use = session.in_use_by_all();
    assert_eq!(in_use, 50);
    assert!(!session.wait_for_release(in_use, Duration::from_millis(5)));
    let begun = Instant::now();
    let released = std::thread::scope(|scope| {
        let waits = scope.spawn(|| session.wait_for_release(in_use, Duration::from_secs(60)));
        while root.shared.waiting.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        drop(held);
        waits.join().unwrap()
    });
    assert!(released && begun.elapsed() < Duration::from_secs(30));
    assert!(session.wait_for_release(in_use, Duration::ZERO));
}

/// A store of which whoever looks at it is the last holder.
#[derive(Debug)]
struct Leaving {
    _lease: Lease,
    itself: Mutex<Option<Arc<Self>>>,
}

impl Reclaim for Leaving {
    fn stored(&self) -> u64 {
        drop(self.itself.lock().take());
        0
    }

    fn reclaimable(&self) -> u64 {
        0
    }

    fn reclaim(&self, _: u64) -> u64 {
        0
    }
}

#[test]
fn who_waits_may_be_the_last_holder_of_a_store() {
    let root = Budget::new(100);
    let in_use = {
        let lease = root.of_store().lease(30, "stored").unwrap();
        let store = Arc::new(Leaving {
            _lease: lease,
            itself: Mutex::default(),
        });
        *store.itself.lock() = Some(Arc::clone(&store));
        let store: Arc<dyn Reclaim> = store;
        root.take_from(&Arc::downgrade(&store));
        root.in_use()
    };
    let (sender, receiver) = std::sync::mpsc::channel();
    let waits = Arc::clone(&root);
    std::thread::spawn(move || {
        sender.send(waits.wait_for_release(in_use, Duration::from_secs(20)))
    });
    let released = receiver.recv_timeout(Duration::from_secs(60));
    assert_eq!((released, root.in_use()), (Ok(true), 0));
}

#[test]
fn room_is_that_of_the_tightest_budget() {
    let root = Budget::new(100);
    let (session, other) = (root.child_of(60), root.child_of(1_000));
    assert_eq!((session.limit(), other.limit()), (60, 100));
    let operator = session.child();
    assert_eq!((operator.available(), operator.in_use_by_all()), (60, 0));
    let of_others = other.lease(70, "others").unwrap();
    assert_eq!((operator.available(), operator.in_use_by_all()), (30, 30));
    let own = operator.lease(30, "own").unwrap();
    assert_eq!(
        (operator.available(), other.available(), root.peak()),
        (0, 0, 100)
    );
    // What the session's limit refuses leaves no trace in the root.
    assert!(operator.lease(61, "too much").is_err());
    assert_eq!(root.peak(), 100);
    // The root refuses what the session's limit allows.
    let refused = operator.lease(20, "more").unwrap_err().to_string();
    assert!(refused.contains("100.0 B of 100.0 B"), "{refused}");
    drop((of_others, own));
    assert_eq!((session.available(), root.in_use()), (60, 0));
}

/// Holds leases of one byte each.
#[derive(Debug)]
struct Store(Mutex<Vec<Lease>>);

impl Store {
    fn below(budget: &Arc<Budget>, bytes: usize) -> Arc<Self> {
        let own = budget.of_store();
        let leases = (0..bytes).map(|_| own.lease(1, "stored").unwrap());
        let store = Arc::new(Self(Mutex::new(leases.collect())));
        let weak: Weak<Self> = Arc::downgrade(&store);
        let weak: Weak<dyn Reclaim> = weak;
        budget.take_from(&weak);
        store
    }
}

impl Reclaim for Store {
    fn stored(&self) -> u64 {
        self.0.lock().len() as u64
    }

    fn reclaimable(&self) -> u64 {
        self.stored()
    }

    fn reclaim(&self, bytes: u64) -> u64 {
        let mut leases = self.0.lock();
        let left = leases.len().saturating_sub(bytes as usize);
        leases.drain(left..).len() as u64
    }
}

#[test]
fn stored_columns_are_given_up_for_leases_of_every_budget() {
    let root = Budget::new(100);
    let (one, two) = (root.child_of(80), root.child_of(80));
    let (of_one, of_root) = (Store::below(&one, 60), Store::below(&root, 20));
    assert_eq!((one.available(), two.available()), (80, 80));
    assert_eq!((one.in_use_by_all(), two.in_use_by_all()), (0, 0));
    // The runtime's own limit, and then the card's.
    let work = one.child().lease(30, "work").unwrap();
    assert_eq!(of_one.stored() + of_root.stored(), 70);
    let other = two.child().lease(50, "work").unwrap();
    assert_eq!(of_one.stored() + of_root.stored(), 20);
    assert_eq!((two.available(), two.in_use_by_all()), (20, 60));
    // More than there is: the stores keep what they have.
    assert!(two.child().lease(25, "too much").is_err());
    assert_eq!(of_one.stored() + of_root.stored(), 20);
    drop((work, other));
    drop(of_one);
    // A store takes nothing from stores.
    assert!(root.of_store().lease(100, "stored").is_err());
}

#[test]
fn memory_is_scarce_by_what_others_leave() {
    let root = Budget::new(1600);
    let (own, others) = (root.child(), root.child());
    let held = own.lease(800, "own").unwrap();
    assert!(!own.is_scarce(0) && own.is_scarce(1));
    drop(held);
    // Another query has more than half: that alone is no reason.
    let of_others = others.lease(1000, "others").unwrap();
    assert!(!own.is_scarce(0) && others.is_scarce(0));
    let held = own.lease(300, "own").unwrap();
    assert!(!own.is_scarce(0) && own.is_scarce(1));
    let more = own.lease(1, "own").unwrap();
    assert!(own.is_scarce(0));
    drop((of_others, held, more));
    // Nearly nothing is left.
    let of_others = others.lease(1500, "others").unwrap();
    assert!(!own.is_scarce(0));
    let more = others.lease(1, "others").unwrap();
    assert!(own.is_scarce(0));
    drop((of_others, more));
    // What stores give up remains.
    let stored = Store::below(&root, 1500);
    let held = own.lease(100, "own").unwrap();
    assert!(!own.is_scarce(0));
    drop((held, stored));
}

#[test]
fn the_budget_that_refused_is_known_by_its_limit() {
    let root = Budget::new(100);
    let runtime = root.child_with(80, Faults::default());
    let (session, large) = (runtime.child_of(50), runtime.child_of(200));
    let refuser = |budget: &Arc<Budget>, limit, limit_of| {
        let operator = budget.child();
        let refuser = operator.refuser(limit, limit_of);
        let known = [&root, &runtime, &session];
        let place = known
            .iter()
            .position(|known| std::ptr::eq(known.as_ref(), refuser));
        place.unwrap()
    };
    assert_eq!(refuser(&session, 100, LimitOf::Device), 0);
    assert_eq!(refuser(&session, 80, LimitOf::Runtime), 1);
    assert_eq!(refuser(&session, 50, LimitOf::Session), 2);
    assert_eq!(refuser(&large, 80, LimitOf::Runtime), 1);
    assert_eq!(refuser(&large, 80, LimitOf::Driver), 0);
}

#[test]
fn a_measurement_is_reserved_and_not_seen() {
    let root = Budget::new(100);
    let store = Store::below(&root, 50);
    let measured = root.of_measurement();
    let lease = measured.lease(40, "measured").unwrap();
    assert_eq!((root.in_use(), root.peak()), (90, 50));
    assert!(measured.lease(20, "more than is left").is_err());
    assert_eq!((root.in_use(), store.stored()), (90, 50));
    drop(lease);
    assert_eq!((root.in_use(), root.peak()), (50, 50));
}

#[test]
fn who_shares_a_limit_knows_that_a_step_waits() {
    let root = Budget::new(100);
    let (one, two) = (root.child_of(50), root.child_of(50));
    let held = one.lease(50, "held").unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| one.wait_for_release(50, Duration::from_secs(60)));
        while !one.child().is_waited_for() {
            std::thread::yield_now();
        }
        assert!(!two.is_waited_for() && !root.is_waited_for());
        drop(held);
        assert!(waits.join().unwrap());
    });
    assert!(!one.is_waited_for());
}
