//! What is known of a GPU before it is opened.

/// A GPU as the driver describes it.
#[derive(Debug, Clone)]
pub(crate) struct GpuInfo {
    pub ordinal: u32,
    pub name: String,
    pub total_bytes: u64,
    /// Such as 9.0.
    pub compute_capability: String,
    /// Whether the kernels can be translated for it.
    pub takes_kernels: bool,
    /// The newest CUDA version that the driver serves, such as 13.0.
    pub driver: String,
}
