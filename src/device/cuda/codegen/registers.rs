//! A program's register in a kernel: one hardware register for each row of the thread, and masks of states.

use crate::device::cuda::codegen::ptx::{Long, Text, Word};
use crate::device::cuda::codegen::row_masks::Mask;
use crate::ir::program::Kind;

/// The value of each row.
#[derive(Debug, Clone)]
pub(crate) enum Rows {
    /// One bit each.
    Bools(Word),
    /// Integers of at most 32 bits, sign- or zero-extended to 32; floats of 32 bits.
    Words(Vec<Word>),
    /// Integers and floats of 64 bits.
    Longs(Vec<Long>),
    /// The lower and the upper half.
    Decimals(Vec<[Long; 2]>),
}

/// The values and states of a register. No row is both NULL and a fault.
#[derive(Debug, Clone)]
pub(crate) struct Register {
    pub kind: Kind,
    pub rows: Rows,
    pub null: Mask,
    /// Faults: rows that DataFusion has to evaluate.
    pub fault: Mask,
}

impl Register {
    pub(crate) fn bools(mask: Word) -> Self {
        Self {
            kind: Kind::Bool,
            rows: Rows::Bools(mask),
            null: None,
            fault: None,
        }
    }

    /// The values of a Boolean register; `None` for other kinds.
    pub(crate) fn as_bools(&self) -> Option<Word> {
        match &self.rows {
            Rows::Bools(mask) => Some(*mask),
            _ => None,
        }
    }

    /// The rows that are TRUE.
    pub(crate) fn is_true(&self, text: &mut Text) -> Option<Word> {
        let mask = text.without(Some(self.as_bools()?), self.null);
        text.without(mask, self.fault)
    }

    /// The same values with the merged states of operands, where a fault takes precedence over NULL, and with further
    /// faults.
    pub(crate) fn with_states(
        self,
        text: &mut Text,
        a: &Register,
        b: Option<&Register>,
        faults: Mask,
    ) -> Self {
        let mut fault = text.or(a.fault, b.and_then(|b| b.fault));
        let null = text.or(a.null, b.and_then(|b| b.null));
        let null = text.without(null, fault);
        if faults.is_some() {
            let faults = text.without(faults, null);
            fault = text.or(fault, faults);
        }
        Self {
            null,
            fault,
            ..self
        }
    }
}

pub(crate) fn is_signed(kind: Kind) -> bool {
    matches!(kind, Kind::I8 | Kind::I16 | Kind::I32 | Kind::I64)
}

/// The bits of a value; a Boolean has 1.
pub(crate) fn bits(kind: Kind) -> u32 {
    match kind {
        Kind::I8 | Kind::U8 => 8,
        Kind::I16 | Kind::U16 => 16,
        Kind::I32 | Kind::U32 | Kind::F32 => 32,
        Kind::I64 | Kind::U64 | Kind::F64 => 64,
        Kind::Decimal => 128,
        Kind::Bool => 1,
    }
}

/// The bytes of a value in a column; Booleans are bits.
pub(crate) fn bytes(kind: Kind) -> u32 {
    bits(kind) / 8
}

/// The lower bits of a word, sign- or zero-extended as the integer kind is.
pub(crate) fn extended(text: &mut Text, kind: Kind, word: Word) -> Word {
    match (kind, is_signed(kind)) {
        (Kind::I8 | Kind::I16, _) => text.word("bfe.s32", &[&word, &0, &bits(kind)]),
        (Kind::U8 | Kind::U16, _) => text.word("and.b32", &[&word, &((1u32 << bits(kind)) - 1)]),
        _ => word,
    }
}

/// A word of an integer kind, extended to 64 bits.
pub(crate) fn lengthened(text: &mut Text, kind: Kind, word: Word) -> Long {
    match is_signed(kind) {
        true => text.long("cvt.s64.s32", &[&word]),
        false => text.long("cvt.u64.u32", &[&word]),
    }
}

/// Booleans as words 0 and 1.
pub(crate) fn zeros_and_ones(text: &mut Text, mask: Word, rows: u32) -> Vec<Word> {
    (0..rows)
        .map(|k| text.word("bfe.u32", &[&mask, &k, &1]))
        .collect()
}
