//! Memory of device and host: budgets, pools, spilling, and what a cancelled query gives back.

mod budget;
mod cancel;
mod concurrent;
mod pool;
mod spill;
