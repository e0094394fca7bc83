//! Memory of device and host: budgets, pools, spilling, concurrent queries, and cancelled ones.

mod budget;
mod cancel;
mod concurrent;
mod pool;
mod spill;
