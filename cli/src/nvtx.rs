//! NVTX ranges for Nsight Systems and Nsight Compute, with the feature `nvtx`: NVIDIA's layer makes one of each span of the library.

use nvtx::tracing::NvtxLayer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::registry::Registry;

/// The target of the library's spans.
const TARGET: &str = "datafusion_bowtie";

/// Makes the ranges from now on. Without a tool that asks for them they cost little.
pub(crate) fn start() {
    let ranges = NvtxLayer::default().with_filter(filter_fn(|span| span.target() == TARGET));
    // There is none before: this is called once, at the start.
    let _ = tracing::subscriber::set_global_default(Registry::default().with(ranges));
}
