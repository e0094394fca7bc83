//! Encoded sets, their reservations, and cancelled encodings.

use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{ArrayRef, ListArray, StringArray};
use arrow::datatypes::Int32Type;

use crate::device::host::sets::encode::encoding::*;

fn lists(rows: Vec<Option<Vec<Option<i32>>>>) -> (usize, Lists) {
    let len = rows.len();
    let array: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(rows));
    (len, Lists::of(&array).unwrap())
}

fn unlimited() -> Arc<Budget> {
    Budget::new(u64::MAX)
}

fn some(values: &[i32]) -> Option<Vec<Option<i32>>> {
    Some(values.iter().map(|v| Some(*v)).collect())
}

/// The number of sets with each element, by the element's number.
fn frequencies(sets: &Sets) -> Vec<usize> {
    let of = |number: u32| sets.elements.iter().filter(|e| **e == number).count();
    (0..).map(of).take_while(|sets| *sets > 0).collect()
}

#[test]
fn the_rarest_element_is_0_and_sets_stand_by_size() {
    for wide in [1, 100_000_007] {
        let row = |values: &[i32]| some(&values.iter().map(|v| v * wide).collect::<Vec<_>>());
        let (rows, base) = lists(vec![
            row(&[1, 2, 2, 1]),
            None,
            row(&[]),
            row(&[2, 0, 1]),
            row(&[1]),
            Some(vec![None, Some(wide), None]),
        ]);
        let encoded = encode(&unlimited(), rows, &base, None, &|| Ok(())).unwrap();
        assert_eq!(frequencies(&encoded.sets), [1, 1, 2, 4]);
        let sets = &encoded.sets;
        assert_eq!(sets.members.rows, [2, 4, 0, 5, 3]);
        assert_eq!(sets.sizes, [0, 1, 2, 2, 3]);
        assert_eq!(sets.get(1), [3]);
        assert_eq!(sets.get(2), [2, 3]);
        assert_eq!(sets.get(4).len(), 3);

        let (rows, other) = lists(vec![
            row(&[7, 1, 7, 8]),
            Some(vec![None]),
            None,
            row(&[2, 1]),
        ]);
        let other = encoded
            .domain
            .encode(&unlimited(), rows, &other, None, &|| Ok(()))
            .unwrap();
        assert_eq!(other.members.rows, [1, 3, 0]);
        assert_eq!(other.sizes, [1, 2, 3]);
        assert_eq!(other.get(1), [2, 3]);
        assert_eq!((other.get(2), other.unknown(2)), ([3].as_slice(), 2));
    }
}

#[test]
fn elements_of_other_groups_are_others() {
    let (rows, base) = lists(vec![some(&[1, 2]), some(&[1]), some(&[1]), some(&[3])]);
    let groups = [0, 1, 0, NO_GROUP];
    let encoded = encode(&unlimited(), rows, &base, Some(&groups), &|| Ok(())).unwrap();
    assert_eq!(encoded.sets.members.rows, [2, 0, 1]);
    assert_eq!(frequencies(&encoded.sets), [1, 1, 2]);
    let of = encoded.domain.encode(
        &unlimited(),
        rows,
        &base,
        Some(&[1, 1, NO_GROUP, 0]),
        &|| Ok(()),
    );
    let other = of.unwrap();
    assert_eq!(other.members.rows, [3, 1, 0]);
    assert_eq!(other.unknown(0), 1);
    assert_eq!(other.get(1), encoded.sets.get(2));
    assert_eq!((other.get(2), other.unknown(2)), (encoded.sets.get(2), 1));
}

#[test]
fn text() {
    let array: ArrayRef = Arc::new(StringArray::from(vec![
        Some("a"),
        None,
        Some("b"),
        Some("a"),
    ]));
    let base = Lists::of(&array).unwrap();
    let encoded = encode(&unlimited(), 4, &base, None, &|| Ok(())).unwrap();
    assert_eq!(frequencies(&encoded.sets), [1, 2]);
    assert_eq!(encoded.sets.members.rows, [0, 2, 3]);
    let other = encoded
        .domain
        .encode(&unlimited(), 4, &base, None, &|| Ok(()))
        .unwrap();
    assert_eq!(other.elements, [1, 0, 1]);
}

/// Row keys are as long as their text, which the number of elements does not tell.
#[test]
fn long_texts_are_leased() {
    let array: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(10_000)]));
    let base = Lists::of(&array).unwrap();
    let refused = encode(&Budget::new(20_000), 1, &base, None, &|| Ok(())).err();
    assert!(refused.is_some_and(|error| error.is_divisible()));
    let encoded = encode(&Budget::new(30_000), 1, &base, None, &|| Ok(())).unwrap();
    let refused = encoded
        .domain
        .encode(&Budget::new(10_000), 1, &base, None, &|| Ok(()));
    assert!(refused.is_err_and(|error| error.is_divisible()));
}

/// Every loop over the elements checks for cancellation.
#[test]
fn encoding_many_elements_can_be_cancelled() {
    let count = Pace::STEPS as i32 * 2;
    for wide in [1, 1_000] {
        let (rows, base) = lists(vec![some(
            &(0..count).map(|i| i * wide).collect::<Vec<_>>(),
        )]);
        for groups in [None, Some([0].as_slice())] {
            let asked = AtomicUsize::new(0);
            let mut most = usize::MAX;
            for stop in 0.. {
                asked.store(0, Ordering::Relaxed);
                let check_cancelled = || match asked.fetch_add(1, Ordering::Relaxed) {
                    at if at == stop => Err(BowtieError::Cancelled),
                    _ => Ok(()),
                };
                match encode(&unlimited(), rows, &base, groups, &check_cancelled) {
                    Err(error) => assert!(matches!(error, BowtieError::Cancelled)),
                    Ok(_) => {
                        most = stop;
                        break;
                    }
                }
            }
            // Two checks each: counting and arranging, numbering by hashing, numbering of groups.
            let least = 7 + 2 * usize::from(wide > 1) + 2 * usize::from(groups.is_some());
            assert!(most >= least, "{most} {least}");
        }
    }
}
