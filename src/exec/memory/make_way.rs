//! [`or_make_way`]: what a task holds on the device while it awaits its input. The input, or another query, may wait for
//! just that memory.

use std::future::Future;
use std::sync::Arc;

use datafusion::error::Result;

use crate::device::primitives::device::Device;
use crate::exec::blocking::blocking_task;

/// Awaits `input`. If meanwhile a step waits for device memory and none is given back, `evict` is called once, on a
/// blocking thread, with what the task holds.
pub(crate) async fn or_make_way<R: Send + 'static, T>(
    device: &Arc<dyn Device>,
    mut held: R,
    input: impl Future<Output = Result<T>>,
    evict: impl FnOnce(&mut R) -> crate::error::Result<()> + Send + 'static,
) -> Result<(R, T)> {
    tokio::pin!(input);
    tokio::select! {
        biased;
        input = &mut input => return Ok((held, input?)),
        () = device.budget().asked() => {}
    }
    let held = blocking_task(move || evict(&mut held).map(|()| held)).await?;
    Ok((held, input.await?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::budget::Budget;
    use crate::device::host::device::HostDevice;
    use crate::exec::memory::step;

    fn device() -> Arc<dyn Device> {
        Arc::new(HostDevice::new(Budget::new(100)).unwrap())
    }

    /// The input is made by a step that needs the memory that its reader holds.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_input_gets_the_memory_that_its_reader_holds() {
        let device = device();
        let held = Some(device.budget().lease(60, "the rows of a reader").unwrap());
        let of_input = Arc::clone(&device);
        let input = blocking_task(move || {
            let lease = |(): &mut (), _: &step::Step<'_>| of_input.budget().lease(50, "an input");
            let lease = step::retried(of_input.as_ref(), &mut (), lease, |()| true)?;
            Ok(lease.bytes())
        });
        let evict = |held: &mut Option<_>| {
            *held = None;
            Ok(())
        };
        let (held, bytes) = or_make_way(&device, held, input, evict).await.unwrap();
        assert!(held.is_none());
        assert_eq!((bytes, device.budget().in_use()), (50, 0));
    }

    #[tokio::test]
    async fn nothing_is_evicted_without_need() {
        let device = device();
        let refuse = |_: &mut u32| Err(crate::error::BowtieError::Cancelled);
        let input = async {
            tokio::task::yield_now().await;
            Ok(2)
        };
        let made = or_make_way(&device, 1, input, refuse).await.unwrap();
        assert_eq!(made, (1, 2));
        device.budget().ask();
        let made = or_make_way(&device, 1, async { Ok(2) }, refuse).await;
        assert_eq!(made.unwrap(), (1, 2));
    }
}
