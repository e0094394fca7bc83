//! Key bitmaps: the rows whose keys have a bit, and filters by them.

use crate::device::cuda::tests::expr::row_program;
use crate::device::cuda::tests::*;
use crate::device::data::key_bitmap::{KeyBitmap, KeyRange};

/// Whether each row of `probe` has a match in `base`, computed in parts that begin at `cuts`. The range is that of side
/// `ranged`.
fn found(
    device: &dyn Device,
    sides: [&[ArrayRef]; 2],
    ranged: usize,
    null_equal: bool,
    cuts: &[usize],
) -> Option<ArrayRef> {
    let rows = sides[1][0].len();
    let range = device
        .key_range(&borrowed(&upload(device, sides[ranged])))
        .unwrap();
    let bits = KeyBitmap::new(device, &range, null_equal).unwrap()?;
    let base = upload(device, sides[0]);
    device.set_key_bits(&bits, &borrowed(&base)).unwrap();
    let flags = device.flags(rows).unwrap();
    let cuts: Vec<usize> = cuts.iter().copied().filter(|cut| *cut < rows).collect();
    for (i, first) in cuts.iter().enumerate() {
        let end = cuts.get(i + 1).copied().unwrap_or(rows);
        let part: Vec<ArrayRef> = sides[1]
            .iter()
            .map(|a| a.slice(*first, end - first))
            .collect();
        let probe = upload(device, &part);
        device
            .flag_keys(&bits, &borrowed(&probe), &flags, *first)
            .unwrap();
    }
    let column = device.flag_column(&flags, 0, rows, true).unwrap();
    Some(device.download(&column).unwrap())
}

fn same_rows(host: &HostDevice, gpu: &CudaDevice, sides: [&[ArrayRef]; 2], what: &str) {
    for null_equal in [false, true] {
        for ranged in [0, 1] {
            for sides in [sides, [sides[1], sides[0]]] {
                for cuts in [&[0][..], &[0, 64, 1024, 4096]] {
                    let of_host = found(host, sides, ranged, null_equal, cuts);
                    let of_gpu = found(gpu, sides, ranged, null_equal, cuts);
                    assert_eq!(of_host, of_gpu, "{what}: {ranged} {null_equal} {cuts:?}");
                }
            }
        }
    }
}

#[test]
fn rows_find_their_keys() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(41);
    for n in SIZES {
        for (kind, spread) in [3, 90, n as u64 * 2 + 1, n as u64 * 40 + 7]
            .into_iter()
            .enumerate()
        {
            every_type(&host, &gpu, &mut random, n, kind, spread);
        }
    }
}

/// Keys of every type, and of several columns, in a range of `spread`: `n` rows and three quarters of them.
pub(crate) fn every_type(
    host: &HostDevice,
    gpu: &CudaDevice,
    random: &mut Random,
    n: usize,
    kind: usize,
    spread: u64,
) {
    let m = n * 3 / 4 + 5;
    let (left, right) = (side(random, n, kind, spread), side(random, m, kind, spread));
    for (left, right) in left.iter().zip(&right) {
        let what = format!("{n} × {m} below {spread}: {}", left.data_type());
        same_rows(host, gpu, [from_ref(left), from_ref(right)], &what);
    }
    // Several columns: a Boolean first, last and between numbers.
    for columns in [&[17, 0][..], &[4, 17], &[2, 3], &[17, 0, 1]] {
        let of = |side: &[ArrayRef]| -> Vec<ArrayRef> {
            columns.iter().map(|at| side[*at].clone()).collect()
        };
        let what = format!("{n} × {m} below {spread}: columns {columns:?}");
        same_rows(host, gpu, [&of(&left), &of(&right)], &what);
    }
}

