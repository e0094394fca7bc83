//! Connected components of pairs of nodes, and what is first in each of them (`kernels/graph/components.cu`).

use std::sync::Arc;

use crate::device::cuda::columns::rows;
use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::buffer::{Buffer, check_chunk_rows};
use crate::device::data::opaque::Opaque;
use crate::device::data::structures::{Components, Forest};
use crate::error::{BowtieError, Result};

/// Each of `nodes` nodes a tree by itself.
pub(crate) fn forest(stream: &Arc<Stream>, nodes: usize) -> Result<Forest> {
    check_chunk_rows(nodes)?;
    let parents = rows::sequence(stream, 0, nodes)?.into_cuda();
    let parents = parents.ok_or_else(|| BowtieError::Internal("a forest elsewhere".into()))?;
    Ok(Forest {
        nodes,
        trees: Opaque::new(parents),
    })
}

/// Merges the trees of each pair of nodes.
pub(crate) fn connect(
    stream: &Arc<Stream>,
    forest: &Forest,
    left: &Buffer<u32>,
    right: &Buffer<u32>,
) -> Result<()> {
    let n = left.len();
    if n != right.len() {
        return Err(BowtieError::Internal("halves of pairs".into()));
    }
    let parents: &Memory = forest.trees.get()?;
    let args = (
        memory(left)?.into(),
        memory(right)?.into(),
        parents.into(),
        (forest.nodes as u32).into(),
        (n as u32).into(),
    );
    // SAFETY: both halves have n words, and there is a parent for each node; numbers that are no nodes are skipped.
    unsafe { stream.launch(kernels::COMPONENTS_CONNECT, Shape::rows(n), &args) }
}

/// The components of a forest, whose memory becomes that of the roots.
pub(crate) fn components(stream: &Arc<Stream>, forest: Forest) -> Result<Components> {
    let nodes = forest.nodes;
    let parents: Memory = forest.trees.into_inner()?;
    let count = stream.zeroed(4, "the number of components")?;
    let args = ((&parents).into(), (&count).into(), (nodes as u32).into());
    // SAFETY: there is a parent for each node, which is a node; `count` is one word.
    unsafe { stream.launch(kernels::COMPONENTS_FLATTEN, Shape::rows(nodes), &args)? };
    let mut found = [0; 4];
    stream.read_few(&mut found, &count, 0)?;
    Ok(Components {
        roots: Buffer::cuda(parents, nodes),
        count: u32::from_le_bytes(found) as usize,
    })
}

/// The first row of each of the `items`, whose numbers `of_row` has.
pub(crate) fn first_rows(
    stream: &Arc<Stream>,
    of_row: &Buffer<u32>,
    items: usize,
) -> Result<Buffer<u32>> {
    let first = stream.filled(items * 4, 0xFF, "first rows")?;
    let n = of_row.len();
    let args = (
        memory(of_row)?.into(),
        (&first).into(),
        (items as u32).into(),
        (n as u32).into(),
    );
    // SAFETY: `of_row` has n words, `first` one for each item; other numbers are skipped.
    unsafe { stream.launch(kernels::COMPONENTS_FIRST_ROWS, Shape::rows(n), &args)? };
    Ok(Buffer::cuda(first, items))
}

/// For each node the first one of its component in `order`.
pub(crate) fn first_of_component(
    stream: &Arc<Stream>,
    components: &Components,
    order: &Buffer<u32>,
) -> Result<Buffer<u32>> {
    let nodes = components.roots.len();
    if nodes != order.len() {
        return Err(BowtieError::Internal("an order of other nodes".into()));
    }
    let (roots, order) = (memory(&components.roots)?, memory(order)?);
    let out = stream.alloc(nodes * 4, "clusters")?;
    let least = stream.filled(nodes * 4, 0xFF, "clusters")?;
    let args = (
        roots.into(),
        order.into(),
        (&least).into(),
        (nodes as u32).into(),
    );
    // SAFETY: roots and the entries of `order` are nodes; `least` has a word for each.
    unsafe { stream.launch(kernels::COMPONENTS_LEAST, Shape::rows(nodes), &args)? };
    let args = (
        roots.into(),
        order.into(),
        (&least).into(),
        (&out).into(),
        (nodes as u32).into(),
    );
    // SAFETY: each root has a least position, as `order` has each node once; `out` has a word for each node.
    unsafe { stream.launch(kernels::COMPONENTS_CLUSTERS, Shape::rows(nodes), &args)? };
    Ok(Buffer::cuda(out, nodes))
}
