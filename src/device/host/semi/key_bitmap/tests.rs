use std::collections::HashSet;
use std::slice::from_ref;

use arrow::array::*;
use arrow::datatypes::DataType;

use crate::device::host::device::HostDevice;
use crate::device::host::semi::key_bitmap::*;
use crate::device::primitives::rows::RowPrimitives;
use crate::device::primitives::semi::SemiPrimitives;
use crate::device::primitives::transfer::TransferPrimitives;

fn device() -> HostDevice {
    HostDevice::new(Budget::new(u64::MAX)).unwrap()
}

fn upload(device: &HostDevice, arrays: &[ArrayRef]) -> Vec<Arc<Column>> {
    let arrays = arrays.iter();
    arrays
        .map(|array| device.upload(from_ref(array)).unwrap())
        .collect()
}

fn borrowed(columns: &[Arc<Column>]) -> Vec<&Column> {
    columns.iter().map(AsRef::as_ref).collect()
}

/// Whether each row of the second side has a match in the first; `None` if keys do not fit a bitmap. The range is that
/// of side `ranged`.
fn found(sides: [&[ArrayRef]; 2], ranged: usize, null_equal: bool) -> Option<Vec<bool>> {
    let device = device();
    let [keys, rows] = sides.map(|side| upload(&device, side));
    let range = device.key_range(&borrowed([&keys, &rows][ranged])).unwrap();
    let bits = KeyBitmap::new(&device, &range, null_equal).unwrap()?;
    device.set_key_bits(&bits, &borrowed(&keys)).unwrap();
    let len = rows[0].rows();
    let flags = device.flags(len).unwrap();
    device
        .flag_keys(&bits, &borrowed(&rows), &flags, 0)
        .unwrap();
    let found = device.flag_column(&flags, 0, len, true).unwrap();
    let found = found.on_host().unwrap().as_boolean().iter();
    Some(found.map(|bit| bit.unwrap()).collect())
}

/// The same by comparing rows as text. NULL matches nothing.
fn expected(sides: [&[ArrayRef]; 2], null_equal: bool) -> Vec<bool> {
    let rows = |side: &[ArrayRef]| -> Vec<Option<Vec<String>>> {
        let value = |array: &ArrayRef, row: usize| match array.is_null(row) {
            true => null_equal.then(|| "NULL".to_string()),
            false => Some(arrow::util::display::array_value_to_string(array, row).unwrap()),
        };
        let len = side[0].len();
        (0..len)
            .map(|row| side.iter().map(|array| value(array, row)).collect())
            .collect()
    };
    let known: HashSet<_> = rows(sides[0]).into_iter().flatten().collect();
    let rows = rows(sides[1]).into_iter();
    rows.map(|row| row.is_some_and(|row| known.contains(&row)))
        .collect()
}

/// The numbers of the second side's rows with a match in the first (`set`), or without one.
fn kept(sides: [&[ArrayRef]; 2], null_equal: bool, set: bool) -> Vec<i64> {
    let device = device();
    let [keys, rows] = sides.map(|side| upload(&device, side));
    let keys = borrowed(&keys);
    let bits = KeyBitmap::of(&device, &keys, null_equal, &|_| true);
    let bits = bits.unwrap().unwrap();
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..sides[1][0].len() as i64));
    let columns = upload(&device, from_ref(&numbers));
    let kept = device
        .select_keys(&bits, &borrowed(&rows), set, &borrowed(&columns))
        .unwrap();
    let numbers = match &kept {
        Some((rows, columns)) => {
            assert_eq!((columns.len(), columns[0].rows()), (1, *rows));
            columns[0].on_host().unwrap()
        }
        None => &numbers,
    };
    let numbers = numbers.as_primitive::<arrow::datatypes::Int64Type>();
    numbers.values().to_vec()
}

fn check(left: &[ArrayRef], right: &[ArrayRef]) {
    for null_equal in [false, true] {
        for sides in [[left, right], [right, left]] {
            let expected = expected(sides, null_equal);
            for ranged in [0, 1] {
                let found = found(sides, ranged, null_equal).unwrap();
                assert_eq!(found, expected, "{ranged} {null_equal}");
            }
            for set in [false, true] {
                let rows = (0..).zip(&expected).filter(|(_, found)| **found == set);
                let rows: Vec<i64> = rows.map(|(row, _)| row).collect();
                assert_eq!(kept(sides, null_equal, set), rows, "{null_equal} {set}");
            }
        }
    }
}

