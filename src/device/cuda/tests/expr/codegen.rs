//! Row programs as kernels, which the device compiles.

use crate::device::counters::{Counted, Tally};
use crate::device::cuda::codegen::kernel::generate;
use crate::device::cuda::codegen::shape::Shape;
use crate::device::cuda::tests::expr::program_writer::row_instruction;
use crate::device::cuda::tests::expr::row_program::{each_kind, program, same_outputs, type_of};
use crate::device::cuda::tests::theta::pair_program::KINDS;
use crate::device::cuda::tests::*;
use crate::device::primitives::expr::ExprPrimitives;
use crate::device::primitives::transfer::TransferPrimitives;
use crate::device::trace::{self, Scope};
use crate::ir::program::{Instruction, Kind, Op};
use crate::ir::row_program::{RowProgram, RowSource};

/// Programs of every operation on two columns of a kind: those without faults in one program, each other one in its
/// own.
fn operations(kind: Kind) -> Vec<RowProgram> {
    use crate::ir::program::Op::*;
    const BOOL: Kind = Kind::Bool;
    let emit = row_instruction;
    // Registers 0 and 1 are the operands, 2 a condition, 3 the result.
    let plain = |op, of| emit(op, of, [3, 0, 1, 0], kind);
    let mut safe = vec![];
    let mut alone = vec![];
    for op in [
        Eq,
        NotEq,
        Lt,
        LtEq,
        Gt,
        GtEq,
        Distinct,
        NotDistinct,
        IsNull,
        IsNotNull,
    ] {
        safe.push((plain(op, kind), BOOL));
    }
    safe.push((emit(Select, kind, [3, 2, 0, 1], kind), kind));
    match kind {
        BOOL => {
            for op in [And, Or, Not] {
                safe.push((plain(op, BOOL), BOOL));
            }
        }
        Kind::Decimal => {
            for op in [Add, Sub, Mul] {
                alone.push((plain(op, kind), kind));
            }
            for op in [Op::Scale, Op::Round] {
                let mut rescale = emit(op, kind, [3, 0, 20, 0], kind);
                rescale.constant = 100;
                alone.push((rescale, kind));
            }
        }
        _ => {
            safe.push((plain(Neg, kind), kind));
            for op in [Add, Sub, Mul, Div, Rem] {
                match kind.is_float() || matches!(op, Div | Rem) {
                    true => alone.push((plain(op, kind), kind)),
                    false => safe.push((plain(op, kind), kind)),
                }
            }
            if !kind.is_float() {
                let mut scale = emit(Op::Scale, Kind::Decimal, [3, 0, 0, 0], kind);
                scale.constant = 1000;
                safe.push((scale, Kind::Decimal));
            }
        }
    }
    if kind != Kind::Decimal {
        // Programs have no casts from a kind to itself.
        for to in KINDS.into_iter().filter(|to| *to != kind) {
            let fits = to == Kind::Bool || to.is_float() || to.holds_all_of(kind);
            let cast = (emit(Cast, to, [3, 0, 0, 0], kind), to);
            if fits { &mut safe } else { &mut alone }.push(cast);
        }
    }
    let together = |operations: &[(Instruction, Kind)]| {
        let load = |out, column: Kind| Instruction {
            column: column as u16,
            ..emit(Op::Load, column, [out, 0, 0, 0], column)
        };
        let mut code = vec![load(0, kind), load(1, kind), load(2, BOOL)];
        // The second operand is 1, or the first operand.
        let one = match kind {
            Kind::F32 => 1f32.to_bits().into(),
            Kind::F64 => 1f64.to_bits().into(),
            _ => 1,
        };
        code.push(Instruction {
            constant: one,
            ..emit(Op::Constant, kind, [3, 0, 0, 0], kind)
        });
        code.push(emit(Select, kind, [1, 2, 1, 3], kind));
        for (at, (operation, made)) in operations.iter().enumerate() {
            code.push(*operation);
            code.push(Instruction {
                column: at as u16,
                ..emit(Op::Store, *made, [0, 3, 0, 0], *made)
            });
        }
        RowProgram {
            instructions: code,
            columns: (0..12).map(RowSource::Column).collect(),
            outputs: operations.iter().map(|(_, made)| type_of(*made)).collect(),
        }
    };
    let alone = alone.chunks(1).map(together);
    [together(&safe)].into_iter().chain(alone).collect()
}

