//! The output of joins that write payload columns themselves: written columns enter, shrunk to the number of matches; the others are
//! gathered by row id.

use crate::device::cuda::columns::fixed_width::Values;
use crate::device::cuda::columns::layout::width;
use crate::device::cuda::columns::rows;
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::equi::column_sources::{ColumnSource, ColumnSources};
use crate::device::cuda::equi::materialize::{self, Output};
use crate::device::cuda::equi::validity_words::{self, COLUMNS_A_WORD};
use crate::device::cuda::runtime::memory::Memory;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::results::Joined;
use crate::device::primitives::rows::RowPrimitives;
use crate::error::{BowtieError, Result};

/// The payload columns of `rows` matches from the output of a join; empty columns without an output.
pub(crate) fn materialize_output(
    device: &CudaDevice,
    (build_origins, build_payload): (&ColumnSources, &[&Column]),
    (origins, payload): (&ColumnSources, &[&Column]),
    output: Option<Output>,
    rows: usize,
) -> Result<Joined> {
    let Some(mut output) = output else {
        let none = rows::no_rows(&device.stream)?;
        let of_none = |columns: &[&Column]| -> Result<Vec<Column>> {
            columns
                .iter()
                .map(|column| device.gather(column, &none))
                .collect()
        };
        return Ok(Joined {
            rows: 0,
            build: of_none(build_payload)?,
            probe: of_none(payload)?,
        });
    };
    let mut keys = output.keys.take();
    let build_columns = std::mem::take(&mut output.build);
    let probe_columns = std::mem::take(&mut output.probe);
    Ok(Joined {
        rows,
        build: columns_of(
            device,
            build_origins,
            build_payload,
            build_columns,
            &mut keys,
            rows,
        )?,
        probe: columns_of(device, origins, payload, probe_columns, &mut keys, rows)?,
    })
}

/// The payload columns of one side: those that the join wrote (`written`, `keys`), shrunk to `rows`, and the others
/// gathered by row id.
fn columns_of(
    device: &CudaDevice,
    sources: &ColumnSources,
    payload: &[&Column],
    mut written: Vec<Memory>,
    keys: &mut Option<Memory>,
    rows: usize,
) -> Result<Vec<Column>> {
    let stream = &device.stream;
    let by_row = match sources.needs_rows() {
        true => written.pop().map(|ids| Buffer::<u32>::cuda(ids, rows)),
        false => None,
    };
    let with_nulls = sources.with_nulls();
    let words = written.split_off(written.len() - with_nulls.div_ceil(COLUMNS_A_WORD));
    let mut valid = vec![];
    for (at, words) in words.iter().enumerate() {
        let columns = COLUMNS_A_WORD.min(with_nulls - at * COLUMNS_A_WORD);
        let bitmaps = validity_words::unpack(stream, words, columns, rows)?;
        valid.extend(bitmaps.into_iter().map(Some));
    }
    drop(words);
    let mut written: Vec<Option<Memory>> = written.into_iter().map(Some).collect();
    let columns = payload
        .iter()
        .zip(&sources.sources)
        .map(|(column, source)| {
            let (values, valid) = match source {
                ColumnSource::Key => (keys.take(), None),
                ColumnSource::Carried(at) => (written[*at].take(), None),
                ColumnSource::WithNulls(at, of_nulls) => {
                    (written[*at].take(), valid[*of_nulls].take())
                }
                ColumnSource::ByRow => (None, None),
            };
            match (values, &by_row, column.on_cuda()) {
                (Some(values), _, Some(like)) => {
                    let bytes = width(&like.data_type).unwrap_or_default() * rows;
                    Ok(Column::cuda(
                        Values {
                            data_type: like.data_type.clone(),
                            values: materialize::shrunk(stream, values, bytes)?,
                            valid,
                            original: None,
                            made: Some(stream.mark()?),
                        },
                        rows,
                    ))
                }
                (_, Some(ids), _) => device.gather(column, ids),
                _ => Err(BowtieError::Internal(
                    "a joined column without values".into(),
                )),
            }
        });
    columns.collect()
}
