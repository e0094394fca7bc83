//! Joins of presorted sides: the matches and rows of two loops, and no result where keys are not sorted.

use crate::device::cuda::tests::equi::single_pass;
use crate::device::cuda::tests::*;
use crate::device::data::results::Joined;
use crate::device::presorted::PresortedKeys;
use crate::device::primitives::fast_paths::FastPaths;
use crate::device::primitives::transfer::TransferPrimitives;
use crate::ir::strategies::Materialization;

/// Types of keys of 4 and 8 bytes, signed and unsigned.
const KINDS: usize = 6;

/// Numbers as keys of a type; some are negative if it is signed.
fn keys(kind: usize, numbers: &[u64], middle: u64) -> ArrayRef {
    let narrow = numbers.iter().map(|n| n.wrapping_sub(middle) as i32);
    let wide = numbers.iter().map(|n| n.wrapping_sub(middle) as i64);
    let great = numbers.iter().map(|n| u64::MAX - (1 << 40) + n);
    match kind {
        0 => Arc::new(Int32Array::from_iter_values(narrow)),
        1 => Arc::new(UInt32Array::from_iter_values(
            numbers.iter().map(|n| *n as u32 + (1 << 31) - 5),
        )),
        2 => Arc::new(Date32Array::from_iter_values(narrow)),
        3 => Arc::new(Int64Array::from_iter_values(wide)),
        4 => Arc::new(UInt64Array::from_iter_values(great)),
        _ => Arc::new(TimestampMillisecondArray::from_iter_values(wide)),
    }
}

/// The steps between consecutive keys.
#[derive(Debug, Clone, Copy)]
struct Steps {
    /// A step is at least `least`, and less than `least + more`.
    least: u64,
    more: u64,
    /// After this number of keys a step is a thousand times as long.
    together: usize,
}

fn ascending(random: &mut Random, rows: usize, steps: Steps) -> Vec<u64> {
    let mut next = 10 + random.below(40);
    let numbers = (0..rows).map(|row| {
        let step = steps.least + random.below(steps.more);
        let is_long = (row + 1).is_multiple_of(steps.together);
        next += if is_long { step * 1000 } else { step };
        next
    });
    numbers.collect()
}

/// Columns for each kind of materialisation: the key, a row number, columns that move with keys and others.
fn payload(keys: &ArrayRef, salt: u64) -> Vec<ArrayRef> {
    let rows = Int32Array::from_iter_values(0..keys.len() as i32);
    let mut columns = single_pass::payload(keys, salt);
    columns.truncate(6);
    columns.insert(1, Arc::new(rows));
    columns
}

struct Sides {
    build: Vec<ArrayRef>,
    probe: Vec<ArrayRef>,
    /// The build rows of each probe row.
    matches: Vec<std::ops::Range<usize>>,
}

impl Sides {
    fn new(kind: usize, build: &[u64], probe: &[u64]) -> Self {
        let middle = build.get(build.len() / 3).copied().unwrap_or(7);
        let of = |numbers: &[u64], salt| payload(&keys(kind, numbers, middle), salt);
        let matches = probe.iter().map(|number| {
            let first = build.partition_point(|other| other < number);
            first..build.partition_point(|other| other <= number)
        });
        Self {
            build: of(build, 3),
            probe: of(probe, 5),
            matches: matches.collect(),
        }
    }

    fn uploaded(&self, gpu: &CudaDevice) -> [Vec<Arc<Column>>; 2] {
        [upload(gpu, &self.build), upload(gpu, &self.probe)]
    }

    fn join(&self, gpu: &CudaDevice, known: bool, how: Materialization) -> Option<Joined> {
        let [build, probe] = self.uploaded(gpu);
        let keys = PresortedKeys {
            build: &build[0],
            probe: &probe[0],
            known,
        };
        gpu.merge_join(keys, Some(how), &borrowed(&build), &borrowed(&probe))
            .unwrap()
    }

