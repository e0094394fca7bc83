//! Runs a row program on the host, one instruction for a block of rows at a time. In: columns. Out: a column for each
//! output of the program. Decimals have instructions here; all others run as in pair programs.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanBufferBuilder};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Decimal128Type};
use rayon::prelude::*;

use crate::device::budget::Budget;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::host::expr::values::{OutputPart, Words, array_of, date_part};
use crate::device::host::theta::pair_program::register::{BLOCK, HOST, NULL, VALUE};
use crate::device::host::theta::pair_program::registers::Registers;
use crate::device::host::theta::pair_program::values::{Positions, Values};
use crate::error::{BowtieError, Result};
use crate::ir::program::{FAR_DAYS, Instruction, Kind, Op};
use crate::ir::row_program::RowProgram;

/// Rows that one task evaluates.
const TASK_ROWS: usize = 1 << 14;

/// An input column in the form that instructions read.
pub(crate) enum Source<'a> {
    Plain(Values<'a>),
    Decimals(&'a [i128], Option<&'a NullBuffer>),
}

/// A column of `rows` values for each output of `program`.
pub(crate) fn map(
    budget: &Arc<Budget>,
    rows: usize,
    program: &RowProgram,
    columns: &[&Column],
    check_cancelled: &(dyn Fn() -> Result<()> + Sync),
) -> Result<Vec<Column>> {
    let sources = columns
        .iter()
        .map(|column| source(column.on_host()?))
        .collect::<Result<Vec<_>>>()?;
    let made = (0..rows.div_ceil(TASK_ROWS))
        .into_par_iter()
        .map(|task| {
            check_cancelled()?;
            let from = task * TASK_ROWS;
            task_of(program, &sources, from..(from + TASK_ROWS).min(rows))
        })
        .collect::<Result<Vec<_>>>()?;
    let outputs = program.outputs.iter().enumerate();
    outputs
        .map(|(i, data_type)| {
            let parts: Vec<&OutputPart> = made.iter().map(|outputs| &outputs[i]).collect();
            let array = array_of(data_type, &parts, rows)?;
            let bytes = array.to_data().get_slice_memory_size()? as u64;
            Ok(Column::host(array, budget.lease(bytes, "columns")?))
        })
        .collect()
}

pub(crate) fn source(array: &ArrayRef) -> Result<Source<'_>> {
    Ok(match array.data_type() {
        DataType::Decimal128(..) => {
            let decimals = array.as_primitive::<Decimal128Type>();
            let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
            Source::Decimals(decimals.values(), nulls)
        }
        _ => Source::Plain(Values::of(array)?),
    })
}