/// Columns of every type with the same numbers.
fn side(random: &mut Random, rows: usize, kind: usize, spread: u64) -> Vec<ArrayRef> {
    let words: Vec<u64> = (0..rows).map(|_| random.below(spread)).collect();
    let nulls = random.nulls(rows, kind);
    macro_rules! values {
        ($t:ty, $value:expr) => {
            Arc::new(PrimitiveArray::<$t>::new(
                words.iter().map(|w| $value(*w)).collect::<Vec<_>>().into(),
                nulls.clone(),
            )) as ArrayRef
        };
    }
    let far = |w: u64| (w as i64).wrapping_add(i64::MAX - 40);
    vec![
        values!(Int8Type, |w| w as i8),
        values!(UInt8Type, |w| w as u8),
        values!(Int16Type, |w| w as i16),
        values!(UInt16Type, |w| w as u16),
        values!(Int32Type, |w| w as i32 - 1000),
        values!(UInt32Type, |w| u32::MAX - w as u32),
        values!(Int64Type, |w| w as i64 + i64::MIN),
        values!(UInt64Type, |w| u64::MAX - w),
        // The least and the greatest value of the type are too far apart.
        values!(Int64Type, far),
        values!(Date32Type, |w| w as i32 - 7),
        values!(Date64Type, |w| w as i64),
        values!(Time32SecondType, |w| w as i32),
        values!(Time64NanosecondType, |w| w as i64),
        values!(TimestampMicrosecondType, |w| -(w as i64)),
        values!(DurationMillisecondType, |w| w as i64),
        values!(Decimal32Type, |w| w as i32),
        values!(Decimal64Type, |w| w as i64),
        Arc::new(BooleanArray::new(
            BooleanBuffer::collect_bool(rows, |i| words[i] & 1 != 0),
            nulls.clone(),
        )),
    ]
}

/// Both devices keep the same rows of the second side by the key bitmap of the first: a column of row numbers, the key
/// columns that can be moved, and all key columns.
pub(crate) fn same_kept(
    host: &HostDevice,
    gpu: &CudaDevice,
    sides: [&[ArrayRef]; 2],
    null_equal: bool,
    what: &str,
) {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..sides[1][0].len() as i64));
    let moves =
        |key: &&ArrayRef| key.null_count() == 0 && !matches!(key.data_type(), DataType::Boolean);
    let moved: Vec<ArrayRef> = sides[1].iter().filter(moves).cloned().collect();
    for kept in [
        vec![],
        [vec![numbers.clone()], moved].concat(),
        [from_ref(&numbers), sides[1]].concat(),
    ] {
        for set in [true, false] {
            let select = |device: &dyn Device| {
                let [base, probe] = sides.map(|side| upload(device, side));
                let (base, probe) = (borrowed(&base), borrowed(&probe));
                let range = device.key_range(&base).unwrap();
                if !range.is_narrow(null_equal, numbers.len() as u64, None) {
                    return None;
                }
                let bits = KeyBitmap::new(device, &range, null_equal).unwrap()?;
                let outside = device.set_key_bits_inside(&bits, &base).unwrap();
                assert!(outside.is_empty(), "{what}: outside");
                // A key column that is kept is the same column object.
                let others = upload(device, &kept);
                let columns = kept.iter().zip(&others).map(|(array, other)| {
                    let key = sides[1].iter().position(|key| Arc::ptr_eq(key, array));
                    key.map_or(other.as_ref(), |key| probe[key])
                });
                let columns: Vec<&Column> = columns.collect();
                Some(device.select_keys(&bits, &probe, set, &columns).unwrap())
            };
            let what = format!("{what}, {} columns, set: {set}", kept.len());
            match (select(host), select(gpu)) {
                (Some(of_host), Some(of_gpu)) => {
                    row_program::same_rows(gpu, of_host, of_gpu, &what)
                }
                (of_host, of_gpu) => assert!(of_host.is_none() && of_gpu.is_none(), "{what}"),
            }
        }
    }
}

