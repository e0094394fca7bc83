//! [`MemoryRates`]: how fast a card's memory is.

/// In picoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct MemoryRates {
    /// To read a byte and write it elsewhere, in order.
    pub(crate) copied_byte: f64,
    /// To gather a value of 4 bytes from anywhere.
    pub(crate) gathered_value: f64,
}

/// Those of an H200, for a card of which nothing could be measured.
pub(crate) const H200: MemoryRates = MemoryRates {
    copied_byte: 0.51,
    gathered_value: 23.7,
};
