//! Values that each row chooses from several columns and constants, by a number that a program computed.
//!
//! ```text
//! t   a b c     u   x y z     constants   k     numbers   0 2 1     positions in t, u and constants   0 6 5     a k z
//! ```

use std::slice::from_ref;

use arrow::datatypes::DataType;

use crate::device::batches::batch::DeviceBatch;
use crate::device::data::column::Column;
use crate::device::primitives::device::Device;
use crate::error::Result;
use crate::ir::program::{Instruction, Kind, Op};
use crate::ir::row_program::{RowProgram, RowSource};
use crate::spec::rows::Sources;

/// The value of each row of `batch` from the source of its number.
pub(crate) fn chosen(
    device: &dyn Device,
    batch: &DeviceBatch,
    numbers: Column,
    sources: &Sources,
) -> Result<Column> {
    let constants = || device.upload(from_ref(&sources.constants));
    if sources.columns.is_empty() {
        return device.gather(constants()?.as_ref(), &numbers.into_row_ids()?);
    }
    let columns = sources.columns.iter().map(|column| batch.column(*column));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let constants = match sources.constants.is_empty() {
        true => None,
        false => Some(constants()?),
    };
    let parts = columns.iter().copied().chain(&constants);
    let parts: Vec<&Column> = parts.map(AsRef::as_ref).collect();
    let all = device.concat(&parts)?;
    let rows = batch.rows();
    let program = positions(rows, columns.len());
    let mut positions = device.map(rows, &program, &[&numbers, &device.row_numbers(rows)?])?;
    match positions.pop() {
        Some(positions) => device.gather(&all, &positions.into_row_ids()?),
        None => device.nulls(sources.constants.data_type(), rows),
    }
}

/// The position of each row's source, by its number and the row's: source after source, each column of `rows` values, each constant of one.
fn positions(rows: usize, columns: usize) -> RowProgram {
    let [number, row, column, place, is_column] = [0, 1, 2, 3, 4];
    let (rows, columns) = (rows as i128, columns as i128);
    let step = Instruction::of;
    let load = |out: u8, column: u16| Instruction {
        column,
        ..step(Op::Load, Kind::U32, [out, 0, 0])
    };
    let cast = |out: u8, from, to| Instruction {
        from,
        ..step(Op::Cast, to, [out, out, 0])
    };
    let constant = |out: u8, constant: i128| Instruction {
        constant,
        ..step(Op::Constant, Kind::I64, [out, 0, 0])
    };
    let instructions = vec![
        load(number, 0),
        cast(number, Kind::U32, Kind::I64),
        load(row, 1),
        cast(row, Kind::U32, Kind::I64),
        // Of a column: number * rows + row.
        constant(column, rows),
        step(Op::Mul, Kind::I64, [column, number, column]),
        step(Op::Add, Kind::I64, [column, column, row]),
        // Of a constant: columns * rows + number - columns.
        constant(place, columns * rows - columns),
        step(Op::Add, Kind::I64, [place, number, place]),
        constant(is_column, columns),
        step(Op::Lt, Kind::I64, [is_column, number, is_column]),
        Instruction {
            c: place,
            ..step(Op::Select, Kind::I64, [number, is_column, column])
        },
        cast(number, Kind::I64, Kind::U32),
        step(Op::Store, Kind::U32, [number, number, 0]),
    ];
    RowProgram {
        instructions,
        columns: vec![RowSource::Column(0), RowSource::Column(1)],
        outputs: vec![DataType::UInt32],
    }
}
