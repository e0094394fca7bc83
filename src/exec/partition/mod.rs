//! Hash-partitions inputs that exceed device memory, for Grace joins and aggregations (Kitsuregawa et al. 1983). In:
//! chunks. Out: chunks of one partition each.

pub(crate) mod grace_aggregate;
pub(crate) mod grace_join;
pub(crate) mod hash_partition;
pub(crate) mod keys;
pub(crate) mod limits;
pub(crate) mod narrow_keys;
pub(crate) mod partitioner;
pub(crate) mod peek;
pub(crate) mod scatter;
