//! Every primitive against the host's: the same words, bit by bit. The tests need a GPU; without one they print "skipped" and pass,
//! unless BOWTIE_REQUIRE_CUDA is set. Folders have the families' names.

pub(crate) mod aggregate;
pub(crate) mod cards;
pub(crate) mod columns;
pub(crate) mod equi;
pub(crate) mod expr;
pub(crate) mod few;
pub(crate) mod graph;
pub(crate) mod keys;
#[cfg(feature = "faults")]
pub(crate) mod refusals;
pub(crate) mod runtime;
pub(crate) mod semi;
pub(crate) mod sets;
pub(crate) mod theta;
pub(crate) mod types;

use std::slice::from_ref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arrow::array::*;
use arrow::buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use arrow::compute::{cast, take};
use arrow::datatypes::*;

use crate::device::budget::Budget;
use crate::device::cuda::columns::to_host;
use crate::device::cuda::device::CudaDevice;
use crate::device::data::buffer::{Bits, Buffer};
use crate::device::data::column::Column;
use crate::device::data::keys::{Keys, NO_GROUP};
use crate::device::data::matches::{Bound, Matches, Test};
use crate::device::data::ranges::OrderedRows;
use crate::device::data::structures::ZonedKeys;
use crate::device::host::device::HostDevice;
use crate::device::lazy_column::Payload;
use crate::device::primitives::device::Device;
use crate::device::primitives::keys::KeyPrimitives;
use crate::device::primitives::transfer::TransferPrimitives;
use crate::error::{BowtieError, Result};
use crate::ir::comparison::Comparison;

const OPS: [Comparison; 6] = [
    Comparison::Lt,
    Comparison::LtEq,
    Comparison::Gt,
    Comparison::GtEq,
    Comparison::Eq,
    Comparison::NotEq,
];

/// Around the sizes at which kernels change their method.
const SIZES: [usize; 14] = [
    0, 1, 2, 31, 32, 33, 255, 257, 1000, 1023, 1025, 8193, 65_537, 300_001,
];

/// The reference and the GPU; `None` without a GPU.
fn reference_and_gpu() -> Option<(HostDevice, CudaDevice)> {
    let host = HostDevice::new(Budget::new(u64::MAX)).unwrap();
    match CudaDevice::open(0, None) {
        Ok(gpu) => Some((host, gpu)),
        Err(reason) if std::env::var_os("BOWTIE_REQUIRE_CUDA").is_some() => {
            panic!("BOWTIE_REQUIRE_CUDA is set, but {reason}")
        }
        Err(reason) => {
            println!("skipped: {reason}");
            None
        }
    }
}

/// Runs `work`, which takes long, by a handle to `gpu`, and checks that it ends soon after it was cancelled.
fn ends_when_cancelled<T: Send>(
    host: &HostDevice,
    gpu: &CudaDevice,
    work: impl FnOnce(&CudaDevice) -> Result<T> + Send,
) {
    let cancelled = Arc::new(AtomicBool::new(false));
    let handle = CudaDevice {
        profile: Arc::clone(&gpu.profile),
        rows_before_compiling: gpu.rows_before_compiling,
        least_merged_rows: gpu.least_merged_rows,
        name: gpu.name.clone(),
        stream: Arc::clone(&gpu.stream),
        fallback: host.clone(),
        cancelled: Arc::clone(&cancelled),
    };
    std::thread::scope(|scope| {
        let working = scope.spawn(|| work(&handle));
        std::thread::sleep(Duration::from_millis(100));
        let from = Instant::now();
        cancelled.store(true, Ordering::Relaxed);
        let ended = working.join().unwrap();
        assert!(matches!(ended, Err(BowtieError::Cancelled)));
        assert!(
            // Other tests use the card meanwhile.
            from.elapsed() < Duration::from_secs(2),
            "{:?}",
            from.elapsed()
        );
    });
}

