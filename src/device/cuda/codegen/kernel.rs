//! Row programs as kernels of their own: PTX generated from a program at run time, which the driver compiles.
//!
//! ```text
//! ptx.rs            registers and lines of PTX
//! layout.rs         the rows of a thread; row_masks.rs a bit for each of them
//! registers.rs      a program's register: values and masks of states; columns.rs loads and stores
//! translate.rs      instructions; decode.rs columns of codes; logic.rs arithmetic.rs casts.rs decimals.rs dates.rs their states and values
//! filter/           one_pass.rs compacts the rows that pass a predicate, and the files of its steps;
//!                   key_bitmap.rs a filter by a bitmap of keys; distinct.rs distinct values by runs
//! groups/           filters, expressions and an aggregation of few groups
//! launch.rs         when a program is compiled, and its launch; runtime/kernel_cache.rs has the compiled programs of a card
//! ```
//!
//! The interpreter (`kernels/expr/map.cu`) tests instructions and states for every row. Here these decisions are made
//! while the text is generated: columns without NULLs have no states, and a program without faults has no flag to read.
//! A kernel then does little more than move the bytes of its columns. Only the interpreter has divisions of decimals
//! and their casts from and to floats and to integers, and remainders of floats. It also runs programs that would take
//! seconds to compile.

use crate::device::cuda::codegen::columns::Stores;
use crate::device::cuda::codegen::layout::Place;
use crate::device::cuda::codegen::ptx::Text;
use crate::device::cuda::codegen::shape::Shape;
use crate::device::cuda::codegen::translate::{Machine, widths};
use crate::device::cuda::runtime::kernel_cache::generated::{Generated, KERNEL, Layout, Parameter};
use crate::ir::program::Op;

/// Generates a kernel that evaluates a program; `None` if it is too long, or has an instruction that only the
/// interpreter has.
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
            Op::Store => machine.store(&stores, instruction)?,
            _ => machine.run(at, instruction)?,
        }
        if machine.text.is_too_long() {
            return None;
        }
    }
    if let Some(faults) = machine.faults {
        let flag = machine.pointer(Parameter::Faults);
        let any = machine.text.predicate("setp.ne.u32", &[&faults, &0]);
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
        persistent_shared_bytes: None,
        nullable,
    })
}
