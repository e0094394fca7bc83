//! [`GraphPrimitives`] of an NVIDIA GPU: each calls the function of `components.rs`.

use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::graph::components;
use crate::device::data::buffer::Buffer;
use crate::device::data::structures::{Components, Forest};
use crate::device::primitives::device::Device as _;
use crate::device::primitives::graph::GraphPrimitives;
use crate::error::Result;

impl GraphPrimitives for CudaDevice {
    fn forest(&self, nodes: usize) -> Result<Forest> {
        components::forest(&self.stream, nodes)
    }

    fn connect(&self, forest: &Forest, left: &Buffer<u32>, right: &Buffer<u32>) -> Result<()> {
        self.check_cancelled()?;
        components::connect(&self.stream, forest, left, right)
    }

    fn components(&self, forest: Forest) -> Result<Components> {
        self.check_cancelled()?;
        components::components(&self.stream, forest)
    }

    fn first_rows(&self, of_row: &Buffer<u32>, items: usize) -> Result<Buffer<u32>> {
        self.check_cancelled()?;
        components::first_rows(&self.stream, of_row, items)
    }

    fn first_of_component(
        &self,
        components: &Components,
        order: &Buffer<u32>,
    ) -> Result<Buffer<u32>> {
        self.check_cancelled()?;
        components::first_of_component(&self.stream, components, order)
    }
}
