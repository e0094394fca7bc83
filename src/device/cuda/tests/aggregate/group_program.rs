//! Filters, expressions and aggregations of few groups in one pass.

use arrow::array::UInt16Array;

use crate::device::cuda::codegen::groups::kernel::generate;
use crate::device::cuda::codegen::groups::words::{FORMS, Slots};
use crate::device::cuda::codegen::shape::Shape;
use crate::device::cuda::columns::layout::kind_of;
use crate::device::cuda::runtime::kernel_cache::form::GroupShape;
use crate::device::cuda::tests::expr::program_writer::row_instruction;
use crate::device::cuda::tests::expr::row_program::each_kind;
use crate::device::cuda::tests::theta::pair_program::KINDS;
use crate::device::cuda::tests::*;
use crate::device::data::block_extents::BLOCK_ROWS;
use crate::device::primitives::fast_paths::FastPaths;
use crate::error::BowtieError;
use crate::ir::fold::Fold;
use crate::ir::group_program::{Accumulator, GroupProgram, KeyCodes};
use crate::ir::program::{Instruction, Kind, Op};
use crate::ir::row_program::{RowProgram, RowSource};

fn integers() -> impl Iterator<Item = Kind> + Clone {
    let is_integer = |kind: &Kind| kind.range().is_some() && *kind != Kind::Bool;
    KINDS.into_iter().filter(is_integer)
}

/// The register of each kind's column: its number.
fn load(kind: Kind) -> Instruction {
    Instruction {
        column: kind as u16,
        ..row_instruction(Op::Load, kind, [kind as u8, 0, 0, 0], kind)
    }
}

/// All folds of columns of every kind, and of expressions; rows filtered by `filters` predicates; keys with these bounds.
fn program(filters: usize, keys: &[(u32, bool)]) -> GroupProgram {
    let kinds = integers().chain([Kind::F64, Kind::Bool, Kind::Decimal]);
    let mut code: Vec<Instruction> = kinds.clone().map(load).collect();
    // The sum of two columns, a product that may be a fault, and predicates.
    let sum = row_instruction(
        Op::Add,
        Kind::I64,
        [20, Kind::I64 as u8, Kind::I64 as u8, 0],
        Kind::I64,
    );
    let scaled = Instruction {
        constant: 3,
        ..row_instruction(
            Op::Scale,
            Kind::Decimal,
            [21, Kind::I32 as u8, 0, 0],
            Kind::I32,
        )
    };
    let is_greater = row_instruction(Op::Gt, Kind::I16, [22, Kind::I16 as u8, 24, 0], Kind::I16);
    let zero = row_instruction(Op::Constant, Kind::I16, [24, 0, 0, 0], Kind::I16);
    let is_not_null = row_instruction(
        Op::IsNotNull,
        Kind::U8,
        [23, Kind::U8 as u8, 0, 0],
        Kind::U8,
    );
    code.extend([sum, scaled, zero, is_greater, is_not_null]);
    let mut columns: Vec<RowSource> = (0..12).map(RowSource::Column).collect();
    let mut codes = vec![];
    for (i, (bound, nullable)) in keys.iter().enumerate() {
        let register = 30 + i as u8;
        let column = columns.len();
        columns.push(RowSource::Column(column));
        code.push(Instruction {
            column: column as u16,
            ..row_instruction(Op::Load, Kind::U16, [register, 0, 0, 0], Kind::U16)
        });
        codes.push(KeyCodes {
            register,
            bound: *bound,
            nullable: *nullable,
        });
    }
    let accumulator = |fold, register: u8, kind| Accumulator {
        fold,
        register,
        kind,
        nullable: true,
    };
    let mut accumulators: Vec<Accumulator> = kinds
        .map(|kind| accumulator(Fold::Count, kind as u8, kind))
        .collect();
    for kind in integers() {
        accumulators.push(accumulator(Fold::Min, kind as u8, kind));
        accumulators.push(accumulator(Fold::Max, kind as u8, kind));
    }
    for kind in [Kind::I64, Kind::U64, Kind::Decimal] {
        accumulators.push(accumulator(Fold::Sum, kind as u8, kind));
    }
    accumulators.push(accumulator(Fold::Sum, 20, Kind::I64));
    accumulators.push(accumulator(Fold::Sum, 21, Kind::Decimal));
    GroupProgram {
        rows: RowProgram {
            instructions: code,
            columns,
            outputs: vec![],
        },
        predicates: [22, 23][..filters].to_vec(),
        keys: codes,
        accumulators,
    }
}