#[test]
fn rows_are_kept_by_their_keys() {
    let Some((host, mut gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(42);
    for after in [0, u64::MAX] {
        gpu.rows_before_compiling = after;
        for (turn, n) in [
            0, 1, 2, 31, 32, 33, 63, 65, 1023, 1025, 2047, 2048, 2049, 4097, 65_535, 65_537,
        ]
        .into_iter()
        .enumerate()
        {
            kept_by_every_type(&host, &gpu, &mut random, n, turn);
        }
        // Without rows there are no keys.
        let probe = side(&mut random, 100, 1, 90);
        for at in [&[17][..], &[4], &[17, 4], &[17, 17]] {
            let rows = at.iter().map(|at| probe[*at].clone());
            let probe: Vec<ArrayRef> = rows.collect();
            let base: Vec<ArrayRef> = probe.iter().map(|key| key.slice(0, 0)).collect();
            for null_equal in [false, true] {
                let what = format!("no rows: columns {at:?} {null_equal}");
                same_kept(&host, &gpu, [&base, &probe], null_equal, &what);
            }
        }
    }
}

/// Keys of every type, and of several columns.
pub(crate) fn kept_by_every_type(
    host: &HostDevice,
    gpu: &CudaDevice,
    random: &mut Random,
    n: usize,
    turn: usize,
) {
    let m = n * 3 / 4 + 5;
    let spread = [3, n as u64 * 2 + 1][turn % 2];
    // With NULLs on one side, on both or on none.
    let kinds = [turn, turn + turn / 3];
    let base = side(random, m, kinds[0], spread);
    let probe = side(random, n, kinds[1], spread);
    let several = [&[17, 0][..], &[4, 17], &[2, 3], &[0, 4, 17]];
    let single = (0..base.len()).map(|at| vec![at]);
    for (i, columns) in single.chain(several.map(<[usize]>::to_vec)).enumerate() {
        let of = |side: &[ArrayRef]| -> Vec<ArrayRef> {
            columns.iter().map(|at| side[*at].clone()).collect()
        };
        let null_equal = (turn + i).is_multiple_of(2);
        let what = format!("{m} and {n} below {spread}: columns {columns:?} {null_equal}");
        same_kept(host, gpu, [&of(&base), &of(&probe)], null_equal, &what);
    }
}

/// Orders of keys that threads and warps combine differently; of 4 and of 8 bytes.
const ORDERS: [fn(u64, u64) -> u64; 11] = [
    |i, _| i,
    |i, n| i.wrapping_mul(2_654_435_761) % n,
    |_, _| 12_345,
    |i, _| if i % 5 == 0 { 77 } else { i },
    |i, _| i / 1000 * 1000,
    |i, n| n - 1 - i,
    |i, _| i + 1,
    |i, _| i * 2 + 3,
    |i, _| i * 7,
    |i, _| i * 32 + i % 3,
    |i, _| i / 3,
];

#[test]
fn ascending_keys_and_others_are_kept() {
    let Some((host, mut gpu)) = reference_and_gpu() else {
        return;
    };
    gpu.rows_before_compiling = 0;
    for n in [255, 4_096, 4_097, 1_000_003] {
        let probe: Vec<u64> = (0..n).map(|i| i * 3 / 2).collect();
        for (kind, order) in ORDERS.iter().enumerate() {
            let base: Vec<u64> = (0..n).map(|i| order(i, n)).collect();
            let ints = |words: &[u64]| -> ArrayRef {
                Arc::new(Int32Array::from_iter_values(
                    words.iter().map(|w| *w as i32 - 500),
                ))
            };
            let longs = |words: &[u64]| -> ArrayRef {
                Arc::new(UInt64Array::from_iter_values(words.iter().map(|w| *w << 1)))
            };
            let what = format!("{n} keys in order {kind}");
            same_kept(&host, &gpu, [&[ints(&base)], &[ints(&probe)]], true, &what);
            same_kept(
                &host,
                &gpu,
                [&[longs(&base)], &[longs(&probe)]],
                false,
                &what,
            );
        }
    }
}

/// A bitmap of a sampled range has all keys, also those that the sample missed, inside its range and outside.
#[test]
fn bits_of_a_sampled_range_hold_all_keys() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let n = 3_000_001usize;
    let mut random = Random(43);
    let scattered: Vec<i32> = (0..n)
        .map(|_| random.below(1 << 22) as i32 - 9_000)
        .collect();
    let with = |at: usize, key: i32| {
        let mut keys = scattered.clone();
        keys[at] = key;
        keys
    };
    let nulls = random.nulls(n, 2);
    let array =
        |keys: Vec<i32>, nulls| -> ArrayRef { Arc::new(Int32Array::new(keys.into(), nulls)) };
    for (base, is_narrow) in [
        (array((0..n as i32).collect(), None), true),
        (array(scattered.clone(), None), true),
        (array(scattered.clone(), nulls), true),
        (array(with(1_500_001, 1 << 27), None), true),
        (array(with(1_500_001, -(1 << 27)), None), true),
        (array(with(0, 1 << 27), None), true),
        (array(with(n - 1, i32::MIN), None), false),
        (array(with(1_500_001, i32::MAX), None), false),
        (array(vec![0; n], Some(NullBuffer::new_null(n))), true),
    ] {
        for null_equal in [false, true] {
            let probe = [base.slice(n / 3, n / 3), array(with(5, i32::MAX), None)];
            let probe = arrow::compute::concat(&[&probe[0], &probe[1]]).unwrap();
            let kept = |device: &dyn Device| {
                let keys = device.upload(from_ref(&base)).unwrap();
                let narrow = |range: &KeyRange| range.is_narrow(null_equal, n as u64, None);
                let bits = KeyBitmap::of(device, &[&keys], null_equal, &narrow).unwrap()?;
                let probe = device.upload(from_ref(&probe)).unwrap();
                let kept = device.select_keys(&bits, &[&probe], true, &[&probe]);
                Some(kept.unwrap())
            };
            let (of_host, of_gpu) = (kept(&host), kept(&gpu));
            assert_eq!(
                (of_host.is_some(), of_gpu.is_some()),
                (is_narrow, is_narrow)
            );
            if let (Some(of_host), Some(of_gpu)) = (of_host, of_gpu) {
                row_program::same_rows(&gpu, of_host, of_gpu, "a sampled range");
            }
        }
    }
}

/// Keys in order, each once, all equal, and with a hot key: no omitted atomic was needed.
#[test]
fn every_key_is_set() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let n = 3_000_001u64;
    let probe: ArrayRef = Arc::new((0..n as i32).map(Some).collect::<Int32Array>());
    for (kind, order) in ORDERS.iter().enumerate() {
        let base = (0..n).map(|i| Some(order(i, n) as i32));
        let base: ArrayRef = Arc::new(base.collect::<Int32Array>());
        let sides = [from_ref(&base), from_ref(&probe)];
        let of_host = found(&host, sides, 1, false, &[0]);
        assert_eq!(of_host, found(&gpu, sides, 1, false, &[0]), "kind {kind}");
    }
}

