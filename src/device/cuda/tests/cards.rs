//! Two cards of one process, such as those of `EMULATED_GPUS=2 scripts/emulated.sh`.

use cudarc::driver::DriverError;
use cudarc::driver::sys::CUresult;

use crate::device::cuda::runtime::sticky_error::check_not_lost;
use crate::device::cuda::tests::*;

/// Copies, a launch and a wait.
fn works(gpu: &CudaDevice) {
    let words = [3u64, 1 << 40, 7];
    let memory = gpu.stream.upload_words(&words, "words").unwrap();
    let mut bytes = [0; 24];
    gpu.stream.read_few(&mut bytes, &memory, 0).unwrap();
    assert_eq!(bytes.as_chunks::<8>().0, &words.map(u64::to_le_bytes)[..]);
}

/// The error is one that a destructor met, as the next call reports it, on a thread that worked for the other card and on one that worked for none.
#[test]
fn an_error_of_one_card_leaves_the_other_usable() {
    let Some((_, first)) = reference_and_gpu() else {
        return;
    };
    let second = match CudaDevice::open(1, None) {
        Ok(second) => second,
        Err(reason) if std::env::var_os("EMULATED_GPUS").is_some() => panic!("{reason}"),
        Err(reason) => {
            println!("skipped: {reason}");
            return;
        }
    };
    works(&second);
    works(&first);
    let fails = || {
        let lost = DriverError(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
        second.stream.gpu.context.record_err::<()>(Err(lost));
        let error = second.stream.bind().unwrap_err().to_string();
        assert!(error.contains("stops using this GPU"), "{error}");
    };
    fails();
    std::thread::scope(|scope| scope.spawn(fails).join().unwrap());
    check_not_lost(0).unwrap();
    let lost = check_not_lost(1).unwrap_err().to_string();
    assert!(lost.contains("cannot use the GPU cuda:1"), "{lost}");
    works(&first);
}
