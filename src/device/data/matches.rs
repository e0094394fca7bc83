//! [`Matches`]: which candidates of a row are its matches.

use crate::device::data::column::Column;
use crate::device::data::keys::Keys;
use crate::device::data::ranges::{OrderedRows, Ranges};
use crate::device::data::structures::ZonedKeys;
use crate::ir::comparison::Comparison;
use crate::ir::pair_program::Program;
use crate::ir::side::Side;

/// `build.key OP searching.key`, narrowing the range of a searching row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bound<'a> {
    pub op: Comparison,
    /// By row of the searching side.
    pub probe: &'a Keys,
}

/// `build.key OP searching.key`, tested on each candidate inside a range.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Test<'a> {
    pub op: Comparison,
    pub build: &'a ZonedKeys,
    pub probe: &'a ZonedKeys,
}

/// A program with its columns by position, in the order in which it numbers them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BoundProgram<'a> {
    pub program: &'a Program,
    /// Which side's columns `build` are.
    pub build_side: Side,
    /// By sorted position.
    pub build: &'a [Column],
    /// By searching position.
    pub probe: &'a [Column],
}

/// What each searching row matches: the candidates of its range that pass every test, and the program if there is one.
///
/// Searching rows are sorted too, so that neighbours have neighbouring ranges: their searches share cache lines, and zone
/// maps decide on many of them at once. Ranges, counts and offsets follow that order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Matches<'a> {
    pub build: &'a OrderedRows,
    pub probe: &'a OrderedRows,
    pub ranges: &'a Ranges,
    pub tests: &'a [Test<'a>],
    pub program: Option<BoundProgram<'a>>,
}

/// What a build side of an equi-join is joined with first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FirstProbe<'a> {
    pub keys: &'a [&'a Column],
    pub payload: &'a [&'a Column],
}
