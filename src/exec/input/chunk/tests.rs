use std::collections::VecDeque;

use arrow::array::{
    AsArray, DictionaryArray, Int64Array, RecordBatch, RecordBatchOptions, StringArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int32Type, Int64Type, Schema};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryConsumer, MemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use futures::StreamExt;

use crate::device::budget::Budget;
use crate::device::host::device::HostDevice;
use crate::exec::chunk::DeviceChunk;
use crate::exec::chunk::chunk_limits::ChunkLimits;
use crate::exec::input::chunk::*;
use crate::exec::input::coalesce::Gathering;
use crate::exec::input::waiting::Waiting;

fn pool() -> Arc<dyn MemoryPool> {
    Arc::new(GreedyMemoryPool::new(1 << 20))
}

/// The state of coalescing pieces of these numbers of rows, whose values are consecutive.
fn gathering(
    device: &Arc<dyn Device>,
    pool: &Arc<dyn MemoryPool>,
    rows: &[usize],
    most: usize,
) -> Gathering {
    let mut next = 0;
    let mut pieces = vec![];
    for rows in rows {
        let values = Int64Array::from_iter_values(next..next + *rows as i64);
        next += *rows as i64;
        let column = device.upload(&[Arc::new(values) as ArrayRef]).unwrap();
        let batch = DeviceBatch::of(*rows, [column]);
        pieces.push(Ok(DeviceChunk::Resident(batch)));
    }
    let schema = Schema::new(vec![Field::new("v", DataType::Int64, false)]);
    Gathering {
        chunks: Some(futures::stream::iter(pieces).boxed()),
        waiting: Waiting {
            limits: ChunkLimits {
                rows: most,
                most_rows: most,
                bytes: usize::MAX,
            },
            spilling: None,
            in_file: None,
            ready: VecDeque::new(),
            device: Arc::clone(device),
            reservation: MemoryConsumer::new("test").register(pool),
            on_device: vec![],
            on_host: vec![],
            rows: 0,
            bytes: 0,
            schema: Arc::new(schema),
        },
        apart: false,
        streamed: true,
    }
}

/// The next chunk; `None` at the end.
async fn next(gathering: &mut Gathering) -> Option<InputChunk> {
    let input = gathering.next().await.unwrap()?;
    Some(input.into_chunk().unwrap())
}

fn device(limit: u64) -> Arc<dyn Device> {
    Arc::new(HostDevice::new(Budget::new(limit)).unwrap())
}

/// The rows of each chunk, whether it is resident, and all values.
async fn all(mut gathering: Gathering) -> (Vec<(usize, bool)>, Vec<i64>) {
    let (mut chunks, mut values) = (vec![], vec![]);
    while let Some(chunk) = next(&mut gathering).await {
        let resident = matches!(chunk, InputChunk::Resident(_));
        chunks.push((chunk.rows(), resident));
        let array = chunk.whole(0).unwrap();
        values.extend_from_slice(array.as_primitive::<Int64Type>().values());
    }
    (chunks, values)
}

#[tokio::test]
async fn pieces_make_chunks_of_the_wanted_size() {
    let (device, pool) = (device(1 << 20), pool());
    let pieces = gathering(&device, &pool, &[10, 0, 10, 10, 3, 40, 1], 25);
    let (chunks, values) = all(pieces).await;
    assert_eq!(chunks, [(20, true), (13, true), (40, true), (1, true)]);
    assert_eq!(values, Vec::from_iter(0..74));
    assert_eq!((device.budget().in_use(), pool.reserved()), (0, 0));
}

#[tokio::test]
async fn a_long_chunk_on_the_host_is_cut() {
    let (device, pool) = (device(1 << 20), pool());
    let mut cut = gathering(&device, &pool, &[], 25);
    let chunk = |from: i64, to: i64| {
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values(from..to));
        let field = Field::new("v", DataType::Int64, false);
        let schema = Arc::new(Schema::new(vec![field]));
        let batch = RecordBatch::try_new(schema, vec![values]).unwrap();
        let reservation = MemoryConsumer::new("test").register(&pool);
        reservation.try_grow(8 * batch.num_rows()).unwrap();
        Ok(DeviceChunk::Staged(StagedChunk::of(&batch, reservation)))
    };
    let chunks = vec![chunk(0, 60), chunk(60, 85), chunk(85, 86)];
    cut.chunks = Some(futures::stream::iter(chunks).boxed());
    let (chunks, values) = all(cut).await;
    let rows = [25, 25, 10, 25, 1];
    assert_eq!(chunks, rows.map(|rows| (rows, false)));
    assert_eq!(values, Vec::from_iter(0..86));
    assert_eq!(pool.reserved(), 0);
}

