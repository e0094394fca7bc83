//! A bound program as the kernels take it: by value, with the addresses of its columns.

use cudarc::driver::DeviceRepr;

use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::data::column::Column;
use crate::device::data::matches::BoundProgram;
use crate::ir::pair_program::{Instruction, Kind, MAX_COLUMNS, MAX_INSTRUCTIONS, Op};
use crate::ir::side::Side;

/// `Program` of `kernels/theta/program/program.cuh`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct ProgramArg {
    build: [ProgramColumn; MAX_COLUMNS],
    probe: [ProgramColumn; MAX_COLUMNS],
    instructions: [ProgramInstruction; MAX_INSTRUCTIONS],
    count: u32,
    registers: u32,
    pub(crate) sorted_len: u32,
    searching_len: u32,
}

/// `ProgramColumn`: addresses, and the kind.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct ProgramColumn {
    values: u64,
    valid: u64,
    kind: u32,
    unused: u32,
}

/// `Instruction`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct ProgramInstruction {
    op: u8,
    kind: u8,
    out: u8,
    a: u8,
    b: u8,
    c: u8,
    column: u16,
    constant: u64,
}

// SAFETY: plain words in C's layout, as the kernel declares them.
unsafe impl DeviceRepr for ProgramArg {}

impl ProgramInstruction {
    fn of(instruction: &Instruction, build: Side) -> Self {
        // The kernels number loads by sorted and searching side.
        let op = match (instruction.op, build) {
            (Op::LoadLeft, Side::Right) => Op::LoadRight,
            (Op::LoadRight, Side::Right) => Op::LoadLeft,
            (op, _) => op,
        };
        Self {
            op: op as u8,
            kind: instruction.kind as u8,
            out: instruction.out,
            a: instruction.a,
            b: instruction.b,
            c: instruction.c,
            column: match instruction.op {
                Op::Cast => instruction.from as u16,
                _ => instruction.column,
            },
            constant: instruction.constant,
        }
    }
}

impl ProgramColumn {
    /// `None` for a column that is not on the GPU.
    fn of(column: &Column) -> Option<Self> {
        let values = column.on_cuda()?;
        Some(Self {
            values: values.values.pointer(),
            valid: values.valid.as_ref().map_or(0, Memory::pointer),
            kind: Kind::of(&values.data_type)? as u32,
            unused: 0,
        })
    }
}

impl ProgramArg {
    /// `None` where some column is not on the GPU, or there is more of anything than a kernel takes.
    pub(crate) fn of(bound: &BoundProgram<'_>, build: usize, probe: usize) -> Option<Self> {
        let columns = |columns: &[Column]| {
            let mut all = [ProgramColumn::default(); MAX_COLUMNS];
            for (i, column) in columns.iter().enumerate() {
                *all.get_mut(i)? = ProgramColumn::of(column)?;
            }
            Some(all)
        };
        let program = &bound.program.instructions;
        let mut instructions = [ProgramInstruction::default(); MAX_INSTRUCTIONS];
        for (i, instruction) in program.iter().enumerate() {
            *instructions.get_mut(i)? = ProgramInstruction::of(instruction, bound.build_side);
        }
        // Loads and constants are read where they are used.
        let kept = program
            .iter()
            .filter(|i| !matches!(i.op, Op::LoadLeft | Op::LoadRight | Op::Constant));
        Some(Self {
            build: columns(bound.build)?,
            probe: columns(bound.probe)?,
            instructions,
            count: program.len() as u32,
            registers: kept.map(|i| u32::from(i.out) + 1).max().unwrap_or(0),
            sorted_len: build as u32,
            searching_len: probe as u32,
        })
    }

    /// A grid of `per_thread` items a thread.
    pub(crate) fn shape(&self, items: usize, per_thread: usize) -> Shape {
        let threads = match self.registers {
            0..=2 => 128,
            3..=5 => 64,
            _ => 32,
        };
        Shape {
            shared: threads / 32 * self.registers * 4224,
            ..Shape::blocks_of(items, threads as usize * per_thread, threads)
        }
    }
}
