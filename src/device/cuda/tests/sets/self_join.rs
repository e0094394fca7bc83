//! Self joins of sets: each pair is tested once.

use crate::device::cuda::tests::sets::compare::{
    Sides, compare, every_technique, lists, numbers, predicates,
};
use crate::device::cuda::tests::*;
use crate::device::primitives::sets::SetPrimitives;
use crate::device::primitives::transfer::TransferPrimitives;
use crate::ir::set_predicate::{SetMeasure, SetPredicate};
use crate::ir::side::Side;

/// Few groups, and many groups of a few sets.
#[test]
fn self_joins() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(67);
    for (n, groups) in [(1, 1), (700, 0), (700, 3), (3_000, 800)] {
        let sides = with_itself(&mut random, n, groups);
        for (i, predicate) in predicates().into_iter().enumerate() {
            let test = predicate.seen_from([Side::Left, Side::Right][i % 2]);
            compare(&host, &gpu, &sides, test, &every_technique());
        }
    }
}

/// Both sides are the same sets, in `groups` groups, or without groups if that is 0.
pub(crate) fn with_itself(random: &mut Random, n: usize, groups: u32) -> Sides {
    let array = lists(random, n, 11, 40);
    let groups = (groups > 0).then(|| {
        let ids = group_ids(random, n, groups);
        (ids.clone(), ids, groups)
    });
    Sides {
        indexed: Arc::clone(&array),
        probe: array,
        groups,
        shingles: None,
    }
}

/// The number of candidates: a self join has about half of those of a join with one more set; groups have only their
/// own.
#[test]
fn pairs_that_are_looked_at() {
    let Some((_, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(68);
    let n = 4_000;
    let array = lists(&mut random, n, 11, 40);
    let one = numbers((0..1).map(|_| vec![1]));
    let more = arrow::compute::concat(&[&array, &one]).unwrap();
    let ids: Vec<u32> = (0..n as u32).map(|i| i % 50).collect();
    for by in every_technique() {
        let test = SetPredicate::degree(SetMeasure::Jaccard, 0.5, false)
            .unwrap()
            .seen_from(Side::Left);
        let candidates = |probe: &ArrayRef, groups: Option<&[u32]>| {
            let [lists, probe] = [&array, probe].map(|a| gpu.upload(from_ref(a)).unwrap());
            let ids = groups.map(|ids| on_gpu(&gpu, ids));
            let of_index = ids.as_ref().map(|ids| (ids, 50));
            let index = gpu
                .set_index(&lists, of_index, &[], test, by, &probe)
                .unwrap();
            let found = gpu.set_search(&index, &probe, ids.as_ref(), &[]);
            found.unwrap().tally.candidates
        };
        let (once, twice) = (candidates(&array, None), candidates(&more, None));
        assert!(
            once <= twice / 2 + 8 * n as u64,
            "{by:?}: {once} of {twice}"
        );
        let grouped = candidates(&array, Some(&ids));
        assert!(grouped <= once / 20, "{by:?}: {grouped} of {once}");
    }
}
