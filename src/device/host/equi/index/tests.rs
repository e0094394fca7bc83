//! Every strategy finds the rows with equal keys.

use arrow::array::{ArrayRef, Int64Array, StringArray};

use crate::device::host::equi::index::*;

fn column(array: ArrayRef) -> Column {
    Column::host(array, Budget::new(0).lease(0, "test").unwrap())
}

/// The matches of each row, ascending.
fn matches(base: &Column, other: &Column, null_equal: bool, by: EquiStrategy) -> Vec<Vec<u32>> {
    let budget = Budget::new(u64::MAX);
    let check_cancelled = || Ok(());
    let index = index(&budget, &[base], null_equal, Some(by), &check_cancelled).unwrap();
    let (probe, ranges) = search(&budget, &index, &[other], &check_cancelled).unwrap();
    let mut found = vec![vec![]; other.rows()];
    for (at, row) in probe.rows.on_host().unwrap().iter().enumerate() {
        let span =
            ranges.lo.on_host().unwrap()[at] as usize..ranges.hi.on_host().unwrap()[at] as usize;
        let mut rows = index.rows.rows.on_host().unwrap()[span].to_vec();
        rows.sort();
        found[*row as usize] = rows;
    }
    found
}

#[test]
fn strategies_find_the_same_rows() {
    let wide = |i: i64| (i % 13 != 0).then_some(i.wrapping_mul(0x9E37_79B9_7F4A_7C15u64 as i64));
    let narrow = |i: i64| (i % 11 != 0).then_some(i * 3 % 5_000);
    let text = |i: i64| (i % 7 != 0).then(|| format!("value {}", i % 999));
    let numbers = |of: &dyn Fn(i64) -> Option<i64>, rows| {
        column(Arc::new((0..rows).map(of).collect::<Int64Array>()))
    };
    let texts = |rows| column(Arc::new((0..rows).map(text).collect::<StringArray>()));
    for (base, other) in [
        (numbers(&wide, 20_000), numbers(&wide, 30_000)),
        (numbers(&narrow, 20_000), numbers(&narrow, 9_000)),
        (texts(4_000), texts(2_000)),
        (numbers(&narrow, 0), numbers(&narrow, 50)),
        (numbers(&narrow, 50), numbers(&narrow, 0)),
    ] {
        for null_equal in [false, true] {
            let expected = matches(&base, &other, null_equal, EquiStrategy::Hash);
            for by in EquiStrategy::ALL {
                assert_eq!(matches(&base, &other, null_equal, by), expected, "{by}");
            }
            let nulls = other.on_host().unwrap().null_count();
            let unmatched = expected.iter().filter(|rows| rows.is_empty()).count();
            assert!(null_equal || unmatched >= nulls);
        }
    }
}
