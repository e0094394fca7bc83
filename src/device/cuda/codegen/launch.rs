//! Launches row programs as kernels of their own, once they have been asked for enough rows to be worth compiling. In:
//! a program and its columns. Out: its outputs, or the rows that pass.

use std::iter;
use std::ops::Range;
use std::sync::Arc;

use arrow::buffer::ScalarBuffer;
use arrow::datatypes::DataType;

use crate::device::cuda::codegen::filter::deciding::FilterTest;
use crate::device::cuda::codegen::filter::one_pass;
use crate::device::cuda::codegen::filter::tiles::{HEADER, sizes};
use crate::device::cuda::codegen::groups;
use crate::device::cuda::codegen::groups::words::FORMS;
use crate::device::cuda::codegen::kernel::generate;
use crate::device::cuda::codegen::shape::Shape;
use crate::device::cuda::columns::bytes;
use crate::device::cuda::columns::fixed_width::Values;
use crate::device::cuda::columns::layout::kind_of;
use crate::device::cuda::columns::layout::{bitmap_bytes, width};
use crate::device::cuda::columns::storage::Storage;
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::runtime::arguments::U64;
use crate::device::cuda::runtime::kernel_cache::form::{Form, GroupShape, Moved, Selection, Test};
use crate::device::cuda::runtime::kernel_cache::generated::{Generated, Parameter};
use crate::device::cuda::runtime::kernel_cache::{Kernel, Key, PersistentGrid};
use crate::device::cuda::runtime::launch::Shape as Grid;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::data::column::Column;
use crate::device::data::results::Kept;
use crate::error::{BowtieError, IfItFits as _, Result};
use crate::ir::group_program::GroupProgram;
use crate::ir::program::Kind;
use crate::ir::row_program::RowProgram;

/// The rows that pass a filter are copied to memory of their size if all rows are more than this multiple of them.
const SHRINK_FACTOR: usize = 4;

/// The values of a kernel's parameters.
#[derive(Default)]
struct KernelArguments<'a> {
    /// The first row, which begins a block, and the number of rows from it on.
    from: usize,
    rows: usize,
    columns: &'a [&'a Values],
    outputs: &'a [(Memory, Option<Memory>)],
    moved: &'a [&'a Values],
    kept: &'a [Memory],
    test: FilterTest<'a>,
    /// The flag of faults, or the counts.
    faults: Option<&'a Memory>,
}

impl KernelArguments<'_> {
    fn arg(&self, parameter: Parameter, program: &RowProgram) -> U64 {
        match parameter {
            Parameter::Rows => (self.rows as u64).into(),
            Parameter::Column(at) => self.values(self.columns[at]),
            Parameter::ColumnValidity(at) => match &self.columns[at].valid {
                Some(valid) => U64::from(valid.pointer() + self.from as u64 / 8),
                None => U64::ZERO,
            },
            Parameter::Output(at) => (&self.outputs[at].0).into(),
            Parameter::OutputValidity(at) => self.outputs[at].1.as_ref().into(),
            Parameter::Constant(at) => (program.instructions[at].constant as u64).into(),
            Parameter::ConstantUpper(at) => {
                ((program.instructions[at].constant >> 64) as u64).into()
            }
            Parameter::Faults | Parameter::Counts => self.faults.into(),
            Parameter::Moved(at) => self.values(self.moved[at]),
            Parameter::Kept(at) => (&self.kept[at]).into(),
            Parameter::Bits
            | Parameter::Least(_)
            | Parameter::Digits(_)
            | Parameter::NullDigit(_)
            | Parameter::Stride(_) => match self.test {
                FilterTest::Bits(keys) => keys.arg(parameter),
                FilterTest::Program | FilterTest::Run => U64::ZERO,
            },
        }
    }
}

impl KernelArguments<'_> {
    /// The address of the first row's value.
    fn values(&self, column: &Values) -> U64 {
        let bits = match width(&column.data_type) {
            Some(0) | None => 1,
            Some(width) => 8 * width as u64,
        };
        U64::from(column.values.pointer() + self.from as u64 * bits / 8)
    }
}

