//! A compiled residual filter as a kernel argument: passed by value, with the addresses of its columns.

use cudarc::driver::DeviceRepr;

use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::data::column::Column;
use crate::device::data::matches::BoundProgram;
use crate::ir::pair_program::{MAX_COLUMNS, MAX_INSTRUCTIONS};
use crate::ir::program::{Instruction, Kind, Op};
use crate::ir::side::Side;

/// `Program` of `kernels/theta/program/program.cuh`: columns of both sides, instructions, and the numbers of build and
/// probe positions.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct ProgramArg {
    build: [ProgramColumn; MAX_COLUMNS],
    probe: [ProgramColumn; MAX_COLUMNS],
    instructions: [ProgramInstruction; MAX_INSTRUCTIONS],
    count: u32,
    registers: u32,
    pub(crate) build_len: u32,
    probe_len: u32,
}

/// `ProgramColumn`: addresses of values and validity (0 without NULLs), and the kind.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct ProgramColumn {
    values: u64,
    valid: u64,
    kind: u32,
    unused: u32,
}

/// `Instruction`; of a cast, `column` is the kind that it casts from.
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
        // The kernels name loads by build and probe side, not by left and right.
        let op = match (instruction.op, build) {
            (Op::Load, Side::Right) => Op::LoadRight,
            (Op::LoadRight, Side::Right) => Op::Load,
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
            constant: instruction.constant as u64,
        }
    }
}

impl ProgramColumn {
    /// `None` for a column that is not resident.
    fn of(column: &Column) -> Option<Self> {
        let values = column.on_cuda()?;
        Some(Self {
            values: values.values.pointer(),
            valid: values.valid.as_ref().map_or(0, Memory::pointer),
            kind: Kind::of_word(&values.data_type)? as u32,
            unused: 0,
        })
    }
}

impl ProgramArg {
    /// Binds the program to the addresses of its columns, of `build` and `probe` positions. `None` if a column is not
    /// resident, or if there are more columns or instructions than a kernel takes.
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
        // Loads and constants need no register: they are read where they are used.
        let kept = program
            .iter()
            .filter(|i| !matches!(i.op, Op::Load | Op::LoadRight | Op::Constant));
        Some(Self {
            build: columns(bound.build)?,
            probe: columns(bound.probe)?,
            instructions,
            count: program.len() as u32,
            registers: kept.map(|i| u32::from(i.out) + 1).max().unwrap_or(0),
            build_len: build as u32,
            probe_len: probe as u32,
        })
    }

    /// The launch shape for `per_thread` items per thread: the more registers a program has in shared memory, the fewer
    /// threads per block.
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
