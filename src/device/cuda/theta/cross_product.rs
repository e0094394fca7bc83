//! Columns of a cross product, computed from the numbers of its rows without row ids (`kernels/theta/product.cu`). A
//! column of one input enters, its values for a range of output rows leave.

use crate::device::cuda::columns::fixed_width::Values;
use crate::device::cuda::columns::layout::width;
use crate::device::cuda::columns::storage::Storage;
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::data::column::Column;
use crate::error::{BowtieError, Result};

/// Bytes that a block writes.
const BLOCK_BYTES: usize = 16 << 10;

/// The values of output rows `from .. from + len`. Output row `p` is of row `p / rows` of a `repeated` column, and
/// of row `p % rows` of the other input's columns. `None` for columns with NULLs, for types without a kernel, and
/// for row numbers beyond 32 bits. An error if the column is too short.
pub(crate) fn cross_product_column(
    device: &CudaDevice,
    column: &Column,
    repeated: bool,
    rows: usize,
    from: u64,
    len: usize,
) -> Result<Option<Column>> {
    let Some(Storage::Fixed(values)) = column.stored() else {
        return Ok(None);
    };
    let (Some(width), None) = (width(&values.data_type), &values.valid) else {
        return Ok(None);
    };
    let kernel = match (width, repeated) {
        (1, true) => kernels::PRODUCT_REPEATED8,
        (2, true) => kernels::PRODUCT_REPEATED16,
        (4, true) => kernels::PRODUCT_REPEATED32,
        (8, true) => kernels::PRODUCT_REPEATED64,
        (16, true) => kernels::PRODUCT_REPEATED128,
        (1, false) => kernels::PRODUCT_AGAIN8,
        (2, false) => kernels::PRODUCT_AGAIN16,
        (4, false) => kernels::PRODUCT_AGAIN32,
        (8, false) => kernels::PRODUCT_AGAIN64,
        (16, false) => kernels::PRODUCT_AGAIN128,
        _ => return Ok(None),
    };
    let (quotient, rest) = (from / rows as u64, from % rows as u64);
    if rest + len as u64 > u64::from(u32::MAX) {
        return Ok(None);
    }
    let last = if repeated {
        (from + len as u64).div_ceil(rows as u64)
    } else {
        rows as u64
    };
    if last > column.rows() as u64 {
        return Err(BowtieError::Internal(
            "cross product rows out of range".into(),
        ));
    }
    let out = device.stream.alloc(len * width, "output columns")?;
    let args = (
        (&values.values).into(),
        (rows as u32).into(),
        (quotient as u32).into(),
        (rest as u32).into(),
        (&out).into(),
        (len as u32).into(),
    );
    let shape = Shape::blocks_of(len * width, BLOCK_BYTES, 256);
    // SAFETY: the column has the rows of all output rows, as was just checked; `out` has room for them in whole
    // vectors.
    unsafe { device.stream.launch(kernel, shape, &args)? };
    let values = Values {
        data_type: values.data_type.clone(),
        values: out,
        valid: None,
        original: None,
        made: Some(device.stream.mark()?),
    };
    Ok(Some(Column::cuda(values, len)))
}