/// Kernels have signed 32-bit row numbers, up to the end of the last tile. The interpreter runs programs with more
/// rows.
const MOST_ROWS: usize = (1 << 31) - (1 << 16);

/// The outputs of a program; `None` if the interpreter has to run it.
pub(crate) fn map_generated(
    device: &CudaDevice,
    rows: usize,
    program: &RowProgram,
    columns: &[&Values],
) -> Result<Option<Vec<Column>>> {
    let stream = &device.stream;
    let kinds = kinds(columns)?;
    let Some(kernel) = compiled(device, rows, program, &kinds, &Form::Map)? else {
        return Ok(None);
    };
    let outputs = program.outputs.iter().zip(&kernel.nullable);
    let outputs = outputs.map(|(data_type, nullable)| {
        let bytes = match width(data_type) {
            Some(0) => bitmap_bytes(rows),
            Some(width) => rows * width,
            None => return Err(BowtieError::Internal("an output has no width".into())),
        };
        let valid = nullable.then(|| stream.alloc(bitmap_bytes(rows), "validity"));
        Ok((stream.alloc(bytes, "columns")?, valid.transpose()?))
    });
    let outputs = outputs.collect::<Result<Vec<_>>>()?;
    let faults = match kernel.parameters.contains(&Parameter::Faults) {
        true => Some(stream.zeroed(4, "a program")?),
        false => None,
    };
    let given = KernelArguments {
        rows,
        columns,
        outputs: &outputs,
        faults: faults.as_ref(),
        ..KernelArguments::default()
    };
    // SAFETY: columns have `rows` values and outputs hold as many, in whole vectors; bitmaps have whole words.
    unsafe { launch_generated(device, &kernel, program, &given)? };
    if let Some(faults) = &faults {
        let mut any = [0; 4];
        stream.read_few(&mut any, faults, 0)?;
        if any != [0; 4] {
            return Err(BowtieError::NeedsDataFusion);
        }
    }
    let made = outputs.into_iter().zip(&program.outputs);
    let made = made
        .map(|((values, valid), data_type)| column(device, data_type.clone(), values, valid, rows));
    made.collect::<Result<_>>().map(Some)
}

/// The rows for which a program is true: their number and the columns; the inner `None` if all rows pass. The outer
/// `None` if the rows have to be found by flags; so with columns to move that have NULLs.
pub(crate) fn select_generated(
    device: &CudaDevice,
    rows: usize,
    within: Range<usize>,
    program: &RowProgram,
    columns: &[&Column],
    kept: &[&Column],
) -> Result<Option<Kept>> {
    let values: Option<Vec<&Values>> = columns.iter().map(|column| column.on_cuda()).collect();
    let Some(values) = values else {
        return Ok(None);
    };
    let kinds = kinds(&values)?;
    let deciding = (program, FilterTest::Program);
    let of = (columns, values.as_slice(), kinds.as_slice());
    kept_in_one_pass(device, rows, within, deciding, of, kept)
}

