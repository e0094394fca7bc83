//! A driver that refuses what is not memory of the pool: kernels, pinned memory, streams and events.

use std::mem::MaybeUninit;

use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::staging::narrow::Narrowing;
use crate::device::cuda::tests::*;
use crate::device::faults::{Fault, Faults};

/// A GPU whose faults are its own.
fn gpu_and_faults() -> Option<(CudaDevice, Faults)> {
    let (_, gpu) = reference_and_gpu()?;
    let faults = gpu.budget().faults().clone();
    Some((gpu, faults))
}

fn downloaded(gpu: &CudaDevice, memory: &Memory, bytes: usize) -> Vec<u8> {
    let mut read = vec![MaybeUninit::new(0); bytes];
    gpu.stream.read(&mut read, memory, None).unwrap();
    // SAFETY: all of them are initialised.
    read.iter()
        .map(|byte| unsafe { byte.assume_init() })
        .collect()
}

/// Values of 64 bits as bytes, and their lower halves.
fn values(of: impl Iterator<Item = i64>) -> (Vec<u8>, Vec<u8>) {
    let values: Vec<i64> = of.collect();
    let whole = values.iter().flat_map(|value| value.to_ne_bytes());
    let narrow = values
        .iter()
        .flat_map(|value| (*value as i32).to_ne_bytes());
    (whole.collect(), narrow.collect())
}

#[test]
fn copies_do_without_pinned_memory() {
    let Some((gpu, faults)) = gpu_and_faults() else {
        return;
    };
    let (whole, narrow) = values((0..300_000).map(|i| i * 7 - 900_000));
    let parts = [&whole[..80], &[], &whole[80..]];
    faults.arm(Fault::Pin, 0, u64::MAX);
    let sent = gpu.stream.send_async(&parts, "values").unwrap();
    sent.receive().unwrap();
    assert_eq!(downloaded(&gpu, &sent, whole.len()), whole);
    let narrowed = |parts: &[&[u8]]| {
        let sent = gpu
            .stream
            .send_narrowed(parts, Narrowing::From8To4, "values");
        sent.unwrap()
    };
    let sent = narrowed(&parts).unwrap();
    assert_eq!(downloaded(&gpu, &sent, narrow.len()), narrow);
    let (wide, _) = values([1, 1 << 40].into_iter());
    assert!(narrowed(&[&whole[..], &wide[..]]).is_none());
    // Three uploads and two downloads.
    assert_eq!(faults.disarm(), 5);
}

#[test]
fn a_kernel_that_does_not_load_is_asked_for_again_and_an_upload_is_received_later() {
    let Some((gpu, faults)) = gpu_and_faults() else {
        return;
    };
    faults.arm(Fault::Load, 0, 1);
    gpu.stream.upload_words(&[1, 2], "words").unwrap();
    assert_eq!(faults.disarm(), 1);
    let (whole, narrow) = values((0..1000).map(|i| 5 - i));
    let narrow = gpu.stream.send(&narrow, "values").unwrap();
    let wide = gpu.stream.alloc(whole.len(), "values").unwrap();
    // SAFETY: 1000 values of 32 bits, and memory for as many of 64.
    unsafe { wide.sent_as(narrow, kernels::WIDEN_I32_I64, 1000) };
    faults.arm(Fault::Load, 0, 2);
    let refused = wide.receive().unwrap_err();
    assert!(
        refused.is_transient() && refused.is_divisible(),
        "{refused}"
    );
    assert_eq!(faults.disarm(), 2);
    wide.receive().unwrap();
    assert_eq!(downloaded(&gpu, &wide, whole.len()), whole);
}

#[test]
fn streams_and_events_that_are_refused_are_refusals_of_memory() {
    let Some((gpu, faults)) = gpu_and_faults() else {
        return;
    };
    faults.arm(Fault::Event, 0, 1);
    let refused = gpu.stream.mark().unwrap_err();
    assert!(refused.is_transient(), "{refused}");
    gpu.stream.mark().unwrap();
    faults.arm(Fault::Stream, 0, 1);
    let attach = || gpu.attach(gpu.budget().child(), Arc::default());
    let refused = attach().unwrap_err();
    assert!(refused.is_transient(), "{refused}");
    attach().unwrap();
}
