//! Widths of keys: of group keys' words ([`KeyWidth`]), and of join keys ([`Width`]).

/// The width of a group key's word.
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

/// The width of a join key: 4 or 8 bytes.
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
