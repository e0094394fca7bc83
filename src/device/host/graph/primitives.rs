//! [`GraphPrimitives`] of the CPU backend.

use crate::device::data::buffer::Buffer;
use crate::device::data::opaque::Opaque;
use crate::device::data::structures::{Components, Forest};
use crate::device::host::device::HostDevice;
use crate::device::host::graph::components::{self, Trees};
use crate::device::primitives::device::Device as _;
use crate::device::primitives::graph::GraphPrimitives;
use crate::error::Result;

impl GraphPrimitives for HostDevice {
    fn forest(&self, nodes: usize) -> Result<Forest> {
        Ok(Forest {
            nodes,
            trees: Opaque::new(Trees::new(&self.budget, nodes)?),
        })
    }

    fn connect(&self, forest: &Forest, left: &Buffer<u32>, right: &Buffer<u32>) -> Result<()> {
        let (left, right) = (left.on_host()?, right.on_host()?);
        let trees: &Trees = forest.trees.get()?;
        let check = || self.check_cancelled();
        self.pool.install(|| trees.connect(&check, left, right))
    }

    fn components(&self, forest: Forest) -> Result<Components> {
        self.check_cancelled()?;
        let trees: &Trees = forest.trees.get()?;
        self.pool.install(|| trees.components(&self.budget))
    }

    fn first_rows(&self, of_row: &Buffer<u32>, items: usize) -> Result<Buffer<u32>> {
        self.check_cancelled()?;
        components::first_rows(&self.budget, of_row.on_host()?, items)
    }

    fn first_of_component(
        &self,
        components: &Components,
        order: &Buffer<u32>,
    ) -> Result<Buffer<u32>> {
        self.check_cancelled()?;
        let (roots, order) = (components.roots.on_host()?, order.on_host()?);
        self.pool
            .install(|| components::first_of_component(&self.budget, roots, order))
    }
}
