//! Structures that one primitive returns and another one takes: indexes, group domains, zone maps, flags and forests. Their
//! contents are known to their device alone.

use crate::device::data::buffer::Buffer;
use crate::device::data::opaque::Opaque;
use crate::device::data::ranges::OrderedRows;
use crate::ir::set_predicate::SetTechnique;
use crate::ir::strategies::{EquiStrategy, Materialization};

/// The groups of a base side, for lookups of the other side's rows.
#[derive(Debug)]
pub(crate) struct GroupDomain {
    /// The number of groups; ids are below it.
    pub(crate) groups: u32,
    pub(crate) table: Opaque,
}

/// The rows of the build side by key. Each probe row has a range in it.
#[derive(Debug)]
pub(crate) struct EquiIndex {
    /// Rows with equal keys are adjacent. Rows that can match nothing may be missing.
    pub(crate) rows: OrderedRows,
    pub(crate) strategy: EquiStrategy,
    /// The lookup structure.
    pub(crate) table: Opaque,
}

/// The lists of one side as sets, indexed for a technique.
#[derive(Debug)]
pub(crate) struct SetIndex {
    pub(crate) technique: SetTechnique,
    /// The rows that are indexed with a row of an equal set.
    pub(crate) repeats: u64,
    pub(crate) index: Opaque,
}

/// The lists of the probe side as sets of an index's elements.
#[derive(Debug)]
pub(crate) struct ProbeSets(pub(crate) Opaque);

/// The build side of an inner join that materialises its rows in the probe pass.
#[derive(Debug)]
pub(crate) struct EquiBuild {
    pub(crate) strategy: EquiStrategy,
    pub(crate) materialization: Materialization,
    pub(crate) build: Opaque,
}

/// Keys by build position, with the extremes of their blocks.
#[derive(Debug)]
pub(crate) struct ZonedKeys(pub(crate) Opaque);

/// Match flags: one bit for each row of a chunk.
#[derive(Debug)]
pub(crate) struct Flags(pub(crate) Opaque);

/// Disjoint sets of the nodes of a graph, as trees.
#[derive(Debug)]
pub(crate) struct Forest {
    /// The number of nodes, which are numbered from 0 on.
    pub(crate) nodes: usize,
    pub(crate) trees: Opaque,
}

/// The connected components of a graph.
#[derive(Debug)]
pub(crate) struct Components {
    /// For each node the least one of its component.
    pub(crate) roots: Buffer<u32>,
    /// The number of components.
    pub(crate) count: usize,
}
