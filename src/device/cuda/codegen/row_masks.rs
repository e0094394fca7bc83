//! Masks: a word with one bit for each row of a thread, for Booleans, NULLs and faults. An absent mask has no bit set,
//! so what cannot occur costs nothing. Bits beyond a thread's rows are unspecified.

use crate::device::cuda::codegen::ptx::{Predicate, Text, Word};

/// A mask; `None` if no bit is set.
pub(crate) type Mask = Option<Word>;

impl Text {
    pub(crate) fn and(&mut self, a: Mask, b: Mask) -> Mask {
        Some(self.word("and.b32", &[&a?, &b?]))
    }

    pub(crate) fn or(&mut self, a: Mask, b: Mask) -> Mask {
        match (a, b) {
            (Some(a), Some(b)) => Some(self.word("or.b32", &[&a, &b])),
            (one, other) => one.or(other),
        }
    }

    pub(crate) fn not(&mut self, a: Word) -> Word {
        self.word("not.b32", &[&a])
    }

    /// The bits of `a` that are not in `b`.
    pub(crate) fn without(&mut self, a: Mask, b: Mask) -> Mask {
        let a = a?;
        let Some(b) = b else { return Some(a) };
        let not = self.not(b);
        Some(self.word("and.b32", &[&a, &not]))
    }

    /// The bits of `b` where `a` is set, of `c` elsewhere.
    pub(crate) fn choose(&mut self, a: Word, b: Mask, c: Mask) -> Mask {
        let taken = self.and(Some(a), b);
        let other = self.without(c, Some(a));
        self.or(taken, other)
    }

    /// Bit `k` of a mask.
    pub(crate) fn bit(&mut self, mask: Word, k: u32) -> Predicate {
        let bit = self.word("and.b32", &[&mask, &(1u32 << k)]);
        self.predicate("setp.ne.u32", &[&bit, &0])
    }

    /// A mask of one predicate for each row.
    pub(crate) fn mask(&mut self, rows: &[Predicate]) -> Word {
        let mask = self.word("mov.u32", &[&0]);
        for (k, row) in rows.iter().enumerate() {
            self.line(format_args!("@{row} or.b32 {mask}, {mask}, {};", 1u32 << k));
        }
        mask
    }
}
