//! Hash-partitions inputs that exceed device memory, for Grace joins and aggregations (Kitsuregawa et al. 1983). In:
//! chunks. Out: chunks of one partition each.

pub(crate) mod hash_partition;
pub(crate) mod keys;
pub(crate) mod limits;
pub(crate) mod partitioner;
pub(crate) mod peek;
pub(crate) mod scatter;
