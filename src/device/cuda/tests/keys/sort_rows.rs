//! Rows sorted by several columns: the reference's row ids, as both sorts are stable.

use arrow::compute::SortOptions;

use crate::device::cuda::tests::*;
use crate::device::primitives::keys::SortKey;
use crate::device::primitives::rows::RowPrimitives;

/// Sorts by the arrays, the first one first, on both devices.
fn compare(
    host: &HostDevice,
    gpu: &CudaDevice,
    keys: &[(ArrayRef, SortOptions)],
    limit: Option<usize>,
) {
    let rows = keys[0].0.len();
    let sorted = |device: &dyn Device| {
        let columns = keys
            .iter()
            .map(|(array, _)| device.upload(from_ref(array)).unwrap());
        let columns: Vec<Arc<Column>> = columns.collect();
        let keys = columns.iter().zip(keys);
        let keys: Vec<SortKey<'_>> = keys
            .map(|(column, (_, options))| SortKey {
                column,
                options: *options,
            })
            .collect();
        device.sort_rows(rows, &keys, limit).unwrap()
    };
    let of_host = sorted(host);
    let of_gpu = sorted(gpu);
    let types: Vec<_> = keys.iter().map(|(a, o)| (a.data_type(), *o)).collect();
    assert_eq!(
        of_host.on_host().unwrap(),
        &down(&of_gpu),
        "{types:?}, {rows} rows, limit {limit:?}"
    );
    let some = rows.min(limit.unwrap_or(rows)) / 3;
    assert_eq!(
        host.row_slice(&of_host, some..2 * some)
            .unwrap()
            .on_host()
            .unwrap(),
        &down(&gpu.row_slice(&of_gpu, some..2 * some).unwrap())
    );
}

fn options(turn: usize) -> SortOptions {
    SortOptions {
        descending: turn % 2 == 1,
        nulls_first: turn / 2 % 2 == 1,
    }
}

/// Text that begins alike, with empty values, zero bytes and NULLs, as each type that holds it.
fn texts(random: &mut Random, n: usize, kind: usize, longest: u64) -> Vec<ArrayRef> {
    let nulls = random.nulls(n, kind);
    let values = (0..n).map(|i| {
        let is_valid = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(i));
        is_valid.then(|| match random.below(5) {
            0 => String::new(),
            1 => "a common beginning".into(),
            2 => format!("a common beginning\0{}", random.below(3)),
            _ => {
                let len = random.below(longest) as usize;
                format!(
                    "{}{}",
                    "a common beginning ".repeat(len / 19),
                    random.below(20)
                )
            }
        })
    });
    let text: ArrayRef = Arc::new(values.collect::<StringArray>());
    let types = [
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Utf8View,
        DataType::Binary,
        DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
    ];
    types.iter().map(|to| cast(&text, to).unwrap()).collect()
}

/// Sorts by columns of every type, and by pairs of them.
pub(crate) fn every_type(host: &HostDevice, gpu: &CudaDevice, n: usize, kind: usize) {
    let mut random = Random(n as u64 + 7 * kind as u64 + 1);
    let mut arrays = columns(&mut random, n, kind);
    arrays.extend(texts(&mut random, n, kind, 60));
    let fixed = FixedSizeBinaryArray::try_from_sparse_iter_with_size(
        (0..n).map(|i| (i % 7 != 3).then(|| (random.next() % 50).to_le_bytes())),
        8,
    );
    arrays.extend(fixed.ok().map(|fixed| Arc::new(fixed) as ArrayRef));
    // Few values, so that the second key decides.
    let few = u64_column(
        (0..n).map(|_| random.below(4)).collect(),
        random.nulls(n, 2),
    );
    for (turn, array) in arrays.iter().enumerate() {
        let turn = turn + kind;
        compare(host, gpu, &[(Arc::clone(array), options(turn))], None);
        let keys = [
            (Arc::clone(&few), options(turn / 4)),
            (Arc::clone(array), options(turn + 1)),
        ];
        let limit = match turn % 3 {
            0 => None,
            1 => Some(n / 3 + 1),
            _ => Some(2),
        };
        compare(host, gpu, &keys, limit);
        let other = &arrays[(turn * 5 + 3) % arrays.len()];
        let keys = [
            (Arc::clone(array), options(turn + 2)),
            (Arc::clone(other), options(turn + 3)),
            (Arc::clone(&few), options(turn)),
        ];
        compare(host, gpu, &keys, limit);
    }
}

#[test]
fn every_type_in_every_order() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    for n in [0, 1, 2, 33, 1_025, 20_000] {
        for kind in 0..6 {
            every_type(&host, &gpu, n, kind);
        }
    }
}

/// Text beyond what a tuple of words holds is sorted by the host.
#[test]
fn long_text() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(15);
    for (turn, longest) in [71, 72, 200, 247, 300, 2_000].into_iter().enumerate() {
        for array in texts(&mut random, 3_000, 2, longest) {
            compare(&host, &gpu, &[(array, options(turn))], Some(1_000));
        }
    }
}