/// Whether a kernel is generated for a program on these columns.
fn is_generated(program: &RowProgram, arrays: &[ArrayRef]) -> bool {
    let of_column = |array: &ArrayRef| {
        let kind = Kind::of(array.data_type()).unwrap();
        (kind, array.null_count() > 0)
    };
    let columns: Vec<_> = arrays.iter().map(of_column).collect();
    generate(&Shape {
        program,
        columns: &columns,
    })
    .is_some()
}

#[test]
fn programs_as_kernels_make_what_the_hosts_do() {
    let Some((host, mut gpu)) = reference_and_gpu() else {
        return;
    };
    gpu.rows_before_compiling = 0;
    let mut random = Random(37);
    let (mut decided, mut generated, turns) = (0, 0, 300);
    for turn in 0..turns {
        let arrays = each_kind(&mut random, SIZES[turn % SIZES.len()]);
        let program = program(&mut random, turn % 5 == 0);
        decided += usize::from(same_outputs(&host, &gpu, &arrays, &program));
        generated += usize::from(is_generated(&program, &arrays));
    }
    assert!(decided > turns / 3, "{decided} programs decided");
    assert!(generated > turns / 2, "{generated} programs as kernels");
}

/// Loads of codes, by kernels and by the interpreter.
#[test]
fn codes_become_values() {
    let Some((host, mut gpu)) = reference_and_gpu() else {
        return;
    };
    codes(&host, &mut gpu, &[1, 1025, 70_001]);
}

/// Every kind of values of every kind of codes.
pub(crate) fn codes(host: &HostDevice, gpu: &mut CudaDevice, sizes: &[usize]) {
    let pairs = [
        (Kind::I16, Kind::U8, -100),
        (Kind::U16, Kind::U8, 7),
        (Kind::I32, Kind::U8, -9),
        (Kind::I32, Kind::U16, i128::from(i32::MIN)),
        (Kind::U32, Kind::U16, 1 << 31),
        (Kind::I64, Kind::U8, 0),
        (Kind::I64, Kind::U16, -1),
        (Kind::I64, Kind::U32, i128::from(i64::MIN)),
        (Kind::U64, Kind::U32, 1 << 63),
        (Kind::Decimal, Kind::U8, -(1 << 90)),
        (Kind::Decimal, Kind::U16, 5),
        (Kind::Decimal, Kind::U32, 1 << 64),
        (Kind::Decimal, Kind::U64, -1),
    ];
    let steps = pairs
        .iter()
        .enumerate()
        .flat_map(|(at, (kind, from, least))| {
            let load = Instruction {
                column: *from as u16,
                constant: *least,
                ..row_instruction(Op::Load, *kind, [at as u8, 0, 0, 0], *from)
            };
            let store = Instruction {
                column: at as u16,
                ..row_instruction(Op::Store, *kind, [0, at as u8, 0, 0], *kind)
            };
            [load, store]
        });
    let program = RowProgram {
        instructions: steps.collect(),
        columns: (0..12).map(RowSource::Column).collect(),
        outputs: pairs.iter().map(|(kind, ..)| type_of(*kind)).collect(),
    };
    let mut random = Random(61);
    for after in [0, u64::MAX] {
        gpu.rows_before_compiling = after;
        for rows in sizes {
            let arrays = each_kind(&mut random, *rows);
            assert!(same_outputs(host, gpu, &arrays, &program));
            assert!(after > 0 || is_generated(&program, &arrays));
        }
    }
}