/// The program with some of its accumulators, so that its words fit.
fn with(program: &GroupProgram, accumulators: impl Fn(usize) -> bool) -> GroupProgram {
    let all = program.accumulators.iter().enumerate();
    let some = all.filter(|(i, _)| accumulators(*i)).map(|(_, a)| *a);
    GroupProgram {
        accumulators: some.collect(),
        ..program.clone()
    }
}

fn key(random: &mut Random, rows: usize, bound: u32, nullable: bool) -> ArrayRef {
    let values: Vec<u16> = (0..rows)
        .map(|_| random.below(bound.into()) as u16)
        .collect();
    let nulls = random.nulls(rows, if nullable { 2 } else { 0 });
    Arc::new(UInt16Array::new(values.into(), nulls))
}

/// Compares the words of both devices. Returns them, if no row is a fault.
fn same_words(
    host: &HostDevice,
    gpu: &CudaDevice,
    arrays: &[ArrayRef],
    program: &GroupProgram,
) -> Option<Vec<u64>> {
    let rows = arrays[0].len();
    let (of_host, of_gpu) = (upload(host, arrays), upload(gpu, arrays));
    // All rows, or those from the second block on.
    let within = if rows > BLOCK_ROWS { BLOCK_ROWS } else { 0 }..rows;
    let made = host.fold_groups(within.clone(), program, &borrowed(&of_host));
    let theirs = gpu.fold_groups(within, program, &borrowed(&of_gpu));
    match (made, theirs) {
        (Ok(made), Ok(theirs)) => {
            let (made, theirs) = (made.unwrap(), theirs.expect("a kernel"));
            assert_eq!(made, theirs, "{rows} rows, {program:#?}");
            Some(made)
        }
        (Err(BowtieError::NeedsDataFusion), Err(BowtieError::NeedsDataFusion)) => None,
        (of_host, of_gpu) => panic!("{rows} rows: {of_host:?} by the host, {of_gpu:?} by the GPU"),
    }
}

/// The form of words that a GPU of so much shared memory takes.
fn form(program: &GroupProgram, arrays: &[ArrayRef], shared: u64) -> Option<Slots> {
    let columns = arrays
        .iter()
        .map(|array| (kind_of(array.data_type()).unwrap(), array.null_count() > 0));
    let columns: Vec<_> = columns.collect();
    let shape = GroupShape::of(program)?;
    let mut forms = FORMS.into_iter();
    let fits = |slots: &Slots| slots.shared_bytes(&shape) <= shared / 2;
    forms.find(|slots| {
        let shape_of_rows = Shape {
            program: &program.rows,
            columns: &columns,
        };
        fits(slots) && generate(&shape_of_rows, &shape, *slots).is_some()
    })
}

/// Few rows, for `compute-sanitizer` too.
pub(crate) fn few(host: &HostDevice, gpu: &mut CudaDevice, sizes: &[usize]) {
    gpu.rows_before_compiling = 0;
    let mut random = Random(83);
    let (mut forms, mut decided) = (vec![], 0);
    for (turn, rows) in sizes.iter().enumerate() {
        for (keys, third) in [
            (vec![], 1),
            // Few words: those of each thread fit in little shared memory, too.
            (vec![], 3),
            (vec![(3, false), (2, true)], 3),
            (vec![(1, true)], 2),
            (vec![(50, false), (7, true)], 8),
            (vec![(1000, true), (2, false)], 16),
        ] {
            let program = program(turn % 3, &keys);
            let program = with(&program, |i| (i + turn) % third == 0);
            let mut arrays = each_kind(&mut random, *rows);
            for (bound, nullable) in &keys {
                arrays.push(key(&mut random, *rows, *bound, *nullable));
            }
            let taken = form(&program, &arrays, gpu.stream.gpu.shared_bytes as u64);
            forms.extend(taken);
            if taken.is_some() {
                let words = same_words(host, gpu, &arrays, &program);
                decided += usize::from(words.is_some());
            }
        }
    }
    for slots in FORMS {
        assert!(forms.contains(&slots), "{slots:?} was not taken");
    }
    assert!(decided > sizes.len(), "{decided} decided");
}

#[test]
fn groups_have_the_words_that_the_host_makes() {
    let Some((host, mut gpu)) = reference_and_gpu() else {
        return;
    };
    few(
        &host,
        &mut gpu,
        &[1, 31, 511, 4097, 70_001, 65_000, 1_000_003],
    );
}
