//! `prefix` with signatures that reject candidates.

use crate::device::cuda::tests::sets::compare::{Sides, compare, lists};
use crate::device::cuda::tests::*;
use crate::ir::set_predicate::{SetMeasure, SetPredicate, SetTechnique};
use crate::ir::side::Side;

/// Sets for which `prefix` makes signatures: those of 128 bits and those of 256.
#[test]
fn candidates_that_signatures_reject() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(66);
    for most in [90, 160] {
        let sides = Sides {
            indexed: lists(&mut random, 700, most, 400),
            probe: lists(&mut random, 600, most, 404),
            groups: None,
            shingles: None,
        };
        let both = Sides {
            indexed: Arc::clone(&sides.indexed),
            probe: Arc::clone(&sides.indexed),
            groups: None,
            shingles: None,
        };
        for (predicate, sides) in [
            (
                SetPredicate::degree(SetMeasure::Jaccard, 0.5, false).unwrap(),
                &sides,
            ),
            (
                SetPredicate::degree(SetMeasure::Jaccard, 0.4, false).unwrap(),
                &both,
            ),
            (
                SetPredicate::degree(SetMeasure::Cosine, 0.6, true).unwrap(),
                &sides,
            ),
            (SetPredicate::Overlap(20), &sides),
        ] {
            let test = predicate.seen_from(Side::Left);
            compare(&host, &gpu, sides, test, &[Some(SetTechnique::Prefix)]);
        }
    }
}
