//! What primitives hand to one another: indexes, group domains, zone maps and flags, each known to its device alone.

use crate::device::data::opaque::Opaque;
use crate::device::data::ranges::OrderedRows;
use crate::ir::set_predicate::SetTechnique;
use crate::ir::strategies::{EquiStrategy, Materialization};

/// The groups of a base side, in which rows of the other side are looked up.
#[derive(Debug)]
pub(crate) struct GroupDomain {
    /// Number of groups; ids are below it.
    pub(crate) groups: u32,
    pub(crate) table: Opaque,
}

/// Rows of one side by their keys, in which each row of the other side has a range.
#[derive(Debug)]
pub(crate) struct EquiIndex {
    /// Rows of one key stand side by side; those that can match nothing may be left out.
    pub(crate) rows: OrderedRows,
    pub(crate) strategy: EquiStrategy,
    /// How keys are found.
    pub(crate) table: Opaque,
}

/// One side's lists as sets, by a technique in which the other side's find their matches.
#[derive(Debug)]
pub(crate) struct SetIndex {
    pub(crate) technique: SetTechnique,
    pub(crate) index: Opaque,
}

/// The build side of an inner join that materialises its rows in the probe pass.
#[derive(Debug)]
pub(crate) struct EquiBuild {
    pub(crate) strategy: EquiStrategy,
    pub(crate) materialization: Materialization,
    pub(crate) build: Opaque,
}

/// Keys in sorted order with the extremes of their blocks.
#[derive(Debug)]
pub(crate) struct ZonedKeys(pub(crate) Opaque);

/// One bit a row of a chunk: has it matched?
#[derive(Debug)]
pub(crate) struct Flags(pub(crate) Opaque);
