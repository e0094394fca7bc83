//! Estimates on the host whether the keys of a semi join are narrow enough for a key bitmap. The estimate only decides
//! whether to partition.

use arrow::array::{Array, ArrayRef, AsArray, make_array};
use arrow::compute::{cast, max, min};
use arrow::datatypes::{DataType, Float64Type};

use crate::device::data::key_bitmap::are_few_bits;
use crate::error::Result;
use crate::exec::input::chunk::InputChunk;
use crate::ir::side::Side;
use crate::spec::join::{JoinSpec, MatchMethod};

/// Whether the range of the staged left chunks' keys is narrow enough for a bitmap. Resident and spilled chunks are
/// assumed to have keys in the same range.
pub(crate) fn are_narrow(spec: &JoinSpec, left: &[InputChunk]) -> Result<bool> {
    let staged = left.iter().filter_map(|chunk| match chunk {
        InputChunk::Staged(staged) => Some(staged),
        InputChunk::Resident(_) | InputChunk::Spilled(_) => None,
    });
    let rows = left.iter().map(|chunk| chunk.rows() as u64).sum();
    let mut bits = 1.0;
    for key in spec.theta.keys(Side::Left) {
        let mut all: Option<(f64, f64)> = None;
        for chunk in staged.clone() {
            for part in chunk.parts(key).iter() {
                let Some((least, greatest)) = extent(part)? else {
                    continue;
                };
                let (a, b) = all.unwrap_or((least, greatest));
                all = Some((a.min(least), b.max(greatest)));
            }
        }
        bits *= all.map_or(1.0, |(least, greatest)| greatest - least + 1.0);
    }
    let MatchMethod::Equi(strategy) = spec.theta.method else {
        return Ok(true);
    };
    Ok(are_few_bits(bits, rows, strategy))
}

/// The least and the greatest key, rounded to `f64`; `None` if all are NULL.
fn extent(keys: &ArrayRef) -> Result<Option<(f64, f64)>> {
    let integers = match keys.data_type() {
        DataType::Boolean => cast(keys, &DataType::UInt8)?,
        data_type if data_type.is_integer() => ArrayRef::clone(keys),
        // Dates, times and decimals by their words.
        other => {
            let word = match other.primitive_width() {
                Some(4) => DataType::Int32,
                _ => DataType::Int64,
            };
            make_array(keys.to_data().into_builder().data_type(word).build()?)
        }
    };
    let floats = cast(&integers, &DataType::Float64)?;
    let floats = floats.as_primitive::<Float64Type>();
    Ok(min(floats).zip(max(floats)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        BooleanArray, Date32Array, Decimal64Array, Int64Array, TimestampSecondArray, UInt64Array,
    };

    use super::*;

    #[test]
    fn extents_of_keys() {
        let of = |keys: ArrayRef| extent(&keys).unwrap();
        let integers = Int64Array::from(vec![Some(5), None, Some(-7)]);
        assert_eq!(of(Arc::new(integers)), Some((-7.0, 5.0)));
        let unsigned = UInt64Array::from(vec![0, 1 << 63]);
        assert_eq!(of(Arc::new(unsigned)), Some((0.0, (1u64 << 63) as f64)));
        let decimals = Decimal64Array::from(vec![150, 250]);
        let decimals = decimals.with_precision_and_scale(10, 2).unwrap();
        assert_eq!(of(Arc::new(decimals)), Some((150.0, 250.0)));
        let dates = Date32Array::from(vec![3, 1]).slice(1, 1);
        assert_eq!(of(Arc::new(dates)), Some((1.0, 1.0)));
        let times = TimestampSecondArray::from(vec![Some(9), None]);
        assert_eq!(of(Arc::new(times)), Some((9.0, 9.0)));
        assert_eq!(
            of(Arc::new(BooleanArray::from(vec![true, false]))),
            Some((0.0, 1.0))
        );
        assert_eq!(of(Arc::new(Int64Array::from(vec![None, None]))), None);
    }
}
