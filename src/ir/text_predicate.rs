//! Predicates on a column of text or binary values, evaluated to a Boolean column before a row program runs; and
//! substrings.

use crate::ir::comparison::Comparison;

/// A substring, by characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TextSlice {
    /// The number of characters before it.
    pub skip: u32,
    /// The most characters; [`TextSlice::ALL`]: to the end.
    pub take: u32,
}

impl TextSlice {
    pub(crate) const ALL: u32 = u32::MAX;
}

/// A predicate on a value. Values are compared byte by byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TextPredicate {
    /// TRUE for every value that is not NULL.
    Present,
    /// Whether the value is one of these, which ascend and are distinct.
    Among(Vec<Vec<u8>>),
    /// `value OP constant`.
    Compare(Comparison, Vec<u8>),
    Like(LikePattern),
    /// `value OP value of another column`, in the same row.
    Column(Comparison, usize),
}

/// A predicate on the values of a column, or on substrings of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextTest {
    pub column: usize,
    /// The substring that is tested; `None`: the whole value.
    pub slice: Option<TextSlice>,
    pub predicate: TextPredicate,
}

impl TextTest {
    /// The other column of a comparison of two columns.
    pub(crate) fn other(&self) -> Option<usize> {
        match self.predicate {
            TextPredicate::Column(_, other) => Some(other),
            _ => None,
        }
    }
}

/// A pattern as the segments between its `%`. The text begins with the first segment and ends with the last; those
/// between occur in order. A single segment is the whole text. Only the first and the last may be empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LikePattern {
    pub segments: Vec<Vec<u8>>,
}

impl LikePattern {
    /// In a segment: any one character. It is not a byte of UTF-8.
    pub(crate) const ANY: u8 = 0xFF;

    /// `%` stands for any characters, `_` for one; after a backslash a character stands for itself.
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
                // At the end of the pattern, a backslash stands for itself.
                '\\' => characters.next().unwrap_or('\\'),
                plain => plain,
            };
            segment.extend(plain.encode_utf8(&mut [0; 4]).as_bytes());
        }
        segments.push(segment);
        Self::new(segments)
    }

    /// The pattern of texts that contain `text`: with any characters before it (`before`) and after it (`behind`), or
    /// none.
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
