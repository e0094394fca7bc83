//! Filters by a bitmap of keys (`device/key_bitmap.rs`): rows are tested and compacted in one pass, with any columns
//! that a kernel can move.

use crate::device::cuda::codegen::filter::deciding::{FilterTest, KeyTestArguments};
use crate::device::cuda::codegen::launch;
use crate::device::cuda::columns::fixed_width::Values;
use crate::device::cuda::columns::layout::width;
use crate::device::cuda::columns::minmax::Number;
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::runtime::access::flag_words;
use crate::device::cuda::runtime::kernel_cache::form::KeyTest;
use crate::device::data::column::Column;
use crate::device::data::key_bitmap::KeyBitmap;
use crate::device::data::results::Kept;
use crate::error::Result;
use crate::ir::program::{Instruction, Kind, Op};
use crate::ir::row_program::{RowProgram, RowSource};

/// The rows whose key's bit is `set`: their number and the columns; the inner `None` if all rows pass. The outer
/// `None` if the rows have to be found by flags.
pub(crate) fn select_keys_generated(
    device: &CudaDevice,
    bits: &KeyBitmap,
    columns: &[&Column],
    set: bool,
    kept: &[&Column],
) -> Result<Option<Kept>> {
    let numbers: Option<Vec<Number<'_>>> =
        columns.iter().map(|column| Number::of(column)).collect();
    let (Some(numbers), Some(first)) = (numbers, columns.first()) else {
        return Ok(None);
    };
    let digits = bits.digits(columns.len())?;
    // The bitmap of no rows has no bits for the digits of a Boolean.
    if digits.iter().all(|digits| digits.values == 0) {
        return Ok(None);
    }
    let given = KeyTestArguments {
        test: KeyTest {
            set,
            null_equal: digits.iter().any(|digits| digits.null.is_some()),
        },
        bits: flag_words(&bits.bits)?,
        numbers: &numbers,
        digits,
    };
    let values: Vec<&Values> = numbers.iter().map(|number| number.values).collect();
    let kinds = numbers.iter();
    let kinds = kinds.map(|number| Some((kind(number)?, number.values.valid.is_some())));
    let Some(kinds) = kinds.collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    let program = loads(&kinds);
    let columns = (columns, &values[..], &kinds[..]);
    launch::kept_in_one_pass(
        device,
        first.rows(),
        0..first.rows(),
        (&program, FilterTest::Bits(&given)),
        columns,
        kept,
    )
}

/// The kind of a key's values in a program.
pub(crate) fn kind(number: &Number<'_>) -> Option<Kind> {
    let is_signed = number.sign != Some(0);
    let kind = match (width(&number.values.data_type)?, is_signed) {
        _ if number.sign.is_none() => Kind::Bool,
        (1, true) => Kind::I8,
        (1, false) => Kind::U8,
        (2, true) => Kind::I16,
        (2, false) => Kind::U16,
        (4, true) => Kind::I32,
        (4, false) => Kind::U32,
        (8, true) => Kind::I64,
        (8, false) => Kind::U64,
        _ => return None,
    };
    Some(kind)
}

/// A program that only loads each column.
pub(crate) fn loads(kinds: &[(Kind, bool)]) -> RowProgram {
    let load = |(at, (kind, _)): (usize, &(Kind, bool))| Instruction {
        op: Op::Load,
        kind: *kind,
        out: 0,
        a: 0,
        b: 0,
        c: 0,
        column: at as u16,
        constant: 0,
        from: *kind,
    };
    RowProgram {
        instructions: kinds.iter().enumerate().map(load).collect(),
        columns: (0..kinds.len()).map(RowSource::Column).collect(),
        outputs: vec![],
    }
}
