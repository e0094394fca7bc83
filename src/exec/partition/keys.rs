//! [`Keys`]: the partitioning keys, and the number of partitions.

/// The partitioning keys of an input.
pub(crate) struct Keys {
    /// Key columns of the input.
    pub columns: Vec<usize>,
    /// Whether NULL keys are equal. If not, rows with a NULL key may go to any partition.
    pub null_equal: bool,
    /// The number of partitions.
    pub partitions: u32,
}
