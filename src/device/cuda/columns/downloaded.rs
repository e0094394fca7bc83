//! Arrow arrays of bytes that kernels wrote. They are trusted in release builds; debug builds, and so all tests, validate
//! them: a kernel's mistake is an error there, and no undefined behaviour in the host's safe code.

use std::sync::Arc;

use arrow::array::{ArrayDataBuilder, ArrayRef, GenericByteViewArray, make_array};
use arrow::buffer::{Buffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::ByteViewType;
use arrow::error::ArrowError;

use crate::error::{BowtieError, Result};

/// The array of downloaded data.
///
/// # Errors
/// [`BowtieError::Internal`] in debug builds, where the data is not valid.
///
/// # Safety
/// The data is valid for its type.
pub(crate) unsafe fn array(data: ArrayDataBuilder) -> Result<ArrayRef> {
    if cfg!(debug_assertions) {
        return Ok(make_array(data.build().map_err(invalid)?));
    }
    // SAFETY: the caller's promise.
    Ok(make_array(unsafe { data.build_unchecked() }))
}

/// The array of downloaded views.
///
/// # Errors
/// As of [`array()`].
///
/// # Safety
/// Each view is valid for the type and these buffers.
pub(crate) unsafe fn view_array<T: ByteViewType>(
    views: ScalarBuffer<u128>,
    buffers: Arc<[Buffer]>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    if cfg!(debug_assertions) {
        let array = GenericByteViewArray::<T>::try_new(views, buffers, nulls);
        return Ok(Arc::new(array.map_err(invalid)?));
    }
    // SAFETY: the caller's promise.
    let array = unsafe { GenericByteViewArray::<T>::new_unchecked(views, buffers, nulls) };
    Ok(Arc::new(array))
}

fn invalid(error: ArrowError) -> BowtieError {
    BowtieError::Internal(format!("a kernel wrote no valid array: {error}"))
}

#[cfg(test)]
mod tests {
    use arrow::array::ArrayData;
    use arrow::datatypes::{DataType, StringViewType};

    use super::*;

    /// Text of "é" with these offsets.
    fn text(offsets: Vec<i32>) -> Result<ArrayRef> {
        let data = ArrayData::builder(DataType::Utf8)
            .len(offsets.len() - 1)
            .add_buffer(Buffer::from_vec(offsets))
            .add_buffer(Buffer::from("é".as_bytes()));
        // SAFETY: tests validate the data.
        unsafe { array(data) }
    }

    #[cfg(debug_assertions)]
    #[test]
    fn invalid_data_is_an_error_in_debug_builds() {
        assert!(text(vec![0, 2, 2]).is_ok());
        // Half of a character, offsets that descend, and offsets behind the end.
        for offsets in [vec![0, 1, 2], vec![2, 0], vec![0, 3]] {
            let error = text(offsets).unwrap_err().to_string();
            assert!(error.contains("no valid array"), "{error}");
        }
        let views = |view: u128| {
            let views = ScalarBuffer::from(vec![view]);
            // SAFETY: tests validate the data.
            unsafe { view_array::<StringViewType>(views, Arc::new([]), None) }
        };
        assert!(views(0).is_ok());
        // 13 bytes of buffer 7, which there is not.
        assert!(views(13 | 7 << 64).is_err());
    }
}
