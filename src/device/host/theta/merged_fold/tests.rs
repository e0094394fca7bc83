use crate::device::host::theta::merged_fold::*;

static NEVER: AtomicBool = AtomicBool::new(false);

/// Numbers below `most`, by a generator.
fn numbers(n: usize, most: u32, mut state: u64) -> Vec<u32> {
    let mut next = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) as u32 % most
    };
    (0..n).map(|_| next()).collect()
}

fn check(n: usize, m: usize, segments: Option<&[u32]>, sided: Sided, op: Comparison) {
    // Some keys are equal, and some equal words.
    let keys: Vec<u64> = numbers(n, n as u32 + 1, 5)
        .into_iter()
        .map(u64::from)
        .collect();
    let words: Vec<u64> = numbers(m, n as u32 + 1, 9)
        .into_iter()
        .map(u64::from)
        .collect();
    let values: Vec<u64> = (0..n as u64).map(|i| i * i % 101 + 1).collect();
    let whole = [0, n as u32];
    let of = segments.unwrap_or(&whole);
    let mut positions = numbers(m, n as u32 + 1, 11);
    if m.is_multiple_of(2) {
        positions.sort_unstable();
    }
    let (mut lo, mut hi) = (vec![], vec![]);
    for position in positions {
        let segment = of
            .partition_point(|first| *first <= position)
            .clamp(1, of.len() - 1)
            - 1;
        let position = position.clamp(of[segment], of[segment + 1]);
        match sided {
            Sided::From => (lo.push(position), hi.push(of[segment + 1])),
            Sided::UpTo => (lo.push(of[segment]), hi.push(position)),
        };
    }
    let one_sided = OneSided::of(&lo, &hi, n, segments).unwrap();
    let tested = Tested {
        keys: &keys,
        words: &words,
        op,
    };
    let ends = (&lo[..], &hi[..]);
    let add = |a: u64, b: u64| a + b;
    let sums = one_sided
        .fold(tested, &values, ends, (0, &add), &NEVER)
        .unwrap();
    let least = (u64::MAX, &u64::min);
    let least = one_sided
        .fold(tested, &values, ends, least, &NEVER)
        .unwrap();
    for i in (0..m).step_by(n * m / (1 << 22) + 1) {
        let matched = (lo[i]..hi[i])
            .map(|p| p as usize)
            .filter(|p| op.holds(keys[*p], words[i]));
        let matched: Vec<u64> = matched.map(|p| values[p]).collect();
        assert_eq!(
            sums[i],
            matched.iter().sum::<u64>(),
            "{n}, {m}, {segments:?}, {sided:?}"
        );
        assert_eq!(least[i], matched.iter().copied().min().unwrap_or(u64::MAX));
    }
}

#[test]
fn folds_are_those_of_a_scan() {
    let ops = [
        Comparison::Lt,
        Comparison::LtEq,
        Comparison::Gt,
        Comparison::GtEq,
    ];
    let turns = ops
        .into_iter()
        .zip([Sided::From, Sided::UpTo, Sided::UpTo, Sided::From]);
    for (op, sided) in turns {
        for (n, m) in [
            (1, 1),
            (2, 5),
            (31, 40),
            (33, 8),
            (64, 1000),
            (1000, 3),
            (700, 701),
            (3000, 2000),
        ] {
            check(n, m, None, sided, op);
        }
        check(700, 900, Some(&[0, 1, 1, 40, 500, 700]), sided, op);
        // Positions of no segment at either end.
        check(700, 901, Some(&[13, 80, 690]), sided, op);
        check(40_000, 30_000, None, sided, op);
    }
}

#[test]
fn ranges_with_two_free_ends_are_none() {
    assert!(OneSided::of(&[0, 1], &[3, 3], 3, None).is_some());
    assert!(OneSided::of(&[0, 1], &[3, 2], 3, None).is_none());
    assert!(OneSided::of(&[0, 2, 1], &[1, 3, 2], 3, Some(&[0, 1, 3])).is_none());
    // An empty range has no ends.
    assert!(OneSided::of(&[0, 2], &[3, 2], 3, None).is_some());
    assert!(OneSided::of(&[], &[], 0, None).is_none());
}

#[test]
fn a_cancelled_fold_ends() {
    static CANCELLED: AtomicBool = AtomicBool::new(true);
    let n = 2 * TASK;
    let (lo, hi) = (vec![0; n], vec![n as u32; n]);
    let one_sided = OneSided::of(&lo, &hi, n, None).unwrap();
    let keys: Vec<u64> = (0..n as u64).rev().collect();
    let tested = Tested {
        keys: &keys,
        words: &keys,
        op: Comparison::Lt,
    };
    let add = |a: u32, b: u32| a + b;
    let folded = one_sided.fold(tested, &vec![1; n], (&lo, &hi), (0, &add), &CANCELLED);
    assert!(matches!(folded, Err(BowtieError::Cancelled)));
}
