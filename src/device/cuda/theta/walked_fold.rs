//! Folds of matches as the walk finds them, under any tests or by a pair program (`kernels/theta/zones_fold.cu`,
//! `kernels/theta/program/program_fold.cu`): no match is written. Matches and values by build position enter; a fold for each probe row leaves.

use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::theta::pair_program;
use crate::device::cuda::theta::pair_program_arg::ProgramArg;
use crate::device::cuda::theta::range_tree::TreeFold;
use crate::device::cuda::theta::zone_map::{self, FIRST_CANDIDATES, ZoneTests};
use crate::device::data::matches::Matches;
use crate::device::primitives::device::Device;
use crate::error::Result;

const WHAT: &str = "folds of matches";

/// Bytes of a fold of a slice, whatever its type.
const ANY_BYTES: usize = 16;

/// Who walks.
enum Walker {
    Zones(Box<ZoneTests>),
    Program(Box<ProgramArg>),
}

/// Stores the folds of `values`, by build position, over the matches of each probe position at its row in `out`. Returns the number of matches of each
/// position; `None` if no kernel takes the tests or the program. There are build rows and ranges.
pub(crate) fn walked_fold(
    device: &CudaDevice,
    fold: TreeFold,
    values: &Memory,
    matches: Matches<'_>,
    out: &Memory,
) -> Result<Option<Memory>> {
    let stream = &device.stream;
    let (n, m) = (matches.build.len(), matches.ranges.rows());
    let walker = match &matches.program {
        None => ZoneTests::of(matches)?.map(|tests| Walker::Zones(Box::new(tests))),
        // Tests and a program are told apart only by listed pairs.
        Some(_) if !matches.tests.is_empty() => None,
        Some(program) => ProgramArg::of(program, n, m).map(|arg| Walker::Program(Box::new(arg))),
    };
    let Some(walker) = walker else {
        return Ok(None);
    };
    let together = match walker {
        Walker::Zones(_) => zone_map::WALKED,
        Walker::Program(_) => pair_program::TOGETHER,
    };
    let totals = stream.alloc(m * 4, WHAT)?;
    let most = FIRST_CANDIDATES / n;
    let check_cancelled = || device.check_cancelled();
    stream.in_launches(m, together, most, &check_cancelled, |first, positions| {
        let shape = match &walker {
            Walker::Zones(_) => zone_map::walkers(stream, positions, n),
            Walker::Program(program) => pair_program::runners(stream, program, positions),
        };
        let places = shape.slices as usize * positions;
        let folded = stream.alloc(places * ANY_BYTES, WHAT)?;
        let counts = stream.alloc(places * 4, WHAT)?;
        let (lo, hi) = (memory(&matches.ranges.lo)?, memory(&matches.ranges.hi)?);
        let of = (first as u32, positions as u32);
        match &walker {
            Walker::Zones(tests) => {
                let args = (
                    tests.as_ref().into(),
                    lo.into(),
                    hi.into(),
                    of.0.into(),
                    of.1.into(),
                    values.into(),
                    (&folded).into(),
                    (&counts).into(),
                );
                // SAFETY: the tests' keys are by build and by probe position, the values by build position; both outputs have a place for each slice
                // and position.
                unsafe { stream.launch(fold.walk, shape, &args)? };
            }
            Walker::Program(program) => {
                let args = (
                    program.as_ref().into(),
                    lo.into(),
                    hi.into(),
                    of.0.into(),
                    of.1.into(),
                    values.into(),
                    fold.kind.into(),
                    (&folded).into(),
                    (&counts).into(),
                );
                // SAFETY: the program's columns are by build and by probe position; as above.
                unsafe { stream.launch(kernels::PROGRAM_FOLD, shape, &args)? };
            }
        }
        let args = (
            (&folded).into(),
            (&counts).into(),
            shape.slices.into(),
            fold.kind.into(),
            of.0.into(),
            of.1.into(),
            memory(&matches.probe.rows)?.into(),
            out.into(),
            (&totals).into(),
        );
        // SAFETY: probe row ids are below those that `out` has values for; `totals` holds a word for each position.
        unsafe { stream.launch(kernels::ZONES_FOLD_PLACE, Shape::each(positions), &args) }
    })?;
    Ok(Some(totals))
}
