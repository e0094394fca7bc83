//! Connected components of pairs.

use crate::device::cuda::tests::*;
use crate::device::data::structures::Components;
use crate::device::primitives::graph::GraphPrimitives;

type Pairs = (Vec<u32>, Vec<u32>);

/// The components of pairs that come in several batches.
fn components(
    device: &dyn Device,
    nodes: usize,
    batches: &[Pairs],
    words: impl Fn(&[u32]) -> Buffer<u32>,
) -> Components {
    let forest = device.forest(nodes).unwrap();
    for (left, right) in batches {
        device
            .connect(&forest, &words(left), &words(right))
            .unwrap();
    }
    device.components(forest).unwrap()
}

/// Checks components, and the first node of each in an order.
fn same_components(
    (host, gpu): (&HostDevice, &CudaDevice),
    nodes: usize,
    batches: &[Pairs],
    what: &str,
) {
    let of_host = components(host, nodes, batches, |words| on_host(host, words));
    let of_gpu = components(gpu, nodes, batches, |words| on_gpu(gpu, words));
    let roots = of_host.roots.on_host().unwrap();
    assert_eq!(roots, &down(&of_gpu.roots), "{what}");
    assert_eq!(of_host.count, of_gpu.count, "{what}");
    let mut order: Vec<u32> = (0..nodes as u32).collect();
    order.sort_by_key(|node| (node.wrapping_mul(2_654_435_761), *node));
    let first = host
        .first_of_component(&of_host, &on_host(host, &order))
        .unwrap();
    let first_of_gpu = gpu
        .first_of_component(&of_gpu, &on_gpu(gpu, &order))
        .unwrap();
    let first = first.on_host().unwrap();
    assert_eq!(first, &down(&first_of_gpu), "{what}");
}

/// Random pairs, a few of which have a number that is no node.
fn pairs(random: &mut Random, n: usize, nodes: usize) -> Pairs {
    let mut side = || {
        let node = |_| match random.below(9) {
            0 => NO_GROUP,
            1 => nodes as u32,
            _ => random.below(nodes as u64) as u32,
        };
        (0..n).map(node).collect()
    };
    (side(), side())
}

/// Long paths, cycles and stars of `n` nodes.
fn shapes(n: u32) -> Vec<(Pairs, &'static str)> {
    let up = || (1..n).map(|i| (i - 1, i));
    let turned = up().map(|(a, b)| (b, a)).rev();
    let mut shapes: Vec<(Pairs, &'static str)> = vec![
        (up().unzip(), "a chain"),
        (turned.unzip(), "a chain backwards"),
        (up().chain([(n - 1, 0)]).unzip(), "a cycle"),
        ((0..n).map(|i| (i, n / 2)).unzip(), "a star"),
        ((0..n).map(|i| (n - 1, i)).unzip(), "a star of the last"),
        ((0..n).map(|i| (i, i)).unzip(), "pairs of one node"),
        ((0..n).map(|_| (0, n - 1)).unzip(), "one pair many times"),
    ];
    // Nodes of a chain that are far apart: links come in no order.
    let mut order: Vec<u32> = (0..n).collect();
    order.sort_by_key(|node| (node.wrapping_mul(2_654_435_761), *node));
    let apart = order.windows(2).map(|two| (two[0], two[1]));
    shapes.push((apart.unzip(), "a chain of nodes in no order"));
    shapes
}

/// Every shape, and random pairs, at one size.
pub(crate) fn check(host: &HostDevice, gpu: &CudaDevice, random: &mut Random, nodes: usize) {
    for batches in 0..3 {
        for share in [4, 1] {
            let n = nodes / share;
            let batches: Vec<Pairs> = (0..batches).map(|_| pairs(random, n, nodes)).collect();
            let what = format!("{nodes} nodes, {} times {n} pairs", batches.len());
            same_components((host, gpu), nodes, &batches, &what);
        }
    }
    if nodes > 0 {
        for (pairs, shape) in shapes(nodes as u32) {
            let what = format!("{shape} of {nodes} nodes");
            same_components((host, gpu), nodes, &[pairs], &what);
        }
    }
    for items in [0, 1, 7, nodes] {
        let of_row = pairs(random, nodes, items).0;
        let of_host = host.first_rows(&on_host(host, &of_row), items).unwrap();
        let of_gpu = gpu.first_rows(&on_gpu(gpu, &of_row), items).unwrap();
        let first = of_host.on_host().unwrap();
        assert_eq!(first, &down(&of_gpu), "{items} items of {nodes} rows");
    }
}

#[test]
fn components_are_the_hosts() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(11);
    for nodes in [0, 1, 2, 33, 1000, 1025, 40_001] {
        check(&host, &gpu, &mut random, nodes);
    }
}

/// Many threads merge the same few trees, and long paths are made by all of them at once.
#[test]
fn components_of_many_pairs() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(12);
    let nodes = 1 << 21;
    check(&host, &gpu, &mut random, nodes);
    for nodes in [2, 10, 1000] {
        let batches = [pairs(&mut random, 1 << 22, nodes)];
        same_components((&host, &gpu), nodes, &batches, "many pairs of few nodes");
    }
}

/// Nothing stays reserved, and a forest without room is refused.
#[test]
fn forests_are_reserved() {
    let Some((_, gpu)) = reference_and_gpu() else {
        return;
    };
    let cancelled = Arc::new(AtomicBool::new(false));
    let budget = Budget::new(1 << 16);
    let handle = gpu
        .attach(Arc::clone(&budget), Arc::clone(&cancelled))
        .unwrap();
    assert!(matches!(
        handle.forest(1 << 15),
        Err(BowtieError::OutOfDeviceMemory { .. })
    ));
    let forest = handle.forest(1000).unwrap();
    assert!(budget.in_use() >= 4000);
    drop(handle.components(forest).unwrap());
    assert_eq!(budget.in_use(), 0);
    let forest = handle.forest(1000).unwrap();
    cancelled.store(true, Ordering::Relaxed);
    assert!(matches!(
        handle.components(forest),
        Err(BowtieError::Cancelled)
    ));
    assert_eq!(budget.in_use(), 0);
}
