//! Equi-joins against the reference: matching rows by every strategy, and single-pass joins.

use crate::device::cuda::tests::*;
use crate::device::data::results::Paired;
use crate::device::primitives::transfer::TransferPrimitives;
use crate::ir::strategies::{EquiStrategy, Materialization};

/// For each row of `other` the number of matching rows of `base`, and a checksum of them.
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
    let Some((host, gpu)) = twins() else { return };
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
    let Some((host, gpu)) = twins() else { return };
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

#[test]
fn many_rows_and_skew() {
    let Some((host, gpu)) = twins() else { return };
    let mut random = Random(33);
    let (n, m) = (300_001, 500_003);
    let mut numbers = |rows: usize, kind: usize| -> Vec<u64> {
        let draw = |i: u64, random: &mut Random| match kind {
            // Unique keys, dense or not; ten rows for a key; one heavy key; all equal.
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

/// The columns of one side: a key, columns that move with it, and others.
pub(crate) fn payload(keys: &ArrayRef, salt: u64) -> Vec<ArrayRef> {
    let n = keys.len() as u64;
    let word = |i: u64| (i + salt).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    vec![
        Arc::clone(keys),
        Arc::new((0..n).map(|i| Some(word(i) as i32)).collect::<Int32Array>()),
        Arc::new((0..n).map(|i| Some(word(i) as i64)).collect::<Int64Array>()),
        Arc::new(
            (0..n)
                .map(|i| i128::from(word(i) as i64) << 20)
                .map(Some)
                .collect::<Decimal128Array>(),
        ),
        Arc::new((0..n).map(|i| Some(word(i) as i8)).collect::<Int8Array>()),
        Arc::new(
            (0..n)
                .map(|i| (i % 5 != 1).then(|| word(i) as i32))
                .collect::<Int32Array>(),
        ),
        Arc::new(
            (0..n)
                .map(|i| (i % 7 != 1).then(|| format!("{:x}", word(i))))
                .collect::<StringArray>(),
        ),
    ]
}

/// Rows as text, in order.
fn rows_of(columns: &[ArrayRef]) -> Vec<String> {
    use arrow::util::display::{ArrayFormatter, FormatOptions};
    let options = FormatOptions::default().with_null("NULL");
    let formatters: Vec<ArrayFormatter> = columns
        .iter()
        .map(|column| ArrayFormatter::try_new(column, &options).unwrap())
        .collect();
    let row =
        |i: usize| -> Vec<String> { formatters.iter().map(|f| f.value(i).to_string()).collect() };
    let mut rows: Vec<String> = (0..columns[0].len()).map(|i| row(i).join("|")).collect();
    rows.sort();
    rows
}

/// The output of a single-pass join; `None` if the device does not offer it.
pub(crate) fn joined(
    device: &dyn Device,
    sides: [&[ArrayRef]; 2],
    by: EquiStrategy,
    materialization: Materialization,
) -> Option<Vec<String>> {
    let [build, probe] = sides.map(|side| upload(device, side));
    let (build, probe) = (borrowed(&build), borrowed(&probe));
    let made = device
        .equi_build(
            &build[..1],
            false,
            Some(by),
            &build,
            Some(materialization),
            None,
        )
        .unwrap()?;
    let mut again = None;
    // A build side is probed several times.
    for _ in 0..2 {
        let joined = device.equi_join(&made, &build, &probe[..1], &probe);
        let Paired::All(joined) = joined.unwrap() else {
            return None;
        };
        let down = |columns: &[Column]| -> Vec<ArrayRef> {
            columns
                .iter()
                .map(|column| device.download(column).unwrap())
                .collect()
        };
        let columns = [down(&joined.build), down(&joined.probe)].concat();
        assert!(columns.iter().all(|column| column.len() == joined.rows));
        let rows = rows_of(&columns);
        assert!(again.is_none_or(|again| again == rows));
        again = Some(rows);
    }
    again
}

#[test]
fn pairs_put_together_are_the_twins() {
    let Some((host, gpu)) = twins() else { return };
    for (n, m) in [
        (1, 1),
        (1, 40),
        (50, 3),
        (3_000, 5_000),
        (70_001, 40_000),
        (9_000, 0),
    ] {
        let int = |i: u64| Some((i.wrapping_mul(2_654_435_761) >> 3) as i32);
        let long = |i: u64| (i % 9 != 4).then(|| i.wrapping_mul(0x9E37_79B9_7F4A_7C15) as i64);
        let dense = |i: u64| Some(i as i32 - 20);
        let sides = |of: &dyn Fn(u64) -> ArrayRef| [of(n), of(m)];
        let key_pairs = [
            sides(&|rows| {
                Arc::new(
                    (0..rows)
                        .map(|i| int(i * 2 % (2 * n)))
                        .collect::<Int32Array>(),
                )
            }),
            sides(&|rows| Arc::new((0..rows).map(long).collect::<Int64Array>())),
            sides(&|rows| Arc::new((0..rows).map(dense).collect::<Int32Array>())),
            // No row has a match.
            [
                Arc::new((0..n).map(dense).collect::<Int32Array>()) as ArrayRef,
                Arc::new((0..m).map(|i| Some(-21 - i as i32)).collect::<Int32Array>()),
            ],
            sides(&|rows| {
                Arc::new(
                    (0..rows)
                        .map(|i| Some(format!("{i:x}")))
                        .collect::<StringArray>(),
                )
            }),
        ];
        for [of_build, of_probe] in key_pairs {
            let (build, probe) = (payload(&of_build, 1), payload(&of_probe, 99));
            let gftr = Materialization::Gftr;
            let hash = EquiStrategy::Hash;
            let expected = joined(&host, [&build, &probe], hash, gftr).unwrap();
            let unique = rows_of(&build[..1])
                .windows(2)
                .all(|pair| pair[0] != pair[1] || pair[0] == "NULL");
            for by in EquiStrategy::ALL {
                for materialization in [gftr, Materialization::Gfur] {
                    let found = joined(&gpu, [&build, &probe], by, materialization);
                    let what = format!("{by}, {materialization}, {} × {m}", of_build.data_type());
                    match found {
                        Some(found) => assert!(found == expected, "{what}"),
                        None => assert!(!unique, "{what}"),
                    }
                }
            }
        }
    }
}

/// A sample's estimates are close: the share of probe keys with a match, and of build rows whose key is not unique.
#[test]
fn samples_of_keys() {
    let Some((_, gpu)) = twins() else { return };
    let mut random = Random(23);
    let n = 150_000;
    let odd = 0x9E37_79B9_7F4A_7C15u64;
    for share in [0.0, 0.03, 0.4, 1.0] {
        for rows_a_key in [1, 4] {
            let keys = n as u64 / rows_a_key;
            let build: Vec<u64> = (0..n as u64).map(|i| i % keys).collect();
            let probe: Vec<u64> = (0..2 * n)
                .map(|_| match random.below(1000) < (share * 1000.0) as u64 {
                    true => random.below(keys),
                    false => keys + random.below(1 << 30),
                })
                .collect();
            let wide = |keys: &[u64]| -> ArrayRef {
                u64_column(keys.iter().map(|k| k.wrapping_mul(odd)).collect(), None)
            };
            let narrow = |keys: &[u64]| -> ArrayRef {
                let words = keys.iter().map(|k| (*k as u32).wrapping_mul(odd as u32));
                Arc::new(UInt32Array::from_iter_values(words))
            };
            // A seventh of the probe rows has a NULL key.
            let nulls = random.nulls(2 * n, 2);
            let some = Arc::new(UInt32Array::new(
                probe
                    .iter()
                    .map(|k| (*k as u32).wrapping_mul(odd as u32))
                    .collect(),
                nulls,
            ));
            for (build, probe) in [
                (wide(&build), wide(&probe)),
                (narrow(&build), narrow(&probe)),
                (narrow(&build), some as ArrayRef),
            ] {
                let [build, probe] =
                    [build, probe].map(|array| gpu.upload(from_ref(&array)).unwrap());
                let (keys, keying) = gpu.equi_keys(&[&build], false).unwrap();
                let probe = gpu.equi_keys_in(&keying, &[&probe]).unwrap();
                let sampled = gpu.queue.sampled(&keys, &probe).unwrap();
                let again = 1.0 - 1.0 / rows_a_key as f64;
                // Keys that match several rows count once.
                let near = |found: f64, share: f64| (found - share).abs() < 0.05;
                assert!(
                    sampled.matches.is_some_and(|found| near(found, share))
                        && near(sampled.again, again),
                    "{share} match, {rows_a_key} rows a key: {sampled:?}"
                );
            }
        }
    }
}

/// Measured once, and close to the rates of known cards.
#[test]
fn rates_of_memory() {
    let Some((_, gpu)) = twins() else { return };
    let rates = gpu.queue.memory_rates().unwrap();
    println!("{rates:?}");
    assert!((0.12..=7.7).contains(&rates.copied_byte), "{rates:?}");
    assert!((6.8..=437.0).contains(&rates.gathered_value), "{rates:?}");
    assert_eq!(gpu.queue.memory_rates().unwrap(), rates);
}