/// The rows that `test` keeps, by the output of a program or by the columns that it loads, in one pass. `columns`:
/// the columns with their values and kinds.
pub(crate) fn kept_in_one_pass(
    device: &CudaDevice,
    rows: usize,
    within: Range<usize>,
    (program, test): (&RowProgram, FilterTest<'_>),
    (columns, values, kinds): (&[&Column], &[&Values], &[(Kind, bool)]),
    kept: &[&Column],
) -> Result<Option<Kept>> {
    let stream = &device.stream;
    let moving: Option<Vec<&Values>> = kept.iter().map(|column| moving(column)).collect();
    let (all, rows) = (rows, within.len());
    let (Some(moving), 1..) = (moving, rows) else {
        return Ok(None);
    };
    let moved = kept.iter().zip(&moving).map(|(column, values)| Moved {
        bytes: width(&values.data_type).unwrap_or_default() as u32,
        loaded: columns
            .iter()
            .position(|loaded| std::ptr::eq(*loaded, *column)),
    });
    let selection = Selection {
        moved: moved.collect(),
        test: match test {
            FilterTest::Program => Test::Program,
            FilterTest::Bits(keys) => Test::Bits(keys.test),
            FilterTest::Run => Test::Run,
        },
    };
    let form = Form::Select(selection);
    let Some(kernel) = compiled(device, rows, program, kinds, &form)? else {
        return Ok(None);
    };
    let Form::Select(selection) = form else {
        return Ok(None);
    };
    // All rows may pass.
    let moved = selection.moved.iter();
    let reserved = moved
        .map(|moved| stream.alloc(rows * moved.bytes as usize, "kept rows"))
        .collect::<Result<Vec<_>>>();
    let Some(reserved) = reserved.if_it_fits()? else {
        return Ok(None);
    };
    let tiles = rows.div_ceil(kernel.layout.tile() as usize);
    let counts = stream.zeroed(HEADER + tiles * 4, "counts of tiles")?;
    let given = KernelArguments {
        from: within.start,
        rows,
        columns: values,
        moved: &moving,
        kept: &reserved,
        faults: Some(&counts),
        test,
        ..KernelArguments::default()
    };
    // SAFETY: columns have `rows` values from the first one on, in whole vectors, and the outputs hold as many; counts are zero. The
    // bitmap has a bit for each place that the digits define.
    unsafe { launch_generated(device, &kernel, program, &given)? };
    let mut header = [0; 24];
    stream.read_few(&mut header, &counts, 0)?;
    let word = |at: usize| {
        header[at * 8..][..8]
            .iter()
            .rev()
            .fold(0, |w, b| w << 8 | usize::from(*b))
    };
    let (selected, faults) = (word(1), word(2));
    match (faults, test) {
        (0, _) => {}
        (_, FilterTest::Run) => return Ok(None),
        _ => return Err(BowtieError::NeedsDataFusion),
    }
    // Distinct values are asked for as a column of their own, even if all rows pass.
    if selected == all && !matches!(test, FilterTest::Run) {
        return Ok(Some(None));
    }
    let made = reserved.into_iter().zip(&moving).zip(&selection.moved);
    let made = made.map(|((memory, values), moved)| {
        let memory = trimmed(device, memory, selected, rows, moved.bytes as usize)?;
        column(device, values.data_type.clone(), memory, None, selected)
    });
    Ok(Some(Some((selected, made.collect::<Result<_>>()?))))
}

/// The compiled kernel of a program, or of a filter that moves columns.
fn compiled(
    device: &CudaDevice,
    rows: usize,
    program: &RowProgram,
    columns: &[(Kind, bool)],
    form: &Form,
) -> Result<Option<Arc<Kernel>>> {
    if rows == 0 || rows > MOST_ROWS {
        return Ok(None);
    }
    let gpu = &device.stream.gpu;
    let key = Key::new(program, columns, form);
    let asked = (rows, device.rows_before_compiling);
    let shape = Shape { program, columns };
    let kernel = |made: &mut dyn Iterator<Item = Generated>| {
        gpu.compiled.kernel(&gpu.context, key, asked, made)
    };
    match form {
        Form::Map => kernel(&mut iter::once_with(|| generate(&shape)).flatten()),
        Form::Select(selection) => {
            let sizes = sizes(gpu.shared_bytes).iter();
            kernel(&mut sizes.filter_map(|size| one_pass::generate(&shape, selection, *size)))
        }
        Form::Groups(groups) => {
            // Two blocks at a time, so that one loads while the other adds.
            let most = gpu.shared_bytes as u64 / 2;
            let forms = FORMS.iter();
            let forms = forms.filter(|slots| slots.shared_bytes(groups) <= most);
            kernel(&mut forms.filter_map(|slots| groups::kernel::generate(&shape, groups, *slots)))
        }
    }
}

/// The words of all groups of a program; `None` if no kernel runs it.
pub(crate) fn fold_groups_generated(
    device: &CudaDevice,
    within: Range<usize>,
    program: &GroupProgram,
    columns: &[&Column],
) -> Result<Option<Vec<u64>>> {
    let values: Option<Vec<&Values>> = columns.iter().map(|column| column.on_cuda()).collect();
    let rows = within.len();
    let (Some(values), Some(shape), 1..) = (values, GroupShape::of(program), rows) else {
        return Ok(None);
    };
    let words = shape.groups as usize * program.words();
    let kinds = kinds(&values)?;
    let form = Form::Groups(shape);
    let Some(kernel) = compiled(device, rows, &program.rows, &kinds, &form)? else {
        return Ok(None);
    };
    let made = device.stream.zeroed((1 + words) * 8, "words of groups")?;
    let given = KernelArguments {
        from: within.start,
        rows,
        columns: &values,
        faults: Some(&made),
        ..KernelArguments::default()
    };
    // SAFETY: columns have `rows` values in whole vectors, and the output has a word for faults and the words of all groups, which are zero.
    unsafe { launch_generated(device, &kernel, &program.rows, &given)? };
    let bytes = bytes::download_bytes(&made, (1 + words) * 8, None)?;
    let words = ScalarBuffer::<u64>::new(bytes, 0, 1 + words);
    match words[0] {
        0 => Ok(Some(words[1..].to_vec())),
        _ => Err(BowtieError::NeedsDataFusion),
    }
}

/// # Safety
/// The columns, outputs and bitmaps in `given` have as many values as the kernel reads or writes.
unsafe fn launch_generated(
    device: &CudaDevice,
    kernel: &Kernel,
    program: &RowProgram,
    given: &KernelArguments<'_>,
) -> Result<()> {
    let args = kernel
        .parameters
        .iter()
        .map(|parameter| given.arg(*parameter, program));
    let args: Vec<U64> = args.collect();
    let layout = kernel.layout;
    let mut grid = Grid::blocks_of(given.rows, layout.tile() as usize, layout.threads);
    if let Some(PersistentGrid { blocks, shared }) = kernel.persistent {
        grid.blocks = grid.blocks.min(blocks * device.stream.gpu.multiprocessors);
        grid.shared = shared;
    }
    // SAFETY: the caller's promise; the arguments match the parameters that the kernel was generated with.
    unsafe {
        device
            .stream
            .launch_generated(&kernel.generated, grid, &args)
    }
}

fn column(
    device: &CudaDevice,
    data_type: DataType,
    values: Memory,
    valid: Option<Memory>,
    rows: usize,
) -> Result<Column> {
    let values = Values {
        data_type,
        values,
        valid,
        original: None,
        made: Some(device.stream.mark()?),
    };
    Ok(Column::cuda(values, rows))
}

/// The first `selected` values of a memory for `rows` values, copied to smaller memory if that is worthwhile and
/// the budget allows it.
fn trimmed(
    device: &CudaDevice,
    memory: Memory,
    selected: usize,
    rows: usize,
    bytes: usize,
) -> Result<Memory> {
    if selected.saturating_mul(SHRINK_FACTOR) >= rows {
        return Ok(memory);
    }
    let copied = device
        .stream
        .copy_of((&memory).into(), selected * bytes, "kept rows");
    Ok(copied.if_it_fits()?.unwrap_or(memory))
}

fn kinds(columns: &[&Values]) -> Result<Vec<(Kind, bool)>> {
    let kinds = columns.iter();
    kinds
        .map(|column| Ok((kind_of(&column.data_type)?, column.valid.is_some())))
        .collect()
}

/// The values of a column that a kernel can move; `None` for other columns.
fn moving(column: &Column) -> Option<&Values> {
    match column.stored() {
        Some(Storage::Fixed(values)) if values.valid.is_none() => {
            matches!(width(&values.data_type)?, 1 | 2 | 4 | 8 | 16).then_some(values)
        }
        _ => None,
    }
}
