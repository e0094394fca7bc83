//! [`compact_views`]: copies views, so that a few rows do not keep all buffers of their chunk alive.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, make_array};
use arrow::datatypes::DataType;

use crate::error::Result;

/// The array with views that share no buffers with others, at any depth.
pub(crate) fn compact_views(array: ArrayRef) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::Utf8View => Arc::new(array.as_string_view().gc()),
        DataType::BinaryView => Arc::new(array.as_binary_view().gc()),
        nested if nested.is_nested() && has_views(nested) => {
            let data = array.to_data();
            let children = data.child_data().iter().cloned();
            let children = children.map(|child| Ok(compact_views(make_array(child))?.to_data()));
            let children = children.collect::<Result<_>>()?;
            make_array(data.into_builder().child_data(children).build()?)
        }
        _ => array,
    })
}

/// Whether the type has views at any depth.
pub(crate) fn has_views(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8View | DataType::BinaryView => true,
        DataType::List(of)
        | DataType::LargeList(of)
        | DataType::ListView(of)
        | DataType::LargeListView(of)
        | DataType::FixedSizeList(of, _)
        | DataType::Map(of, _) => has_views(of.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_views(field.data_type())),
        _ => false,
    }
}
