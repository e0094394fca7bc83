//! [`Keys`]: the partitioning keys.

/// By what, and how far apart, the rows of an input are.
pub(crate) struct Keys {
    /// Columns of the input.
    pub columns: Vec<usize>,
    /// Whether keys of which one is NULL may equal others.
    pub null_equal: bool,
    pub parts: u32,
}
