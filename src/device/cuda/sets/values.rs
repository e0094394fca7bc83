//! The value of a set function for pairs of rows, by the encoded sets of both sides (`kernels/sets/set_values.cu`).

use std::sync::Arc;

use arrow::datatypes::DataType;

use crate::device::cuda::columns::fixed_width::Values;
use crate::device::cuda::columns::layout::bitmap_bytes;
use crate::device::cuda::columns::rows;
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::sets::encode::encoded::Sets;
use crate::device::cuda::sets::encode::encoding;
use crate::device::cuda::sets::encode::equal_sets;
use crate::device::cuda::sets::index::SetIndex;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::error::Result;
use crate::ir::set_predicate::{SetMeasure, SetValue};

/// The sets of the probe side, and the number of each row's set on both sides, from 1 on; 0 for a row without a set.
#[derive(Debug)]
pub(crate) struct ProbeSets {
    sets: Arc<Sets>,
    places: Buffer<u32>,
    indexed_places: Buffer<u32>,
}

/// The code of a value in `kernels/sets/set_values.cu`.
fn code(value: SetValue) -> u32 {
    match value {
        SetValue::Overlap => 2,
        SetValue::Degree(SetMeasure::Jaccard) => 3,
        SetValue::Degree(SetMeasure::Dice) => 4,
        SetValue::Degree(SetMeasure::Cosine) => 5,
        SetValue::Degree(SetMeasure::Containment) => 6,
    }
}

/// Encodes the lists of the probe side, with the groups of its rows.
pub(crate) fn encode_probe_sets(
    device: &CudaDevice,
    index: &SetIndex,
    lists: &Column,
    groups: Option<&Buffer<u32>>,
) -> Result<ProbeSets> {
    let sets = match encoding::encode_probe(device, index.domain(), lists, groups, &[])? {
        Some(sets) => Arc::new(sets),
        None => Arc::clone(index.sets()),
    };
    Ok(ProbeSets {
        places: places(device, &sets, lists.rows())?,
        indexed_places: places(device, index.sets(), index.rows())?,
        sets,
    })
}

/// The number of the set of each of `rows` rows.
fn places(device: &CudaDevice, sets: &Sets, rows: usize) -> Result<Buffer<u32>> {
    let places = rows::sequence(&device.stream, 1, sets.len)?;
    let places = match sets.members.is_some() {
        true => equal_sets::by_row(&device.stream, sets, memory(&places)?.part(0)?)?,
        false => places,
    };
    rows::scatter(&device.stream, &sets.rows, &places, rows)
}

/// The value of each pair of an indexed row and a probe row: Int64 of an overlap, Float64 of a degree. NULL where one has no set.
pub(crate) fn values_of_pairs(
    device: &CudaDevice,
    index: &SetIndex,
    probe: &ProbeSets,
    (indexed_rows, probe_rows): (&Buffer<u32>, &Buffer<u32>),
    value: SetValue,
) -> Result<Column> {
    let (stream, n) = (&device.stream, probe_rows.len());
    let out = stream.alloc(n * 8, "values of sets")?;
    let all_have_sets =
        probe.sets.rows.len() == probe.places.len() && index.sets().rows.len() == index.rows();
    let valid = match all_have_sets {
        true => None,
        false => Some(stream.alloc(bitmap_bytes(n), "validity")?),
    };
    let (of_probe, of_indexed) = (probe.sets.structure(), index.sets().structure());
    let args = (
        (&of_probe).into(),
        (&of_indexed).into(),
        memory(&probe.places)?.into(),
        memory(&probe.indexed_places)?.into(),
        memory(probe_rows)?.into(),
        memory(indexed_rows)?.into(),
        code(value).into(),
        (&out).into(),
        valid.as_ref().into(),
        (n as u32).into(),
    );
    // SAFETY: rows are below the lengths of the places; places are numbers of sets or 0; `out` holds a word of 64 bits a pair, `valid` a bit.
    unsafe { stream.launch(kernels::SET_VALUES, Shape::each(n), &args)? };
    let values = Values {
        data_type: match value {
            SetValue::Overlap => DataType::Int64,
            SetValue::Degree(_) => DataType::Float64,
        },
        values: out,
        valid,
        original: None,
        made: Some(stream.mark()?),
    };
    Ok(Column::cuda(values, n))
}
