//! [`Lane`]: the kind of work that a span of time was for.

/// Where something took time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Lane {
    /// Steps of operators on the host's threads.
    Host,
    /// The host waits for the device.
    Wait,
    /// Copies to the device.
    ToDevice,
    /// Kernels on the device.
    Kernels,
    /// Copies from the device.
    FromDevice,
}

impl Lane {
    pub(crate) const ALL: [Self; 5] = [
        Self::Host,
        Self::Wait,
        Self::ToDevice,
        Self::Kernels,
        Self::FromDevice,
    ];
}
