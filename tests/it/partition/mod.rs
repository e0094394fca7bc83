//! Grace partitioning: joins and aggregations whose rows are hash-partitioned by their keys, since they are more than the device takes at once.

mod check;
mod grace_aggregate;
mod grace_join;
mod key_types;
mod pool;
