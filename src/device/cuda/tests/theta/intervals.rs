//! Overlaps of intervals: places, counts and coverage.

use crate::device::cuda::tests::*;
use crate::device::data::intervals::ProbeIntervals;
use crate::device::primitives::intervals::IntervalPrimitives;
use crate::device::primitives::rows::RowPrimitives;

/// Intervals as keys of both devices: those of the host, and those of the GPU.
type Ends = [(Keys, Keys); 2];

fn intervals(
    host: &HostDevice,
    gpu: &CudaDevice,
    random: &mut Random,
    rows: usize,
    (kind, longest): (usize, u64),
) -> Ends {
    let low: Vec<u64> = random.words(rows, kind).iter().map(|w| w >> 1).collect();
    let high: Vec<u64> = low.iter().map(|w| w + random.below(longest)).collect();
    let nulls = [random.nulls(rows, kind % 2 * 2), random.nulls(rows, 2)];
    let [of_low, of_high] = nulls;
    [
        keys_of(host, gpu, &u64_column(low, of_low)),
        keys_of(host, gpu, &u64_column(high, of_high)),
    ]
}

#[test]
fn overlaps_of_intervals_are_the_hosts() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(31);
    for (n, m) in [
        (0, 5),
        (5, 0),
        (1, 1),
        (33, 31),
        (1000, 257),
        (255, 5000),
        (40_001, 33_537),
        (300_000, 10),
    ] {
        for kind in 0..6 {
            for groups in [None, Some(1), Some(40)] {
                let what = format!("{n} × {m}, kind {kind}, {groups:?} groups");
                let longest = [1, 3, 1 << 20, 1 << 62][random.below(4) as usize];
                let build = intervals(&host, &gpu, &mut random, n, (kind, longest));
                let probe = intervals(&host, &gpu, &mut random, m, (kind, longest));
                let mut ids = |rows| {
                    groups.map(|g| {
                        let ids = group_ids(&mut random, rows, g);
                        (on_host(&host, &ids), on_gpu(&gpu, &ids))
                    })
                };
                let (of_build, of_probe) = (ids(n), ids(m));
                let of_host = of_build.as_ref().map(|ids| &ids.0).zip(groups);
                let of_gpu = of_build.as_ref().map(|ids| &ids.1).zip(groups);
                let [low, high] = &build;
                let on_host = host.interval_index(&low.0, &high.0, of_host).unwrap();
                let on_gpu = gpu.interval_index(&low.1, &high.1, of_gpu).unwrap();
                let (on_host, on_gpu) = (on_host.unwrap(), on_gpu.unwrap());
                assert_eq!(on_host.without_points, on_gpu.without_points, "{what}");
                let cover = host.interval_cover(&on_host).unwrap();
                let cover_on_gpu = gpu.interval_cover(&on_gpu).unwrap();
                let values = u64_column(random.words(m, 0), random.nulls(m, 2));
                let values = (
                    host.validity(&host.upload(from_ref(&values)).unwrap())
                        .unwrap(),
                    gpu.validity(&gpu.upload(from_ref(&values)).unwrap())
                        .unwrap(),
                );
                for (low_op, high_op) in [
                    (Comparison::Lt, Comparison::Gt),
                    (Comparison::LtEq, Comparison::Gt),
                    (Comparison::LtEq, Comparison::GtEq),
                ] {
                    let [low, high] = &probe;
                    let of = |low, high, groups| ProbeIntervals {
                        low,
                        high,
                        groups,
                        low_op,
                        high_op,
                    };
                    let groups = of_probe.as_ref();
                    let places = host
                        .interval_places(&on_host, &of(&low.0, &high.0, groups.map(|ids| &ids.0)))
                        .unwrap();
                    let places_on_gpu = gpu
                        .interval_places(&on_gpu, &of(&low.1, &high.1, groups.map(|ids| &ids.1)))
                        .unwrap();
                    assert_eq!(places.is_some(), places_on_gpu.is_some(), "{what}");
                    let (Some(places), Some(places_on_gpu)) = (places, places_on_gpu) else {
                        continue;
                    };
                    for least in [0, 1] {
                        let counts = host.interval_counts(&places, least).unwrap();
                        let counts_on_gpu = gpu.interval_counts(&places_on_gpu, least).unwrap();
                        assert_eq!(
                            counts.on_host().unwrap(),
                            &down(&counts_on_gpu),
                            "{what}: counts"
                        );
                    }
                    host.add_to_cover(&cover, &places, None).unwrap();
                    gpu.add_to_cover(&cover_on_gpu, &places_on_gpu, None)
                        .unwrap();
                    host.add_to_cover(&cover, &places, values.0.as_ref())
                        .unwrap();
                    gpu.add_to_cover(&cover_on_gpu, &places_on_gpu, values.1.as_ref())
                        .unwrap();
                    for least in [0, 1] {
                        let counts = host.covered(&on_host, &cover, least).unwrap();
                        let counts_on_gpu = gpu.covered(&on_gpu, &cover_on_gpu, least).unwrap();
                        assert_eq!(
                            counts.on_host().unwrap(),
                            &down(&counts_on_gpu),
                            "{what}: cover"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn reversed_intervals_are_found() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let column = |words: &[u64]| u64_column(words.to_vec(), None);
    for at in [0, 700, 4999] {
        let low: Vec<u64> = (0..5000).collect();
        let mut high: Vec<u64> = (1..5001).collect();
        high[at] = low[at].saturating_sub(1);
        let (low, high) = (column(&low), column(&high));
        let (low, high) = (keys_of(&host, &gpu, &low), keys_of(&host, &gpu, &high));
        let expected = at == 0;
        let of_host = host.interval_index(&low.0, &high.0, None).unwrap();
        let of_gpu = gpu.interval_index(&low.1, &high.1, None).unwrap();
        assert_eq!((of_host.is_some(), of_gpu.is_some()), (expected, expected));
    }
}
