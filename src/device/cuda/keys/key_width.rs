//! How wide the words of keys are.

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum KeyWidth {
    B32,
    B64,
}

impl KeyWidth {
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::B32 => 4,
            Self::B64 => 8,
        }
    }
}

/// Bytes of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    Four,
    Eight,
}

impl Width {
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Four => 4,
            Self::Eight => 8,
        }
    }

    pub(crate) fn bits(self) -> u32 {
        self.bytes() as u32 * 8
    }
}
