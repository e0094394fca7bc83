//! Filters in one pass, whose predicates are row programs.

use crate::device::cuda::tests::expr::row_program::{each_kind, program, same_rows};
use crate::device::cuda::tests::*;
use crate::device::primitives::expr::ExprPrimitives;
use crate::device::primitives::transfer::TransferPrimitives;
use crate::error::BowtieError;
use crate::ir::program::{Instruction, Kind, Op};
use crate::ir::row_program::{RowProgram, RowSource};

#[test]
fn filters_keep_the_same_rows_in_one_pass() {
    let Some((host, mut gpu)) = reference_and_gpu() else {
        return;
    };
    gpu.rows_before_compiling = 0;
    let mut random = Random(31);
    let turns = 200;
    let filters = (0..turns).filter(|turn| {
        let rows = SIZES[turn % SIZES.len()];
        same_filter(&host, &gpu, &mut random, rows, *turn)
    });
    let decided = filters.count();
    assert!(decided > turns / 3, "{decided} filters decided");
}

/// `a < 0` of 32 bits.
fn negative() -> RowProgram {
    let int = Kind::I32;
    let step = |op, [out, a, b]: [u8; 3], kind: Kind| Instruction {
        op,
        kind,
        out,
        a,
        b,
        c: 0,
        column: 0,
        constant: 0,
        from: kind,
    };
    RowProgram {
        instructions: vec![
            step(Op::Load, [0, 0, 0], int),
            step(Op::Constant, [1, 0, 0], int),
            step(Op::Lt, [2, 0, 1], int),
            step(Op::Store, [0, 2, 0], Kind::Bool),
        ],
        columns: vec![RowSource::Column(0)],
        outputs: vec![DataType::Boolean],
    }
}

/// Random integers, negative ones scattered or in runs.
fn signed(random: &mut Random, rows: usize, share: u64, run: usize) -> ArrayRef {
    let (mut negative, mut values) = (false, vec![]);
    for row in 0..rows {
        if row % run == 0 {
            negative = random.below(1000) < share;
        }
        let value = (random.next() >> 33) as i32;
        values.push(if negative { !value } else { value });
    }
    Arc::new(Int32Array::from(values))
}

/// Blocks with many tiles, some partial; some keep no row and some all rows.
#[test]
fn filters_of_many_tiles_keep_the_same_rows() {
    let Some((host, mut gpu)) = reference_and_gpu() else {
        return;
    };
    gpu.rows_before_compiling = 0;
    let mut random = Random(59);
    let cases = [(500, 1), (10, 1), (990, 1), (500, 5000), (0, 1), (1000, 1)];
    for rows in [2047, 2048, 2049, 6 << 20] {
        for (share, run) in cases {
            let key = signed(&mut random, rows, share, run);
            let narrow: ArrayRef = Arc::new(Int16Array::from_iter_values(
                (0..rows).map(|_| random.next() as i16),
            ));
            let word = signed(&mut random, rows, 500, 1);
            let long: ArrayRef = Arc::new(Int64Array::from_iter_values(
                (0..rows).map(|_| random.next() as i64),
            ));
            let arrays = [&key, &narrow, &word, &long];
            let of_host = arrays.map(|array| host.upload(from_ref(array)).unwrap());
            let of_gpu = arrays.map(|array| gpu.upload(from_ref(array)).unwrap());
            let of_host: Vec<&Column> = of_host.iter().map(AsRef::as_ref).collect();
            let of_gpu: Vec<&Column> = of_gpu.iter().map(AsRef::as_ref).collect();
            for kept in [&[0][..], &[0, 2], &[1], &[2, 0, 3, 1], &[]] {
                let kept_on_host: Vec<&Column> = kept.iter().map(|at| of_host[*at]).collect();
                let there_kept: Vec<&Column> = kept.iter().map(|at| of_gpu[*at]).collect();
                let of_gpu = gpu.select(rows, 0..rows, &negative(), &of_gpu[..1], &there_kept);
                let of_host = host.select(rows, 0..rows, &negative(), &of_host[..1], &kept_on_host);
                let what = format!("{rows} rows, {share} of 1000 in runs of {run}, {kept:?}");
                same_rows(&gpu, of_host.unwrap(), of_gpu.unwrap(), &what);
            }
        }
    }
}

/// Some columns' rows for which a random program is TRUE. Returns whether the devices evaluated it without DataFusion.
pub(crate) fn same_filter(
    host: &HostDevice,
    gpu: &CudaDevice,
    random: &mut Random,
    rows: usize,
    turn: usize,
) -> bool {
    let arrays = each_kind(random, rows);
    let program = loop {
        let program = program(random, turn.is_multiple_of(5));
        if program.outputs == [DataType::Boolean] {
            break program;
        }
    };
    // Every third turn also keeps columns with NULLs or of bits, which need a filter by flags.
    let moves =
        |array: &ArrayRef| array.null_count() == 0 && *array.data_type() != DataType::Boolean;
    let kept = |at: &usize| (turn.is_multiple_of(3) || moves(&arrays[*at])) && at % 5 != turn % 5;
    let kept: Vec<usize> = (0..arrays.len()).filter(kept).collect();
    let (of_host, of_gpu) = (upload(host, &arrays), upload(gpu, &arrays));
    let (of_host, of_gpu) = (borrowed(&of_host), borrowed(&of_gpu));
    let kept_on_host: Vec<&Column> = kept.iter().map(|at| of_host[*at]).collect();
    let there_kept: Vec<&Column> = kept.iter().map(|at| of_gpu[*at]).collect();
    let what = format!("{rows} rows of {kept:?}, {:#?}", program.instructions);
    match (
        host.select(rows, 0..rows, &program, &of_host, &kept_on_host),
        gpu.select(rows, 0..rows, &program, &of_gpu, &there_kept),
    ) {
        (Ok(of_host), Ok(of_gpu)) => {
            same_rows(gpu, of_host, of_gpu, &what);
            true
        }
        (Err(BowtieError::NeedsDataFusion), Err(BowtieError::NeedsDataFusion)) => false,
        (of_host, of_gpu) => panic!("{what}: {of_host:?} here, {of_gpu:?} there"),
    }
}
