//! Memory of device and host: budgets, pools, spilling, concurrent queries, cancelled ones, and all of it for a while.

mod budget;
mod bystander;
mod cancel;
mod concurrent;
mod faults;
mod pool;
mod soak;
pub(crate) mod spill;
