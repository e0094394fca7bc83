//! [`await_or_evict`]: what a task holds on the device while it awaits its input, and gives up for steps that need the
//! memory: those of the input itself, or of another query.

use std::future::Future;
use std::sync::Arc;

use datafusion::error::Result;

use crate::device::primitives::device::Device;
use crate::exec::blocking::blocking_task;

/// The state of a task between two inputs.
pub(crate) trait Evictable: Send + 'static {
    /// Whether it holds device memory that [`Self::evict_for_others`] would free.
    fn holds_device_memory(&self) -> bool;

    /// Moves what it holds to the host, in steps, as far as the memory pool has room.
    fn evict_for_others(&mut self) -> crate::error::Result<()>;
}

/// Awaits `input`. If meanwhile a step needs device memory and nobody frees any, `held` is evicted once.
pub(crate) async fn await_or_evict<R: Evictable, T>(
    device: &Arc<dyn Device>,
    mut held: R,
    input: impl Future<Output = Result<T>>,
) -> Result<(R, T)> {
    if !held.holds_device_memory() {
        return Ok((held, input.await?));
    }
    tokio::pin!(input);
    tokio::select! {
        biased;
        input = &mut input => return Ok((held, input?)),
        () = device.budget().needed() => {}
    }
    let held = blocking_task(move || held.evict_for_others().map(|()| held)).await?;
    Ok((held, input.await?))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::device::budget::{Budget, Lease};
    use crate::device::host::device::HostDevice;
    use crate::error::BowtieError;
    use crate::exec::memory::step;

    struct Held(Option<Lease>);

    impl Evictable for Held {
        fn holds_device_memory(&self) -> bool {
            self.0.is_some()
        }

        fn evict_for_others(&mut self) -> crate::error::Result<()> {
            self.0 = None;
            Ok(())
        }
    }

    fn device(budget: Arc<Budget>) -> Arc<dyn Device> {
        Arc::new(HostDevice::new(budget).unwrap())
    }

    fn held(device: &Arc<dyn Device>) -> Held {
        Held(Some(
            device.budget().lease(60, "the rows of a reader").unwrap(),
        ))
    }

    /// Needs 50 bytes of `device`, and fails if it does not get them.
    async fn input(device: Arc<dyn Device>) -> Result<u64> {
        blocking_task(move || {
            let lease = |(): &mut (), _: &step::Step<'_>| device.budget().lease(50, "an input");
            Ok(step::retried(device.as_ref(), &mut (), lease, |()| true)?.bytes())
        })
        .await
    }

    /// The input is made by a step that needs the memory that its reader holds.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_input_gets_the_memory_that_its_reader_holds() {
        let device = device(Budget::new(100));
        let input = input(Arc::clone(&device));
        let (held, bytes) = await_or_evict(&device, held(&device), input).await.unwrap();
        assert!(held.0.is_none());
        assert_eq!((bytes, device.budget().in_use()), (50, 0));
    }

    /// A need that a limit of its own makes is no reason to evict what others hold.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn only_who_shares_the_limit_evicts() {
        let root = Budget::new(1000);
        let [small, other] = [100, 500].map(|limit| device(root.child_of(limit)));
        let full = small.budget().lease(80, "rows of its own").unwrap();
        let input = input(Arc::clone(&small));
        let of_other = async {
            let more = tokio::time::sleep(Duration::from_millis(900));
            let more = async {
                more.await;
                Ok(())
            };
            await_or_evict(&other, held(&other), more).await.unwrap().0
        };
        let (refused, held) = tokio::join!(input, of_other);
        assert!(refused.is_err() && held.0.is_some());
        drop(full);
    }

    #[tokio::test]
    async fn what_comes_is_not_waited_for() {
        let device = device(Budget::new(100));
        let need = device.budget().need();
        let (held, input) = await_or_evict(&device, held(&device), async { Ok(2) })
            .await
            .unwrap();
        assert!(held.0.is_some() && input == 2);
        // What is needed before the task awaits its input is evicted too.
        let later = async {
            tokio::task::yield_now().await;
            Ok(3)
        };
        let (held, input) = await_or_evict(&device, held, later).await.unwrap();
        assert!(held.0.is_none() && input == 3);
        drop(need);
        let failed = async { Err::<(), _>(BowtieError::Cancelled.into()) };
        assert!(await_or_evict(&device, held, failed).await.is_err());
    }
}
