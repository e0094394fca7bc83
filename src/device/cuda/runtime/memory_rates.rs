//! [`MemoryRates`]: the speed of a card's memory.

/// Times in picoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct MemoryRates {
    /// Of a byte of a sequential copy, read and written.
    pub(crate) copied_byte: f64,
    /// Of a random gather of a value of 4 bytes.
    pub(crate) gathered_value: f64,
}

/// The times of an H200, for a card that could not be measured.
pub(crate) const H200: MemoryRates = MemoryRates {
    copied_byte: 0.51,
    gathered_value: 23.7,
};
