//! The parts of ranges that probe rows keep.

use crate::device::cuda::tests::theta::range::{Sides, sides, sides_of};
use crate::device::cuda::tests::*;
use crate::device::primitives::theta::ThetaPrimitives;
use crate::ir::partners::{Distance, PartnerLimit, Which};

/// Checks what is kept of the ranges of `ops`, by some ways to choose partners.
fn same_partners(
    (host, gpu): (&HostDevice, &CudaDevice),
    sides: &Sides,
    ops: &[Comparison],
    ways: &[Which],
    what: &str,
) {
    let of_host = {
        let probe = &sides.keys;
        let bounds: Vec<Bound<'_>> = ops.iter().map(|op| Bound { op: *op, probe }).collect();
        let groups = sides.groups.as_ref().map(|ids| &ids.0);
        host.range_bounds(&sides.build, &sides.probe, &bounds, groups)
            .unwrap()
    };
    let of_gpu = {
        let probe = &sides.keys_on_gpu;
        let bounds: Vec<Bound<'_>> = ops.iter().map(|op| Bound { op: *op, probe }).collect();
        let groups = sides.groups.as_ref().map(|ids| &ids.1);
        gpu.range_bounds(&sides.build_on_gpu, &sides.probe_on_gpu, &bounds, groups)
            .unwrap()
    };
    for which in ways {
        for (most, with_ties) in [(1, false), (1, true), (3, false), (10, true)] {
            let limit = PartnerLimit {
                most,
                which: *which,
                with_ties,
            };
            let kept = host
                .limit_ranges(
                    &sides.build,
                    &sides.probe,
                    &of_host,
                    Some(&sides.keys),
                    limit,
                )
                .unwrap();
            let on_gpu = gpu
                .limit_ranges(
                    &sides.build_on_gpu,
                    &sides.probe_on_gpu,
                    &of_gpu,
                    Some(&sides.keys_on_gpu),
                    limit,
                )
                .unwrap();
            for (kept, on_gpu) in [(&kept.lo, &on_gpu.lo), (&kept.hi, &on_gpu.hi)] {
                let (kept, on_gpu) = (kept.on_host().unwrap(), down(on_gpu));
                assert_eq!(kept, &on_gpu[..], "{what}, {limit:?}");
            }
        }
    }
}

const SIZES: [(usize, usize); 7] = [
    (0, 5),
    (5, 0),
    (1, 1),
    (33, 31),
    (1000, 257),
    (255, 5000),
    (40_001, 33_537),
];

#[test]
fn kept_partners_are_the_hosts() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(7);
    let ways = [
        Which::First,
        Which::Last,
        Which::Nearest(Distance::Integers),
    ];
    for sizes in SIZES {
        for kind in 0..6 {
            for groups in [None, Some(40)] {
                let sides = sides(&host, &gpu, &mut random, sizes, kind, groups);
                let ops: &[Comparison] = match kind % 3 {
                    0 => &[],
                    1 => &[Comparison::LtEq],
                    _ => &[Comparison::Gt],
                };
                let what = format!("{sizes:?}, kind {kind}, {groups:?} groups");
                same_partners((&host, &gpu), &sides, ops, &ways, &what);
            }
        }
    }
}

#[test]
fn partners_near_to_floats_are_the_hosts() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(8);
    for sizes in SIZES {
        for groups in [None, Some(7)] {
            let mut floats = |rows: usize| -> ArrayRef {
                let values = (0..rows).map(|_| random.below(4000) as f64 / 7.0 - 300.0);
                Arc::new(Float64Array::from_iter_values(values))
            };
            let columns = [floats(sizes.0), floats(sizes.1)];
            let [base, other] = &columns;
            let sides = sides_of(&host, &gpu, &mut random, [base, other], groups);
            let what = format!("{sizes:?}, {groups:?} groups");
            let ways = [Which::Nearest(Distance::Floats)];
            same_partners((&host, &gpu), &sides, &[], &ways, &what);
        }
    }
}
