//! [`GroupProgram`]: a filter, expressions and an aggregation of few groups over the rows of one input, in one pass.
//!
//! ```text
//! codes of key columns ─► the number of the row's group ┐
//! columns ─► instructions ─► predicates: all TRUE?      ├─► words of the group: rows, then those of each accumulator
//!                         └► arguments                  ┘
//! ```
//!
//! A group has some 64-bit words, all zero at first, so that the words of parts of the rows are merged word by word ([`Word`]).

use crate::ir::fold::Fold;
use crate::ir::program::Kind;
use crate::ir::row_program::RowProgram;

/// The most groups of a program.
pub(crate) const MOST_GROUPS: u64 = 1 << 12;

/// Filters, expressions and accumulators of groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupProgram {
    /// Has no outputs: what it computes is in registers at its end.
    pub rows: RowProgram,
    /// Boolean registers, all of which are TRUE for the rows that count. Faults count in rows for which the registers before are TRUE.
    pub predicates: Vec<u8>,
    pub keys: Vec<KeyCodes>,
    pub accumulators: Vec<Accumulator>,
}

/// A group key: codes of at most 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct KeyCodes {
    /// Has the row's code.
    pub register: u8,
    /// Codes are below it.
    pub bound: u32,
    /// Whether a row may be NULL; then its digit is `bound`.
    pub nullable: bool,
}

impl KeyCodes {
    /// The number of its digits, of a key of a program that has [groups](GroupProgram::groups).
    pub(crate) fn digits(&self) -> u32 {
        self.bound.saturating_add(u32::from(self.nullable))
    }
}

/// An aggregate of the values of a register that are not NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Accumulator {
    /// Count, Sum, Min or Max.
    pub fold: Fold,
    pub register: u8,
    /// An integer or a decimal; of Min and Max of at most 64 bits.
    pub kind: Kind,
    /// Whether values may be NULL, so that they are counted.
    pub nullable: bool,
}

/// How a word of a group is merged with that of other rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    /// Wraps.
    Sum,
    /// Two words, the lower one first, as one number.
    WideSum,
    /// The greater one. Values are words in their order, those of MIN inverted, so that 0 is none.
    Most,
}

impl Word {
    /// 64-bit words.
    pub(crate) fn words(self) -> usize {
        match self {
            Self::WideSum => 2,
            Self::Sum | Self::Most => 1,
        }
    }
}

impl Accumulator {
    /// Its words in a group, after the number of its values if these are counted.
    pub(crate) fn word(&self) -> Option<Word> {
        match (self.fold, self.kind) {
            (Fold::Count, _) => None,
            (Fold::Sum, Kind::Decimal) => Some(Word::WideSum),
            (Fold::Sum, _) => Some(Word::Sum),
            _ => Some(Word::Most),
        }
    }

    /// All its words, in order.
    pub(crate) fn layout(&self) -> impl Iterator<Item = Word> + use<> {
        let counts = self.nullable.then_some(Word::Sum);
        counts.into_iter().chain(self.word())
    }
}

impl GroupProgram {
    /// The number of groups; `None` if it exceeds [`MOST_GROUPS`], or a key has no code.
    pub(crate) fn groups(&self) -> Option<u32> {
        let mut groups = 1;
        for key in &self.keys {
            let digits = u64::from(key.bound) + u64::from(key.nullable);
            if key.bound == 0 || digits > MOST_GROUPS {
                return None;
            }
            groups *= digits;
            if groups > MOST_GROUPS {
                return None;
            }
        }
        Some(groups as u32)
    }

    /// How each word of a group is merged: the number of its rows first.
    pub(crate) fn layout(&self) -> Vec<Word> {
        layout(&self.accumulators)
    }

    /// 64-bit words of a group.
    pub(crate) fn words(&self) -> usize {
        self.layout().into_iter().map(Word::words).sum()
    }
}

/// How each word of a group with these accumulators is merged: the number of its rows first.
pub(crate) fn layout(accumulators: &[Accumulator]) -> Vec<Word> {
    let words = accumulators.iter().flat_map(Accumulator::layout);
    [Word::Sum].into_iter().chain(words).collect()
}

/// The word of a value in the order of values, of which 0 is none: for Max as it is, for Min inverted. `value` is extended to 64 bits as in a register.
pub(crate) fn extreme_word(fold: Fold, kind: Kind, value: u64) -> Option<u64> {
    let ordered = match kind {
        Kind::I8 | Kind::I16 | Kind::I32 | Kind::I64 => value ^ (1 << 63),
        _ => value,
    };
    match fold {
        Fold::Min => Some(!ordered),
        Fold::Max => Some(ordered),
        _ => None,
    }
}

/// The value of a word of [`extreme_word`].
pub(crate) fn extreme_value(fold: Fold, kind: Kind, word: u64) -> Option<u64> {
    // The transformation is its own inverse, but for the order of its steps, which commute.
    extreme_word(fold, kind, word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_few() {
        let groups = |keys: &[(u32, bool)]| {
            let keys = keys.iter().map(|(bound, nullable)| KeyCodes {
                register: 0,
                bound: *bound,
                nullable: *nullable,
            });
            let rows = RowProgram {
                instructions: vec![],
                columns: vec![],
                outputs: vec![],
            };
            let program = GroupProgram {
                rows,
                predicates: vec![],
                keys: keys.collect(),
                accumulators: vec![],
            };
            program.groups()
        };
        assert_eq!(groups(&[]), Some(1));
        assert_eq!(groups(&[(3, false), (2, true)]), Some(9));
        assert_eq!(groups(&[(4096, false)]), Some(4096));
        assert_eq!(groups(&[(4096, true)]), None);
        assert_eq!(groups(&[(u32::MAX, true)]), None);
        assert_eq!(
            groups(&[(u32::MAX, true), (u32::MAX, true), (2, false)]),
            None
        );
        assert_eq!(groups(&[(0, true)]), None);
    }

    #[test]
    fn extremes_are_words_in_order() {
        for fold in [Fold::Min, Fold::Max] {
            for (kind, values) in [
                (Kind::I64, [i64::MIN as u64, -1i64 as u64, 0, 5]),
                (Kind::I32, [i32::MIN as i64 as u64, -1i64 as u64, 0, 5]),
                (Kind::U64, [0, 1, 1 << 63, u64::MAX]),
            ] {
                let words = values.map(|value| extreme_word(fold, kind, value).unwrap());
                let mut sorted = words;
                sorted.sort_unstable();
                if fold == Fold::Min {
                    sorted.reverse();
                }
                assert_eq!(words, sorted);
                assert_eq!(words.map(|w| extreme_value(fold, kind, w).unwrap()), values);
            }
        }
        assert_eq!(extreme_word(Fold::Sum, Kind::I64, 1), None);
    }
}