    /// Compares all matches, with all columns.
    fn check_pairs(&self, gpu: &CudaDevice, known: bool, how: Materialization, what: &str) {
        let joined = self.join(gpu, known, how).expect(what);
        let down = |columns: &[Column]| -> Vec<ArrayRef> {
            let columns = columns.iter();
            columns
                .map(|column| gpu.download(column).unwrap())
                .collect()
        };
        let (build, probe) = (down(&joined.build), down(&joined.probe));
        let rows = |columns: &[ArrayRef]| columns[1].as_primitive::<Int32Type>().clone();
        let (of_build, of_probe) = (rows(&build), rows(&probe));
        let mut pairs: Vec<(i32, i32)> = of_probe
            .values()
            .iter()
            .copied()
            .zip(of_build.values().iter().copied())
            .collect();
        pairs.sort_unstable();
        let expected = self.matches.iter().enumerate();
        let expected = expected.flat_map(|(row, matches)| {
            matches.clone().map(move |found| (row as i32, found as i32))
        });
        assert!(expected.eq(pairs), "{what}: other pairs");
        for (columns, sent, rows) in [
            (build, &self.build, of_build),
            (probe, &self.probe, of_probe),
        ] {
            for (column, sent) in columns.iter().zip(sent) {
                assert_eq!(column, &take(sent, &rows, None).unwrap(), "{what}");
            }
        }
    }

    /// Compares the probe rows with a match, or without, with all columns. False without a result.
    fn check_rows(&self, gpu: &CudaDevice, known: bool, matched: bool, what: &str) -> bool {
        let [build, probe] = self.uploaded(gpu);
        let keys = PresortedKeys {
            build: &build[0],
            probe: &probe[0],
            known,
        };
        let wanted = self.matches.iter();
        let wanted = wanted
            .filter(|matches| matches.is_empty() != matched)
            .count();
        let answered = gpu.merge_keep(keys, matched, &borrowed(&probe)).unwrap();
        for columns in [&probe[..0], &probe[..1]] {
            let kept = gpu.merge_keep(keys, matched, &borrowed(columns)).unwrap();
            assert_eq!(kept.is_some(), answered.is_some(), "{what}");
            match kept {
                Some(Some((rows, made))) => {
                    assert_eq!((rows, made.len()), (wanted, columns.len()), "{what}");
                    if let Some(made) = made.first() {
                        let keys = gpu.download(made).unwrap();
                        let all = arrow::compute::sort(&keys, None).unwrap();
                        let rows = self.matches.iter().enumerate();
                        let rows = rows.filter(|(_, matches)| matches.is_empty() != matched);
                        let rows: Int32Array = rows.map(|(row, _)| row as i32).collect();
                        assert_eq!(&all, &take(&self.probe[0], &rows, None).unwrap(), "{what}");
                    }
                }
                Some(None) => assert_eq!(wanted, self.matches.len(), "{what}"),
                None => {}
            }
        }
        let Some(kept) = answered else {
            return false;
        };
        let rows = self.matches.iter().enumerate();
        let expected = rows.filter(|(_, matches)| matches.is_empty() != matched);
        let expected: Vec<i32> = expected.map(|(row, _)| row as i32).collect();
        let Some((rows, kept)) = kept else {
            assert_eq!(expected.len(), self.matches.len(), "{what}");
            return true;
        };
        assert_eq!(rows, expected.len(), "{what}, {matched}");
        let kept: Vec<ArrayRef> = kept
            .iter()
            .map(|column| gpu.download(column).unwrap())
            .collect();
        let found = kept[1].as_primitive::<Int32Type>();
        let mut build = found.values().to_vec();
        build.sort_unstable();
        assert_eq!(build, expected, "{what}, {matched}");
        for (column, sent) in kept.iter().zip(&self.probe) {
            assert_eq!(
                column,
                &take(sent, found, None).unwrap(),
                "{what}, {matched}"
            );
        }
        true
    }
}