/// A program is compiled after enough rows, and shares its kernel with programs that differ in constants.
#[test]
fn programs_that_differ_in_constants_are_one_kernel() {
    let Some((host, mut gpu)) = reference_and_gpu() else {
        return;
    };
    gpu.rows_before_compiling = 2500;
    let int = Kind::I32;
    let mut random = Random(41);
    let arrays = each_kind(&mut random, 1000);
    for constant in [1, -7, 1 << 20, 0, 5] {
        let step = |op, [out, a, b]: [u8; 3], column, constant| Instruction {
            op,
            kind: int,
            out,
            a,
            b,
            c: 0,
            column,
            constant,
            from: int,
        };
        let program = RowProgram {
            instructions: vec![
                step(Op::Load, [0, 0, 0], int as u16, 0),
                step(Op::Constant, [1, 0, 0], 0, i128::from(constant as u64)),
                step(Op::Mul, [0, 0, 1], 0, 0),
                step(Op::Store, [0, 0, 0], 0, 0),
            ],
            columns: (0..12).map(RowSource::Column).collect(),
            outputs: vec![DataType::Int32],
        };
        assert!(same_outputs(&host, &gpu, &arrays, &program), "{constant}");
    }
}

/// The cache drops a kernel whose work nobody has waited for: that of a stream which goes on, and that of one which ends.
#[test]
fn a_kernel_stays_loaded_until_its_work_is_done() {
    let Some((host, mut gpu)) = reference_and_gpu() else {
        return;
    };
    gpu.rows_before_compiling = 0;
    let program = RowProgram {
        instructions: vec![
            Instruction::of(Op::Load, Kind::I32, [0, 0, 0]),
            // No other test has this program.
            Instruction::of(Op::Neg, Kind::I32, [0, 0, 0]),
            Instruction::of(Op::Neg, Kind::I32, [0, 0, 0]),
            Instruction::of(Op::Neg, Kind::I32, [0, 0, 0]),
            Instruction::of(Op::Store, Kind::I32, [0, 0, 0]),
        ],
        columns: vec![RowSource::Column(0)],
        outputs: vec![DataType::Int32],
    };
    let array: ArrayRef = Arc::new(Int32Array::from_iter_values(0..3000));
    let expected = upload(&host, from_ref(&array));
    let expected = host.map(3000, &program, &borrowed(&expected)).unwrap();
    let columns = upload(&gpu, from_ref(&array));
    let compiled = &gpu.stream.gpu.compiled;
    let made = gpu.map(3000, &program, &borrowed(&columns)).unwrap();
    compiled.forget();
    let made = gpu.download(&made[0]).unwrap();
    assert_eq!(&made, expected[0].on_host().unwrap());
    let ends = gpu.attach(gpu.budget().child(), Arc::default()).unwrap();
    let columns = upload(ends.as_ref(), from_ref(&array));
    // All families that it launches are loaded: what is left to translate is the program.
    let tally = Arc::new(Tally::default());
    let scope = Scope::new(&gpu, "", Arc::<Tally>::clone(&tally), None);
    let entered = trace::enter(Some(scope));
    drop(ends.map(3000, &program, &borrowed(&columns)).unwrap());
    drop(entered);
    assert!(tally.is_counted(Counted::TranslationTime));
    drop((columns, ends));
    compiled.forget();
}

#[test]
fn every_operation_makes_what_the_host_does() {
    let Some((host, mut gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(29);
    for kind in KINDS.into_iter().chain([Kind::Decimal]) {
        for program in operations(kind) {
            for rows in [1025, 2049] {
                let arrays = each_kind(&mut random, rows);
                for after in [0, u64::MAX] {
                    gpu.rows_before_compiling = after;
                    same_outputs(&host, &gpu, &arrays, &program);
                }
            }
        }
    }
}