/// The outputs of the rows of one task.
fn task_of(
    program: &RowProgram,
    sources: &[Source<'_>],
    rows: Range<usize>,
) -> Result<Vec<OutputPart>> {
    let mut machine = Machine {
        outputs: program
            .outputs
            .iter()
            .map(|data_type| OutputPart {
                words: match data_type {
                    DataType::Decimal128(..) => Words::Decimals(Vec::with_capacity(rows.len())),
                    _ => Words::Plain(Vec::with_capacity(rows.len())),
                },
                valid: BooleanBufferBuilder::new(rows.len()),
            })
            .collect(),
        ..Machine::of_registers(program.registers())
    };
    for from in rows.clone().step_by(BLOCK) {
        let block = from..(from + BLOCK).min(rows.end);
        for instruction in &program.instructions {
            machine.run(instruction, sources, block.clone())?;
        }
    }
    Ok(machine.outputs)
}

/// The state of one task: registers and outputs.
pub(crate) struct Machine {
    /// The states of all values, and the words of values other than decimals.
    pub(crate) registers: Registers,
    /// The decimals of each register.
    pub(crate) wide: Vec<Vec<i128>>,
    /// Receives the decimals that an instruction computes, so that its output register may also be an operand.
    pub(crate) spare: Vec<i128>,
    outputs: Vec<OutputPart>,
}

impl Machine {
    /// A machine without outputs.
    pub(crate) fn of_registers(registers: usize) -> Self {
        Self {
            registers: Registers::new(registers),
            wide: vec![vec![0; BLOCK]; registers],
            spare: vec![0; BLOCK],
            outputs: vec![],
        }
    }

    pub(crate) fn run(
        &mut self,
        instruction: &Instruction,
        sources: &[Source<'_>],
        rows: Range<usize>,
    ) -> Result<()> {
        let Instruction { op, kind, out, .. } = *instruction;
        let len = rows.len();
        match op {
            Op::Load => {
                let column = usize::from(instruction.column);
                let source = sources.get(column).ok_or_else(|| {
                    BowtieError::Internal(format!("a program without its column {column}"))
                })?;
                self.load(source, out, rows);
                if instruction.loads_codes() {
                    self.decode(instruction, len);
                }
            }
            Op::Store => return self.store(instruction, len),
            Op::Constant if kind == Kind::Decimal => {
                self.wide[usize::from(out)][..len].fill(instruction.constant);
                let is_null = instruction.b == 1;
                self.registers.write(out, len, |_, states| {
                    states.fill(NULL);
                    !is_null
                });
            }
            Op::Scale | Op::Round | Op::FromFloat => self.rescale(instruction, len),
            Op::Truncate | Op::ToFloat => self.undecimal(instruction, len),
            Op::Floor => {
                let by = instruction.constant as i64;
                self.days(instruction, len, |word| {
                    Some((word as i64).div_euclid(by) as u64)
                });
            }
            Op::Part => {
                let part = instruction.b;
                self.days(instruction, len, |word| {
                    let days = word as i64;
                    (days.abs() <= FAR_DAYS).then(|| date_part(days, part) as u64)
                });
            }
            _ if kind == Kind::Decimal => self.decimal(instruction, len),
            _ => self.registers.run(instruction, len),
        }
        Ok(())
    }

    fn load(&mut self, source: &Source<'_>, out: u8, rows: Range<usize>) {
        let wide = &mut self.wide[usize::from(out)];
        self.registers
            .write(out, rows.len(), |words, states| match source {
                Source::Plain(values) => values.load(Positions::Run(rows.clone()), words, states),
                Source::Decimals(values, nulls) => {
                    wide[..rows.len()].copy_from_slice(&values[rows.clone()]);
                    let Some(nulls) = nulls else {
                        return true;
                    };
                    for (state, row) in states.iter_mut().zip(rows.clone()) {
                        *state = if nulls.is_null(row) { NULL } else { VALUE };
                    }
                    false
                }
            });
    }

    /// Turns the codes in the output register into values.
    fn decode(&mut self, instruction: &Instruction, len: usize) {
        let Instruction {
            kind,
            out,
            constant: least,
            ..
        } = *instruction;
        let wide = &mut self.wide[usize::from(out)];
        self.registers.combine(out, &[out], len, |to, registers| {
            let codes = &registers[usize::from(out)].words;
            for i in 0..len {
                let value = i128::from(codes[i]).wrapping_add(least);
                match kind {
                    Kind::Decimal => wide[i] = value,
                    _ => to.words[i] = value as u64,
                }
            }
        });
    }

    /// Maps each word by `f`. `None`: DataFusion has to evaluate the row.
    fn days(&mut self, instruction: &Instruction, len: usize, f: impl Fn(u64) -> Option<u64>) {
        let Instruction { out, a, .. } = *instruction;
        self.registers.combine(out, &[a], len, |to, registers| {
            let words = &registers[usize::from(a)].words;
            for (i, word) in words.iter().enumerate().take(len) {
                match f(*word) {
                    Some(word) => to.words[i] = word,
                    None => to.set_fault(i, len),
                }
            }
        });
    }

    /// Appends a block to an output column; fails with [`BowtieError::NeedsDataFusion`] if DataFusion has to evaluate a row
    /// of it.
    fn store(&mut self, instruction: &Instruction, len: usize) -> Result<()> {
        let (a, output) = (instruction.a, usize::from(instruction.column));
        let register = self.registers.get(a);
        let made = &mut self.outputs[output];
        for i in 0..len {
            match register.state(i) {
                HOST => return Err(BowtieError::NeedsDataFusion),
                state => made.valid.append(state == VALUE),
            }
        }
        match &mut made.words {
            Words::Plain(words) => words.extend_from_slice(&register.words[..len]),
            Words::Decimals(words) => {
                words.extend_from_slice(&self.wide[usize::from(a)][..len]);
            }
        }
        Ok(())
    }
}

/// The rows where a Boolean column is TRUE.
pub(crate) fn rows_where(budget: &Arc<Budget>, flags: &Column) -> Result<Buffer<u32>> {
    let flags = flags.on_host()?.as_boolean();
    let set = match flags.nulls() {
        Some(nulls) => flags.values() & nulls.inner(),
        None => flags.values().clone(),
    };
    let lease = budget.lease(set.count_set_bits() as u64 * 4, "selected rows")?;
    let rows = set.set_indices().map(|row| row as u32).collect();
    Ok(Buffer::host(rows, lease))
}