/// Each size with `all_kinds` types of keys.
pub(crate) fn check(sizes: &[(usize, usize)], all_kinds: usize) {
    let Some((_, mut gpu)) = reference_and_gpu() else {
        return;
    };
    gpu.least_merged_rows = 0;
    let mut random = Random(111);
    let steps = |least, more, together| Steps {
        least,
        more,
        together,
    };
    // Close keys, gaps, distant keys, and clusters; probe keys with duplicates.
    let ways = [
        (steps(1, 1, usize::MAX), steps(0, 2, usize::MAX)),
        (steps(1, 5, usize::MAX), steps(0, 7, usize::MAX)),
        (steps(1, 90, usize::MAX), steps(0, 99, usize::MAX)),
        (steps(1, 3, 1_500), steps(0, 2, 2_100)),
        (steps(1, 1, 3), steps(0, 1, 997)),
    ];
    let mut kinds = (0..KINDS).cycle();
    for (n, m) in sizes.iter().copied() {
        for kind in kinds.by_ref().take(all_kinds) {
            for (of_build, of_probe) in ways {
                let what = format!("{n} × {m} rows, type {kind}, {of_build:?}, {of_probe:?}");
                let build = ascending(&mut random, n, of_build);
                let probe = ascending(&mut random, m, of_probe);
                let sides = Sides::new(kind, &build, &probe);
                for known in [false, true] {
                    sides.check_pairs(&gpu, known, Materialization::Gftr, &what);
                    for matched in [false, true] {
                        assert!(sides.check_rows(&gpu, known, matched, &what), "{what}");
                    }
                }
                sides.check_pairs(&gpu, false, Materialization::Gfur, &what);

                // Duplicate build keys are allowed for semi and anti joins, but not for inner joins.
                let repeated: Vec<u64> = (0..n).map(|row| build[row - row % 3]).collect();
                let sides = Sides::new(kind, &repeated, &probe);
                assert!(sides.check_rows(&gpu, false, true, &what), "{what}");
                let pairs = sides.join(&gpu, false, Materialization::Gftr);
                assert_eq!(pairs.is_some(), n < 2, "{what}, repeats");

                // A key that is less than the previous one, at any position of either side.
                for of_build in [true, false] {
                    let (mut build, mut probe) = (build.clone(), probe.clone());
                    let side = if of_build { &mut build } else { &mut probe };
                    if side.len() < 2 {
                        continue;
                    }
                    let at = 1 + random.below(side.len() as u64 - 1) as usize;
                    side[at] = side[at - 1] - 1 - random.below(3);
                    let sides = Sides::new(kind, &build, &probe);
                    let what = format!(
                        "{what}, less at {at} of {}",
                        if of_build { "build" } else { "probe" }
                    );
                    assert!(
                        sides.join(&gpu, false, Materialization::Gftr).is_none(),
                        "{what}"
                    );
                    // `known` says that build keys ascend.
                    if !of_build {
                        let found = sides.join(&gpu, true, Materialization::Gftr);
                        assert!(found.is_none(), "{what}, known");
                    }
                    assert!(!sides.check_rows(&gpu, false, false, &what), "{what}");
                }
            }
        }
    }
}

#[test]
fn sides_that_ascend() {
    let sizes = [
        (1, 1),
        (1, 5000),
        (5000, 1),
        (3, 7),
        // Around a tile of keys of 4 and of 8 bytes, and around 64 tiles.
        (3951, 1),
        (1975, 1977),
        (1976, 1977),
        (975, 1000),
        (976, 1001),
        (2000, 100_000),
        (100_000, 900),
        (65_537, 130_000),
        (300_001, 500_003),
    ];
    check(&sizes[..10], KINDS);
    check(&sizes[10..], 1);
}

/// Keys at both limits of their types, in one tile and in several.
#[test]
fn keys_at_both_ends() {
    let Some((_, mut gpu)) = reference_and_gpu() else {
        return;
    };
    gpu.least_merged_rows = 0;
    for rows in [1, 700, 6000] {
        for kind in 0..4 {
            let last = if kind < 2 {
                u64::from(u32::MAX)
            } else {
                u64::MAX
            };
            let low = 0..rows;
            let high = last - rows + 1..=last;
            let build: Vec<u64> = low.clone().chain([last / 2]).chain(high.clone()).collect();
            let probe = low.flat_map(|n| [n, n]).step_by(3);
            let probe = probe.chain([last / 2 - 1, last / 2]);
            let probe: Vec<u64> = probe.chain(high.filter(|n| n % 3 != 1)).collect();
            let of = |numbers: &[u64], salt| {
                let numbers = numbers.iter().copied();
                let keys: ArrayRef = match kind {
                    0 => Arc::new(Int32Array::from_iter_values(
                        numbers.map(|n| n as i32 ^ i32::MIN),
                    )),
                    1 => Arc::new(UInt32Array::from_iter_values(numbers.map(|n| n as u32))),
                    2 => Arc::new(Int64Array::from_iter_values(
                        numbers.map(|n| n as i64 ^ i64::MIN),
                    )),
                    _ => Arc::new(UInt64Array::from_iter_values(numbers)),
                };
                payload(&keys, salt)
            };
            let matches = probe.iter().map(|number| {
                let first = build.partition_point(|other| other < number);
                first..build.partition_point(|other| other <= number)
            });
            let sides = Sides {
                build: of(&build, 3),
                probe: of(&probe, 5),
                matches: matches.collect(),
            };
            let what = format!("{rows} rows at both ends, type {kind}");
            for known in [false, true] {
                sides.check_pairs(&gpu, known, Materialization::Gftr, &what);
                for matched in [false, true] {
                    assert!(sides.check_rows(&gpu, known, matched, &what), "{what}");
                }
            }
        }
    }
}