/// A small generator, the same everywhere.
pub(crate) struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    /// Words of several difficult distributions.
    fn words(&mut self, n: usize, kind: usize) -> Vec<u64> {
        (0..n as u64)
            .map(|i| match kind % 6 {
                0 => self.next(),
                1 => 7,
                2 => i,
                3 => n as u64 - i,
                4 => [0, u64::MAX, 1 << 63, (1 << 63) - 1][self.below(4) as usize],
                _ => self.below(n as u64 / 10 + 2) << 20,
            })
            .collect()
    }

    /// Validity: no NULL, all NULL, one in seven NULL.
    fn nulls(&mut self, n: usize, kind: usize) -> Option<NullBuffer> {
        match kind % 3 {
            0 => None,
            1 => Some(NullBuffer::new_null(n)),
            _ => Some(NullBuffer::new(BooleanBuffer::collect_bool(n, |_| {
                self.below(7) != 0
            }))),
        }
    }

    fn rows(&mut self, n: usize, below: usize) -> Vec<u32> {
        (0..n).map(|_| self.below(below as u64) as u32).collect()
    }
}

fn upload(device: &dyn Device, arrays: &[ArrayRef]) -> Vec<Arc<Column>> {
    let arrays = arrays.iter();
    arrays
        .map(|array| device.upload(from_ref(array)).unwrap())
        .collect()
}

fn borrowed(columns: &[Arc<Column>]) -> Vec<&Column> {
    columns.iter().map(AsRef::as_ref).collect()
}

fn on_gpu(gpu: &CudaDevice, words: &[u32]) -> Buffer<u32> {
    let host = Buffer::host(
        words.to_vec(),
        gpu.fallback.budget().lease(0, "test").unwrap(),
    );
    to_host::words_from_host(gpu, &host, "test").unwrap()
}

fn on_host(host: &HostDevice, words: &[u32]) -> Buffer<u32> {
    Buffer::host(words.to_vec(), host.budget().lease(0, "test").unwrap())
}

fn down<T: ArrowNativeType>(words: &Buffer<T>) -> ScalarBuffer<T> {
    to_host::words_to_host(words).unwrap()
}

/// The keys of a column on both devices.
fn keys_of(host: &HostDevice, gpu: &CudaDevice, array: &ArrayRef) -> (Keys, Keys) {
    let (of_host, _) = host
        .order_keys(&host.upload(from_ref(array)).unwrap())
        .unwrap();
    let (of_gpu, _) = gpu
        .order_keys(&gpu.upload(from_ref(array)).unwrap())
        .unwrap();
    (of_host, of_gpu)
}

fn u64_column(words: Vec<u64>, nulls: Option<NullBuffer>) -> ArrayRef {
    Arc::new(UInt64Array::new(words.into(), nulls))
}

fn same_keys(of_host: &Keys, of_gpu: &Keys, what: &str) {
    let valid: Option<BooleanBuffer> = of_host
        .valid
        .as_ref()
        .map(|bits| bits.on_host().unwrap().clone());
    let theirs = of_gpu.valid.as_ref().map(|bits| {
        match to_host::bits_to_host(bits, of_gpu.rows()).unwrap() {
            Bits::Host(bits) => bits,
            Bits::Device(_) => unreachable!(),
        }
    });
    let all = BooleanBuffer::new_set(of_host.rows());
    assert_eq!(
        valid.as_ref().unwrap_or(&all),
        theirs.as_ref().unwrap_or(&all),
        "{what}"
    );
    let words = down(&of_gpu.values);
    for row in valid.as_ref().unwrap_or(&all).set_indices() {
        assert_eq!(
            of_host.values.on_host().unwrap()[row],
            words[row],
            "{what}: row {row}"
        );
    }
}

