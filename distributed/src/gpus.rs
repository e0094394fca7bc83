//! Which processes have a GPU, and what plans for these look like.

use datafusion::config::{ConfigOptions, OptimizerOptions};
use datafusion_bowtie::{BowtieOptions, DeviceChoice, Offload, devices};

/// What the name or the version of a process with a GPU ends with.
pub(crate) const GPU: &str = "+gpu";

/// The bytes of a row that is sent to all processes, where an engine counts bytes.
const ROW_BYTES: usize = 64;

/// [`GPU`] for a process with these options, if it has one.
pub(crate) fn suffix(own: &BowtieOptions) -> &'static str {
    let has_gpu = match own.device {
        _ if own.offload == Offload::Off => false,
        DeviceChoice::Host => false,
        DeviceChoice::Cuda(_) => true,
        _ => {
            let mut devices = devices().into_iter();
            devices.any(|device| device.is_default && device.device != "host")
        }
    };
    if has_gpu { GPU } else { "" }
}

/// Up to how many rows, and bytes, a side of an equi-join is sent to all of an engine's processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Short {
    pub(crate) rows: usize,
    pub(crate) bytes: usize,
}

impl Short {
    /// The limits of DataFusion in a session.
    pub(crate) fn of(options: &OptimizerOptions) -> Self {
        Self {
            rows: options.hash_join_single_partition_threshold_rows,
            bytes: options.hash_join_single_partition_threshold,
        }
    }

    /// The limits where all processes have a GPU: up to `bowtie.broadcast_rows` rows, or their bytes where the engine knows these. GPUs index them in
    /// no time, while the rows of the other side stay where they are, in columns that the GPU may have. Where cores join, exchanging both sides costs
    /// less. `None` if the session offloads nothing to GPUs, or has other limits than `default`.
    pub(crate) fn for_gpus(options: &ConfigOptions, default: Self) -> Option<Self> {
        let bowtie = options.extensions.get::<BowtieOptions>()?;
        if bowtie.offload == Offload::Off
            || bowtie.device == DeviceChoice::Host
            || Self::of(&options.optimizer) != default
        {
            return None;
        }
        let rows = usize::try_from(bowtie.broadcast_rows.get()).unwrap_or(usize::MAX);
        Some(Self {
            rows: rows.max(default.rows),
            bytes: rows.saturating_mul(ROW_BYTES).max(default.bytes),
        })
    }

    pub(crate) fn set(self, options: &mut OptimizerOptions) {
        options.hash_join_single_partition_threshold_rows = self.rows;
        options.hash_join_single_partition_threshold = self.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limits in bytes and rows.
    fn limits(set: &[(&str, &str)]) -> Option<(usize, usize)> {
        let mut options = ConfigOptions::new();
        options.extensions.insert(BowtieOptions::default());
        for (key, value) in set {
            options.set(key, value).unwrap();
        }
        let default = Short::of(&OptimizerOptions::default());
        let short = Short::for_gpus(&options, default)?;
        Some((short.bytes, short.rows))
    }

    #[test]
    fn short_sides_are_sent_to_all_gpus_unless_the_session_says_otherwise() {
        assert_eq!(limits(&[]), Some((256_000_000, 4_000_000)));
        let ten = [("bowtie.broadcast_rows", "10000000")];
        assert_eq!(limits(&ten), Some((640_000_000, 10_000_000)));
        // DataFusion's own limits.
        let none = [("bowtie.broadcast_rows", "0")];
        assert_eq!(limits(&none), Some((1 << 20, 128 << 10)));
        for set in [
            ("bowtie.offload", "off"),
            ("bowtie.device", "host"),
            (
                "datafusion.optimizer.hash_join_single_partition_threshold",
                "0",
            ),
            (
                "datafusion.optimizer.hash_join_single_partition_threshold_rows",
                "7",
            ),
        ] {
            assert_eq!(limits(&[set]), None, "{set:?}");
        }
    }

    #[test]
    fn a_process_says_whether_it_has_a_gpu() {
        let of = |device| suffix(&BowtieOptions::default().with_device(device));
        assert_eq!(of(DeviceChoice::Host), "");
        assert_eq!(of(DeviceChoice::Cuda(1)), "+gpu");
    }
}
