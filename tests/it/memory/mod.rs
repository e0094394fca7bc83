//! Memory of device and host: budgets, pools, spilling, concurrent queries, and cancelled ones.

mod budget;
mod cancel;
mod concurrent;
mod pool;
pub(crate) mod spill;
