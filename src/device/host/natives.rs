//! The values of primitive arrays as what they are stored as, whatever their Arrow type.

use std::any::Any;

use arrow::array::{Array, ArrayRef, AsArray, downcast_primitive};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::ArrowNativeType;

use crate::error::{BowtieError, Result};

/// The values of a primitive array.
///
/// # Errors
/// If they are not stored as `N`.
pub(crate) fn natives<N: ArrowNativeType>(array: &ArrayRef) -> Result<&[N]> {
    macro_rules! values {
        ($type:ty, $array:ident) => {{
            let values: &dyn Any = $array.as_primitive::<$type>().values();
            values.downcast_ref::<ScalarBuffer<N>>()
        }};
    }
    let values = downcast_primitive! {
        array.data_type() => (values, array),
        _ => None,
    };
    let values = values.ok_or_else(|| not_stored_as::<N>(array))?;
    Ok(values)
}

fn not_stored_as<N>(array: &ArrayRef) -> BowtieError {
    BowtieError::Internal(format!(
        "{} is not stored as {}",
        array.data_type(),
        std::any::type_name::<N>()
    ))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int32Array, StringArray, TimestampSecondArray};

    use super::*;

    #[test]
    fn values_of_any_primitive_type() {
        let times: ArrayRef = Arc::new(TimestampSecondArray::from(vec![Some(5), None, Some(-7)]));
        assert_eq!(natives::<i64>(&times).unwrap()[..1], [5]);
        assert_eq!(natives::<i64>(&times.slice(2, 1)).unwrap(), [-7]);
        let ints: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3]));
        assert_eq!(natives::<i32>(&ints.slice(1, 2)).unwrap(), [2, 3]);
        assert!(natives::<i64>(&ints).is_err());
        let text: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
        assert!(natives::<i32>(&text).is_err());
    }
}
