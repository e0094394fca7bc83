//! Indexes of equi-joins: the rows that the host finds, by every strategy.

use crate::device::cuda::equi::index;
use crate::device::cuda::equi::single_pass;
use crate::device::cuda::tests::*;
use crate::ir::strategies::EquiStrategy;

/// The match count of each row of `other`, and a checksum of its matches in `base`.
fn matches(
    device: &dyn Device,
    base: &[ArrayRef],
    other: &[ArrayRef],
    null_equal: bool,
    by: Option<EquiStrategy>,
) -> Vec<(u32, u64)> {
    let (base, of_other) = (upload(device, base), upload(device, other));
    let index = device.equi_index(&borrowed(&base), null_equal, by).unwrap();
    assert!(by.is_none_or(|by| by == index.strategy));
    let (probe, ranges) = device.equi_search(&index, &borrowed(&of_other)).unwrap();
    let read = |words: &Buffer<u32>| device.read(words).unwrap();
    let (positions, rows) = (read(&index.rows.rows), read(&probe.rows));
    let (lo, hi) = (read(&ranges.lo), read(&ranges.hi));
    assert_eq!((lo.len(), hi.len()), (rows.len(), rows.len()));
    let mut sums = vec![0u64];
    for row in positions.iter() {
        let word = (u64::from(*row) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        sums.push(sums[sums.len() - 1].wrapping_add(word ^ (word >> 29)));
    }
    let mut found = vec![(0, 0); other[0].len()];
    let mut seen = vec![false; found.len()];
    for (at, row) in rows.iter().enumerate() {
        let (lo, hi) = (lo[at] as usize, hi[at] as usize);
        assert!(!seen[*row as usize], "row {row} twice");
        seen[*row as usize] = true;
        found[*row as usize] = ((hi - lo) as u32, sums[hi].wrapping_sub(sums[lo]));
    }
    found
}

pub(crate) fn compare(host: &HostDevice, gpu: &CudaDevice, base: &[ArrayRef], other: &[ArrayRef]) {
    for null_equal in [false, true] {
        let expected = matches(host, base, other, null_equal, None);
        let strategies = EquiStrategy::ALL.into_iter().map(Some);
        for by in strategies.chain([None]) {
            let types: Vec<_> = base.iter().map(|array| array.data_type()).collect();
            let found = matches(gpu, base, other, null_equal, by);
            let differs = expected.iter().zip(&found).position(|(a, b)| a != b);
            assert!(
                differs.is_none(),
                "{by:?}, {types:?}, {} × {} rows, {null_equal}: row {differs:?} has {:?}, not {:?}",
                base[0].len(),
                other[0].len(),
                differs.map(|row| &found[row]),
                differs.map(|row| &expected[row]),
            );
        }
    }
}

#[test]
fn keys_of_every_type_find_their_rows() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(31);
    for (i, n) in [0, 1, 2, 33, 1000, 8193].into_iter().enumerate() {
        for kind in [i, 5] {
            let base = columns(&mut random, n, kind);
            let other = columns(&mut random, n / 2 + 3, if kind == 4 { 4 } else { 5 });
            for (base, other) in base.into_iter().zip(other) {
                compare(&host, &gpu, &[base], &[other]);
            }
        }
    }
}

#[test]
fn keys_of_several_columns_find_their_rows() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(32);
    for n in [1, 1000, 20_000] {
        let (base, other) = (
            columns(&mut random, n, 5),
            columns(&mut random, n / 2 + 1, 5),
        );
        for pick in [[0, 4], [2, 2], [3, 12], [26, 1], [27, 2], [13, 26]] {
            let of = |side: &[ArrayRef]| pick.map(|i| Arc::clone(&side[i]));
            compare(&host, &gpu, &of(&base), &of(&other));
        }
    }
}

/// The key of which the mixed key has these 64 bits (`unmix` of `kernels/equi/equi_hash.cuh`).
fn unmixed(mut mixed: u64) -> u64 {
    for _ in 0..2 {
        mixed = (mixed ^ mixed >> 32).wrapping_mul(0xCFEE_444D_8B59_A89B);
    }
    mixed ^ mixed >> 32
}

/// Keys that have one home in a hash table are sorted. So are those of a joined batch, whose rows are the same.
#[test]
fn keys_that_were_made_to_collide_are_sorted() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    // A table takes a key up to 1,024 slots behind its home.
    for (rows, takes) in [(1_025, true), (1_026, false)] {
        let keys = |first: u64, count: u64| {
            let high = |i: u64| unmixed((first + i) << 32 | 5);
            u64_column((0..count).map(high).collect(), None)
        };
        let (base, other) = ([keys(1, rows)], [keys(900, 400)]);
        let on_gpu = upload(&gpu, &base);
        let hash = Some(EquiStrategy::Hash);
        let index = index::index_keys(&gpu, &borrowed(&on_gpu), false, hash).unwrap();
        assert_eq!(index.strategy == EquiStrategy::Hash, takes, "{rows} rows");
        let by = Some(index.strategy);
        let expected = matches(&host, &base, &other, false, None);
        assert_eq!(matches(&gpu, &base, &other, false, None), expected);
        assert_eq!(
            expected.iter().filter(|(found, _)| *found == 1).count() as u64,
            rows - 899
        );
        if takes {
            assert_eq!(matches(&gpu, &base, &other, false, by), expected);
        }
        let build =
            single_pass::prepare_build(&gpu, &borrowed(&on_gpu), false, hash, &[], None, None);
        assert_eq!(build.unwrap().unwrap().strategy(), index.strategy);
    }
}

#[test]
fn many_rows_and_skew() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(33);
    let (n, m) = (300_001, 500_003);
    let mut numbers = |rows: usize, kind: usize| -> Vec<u64> {
        let draw = |i: u64, random: &mut Random| match kind {
            // Unique, dense or not; ten rows a key; one heavy key; all equal.
            0 => i,
            1 => i.wrapping_mul(0x9E37_79B9_7F4A_7C15),
            2 => random.below(rows as u64 / 10),
            3 if i.is_multiple_of(3) => 12,
            3 => i,
            _ => 7,
        };
        (0..rows as u64).map(|i| draw(i, &mut random)).collect()
    };
    for (of_base, of_other) in [(0, 2), (1, 1), (2, 0), (3, 0), (4, 0), (0, 3), (0, 4)] {
        let (base, other) = (numbers(n, of_base), numbers(m, of_other));
        let narrow = |words: &[u64]| -> ArrayRef {
            Arc::new(
                words
                    .iter()
                    .map(|w| Some(*w as i32))
                    .collect::<Int32Array>(),
            )
        };
        let wide = |words: &[u64]| u64_column(words.to_vec(), None);
        compare(&host, &gpu, &[narrow(&base)], &[narrow(&other)]);
        compare(&host, &gpu, &[wide(&base)], &[wide(&other)]);
    }
}
