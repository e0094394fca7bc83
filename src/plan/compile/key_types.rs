//! Which types can be ordered, grouped and compared on a device.

use arrow::datatypes::DataType;

use crate::ir::physical_type::TypeRow;

/// Whether order keys compare values of these types exactly as DataFusion does.
pub(crate) fn are_comparable(left: &DataType, right: &DataType) -> bool {
    let (left, right) = (plain(left), plain(right));
    is_orderable(left)
        && match (left, right) {
            // Coercion gives both sides one scale; precision does not matter to the comparison.
            (DataType::Decimal128(_, a), DataType::Decimal128(_, b))
            | (DataType::Decimal32(_, a), DataType::Decimal32(_, b))
            | (DataType::Decimal64(_, a), DataType::Decimal64(_, b))
            | (DataType::Decimal256(_, a), DataType::Decimal256(_, b)) => a == b,
            (DataType::Timestamp(a, _), DataType::Timestamp(b, _)) => a == b,
            _ => left == right,
        }
}

/// The type of a dictionary's values; any other type as it is.
fn plain(data_type: &DataType) -> &DataType {
    match data_type {
        // DataFusion does not make −0.0 equal 0.0 inside a dictionary: such columns stay in the residual filter.
        DataType::Dictionary(_, values) if !values.is_floating() => values,
        other => other,
    }
}

/// Whether a column of this type has order keys.
pub(crate) fn is_orderable(data_type: &DataType) -> bool {
    let plain = plain(data_type);
    !matches!(plain, DataType::Dictionary(..)) && TypeRow::of(plain).order.is_some()
}

/// Whether a column of this type can be a key: a type that has order keys, or a nested type of such without dictionaries, which Arrow's row
/// format would encode again for every few rows. Inside nested values DataFusion compares floats bit by bit, as that format does.
pub(crate) fn is_groupable(data_type: &DataType) -> bool {
    use DataType::*;
    let inside = |of: &DataType| !matches!(of, Dictionary(..)) && is_groupable(of);
    match data_type {
        List(of)
        | LargeList(of)
        | ListView(of)
        | LargeListView(of)
        | FixedSizeList(of, _)
        | Map(of, _) => inside(of.data_type()),
        Struct(fields) => fields.iter().all(|field| inside(field.data_type())),
        other => is_orderable(other),
    }
}
