//! Row programs as kernels of their own: PTX made from a program at run time, which the driver compiles.
//!
//! ```text
//! layout.rs     which rows a thread takes
//! ptx.rs       registers and lines of PTX; row_masks.rs a bit for each row of a thread
//! registers.rs   a program's register: values, masks of states; columns.rs loads and stores
//! translate.rs    the instructions; logic.rs arithmetic.rs casts.rs decimals.rs dates.rs    what they do to states and values
//! filter/one_pass.rs     a predicate that keeps rows as it finds them; select/ its steps
//! kernel_cache.rs   programs compiled so far
//! launch.rs     when a program is compiled, and its launch; filter/key_bitmap.rs a filter by bits of keys;
//!               filter/distinct.rs distinct values by runs
//! ```
//!
//! What the interpreter (`kernels/expr/map.cu`) decides by looking at an instruction and at states, row by row, is decided here while
//! the text is written: columns without NULLs have no states, and a program that leaves nothing to the host has no flag to read.
//! A kernel then moves the bytes of its columns and little else. Divisions of decimals and their casts from and to
//! floats and to integers, the rest of floats, and programs that would be compiled for seconds are the interpreter's alone.

use crate::device::cuda::codegen::columns::Stores;
use crate::device::cuda::codegen::layout::{Layout, Place};
use crate::device::cuda::codegen::ptx::Text;
use crate::device::cuda::codegen::shape::{Parameter, Shape};
use crate::device::cuda::codegen::translate::{Machine, widths};
use crate::ir::row_program::RowOp;

/// A kernel's text and how it is launched.
#[derive(Debug)]
pub(crate) struct Generated {
    pub text: String,
    pub parameters: Vec<Parameter>,
    pub(crate) layout: Layout,
    /// Blocks take one tile after the other, so that there are as many as run at once, each with so many bytes of shared memory; else
    /// each takes one, and no shared memory.
    pub(crate) output_on_device: Option<u32>,
    /// Outputs that may have NULLs.
    pub nullable: Vec<bool>,
}

/// The name of a module's kernel.
pub(crate) const KERNEL: &str = "generated";

/// A kernel that evaluates a program; `None` where it has an instruction that is the interpreter's, or very many.
pub(crate) fn generate(shape: &Shape<'_>) -> Option<Generated> {
    let (bytes, widest) = widths(shape)?;
    let layout = Layout::of_program(widest, bytes);
    let mut text = Text::default();
    let tile = text.word("mov.u32", &[&"%ctaid.x"]);
    let rows = text.rows();
    let place = Place::new(&mut text, layout, tile, rows);
    let mut machine = Machine::new(shape, text, place.clone(), vec![Parameter::Rows])?;
    machine.load(&place);
    machine.take(place);
    let stores = Stores::new(&mut machine.text, &machine.place);
    for (at, instruction) in shape.program.instructions.iter().enumerate() {
        match instruction.op {
            RowOp::Store => machine.store(&stores, instruction)?,
            _ => machine.run(at, instruction)?,
        }
        if machine.text.is_too_long() {
            return None;
        }
    }
    if let Some(left) = machine.left {
        let flag = machine.pointer(Parameter::Left);
        let any = machine.text.predicate("setp.ne.u32", &[&left, &0]);
        machine
            .text
            .line(format_args!("@{any} st.global.u32 [{flag}], 1;"));
    }
    let nullable = std::mem::take(&mut machine.nullable);
    let (text, parameters) = machine.done();
    Some(Generated {
        text: text.module(KERNEL, parameters.len(), layout.threads),
        parameters,
        layout,
        output_on_device: None,
        nullable,
    })
}
