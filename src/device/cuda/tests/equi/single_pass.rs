//! Equi-joins in a single pass: the output rows of the host.

use crate::device::cuda::tests::*;
use crate::device::data::results::Paired;
use crate::ir::strategies::{EquiStrategy, Materialization};

/// A side: a key, and payload columns that GFTR carries and others.
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

/// Rows as text, sorted.
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

/// The output rows of a single pass; `None` where the device declines it.
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
    // A build serves several probes.
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
fn pairs_put_together_are_the_hosts() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
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

/// Carried columns with NULLs share words of validity, here two on the build side.
#[test]
fn columns_with_nulls_are_carried() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let side = |rows: u64, columns: u64| -> Vec<ArrayRef> {
        let keys =
            (0..rows).map(|i| (i % 11 != 3).then(|| (i.wrapping_mul(2_654_435_761) >> 3) as i32));
        let keys: ArrayRef = Arc::new(keys.collect::<Int32Array>());
        let values = (0..columns).map(|c| -> ArrayRef {
            let value = |i: u64| (!i.is_multiple_of(c + 2)).then(|| (i * 64 + c) as i64);
            match c % 3 {
                0 => Arc::new((0..rows).map(value).collect::<Int64Array>()),
                1 => Arc::new(
                    (0..rows)
                        .map(|i| value(i).map(|v| v as i32))
                        .collect::<Int32Array>(),
                ),
                _ => Arc::new(
                    (0..rows)
                        .map(|i| value(i).map(i128::from))
                        .collect::<Decimal128Array>(),
                ),
            }
        });
        std::iter::once(keys).chain(values).collect()
    };
    let (build, probe) = (side(1_500, 35), side(2_100, 3));
    let gftr = Materialization::Gftr;
    let expected = joined(&host, [&build, &probe], EquiStrategy::Hash, gftr).unwrap();
    for by in EquiStrategy::ALL {
        gpu.stream.launched.lock().clear();
        let found = joined(&gpu, [&build, &probe], by, gftr).unwrap();
        assert!(found == expected, "{by}");
        let launched = gpu.stream.launched.lock();
        assert!(launched.contains("rows_bits_pack"), "{by}");
        assert!(launched.contains("rows_bits_unpack"), "{by}");
    }
}