/// A bitmap of a part of the range: keys outside have no bit, and their range is returned. Keys in order, in no order,
/// and repeated.
pub(crate) fn outside(host: &HostDevice, gpu: &CudaDevice, random: &mut Random, rows: usize) {
    for (turn, order) in (0..6).zip([1, 7, 40].repeat(2)) {
        let nulls = random.nulls(rows, if turn < 3 { 0 } else { 5 });
        let number = |random: &mut Random, i: usize| match order {
            7 => random.below(rows as u64) as i64,
            _ => (i * order / 8) as i64,
        };
        let numbers: Vec<i64> = (0..rows).map(|i| number(random, i)).collect();
        let greatest = numbers.iter().max().copied().unwrap_or(0);
        let inside = [greatest / 4, greatest / 2];
        let valid = |i: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(i));
        let is_outside = |i: &usize| valid(*i) && !(inside[0]..=inside[1]).contains(&numbers[*i]);
        let others: Vec<i64> = (0..rows).filter(is_outside).map(|i| numbers[i]).collect();
        let of = |numbers: &[i64], nulls: Option<NullBuffer>| -> [ArrayRef; 2] {
            let narrow = numbers.iter().map(|n| *n as i32).collect::<Vec<_>>();
            let wide = numbers.iter().map(|n| *n - 1000).collect::<Vec<_>>();
            [
                Arc::new(Int32Array::new(narrow.into(), nulls.clone())),
                Arc::new(Int64Array::new(wide.into(), nulls)),
            ]
        };
        let columns = of(&numbers, nulls.clone());
        for ((keys, part), others) in columns.iter().zip(of(&inside, None)).zip(of(&others, None)) {
            let what = format!("{rows} rows, turn {turn}, {}", keys.data_type());
            let kept = |device: &dyn Device| {
                let [keys, part, others] =
                    [keys, &part, &others].map(|array| device.upload(from_ref(array)).unwrap());
                let range = device.key_range(&[&part]).unwrap();
                let bits = KeyBitmap::new(device, &range, false).unwrap().unwrap();
                let outside = device.set_key_bits_inside(&bits, &[&keys]).unwrap();
                // The host's range may cover more keys.
                if device.name() != "host" {
                    let expected = device.key_range(&[&others]).unwrap();
                    assert_eq!(outside, expected, "{what}");
                }
                device.select_keys(&bits, &[&keys], true, &[&keys]).unwrap()
            };
            row_program::same_rows(gpu, kept(host), kept(gpu), &what);
        }
    }
}

#[test]
fn keys_outside_of_a_range_are_found() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(47);
    for rows in [1, 5, 127, 128, 129, 2047, 2049, 70_000] {
        outside(&host, &gpu, &mut random, rows);
    }
}
