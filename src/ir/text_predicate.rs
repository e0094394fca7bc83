//! What a program asks of text before it runs: tests of a column of text or binary values, each of which gives a Boolean column.

use crate::ir::comparison::Comparison;

/// Some characters of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TextSlice {
    /// Characters before them.
    pub skip: u32,
    /// Characters at most; [`TextSlice::ALL`] for all that follow.
    pub take: u32,
}

impl TextSlice {
    pub(crate) const ALL: u32 = u32::MAX;
}

/// What is asked of a value. Values are compared byte by byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TextPredicate {
    /// Nothing: true of every value that is not NULL.
    Present,
    /// Whether it is one of these, which ascend and differ.
    Among(Vec<Vec<u8>>),
    /// `value OP constant`.
    Compare(Comparison, Vec<u8>),
    Like(LikePattern),
    /// `value OP value of another column`, in the same row.
    Column(Comparison, usize),
}

/// A test of the values of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextTest {
    pub column: usize,
    /// What is tested of each value; `None`: all of it.
    pub slice: Option<TextSlice>,
    pub predicate: TextPredicate,
}

impl TextTest {
    /// The same test over an input that has column `i` at `place(i)`.
    pub(crate) fn over(&self, place: &dyn Fn(usize) -> usize) -> Self {
        Self {
            column: place(self.column),
            slice: self.slice,
            predicate: match &self.predicate {
                TextPredicate::Column(comparison, other) => {
                    TextPredicate::Column(*comparison, place(*other))
                }
                constant => constant.clone(),
            },
        }
    }

    /// The other column that it reads.
    pub(crate) fn other(&self) -> Option<usize> {
        match self.predicate {
            TextPredicate::Column(_, other) => Some(other),
            _ => None,
        }
    }
}

/// A pattern in segments: what stands between its `%`. The first begins the text, the last ends it, and those between are found one
/// after the other; one alone is the whole text. Only the first and the last may be empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LikePattern {
    pub segments: Vec<Vec<u8>>,
}

impl LikePattern {
    /// In a segment: any one character. No byte of UTF-8 is it.
    pub(crate) const ANY: u8 = 0xFF;

    /// `%` stands for any characters, `_` for one, and a backslash makes a plain character of the next one.
    pub(crate) fn of_like(pattern: &str) -> Self {
        let (mut segments, mut segment) = (vec![], vec![]);
        let mut characters = pattern.chars();
        while let Some(character) = characters.next() {
            let plain = match character {
                '%' => {
                    segments.push(std::mem::take(&mut segment));
                    continue;
                }
                '_' => {
                    segment.push(Self::ANY);
                    continue;
                }
                // The last one is itself.
                '\\' => characters.next().unwrap_or('\\'),
                plain => plain,
            };
            segment.extend(plain.encode_utf8(&mut [0; 4]).as_bytes());
        }
        segments.push(segment);
        Self::new(segments)
    }

    /// Of texts that have this one in them, with others `before` and `behind` it, or without.
    pub(crate) fn of_part(before: bool, text: &[u8], behind: bool) -> Self {
        let mut segments = vec![];
        if before {
            segments.push(vec![]);
        }
        segments.push(text.to_vec());
        if behind {
            segments.push(vec![]);
        }
        Self::new(segments)
    }

    fn new(segments: Vec<Vec<u8>>) -> Self {
        let last = segments.len() - 1;
        let needed = |at: usize, segment: &[u8]| at == 0 || at == last || !segment.is_empty();
        let segments = segments.into_iter().enumerate();
        let segments = segments.filter(|(at, segment)| needed(*at, segment));
        Self {
            segments: segments.map(|(_, segment)| segment).collect(),
        }
    }
}