/// Numbers of several tasks as values of a type; every `nulls`-th is NULL.
fn numbers(data_type: &DataType, n: i64, of: impl Fn(i64) -> i64, nulls: i64) -> ArrayRef {
    let values = (0..n).map(|i| (nulls == 0 || i % nulls != 0).then(|| of(i)));
    arrow::compute::cast(&values.collect::<Int64Array>(), data_type).unwrap()
}

#[test]
fn rows_find_their_keys() {
    use arrow::datatypes::TimeUnit::*;
    let (n, m) = (17_000, 9_003);
    for data_type in [
        DataType::Int32,
        DataType::Int64,
        DataType::UInt32,
        DataType::UInt64,
        DataType::Date32,
        DataType::Time64(Nanosecond),
        DataType::Timestamp(Microsecond, None),
        DataType::Duration(Second),
        DataType::Decimal64(18, 0),
    ] {
        for nulls in [0, 7] {
            let left = numbers(&data_type, n, |i| i * 7_919 % n + 100, nulls);
            let right = numbers(&data_type, m, |i| i * 3, nulls);
            check(&[left], &[right]);
        }
    }
    for data_type in [DataType::Int8, DataType::Int16] {
        let left = numbers(&data_type, n, |i| i * 7 % 90 - 60, 11);
        let right = numbers(&data_type, m, |i| i % 128 - 64, 5);
        check(&[left], &[right]);
    }
}

#[test]
fn several_columns_and_booleans() {
    let (n, m) = (17_000, 5_001);
    let flags = |n: i64, by: i64| -> ArrayRef {
        let flag = |i: i64| (i % 9 != 0).then_some(i % by == 0);
        Arc::new((0..n).map(flag).collect::<BooleanArray>())
    };
    check(&[flags(40, 3)], &[flags(20, 1)]);
    let ints = |n: i64, by: i64| numbers(&DataType::Int32, n, |i| i * by % 501 - 250, 13);
    let shorts = |n: i64| numbers(&DataType::UInt16, n, |i| i % 77 + 3, 0);
    check(
        &[ints(n, 7), flags(n, 4), shorts(n)],
        &[ints(m, 11), flags(m, 5), shorts(m)],
    );
    let nothing = numbers(&DataType::Int32, m, |i| i, 1);
    check(from_ref(&nothing), &[ints(m, 3)]);
    check(&[nothing, shorts(m)], &[ints(m, 3), shorts(m)]);
    check(&[ints(0, 1)], &[ints(50, 1)]);
}

#[test]
fn keys_at_the_ends_of_their_type() {
    let ends: ArrayRef = Arc::new(Int64Array::from(vec![i64::MIN, i64::MAX, 0]));
    let low: ArrayRef = Arc::new(Int64Array::from(vec![i64::MIN, i64::MIN + 5]));
    let high: ArrayRef = Arc::new(UInt64Array::from(vec![u64::MAX, u64::MAX - 5]));
    let all: ArrayRef = Arc::new(UInt64Array::from(vec![0, u64::MAX, u64::MAX - 5]));
    assert_eq!(found([from_ref(&ends), from_ref(&low)], 0, false), None);
    let low_of_all = found([&[ends], &[low]], 1, false).unwrap();
    assert_eq!(low_of_all, [true, false]);
    let all_of_high = found([&[high], &[all]], 0, false).unwrap();
    assert_eq!(all_of_high, [false, true, true]);
}

#[test]
fn bits_need_room() {
    let small = HostDevice::new(Budget::new(1 << 12)).unwrap();
    let of = |greatest: i32| {
        let array: ArrayRef = Arc::new(Int32Array::from(vec![0, greatest]));
        let free = device();
        let columns = upload(&free, &[array]);
        let range = free.key_range(&borrowed(&columns)).unwrap();
        let bits = KeyBitmap::new(&small, &range, false);
        bits.unwrap().is_some()
    };
    assert!(of(4_000));
    assert!(!of(5_000));
}
