//! The part of each range of partners that its probe row keeps (`kernels/theta/partners.cu`).

use std::sync::Arc;

use crate::device::cuda::runtime::access::{memory, valid_memory};
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::buffer::Buffer;
use crate::device::data::keys::Keys;
use crate::device::data::ranges::{OrderedRows, Ranges};
use crate::error::{BowtieError, Result};
use crate::ir::partners::{Distance, PartnerLimit, Which};

/// The part of each range that its probe row keeps. An error for a build side without keys.
pub(crate) fn limit_ranges(
    stream: &Arc<Stream>,
    build: &OrderedRows,
    probe: &OrderedRows,
    ranges: &Ranges,
    centre: Option<&Keys>,
    limit: PartnerLimit,
) -> Result<Ranges> {
    let m = ranges.rows();
    let lo = stream.alloc(m * 4, "ranges of partners")?;
    let hi = stream.alloc(m * 4, "ranges of partners")?;
    let keys = build.keys.as_ref();
    let keys = keys.ok_or_else(|| BowtieError::Internal("partners without an order".into()))?;
    // The codes of `kernels/theta/partners.cu`.
    let which = match limit.which {
        Which::First => 0u32,
        Which::Last => 1,
        Which::Nearest(Distance::Integers) => 2,
        Which::Nearest(Distance::Floats) => 3,
    };
    let (words, valid) = match (limit.which, centre) {
        (Which::Nearest(_), None) => {
            return Err(BowtieError::Internal("partners near to nothing".into()));
        }
        (Which::Nearest(_), Some(keys)) => (
            Some(memory(&keys.values)?),
            valid_memory(keys.valid.as_ref())?,
        ),
        (Which::First | Which::Last, _) => (None, None),
    };
    let args = (
        memory(keys)?.into(),
        memory(&probe.rows)?.into(),
        words.into(),
        valid.into(),
        memory(&ranges.lo)?.into(),
        memory(&ranges.hi)?.into(),
        which.into(),
        limit.most.into(),
        u32::from(limit.with_ties).into(),
        (&lo).into(),
        (&hi).into(),
        (m as u32).into(),
    );
    // SAFETY: ranges are inside of the build keys; words and validity are by row of the probe side.
    unsafe { stream.launch(kernels::PARTNERS_LIMIT, Shape::rows(m), &args)? };
    Ok(Ranges {
        lo: Buffer::cuda(lo, m),
        hi: Buffer::cuda(hi, m),
    })
}
