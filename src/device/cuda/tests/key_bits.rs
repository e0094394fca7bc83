//! Bits of keys: which rows find theirs.

use super::*;
use crate::device::key_bits::KeyBits;

/// Which rows of `probe` have a partner in `base`, found in parts that begin at `cuts`; the range is that of the side `ranged`.
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
    let bits = KeyBits::new(device, &range, null_equal).unwrap()?;
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
                    let here = found(host, sides, ranged, null_equal, cuts);
                    let there = found(gpu, sides, ranged, null_equal, cuts);
                    assert_eq!(here, there, "{what}: {ranged} {null_equal} {cuts:?}");
                }
            }
        }
    }
}

#[test]
fn rows_find_their_keys() {
    let Some((host, gpu)) = twins() else { return };
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
pub(super) fn every_type(
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

/// Columns of every type, of the same numbers.
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
        // The ends of the type lie too far apart.
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

/// Keys that come in turn, each once, all equal, and with one that is hot: atomics that are left out were not needed.
#[test]
fn every_key_is_set() {
    let Some((host, gpu)) = twins() else { return };
    let n = 3_000_001u64;
    let probe: ArrayRef = Arc::new((0..n as i32).map(Some).collect::<Int32Array>());
    let kinds: [&dyn Fn(u64) -> u64; 5] = [
        &|i| i,
        &|i| i.wrapping_mul(2_654_435_761) % n,
        &|_| 12_345,
        &|i| if i % 5 == 0 { 77 } else { i },
        &|i| i / 1000 * 1000,
    ];
    for (kind, key) in kinds.iter().enumerate() {
        let base = (0..n).map(|i| Some(key(i) as i32));
        let base: ArrayRef = Arc::new(base.collect::<Int32Array>());
        let sides = [from_ref(&base), from_ref(&probe)];
        let here = found(&host, sides, 1, false, &[0]);
        assert_eq!(here, found(&gpu, sides, 1, false, &[0]), "kind {kind}");
    }
}