fn same_sorted(of_host: &OrderedRows, of_gpu: &OrderedRows, what: &str) {
    assert_eq!(
        of_host.rows.on_host().unwrap(),
        &down(&of_gpu.rows),
        "{what}: rows"
    );
    match (&of_host.keys, &of_gpu.keys) {
        (Some(of_host), Some(of_gpu)) => {
            assert_eq!(of_host.on_host().unwrap(), &down(of_gpu), "{what}: keys")
        }
        (None, None) => {}
        _ => panic!("{what}: keys on one device only"),
    }
    match (&of_host.segments, &of_gpu.segments) {
        (Some(of_host), Some(of_gpu)) => {
            assert_eq!(
                of_host.on_host().unwrap(),
                &down(of_gpu),
                "{what}: segments"
            );
        }
        (None, None) => {}
        _ => panic!("{what}: segments on one device only"),
    }
}

/// Columns of every type that the GPU stores, and some that stay on the host.
fn columns(random: &mut Random, n: usize, kind: usize) -> Vec<ArrayRef> {
    let words = random.words(n, kind);
    let nulls = random.nulls(n, kind);
    macro_rules! primitive {
        ($t:ty, $value:expr) => {
            Arc::new(PrimitiveArray::<$t>::new(
                words.iter().map(|w| $value(*w)).collect::<Vec<_>>().into(),
                nulls.clone(),
            )) as ArrayRef
        };
    }
    vec![
        primitive!(Int8Type, |w| w as i8),
        primitive!(Int16Type, |w| w as i16),
        primitive!(Int32Type, |w| w as i32),
        primitive!(Int64Type, |w| w as i64),
        primitive!(UInt8Type, |w| w as u8),
        primitive!(UInt16Type, |w| w as u16),
        primitive!(UInt32Type, |w| w as u32),
        primitive!(UInt64Type, |w| w),
        primitive!(Float16Type, |w| half::f16::from_bits(w as u16)),
        primitive!(Float32Type, |w| f32::from_bits(w as u32)),
        primitive!(Float64Type, f64::from_bits),
        primitive!(Decimal32Type, |w| w as i32),
        primitive!(Decimal64Type, |w| w as i64),
        primitive!(Decimal128Type, |w| i128::from(w as i64)),
        primitive!(Decimal256Type, |w| arrow::datatypes::i256::from_i128(
            i128::from(w as i64)
        )),
        // Most of these span more than 64 bits.
        primitive!(Decimal128Type, |w: u64| i128::from(w as i64) << 60),
        primitive!(Decimal256Type, |w: u64| arrow::datatypes::i256::from_parts(
            u128::from(w % 5) << 64,
            i128::from(w as i64) << 3
        )),
        primitive!(IntervalMonthDayNanoType, |w: u64| {
            IntervalMonthDayNano::new((w >> 50) as i32 - 9, w as i32, (w >> 7) as i64 - 1)
        }),
        primitive!(Date32Type, |w| w as i32),
        primitive!(Date64Type, |w| w as i64),
        primitive!(Time32SecondType, |w| w as i32),
        primitive!(Time64NanosecondType, |w| w as i64),
        primitive!(TimestampMicrosecondType, |w| w as i64),
        primitive!(DurationMillisecondType, |w| w as i64),
        primitive!(IntervalYearMonthType, |w| w as i32),
        primitive!(IntervalDayTimeType, |w| IntervalDayTime::new(
            w as i32,
            (w >> 32) as i32
        )),
        Arc::new(BooleanArray::new(
            BooleanBuffer::collect_bool(n, |i| words[i] & 1 != 0),
            nulls.clone(),
        )),
        Arc::new(
            (0..n)
                .map(|i| {
                    nulls
                        .as_ref()
                        .is_none_or(|nulls| nulls.is_valid(i))
                        .then(|| format!("{:x}", words[i] % 997))
                })
                .collect::<StringArray>(),
        ),
    ]
}

/// Group ids below `groups`; one in nine rows has no group.
fn group_ids(random: &mut Random, n: usize, groups: u32) -> Vec<u32> {
    (0..n)
        .map(|_| match random.below(9) {
            0 => NO_GROUP,
            _ => random.below(u64::from(groups)) as u32,
        })
        .collect()
}