#[tokio::test]
async fn where_half_of_the_budget_is_taken_pieces_go_to_the_host() {
    let (device, pool) = (device(1000), pool());
    let held = device.budget().lease(400, "test").unwrap();
    let pieces = gathering(&device, &pool, &[10, 10, 10, 10], 25);
    let (chunks, values) = all(pieces).await;
    assert_eq!(chunks.iter().map(|(rows, _)| rows).sum::<usize>(), 40);
    assert!(chunks.iter().any(|(_, resident)| !resident), "{chunks:?}");
    assert_eq!(values, Vec::from_iter(0..40));
    drop(held);
    assert_eq!((device.budget().in_use(), pool.reserved()), (0, 0));
}

/// Buffers that pieces share with the batch from which they were gathered are counted only in the coalesced chunk.
#[tokio::test]
async fn a_chunk_that_is_longer_than_its_pieces_leaves_half_of_the_budget() {
    let (device, pool) = (device(10_000), pool());
    let mut pieces = gathering(&device, &pool, &[], 100);
    let words = |from: usize| (from..from + 40).map(|i| format!("{i:0>50}"));
    let short: Vec<_> = [0, 40]
        .iter()
        .map(|from| {
            let words: Vec<_> = words(*from).collect();
            let words: DictionaryArray<Int32Type> = words.iter().map(String::as_str).collect();
            let all = device.upload(&[Arc::new(words) as ArrayRef]).unwrap();
            let piece = device
                .gather(&all, &device.sequence(0, 40).unwrap())
                .unwrap();
            let column = Arc::new(piece);
            let batch = DeviceBatch::of(40, [column]);
            Ok(DeviceChunk::Resident(batch))
        })
        .collect();
    pieces.chunks = Some(futures::stream::iter(short).boxed());
    let schema = Schema::new(vec![Field::new_dictionary(
        "v",
        DataType::Int32,
        DataType::Utf8,
        false,
    )]);
    pieces.waiting.schema = Arc::new(schema);
    let held = device.budget().lease(1_000, "test").unwrap();
    let chunk = next(&mut pieces).await.unwrap();
    assert!(matches!(chunk, InputChunk::Staged(_)));
    assert_eq!(device.budget().in_use(), 1_000);
    let array = cast(&chunk.whole(0).unwrap(), &DataType::Utf8).unwrap();
    let expected = words(0).chain(words(40));
    assert_eq!(
        array.as_string::<i32>(),
        &StringArray::from_iter_values(expected)
    );
    drop((held, chunk));
    assert_eq!((device.budget().in_use(), pool.reserved()), (0, 0));
}

#[tokio::test]
async fn an_evicted_chunk_is_the_same_rows_on_the_host() {
    let (device, pool) = (device(1 << 20), pool());
    let mut pieces = gathering(&device, &pool, &[50], 100);
    let mut chunk = next(&mut pieces).await.unwrap();
    assert!(device.budget().in_use() > 0);
    assert_eq!(pool.reserved(), 0);
    assert!(chunk.evict(None));
    assert_eq!(device.budget().in_use(), 0);
    assert_eq!(pool.reserved(), 400);
    assert!(!chunk.evict(None));
    let metrics = DeviceMetrics::new(&Default::default());
    let some = chunk
        .upload(device.as_ref(), &(10..20), &[Need::Now], &metrics)
        .unwrap();
    let array = device.download(some.column(0).unwrap()).unwrap();
    assert_eq!(
        array.as_primitive::<Int64Type>().values(),
        &Vec::from_iter(10..20)
    );
}

fn spilling(pool: &Arc<dyn MemoryPool>) -> Spilling {
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::clone(pool));
    let context = TaskContext::default().with_runtime(runtime.build_arc().unwrap());
    Spilling::of(&context, &Default::default()).unwrap()
}

#[tokio::test]
async fn an_evicted_chunk_goes_to_a_file_where_the_pool_has_no_room() {
    let device = device(1 << 20);
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(300));
    let mut chunk = next(&mut gathering(&device, &pool, &[50], 100))
        .await
        .unwrap();
    assert!(!chunk.evict(None));
    assert!(chunk.evict(Some(&spilling(&pool))));
    assert!(matches!(chunk, InputChunk::Spilled(_)));
    assert_eq!((device.budget().in_use(), pool.reserved()), (0, 0));
    // The pool has no memory for all rows, but for some of them.
    assert!(chunk.whole(0).unwrap_err().is_out_of_host_memory());
    let metrics = DeviceMetrics::new(&Default::default());
    for from in [10, 40, 0] {
        let rows = from..from + 10;
        let some = chunk
            .upload(device.as_ref(), &rows, &[Need::Now], &metrics)
            .unwrap();
        let array = device.download(some.column(0).unwrap()).unwrap();
        let values = array.as_primitive::<Int64Type>().values();
        assert_eq!(values, &Vec::from_iter(from as i64..from as i64 + 10));
        assert_eq!(pool.reserved(), 80);
    }
    assert!(chunk.unload());
    assert_eq!(pool.reserved(), 0);
}

