//! Columns, rows and flags across the border, and memory.

use super::*;

#[test]
fn columns_cross_the_border_and_are_gathered() {
    let Some((_, gpu)) = twins() else { return };
    let mut random = Random(1);
    for (kind, n) in SIZES.into_iter().chain([5_000_000]).enumerate() {
        for array in columns(&mut random, n, kind) {
            if n > 1_000_000 && array.len() * 8 > 1 << 27 {
                continue;
            }
            for array in [Arc::clone(&array), array.slice(n / 3, n - n / 3)] {
                let column = gpu.upload(from_ref(&array)).unwrap();
                assert_eq!(&gpu.download(&column).unwrap(), &array);
                let count = if array.is_empty() { 0 } else { n.min(70_000) };
                let rows = random.rows(count, array.len());
                let gathered = gpu.gather(&column, &on_gpu(&gpu, &rows)).unwrap();
                let expected = take(&array, &UInt32Array::from(rows), None).unwrap();
                assert_eq!(
                    &gpu.download(&gathered).unwrap(),
                    &expected,
                    "{} of {n}",
                    array.data_type()
                );
            }
        }
    }
}

#[test]
fn flags_rows_and_samples_are_the_twins() {
    let Some((host, gpu)) = twins() else { return };
    let mut random = Random(7);
    for n in SIZES.into_iter().filter(|n| *n > 0) {
        let (here, there) = (host.flags(n).unwrap(), gpu.flags(n).unwrap());
        let first = n / 3;
        let rows = random.rows(n / 5, n - first);
        host.set_flags(&here, first, &on_host(&host, &rows))
            .unwrap();
        gpu.set_flags(&there, first, &on_gpu(&gpu, &rows)).unwrap();
        let counts: Vec<u32> = (0..n / 2).map(|_| random.below(3) as u32 / 2).collect();
        host.set_flags_counted(&here, n / 4, &on_host(&host, &counts))
            .unwrap();
        gpu.set_flags_counted(&there, n / 4, &on_gpu(&gpu, &counts))
            .unwrap();
        for (from, len) in [(0, n), (n / 7, n / 2), (n - 1, 1)] {
            for set in [true, false] {
                let rows = host.flagged_rows(&here, from, len, set).unwrap();
                let rows_there = gpu.flagged_rows(&there, from, len, set).unwrap();
                assert_eq!(
                    rows.on_host(),
                    &down(&gpu, &rows_there),
                    "{n}: {from} {len} {set}"
                );
            }
            let column = host.flag_column(&here, from, len).unwrap();
            let column_there = gpu.flag_column(&there, from, len).unwrap();
            assert_eq!(column.on_host(), &gpu.download(&column_there).unwrap());
        }

        let rows = random.rows(n, 1 << 30);
        let keep = BooleanArray::new(
            BooleanBuffer::collect_bool(n, |_| random.below(2) == 0),
            random.nulls(n, n),
        );
        let kept = host.compact(&on_host(&host, &rows), &keep).unwrap();
        let kept_there = gpu.compact(&on_gpu(&gpu, &rows), &keep).unwrap();
        assert_eq!(kept.on_host(), &down(&gpu, &kept_there), "{n} compacted");
        assert_eq!(
            host.sequence(5, n).unwrap().on_host(),
            &down(&gpu, &gpu.sequence(5, n).unwrap())
        );

        let left = u64_column(random.words(n, 0), random.nulls(n, 2));
        let right = u64_column(random.words(n / 2 + 1, 0), None);
        let (left, left_there) = keys_of(&host, &gpu, &left);
        let (right, right_there) = keys_of(&host, &gpu, &right);
        assert_eq!(
            host.sample_selectivity(&[(&left, Comparison::Lt, &right)], 512)
                .unwrap(),
            gpu.sample_selectivity(&[(&left_there, Comparison::Lt, &right_there)], 512)
                .unwrap()
        );
    }
}

#[test]
fn memory_is_leased_refused_and_given_back() {
    let Some((_, _)) = twins() else { return };
    let gpu = CudaDevice::open(0, Some(1 << 20)).unwrap();
    let small: ArrayRef = Arc::new(Int64Array::from(vec![1; 1000]));
    let large: ArrayRef = Arc::new(Int64Array::from(vec![1; 1 << 20]));
    let column = gpu.upload(from_ref(&small)).unwrap();
    assert!(gpu.budget().in_use() >= 8000);
    assert!(
        gpu.upload(from_ref(&large))
            .unwrap_err()
            .is_out_of_device_memory()
    );
    drop(column);
    assert_eq!(gpu.budget().in_use(), 0);

    // More than any card has: the driver refuses, and the device goes on.
    let gpu = CudaDevice::open(0, Some(1 << 50)).unwrap();
    let refused = gpu.queue.alloc(1 << 46, "test").unwrap_err();
    assert!(refused.is_out_of_device_memory(), "{refused}");
    assert_eq!(
        &gpu.download(&gpu.upload(from_ref(&small)).unwrap())
            .unwrap(),
        &small
    );
}
