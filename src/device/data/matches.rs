//! [`Matches`]: the ranges, tests and program that define each probe row's matches.

use crate::device::data::column::Column;
use crate::device::data::keys::Keys;
use crate::device::data::ranges::{OrderedRows, Ranges};
use crate::device::data::structures::ZonedKeys;
use crate::ir::comparison::Comparison;
use crate::ir::pair_program::Program;
use crate::ir::side::Side;

/// `build.key OP probe.key`, which narrows the range of a probe row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bound<'a> {
    pub op: Comparison,
    /// By probe row.
    pub probe: &'a Keys,
}

/// `build.key OP probe.key`, tested on each candidate of a range.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Test<'a> {
    pub op: Comparison,
    pub build: &'a ZonedKeys,
    pub probe: &'a ZonedKeys,
}

/// A program with its columns by position, in the program's numbering.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BoundProgram<'a> {
    pub program: &'a Program,
    /// The side of the join that `build` belongs to.
    pub build_side: Side,
    /// By build position.
    pub build: &'a [Column],
    /// By probe position.
    pub probe: &'a [Column],
}

/// The matches of each probe row: the candidates of its range that pass every test, and the program if there is one.
///
/// Probe rows are sorted, too, so that neighbours have neighbouring ranges: their searches share cache lines, and zone
/// maps decide on many of them together. Ranges, counts and offsets are in that order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Matches<'a> {
    pub build: &'a OrderedRows,
    pub probe: &'a OrderedRows,
    pub ranges: &'a Ranges,
    pub tests: &'a [Test<'a>],
    pub program: Option<BoundProgram<'a>>,
}

/// The first probe chunk of an equi-join's build side.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FirstProbe<'a> {
    pub keys: &'a [&'a Column],
    pub payload: &'a [&'a Column],
}
