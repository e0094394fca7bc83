//! [`GraphPrimitives`].

use crate::device::data::buffer::Buffer;
use crate::device::data::structures::{Components, Forest};
use crate::error::Result;

/// Connected components of pairs of nodes, which are numbers from 0 on.
pub(crate) trait GraphPrimitives {
    /// A forest of `nodes` nodes, each a tree by itself.
    fn forest(&self, nodes: usize) -> Result<Forest>;

    /// Merges the trees of each pair of nodes, of which `left` and `right` have as many. A pair with a number that is no node of the
    /// forest, such as `NO_GROUP`, merges nothing. Pairs may come in several calls.
    fn connect(&self, forest: &Forest, left: &Buffer<u32>, right: &Buffer<u32>) -> Result<()>;

    /// The components of a forest.
    fn components(&self, forest: Forest) -> Result<Components>;

    /// The first row of each of the `items`, whose numbers `of_row` has. Rows of no item have a number that is not below `items`.
    fn first_rows(&self, of_row: &Buffer<u32>, items: usize) -> Result<Buffer<u32>>;

    /// For each node the first one of its component in `order`, which has each node once.
    fn first_of_component(
        &self,
        components: &Components,
        order: &Buffer<u32>,
    ) -> Result<Buffer<u32>>;
}
