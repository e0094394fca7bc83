//! Row programs on a GPU: interpreted by `kernels/expr/map.cu`, or compiled to kernels of their own (`codegen/`). In:
//! columns. Out: a column for each output.

use arrow::datatypes::DataType;

use crate::device::cuda::codegen::launch;
use crate::device::cuda::columns::fixed_width::Values;
use crate::device::cuda::columns::layout::kind_of;
use crate::device::cuda::columns::layout::{bitmap_bytes, width};
use crate::device::cuda::columns::to_host;
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::data::column::Column;
use crate::error::{BowtieError, Result};
use crate::ir::program::{Instruction, Kind, Op};
use crate::ir::row_program::RowProgram;

/// An output being computed.
struct Output {
    data_type: DataType,
    values: Memory,
    valid: Memory,
}

/// A column for each output. Columns without values in device memory are uploaded first.
pub(crate) fn map_rows(
    device: &CudaDevice,
    rows: usize,
    program: &RowProgram,
    columns: &[&Column],
) -> Result<Vec<Column>> {
    let stream = &device.stream;
    let mut uploaded = Vec::with_capacity(columns.len());
    for column in columns {
        uploaded.push(match column.on_cuda() {
            Some(_) => None,
            None => Some(to_host::column_from_host(
                device,
                &to_host::column_to_host(device, column)?,
            )?),
        });
    }
    let values = columns.iter().zip(&uploaded).map(|(column, uploaded)| {
        let column = uploaded.as_ref().unwrap_or(column);
        column
            .on_cuda()
            .ok_or_else(|| BowtieError::Internal("a program's column has no width".into()))
    });
    let values: Vec<&Values> = values.collect::<Result<_>>()?;
    if let Some(made) = launch::map_generated(device, rows, program, &values)? {
        return Ok(made);
    }
    let outputs = program
        .outputs
        .iter()
        .map(|data_type| {
            let bytes = match width(data_type) {
                Some(0) => bitmap_bytes(rows),
                Some(width) => rows * width,
                None => return Err(BowtieError::Internal("an output has no width".into())),
            };
            Ok(Output {
                data_type: data_type.clone(),
                values: stream.alloc(bytes, "columns")?,
                valid: stream.alloc(bitmap_bytes(rows), "validity")?,
            })
        })
        .collect::<Result<Vec<_>>>()?;
    if rows > 0 {
        let mut table: Vec<u64> = vec![];
        for column in &values {
            let valid = column.valid.as_ref().map_or(0, Memory::pointer);
            let kind = kind_of(&column.data_type)?;
            table.extend([column.values.pointer(), valid, kind as u64]);
        }
        for output in &outputs {
            let kind = kind_of(&output.data_type)?;
            let (values, valid) = (output.values.pointer(), output.valid.pointer());
            table.extend([values, valid, kind as u64]);
        }
        table.extend(program.instructions.iter().flat_map(words));
        let bytes: Vec<u8> = table.iter().flat_map(|word| word.to_le_bytes()).collect();
        let table = stream.send(&bytes, "a program")?;
        // Set if DataFusion has to evaluate a row.
        let left = stream.zeroed(4, "a program")?;
        let args = (
            (&table).into(),
            (values.len() as u32).into(),
            (outputs.len() as u32).into(),
            (program.instructions.len() as u32).into(),
            (rows as u32).into(),
            (&left).into(),
        );
        let kernel = match has_decimals(program, &values) {
            true => kernels::MAP_ROWS,
            false => kernels::MAP_ROWS_NARROW,
        };
        // SAFETY: the table has three words for each column and each output, with addresses of this stream's
        // memory, which holds as many values as there are rows, and bitmaps in whole words. It has six words for
        // each instruction, which names columns, outputs and registers below their numbers.
        unsafe { stream.launch(kernel, Shape::rows(rows), &args)? };
        let mut any = [0; 4];
        stream.read_few(&mut any, &left, 0)?;
        if any != [0; 4] {
            return Err(BowtieError::NeedsDataFusion);
        }
    }
    outputs
        .into_iter()
        .map(|output| {
            let values = Values {
                data_type: output.data_type,
                values: output.values,
                valid: Some(output.valid),
                original: None,
                made: Some(stream.mark()?),
            };
            Ok(Column::cuda(values, rows))
        })
        .collect()
}

/// Whether a column, output or register holds a decimal.
fn has_decimals(program: &RowProgram, columns: &[&Values]) -> bool {
    let of_columns = columns.iter().map(|column| &column.data_type);
    let mut types = of_columns.chain(&program.outputs);
    let mut kinds = program.instructions.iter().flat_map(|i| [i.kind, i.from]);
    types.any(|of| Kind::of(of) == Some(Kind::Decimal)) || kinds.any(|k| k == Kind::Decimal)
}

/// An instruction as the kernels' `MapInstruction`.
fn words(instruction: &Instruction) -> [u64; 6] {
    let Instruction {
        op,
        kind,
        out,
        a,
        b,
        c,
        column,
        constant,
        from,
    } = *instruction;
    let bytes = [op as u8, kind as u8, from as u8, out, a, b, c, 0];
    // The exclusive bound of a decimal's absolute value.
    let bound = match (op, b) {
        (Op::Scale | Op::Round | Op::FromFloat, 1..) => 10u128.pow(b.into()),
        _ => u128::MAX,
    };
    [
        u64::from_le_bytes(bytes),
        column.into(),
        constant as u64,
        (constant >> 64) as u64,
        bound as u64,
        (bound >> 64) as u64,
    ]
}