#[tokio::test]
async fn pieces_for_which_the_pool_has_no_room_go_to_files() {
    let device = device(1000);
    let held = device.budget().lease(400, "test").unwrap();
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(320));
    let other = MemoryConsumer::new("other").register(&pool);
    other.try_grow(200).unwrap();
    let mut pieces = gathering(&device, &pool, &[10, 10, 10, 10, 10, 10], 25);
    pieces.waiting.spilling = Some(spilling(&pool));
    let mut chunks = vec![];
    while let Some(chunk) = next(&mut pieces).await {
        chunks.push(chunk);
    }
    other.free();
    drop(held);
    assert!(chunks.iter().any(|c| matches!(c, InputChunk::Spilled(_))));
    let mut values = vec![];
    for chunk in chunks {
        let array = chunk.whole(0).unwrap();
        values.extend_from_slice(array.as_primitive::<Int64Type>().values());
    }
    assert_eq!(values, Vec::from_iter(0..60));
    assert_eq!((device.budget().in_use(), pool.reserved()), (0, 0));
}

#[tokio::test]
async fn rows_without_columns_are_not_spilled() {
    let (device, pool) = (device(1000), pool());
    let mut pieces = gathering(&device, &pool, &[], 100);
    let waiting = &mut pieces.waiting;
    waiting.schema = Arc::new(Schema::empty());
    waiting.spilling = Some(spilling(&pool));
    let options = RecordBatchOptions::new().with_row_count(Some(7));
    let rows =
        RecordBatch::try_new_with_options(Arc::clone(&waiting.schema), vec![], &options).unwrap();
    waiting.on_host.push(rows);
    waiting.rows = 7;
    // Another node found the memory pool full.
    let chunks = vec![Ok(DeviceChunk::MemoryPressure)];
    pieces.chunks = Some(futures::stream::iter(chunks).boxed());
    let (mut rows, mut signals) = (0, 0);
    while let Some(input) = pieces.next().await.unwrap() {
        match input {
            Input::Chunk(chunk) => rows += chunk.rows(),
            Input::MemoryPressure => signals += 1,
        }
    }
    assert_eq!((rows, signals), (7, 1));
}

/// Pieces that wait for more are evicted where others need the memory. None is lost, and those that are to stay apart do.
#[tokio::test]
async fn waiting_pieces_are_evicted_for_others() {
    for (pool, spills, apart, expected) in [
        (1 << 20, false, false, vec![(20, false), (10, true)]),
        (40, false, false, vec![(20, true), (10, true)]),
        (40, true, true, vec![(10, false), (10, false), (10, true)]),
    ] {
        let device = device(1 << 20);
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(pool));
        let mut pieces = gathering(&device, &pool, &[10, 10, 10], 25);
        pieces.waiting.spilling = spills.then(|| spilling(&pool));
        pieces.apart = apart;
        let pieces_of_others = pieces.chunks.take().unwrap();
        let slow = pieces_of_others.then(|piece| async {
            tokio::task::yield_now().await;
            piece
        });
        pieces.chunks = Some(slow.boxed());
        let need = device.budget().need();
        let mut chunks = vec![next(&mut pieces).await.unwrap()];
        if apart {
            chunks.push(next(&mut pieces).await.unwrap());
        }
        drop(need);
        while let Some(chunk) = next(&mut pieces).await {
            chunks.push(chunk);
        }
        let kinds = chunks.iter();
        let kinds = kinds.map(|chunk| (chunk.rows(), chunk.resident().is_some()));
        assert_eq!(Vec::from_iter(kinds), expected);
        let metrics = DeviceMetrics::new(&Default::default());
        let mut values = vec![];
        for chunk in &chunks {
            // The pool may have room for no copy of resident rows, and for a part of spilled ones.
            for row in 0..chunk.rows() {
                let rows = row..row + 1;
                let row = chunk.upload(device.as_ref(), &rows, &[Need::Now], &metrics);
                let array = device.download(row.unwrap().column(0).unwrap()).unwrap();
                values.push(array.as_primitive::<Int64Type>().value(0));
            }
        }
        assert_eq!(values, Vec::from_iter(0..30));
    }
}