#[test]
fn sides_in_no_order() {
    let Some((_, mut gpu)) = reference_and_gpu() else {
        return;
    };
    gpu.least_merged_rows = 0;
    let mut random = Random(112);
    for rows in [2, 64, 300, 5000, 200_000] {
        for kind in 0..KINDS {
            // A kernel reads none of the descending keys, or some; or all descend.
            for way in 0..4 {
                let mut build: Vec<u64> = (10..rows as u64 + 10).collect();
                let probe = build.clone();
                match way {
                    0 => build.reverse(),
                    1 => build.swap(rows / 2, rows - 1),
                    2 => (0..rows).for_each(|row| build[row] = random.below(rows as u64)),
                    _ => build.rotate_left(1),
                }
                if build.is_sorted() {
                    continue;
                }
                for sides in [
                    Sides::new(kind, &build, &probe),
                    Sides::new(kind, &probe, &build),
                ] {
                    let what = format!("{rows} rows, type {kind}, way {way}");
                    let found = sides.join(&gpu, false, Materialization::Gftr);
                    assert!(found.is_none(), "{what}");
                    assert!(!sides.check_rows(&gpu, false, true, &what), "{what}");
                }
            }
        }
    }
}

#[test]
fn keys_that_are_for_other_strategies() {
    let Some((_, mut gpu)) = reference_and_gpu() else {
        return;
    };
    let merged = |gpu: &CudaDevice, build: &ArrayRef, probe: &ArrayRef| {
        let columns = upload(gpu, &[Arc::clone(build), Arc::clone(probe)]);
        let keys = PresortedKeys {
            build: &columns[0],
            probe: &columns[1],
            known: false,
        };
        gpu.merge_keep(keys, true, &[&columns[1]])
            .unwrap()
            .is_some()
    };
    let ints: ArrayRef = Arc::new(Int32Array::from_iter_values(0..3000));
    assert!(!merged(&gpu, &ints, &ints), "few rows");
    gpu.least_merged_rows = 0;
    assert!(merged(&gpu, &ints, &ints));
    let nulls: ArrayRef = Arc::new(
        (0..3000)
            .map(|i| (i > 5).then_some(i))
            .collect::<Int32Array>(),
    );
    assert!(!merged(&gpu, &ints, &nulls) && !merged(&gpu, &nulls, &ints));
    let none = ints.slice(0, 0);
    assert!(!merged(&gpu, &ints, &none) && !merged(&gpu, &none, &ints));
    let short: ArrayRef = Arc::new(Int16Array::from_iter_values(0..3000));
    let floats: ArrayRef = Arc::new(Float64Array::from_iter_values((0..3000).map(f64::from)));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(
        (0..3000).map(|i| format!("{i:05}")),
    ));
    for other in [short, floats, texts] {
        assert!(!merged(&gpu, &other, &other), "{}", other.data_type());
    }
}

/// A merge of few rows gains nothing, unless their order is known.
#[test]
fn few_rows_are_not_merged() {
    let Some((_, mut gpu)) = reference_and_gpu() else {
        return;
    };
    // As the reference has it.
    assert_eq!(gpu.least_merged_rows, 131_072);
    let numbers: Vec<u64> = (0..100).collect();
    let sides = Sides::new(0, &numbers, &numbers);
    let is_merged = |gpu: &CudaDevice, known| {
        let joined = sides.join(gpu, known, Materialization::Gftr);
        joined.is_some()
    };
    assert!(!is_merged(&gpu, false) && is_merged(&gpu, true));
    for (least, merged) in [(200, true), (201, false)] {
        gpu.least_merged_rows = least;
        assert_eq!(is_merged(&gpu, false), merged, "from {least} rows on");
    }
}
