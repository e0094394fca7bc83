//! Row programs, filters by a Boolean column, and concatenation.

use arrow::compute::concat;

use crate::device::cuda::tests::expr::program_writer::{DECIMAL, Writer, decimals, kinds};
use crate::device::cuda::tests::theta::pair_program::{KINDS, column};
use crate::device::cuda::tests::*;
use crate::device::primitives::expr::ExprPrimitives;
use crate::device::primitives::rows::RowPrimitives;
use crate::device::primitives::transfer::TransferPrimitives;
use crate::error::BowtieError;
use crate::ir::program::{Instruction, Kind, Op};
use crate::ir::row_program::{MAX_ROW_REGISTERS, RowProgram, RowSource};

pub(crate) fn type_of(kind: Kind) -> DataType {
    use DataType::*;
    match kind {
        Kind::Decimal => DECIMAL,
        Kind::I8 => Int8,
        Kind::I16 => Int16,
        Kind::I32 => Int32,
        Kind::I64 => Int64,
        Kind::U8 => UInt8,
        Kind::U16 => UInt16,
        Kind::U32 => UInt32,
        Kind::U64 => UInt64,
        Kind::F32 => Float32,
        Kind::F64 => Float64,
        Kind::Bool => Boolean,
    }
}

/// A program with some outputs.
pub(crate) fn program(random: &mut Random, faults: bool) -> RowProgram {
    let kinds = kinds(random);
    loop {
        let outputs = 1 + random.below(3);
        let depth = 1 + random.below(4) as usize;
        let mut writer = Writer {
            random: &mut *random,
            code: vec![],
            kinds: &kinds,
            faults,
        };
        let mut types = vec![];
        for output in 0..outputs {
            let kind = writer.kind();
            writer.value(kind, depth, 0);
            writer.emit(Op::Store, kind, [0; 4]).column = output as u16;
            types.push(type_of(kind));
        }
        let program = RowProgram {
            instructions: writer.code,
            columns: (0..12).map(RowSource::Column).collect(),
            outputs: types,
        };
        if program.registers() <= MAX_ROW_REGISTERS {
            return program;
        }
    }
}

pub(crate) fn same_rows(
    gpu: &CudaDevice,
    of_host: Option<(usize, Vec<Column>)>,
    of_gpu: Option<(usize, Vec<Column>)>,
    what: &str,
) {
    let (Some((rows, of_host)), Some((theirs, of_gpu))) = (&of_host, &of_gpu) else {
        assert!(of_host.is_none() && of_gpu.is_none(), "{what}: all rows");
        return;
    };
    assert_eq!(rows, theirs, "{what}: true rows");
    for (of_host, of_gpu) in of_host.iter().zip(of_gpu) {
        assert_eq!(
            of_host.on_host().unwrap(),
            &gpu.download(of_gpu).unwrap(),
            "{what}"
        );
    }
}

/// A column of each kind, and one of decimals.
pub(crate) fn each_kind(random: &mut Random, rows: usize) -> Vec<ArrayRef> {
    let plain = KINDS.iter().map(|kind| column(random, *kind, rows));
    let plain: Vec<ArrayRef> = plain.collect();
    plain.into_iter().chain([decimals(random, rows)]).collect()
}

/// Compares the outputs of both devices, and the rows that predicates among them keep. Returns whether the program had
/// no faults.
pub(crate) fn same_outputs(
    host: &HostDevice,
    gpu: &CudaDevice,
    arrays: &[ArrayRef],
    program: &RowProgram,
) -> bool {
    let rows = arrays[0].len();
    let (of_host, of_gpu) = (upload(host, arrays), upload(gpu, arrays));
    let (of_host, of_gpu) = (borrowed(&of_host), borrowed(&of_gpu));
    let what = format!("{rows} rows, {:#?}", program.instructions);
    match (
        host.map(rows, program, &of_host),
        gpu.map(rows, program, &of_gpu),
    ) {
        (Ok(made), Ok(theirs)) => {
            for (made, theirs) in made.iter().zip(&theirs) {
                assert_eq!(
                    made.on_host().unwrap(),
                    &gpu.download(theirs).unwrap(),
                    "{what}"
                );
                if *made.on_host().unwrap().data_type() == DataType::Boolean {
                    let kept = host.keep(made, &of_host).unwrap();
                    same_rows(gpu, kept, gpu.keep(theirs, &of_gpu).unwrap(), &what);
                }
            }
            true
        }
        (Err(BowtieError::NeedsDataFusion), Err(BowtieError::NeedsDataFusion)) => false,
        (of_host, of_gpu) => panic!("{what}: {of_host:?} here, {of_gpu:?} there"),
    }
}

#[test]
fn programs_over_rows_make_what_the_hosts_do() {
    let Some((host, mut gpu)) = reference_and_gpu() else {
        return;
    };
    gpu.rows_before_compiling = u64::MAX;
    let mut random = Random(17);
    let (mut decided, turns) = (0, 500);
    for turn in 0..turns {
        let arrays = each_kind(&mut random, SIZES[turn % SIZES.len()]);
        let program = program(&mut random, turn % 5 == 0);
        decided += usize::from(same_outputs(&host, &gpu, &arrays, &program));
    }
    assert!(decided > turns / 3, "{decided} programs decided");
}

/// Days around the ends of months and years, and distant ones.
#[test]
fn parts_of_dates_are_those_of_the_host() {
    let Some((host, mut gpu)) = reference_and_gpu() else {
        return;
    };
    let days = (-800_000..800_000).step_by(7).chain(-1000..1000);
    let days: ArrayRef = Arc::new(Date32Array::from_iter_values(
        days.chain([-90_000_000, 90_000_000]),
    ));
    let kind = Kind::I32;
    let step = |op, out, b, column| Instruction {
        op,
        kind,
        out,
        a: out,
        b,
        c: 0,
        column,
        constant: 0,
        from: kind,
    };
    let instructions = (0..3).flat_map(|part| {
        [
            step(Op::Load, 0, 0, 0),
            step(Op::Part, 0, part, 0),
            step(Op::Store, 0, 0, part.into()),
        ]
    });
    let program = RowProgram {
        instructions: instructions.collect(),
        columns: vec![RowSource::Column(0)],
        outputs: vec![DataType::Int32; 3],
    };
    let (of_host, of_gpu) = (host.upload(from_ref(&days)), gpu.upload(from_ref(&days)));
    let of_host = host
        .map(days.len(), &program, &[&of_host.unwrap()])
        .unwrap();
    let of_gpu = of_gpu.unwrap();
    for after in [u64::MAX, 0] {
        gpu.rows_before_compiling = after;
        let of_gpu = gpu.map(days.len(), &program, &[&of_gpu]).unwrap();
        for (of_host, of_gpu) in of_host.iter().zip(&of_gpu) {
            assert_eq!(of_host.on_host().unwrap(), &gpu.download(of_gpu).unwrap());
        }
    }
}

#[test]
fn pieces_are_put_together() {
    let Some((_, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(23);
    for (turn, n) in SIZES.into_iter().enumerate() {
        pieces_of(&gpu, &mut random, n, turn);
    }
}

/// Concatenates parts of columns of every type.
pub(crate) fn pieces_of(gpu: &CudaDevice, random: &mut Random, n: usize, turn: usize) {
    let words = random.words(n, turn);
    let mut arrays = columns(random, n, turn);
    let text = words.iter().map(|w| "é".repeat((w % 40) as usize));
    let text: Vec<String> = text.collect();
    arrays.push(Arc::new(StringViewArray::from_iter_values(&text)));
    let text = text.iter().map(String::as_str);
    arrays.push(Arc::new(text.collect::<DictionaryArray<Int32Type>>()));
    for array in arrays {
        // Parts as joins produce them, which begin at any bit, and some of another column.
        let cuts = [0, n / 7, n / 7, n / 3 + 1, n].map(|cut| cut.min(n));
        let whole = gpu.upload(from_ref(&array)).unwrap();
        let mut pieces = vec![];
        for cut in cuts.windows(2) {
            let rows: Vec<u32> = (cut[0] as u32..cut[1].max(cut[0]) as u32).collect();
            pieces.push(Arc::new(gpu.gather(&whole, &on_gpu(gpu, &rows)).unwrap()));
        }
        let mut expected = vec![array.slice(0, cuts[4])];
        if turn.is_multiple_of(2) {
            let other = array.slice(n / 2, n - n / 2);
            pieces.push(gpu.upload(from_ref(&other)).unwrap());
            expected.push(other);
        }
        let pieces: Vec<&Column> = pieces.iter().map(AsRef::as_ref).collect();
        let together = gpu.concat(&pieces).unwrap();
        let expected: Vec<&dyn Array> = expected.iter().map(AsRef::as_ref).collect();
        let expected = concat(&expected).unwrap();
        let given = gpu.download(&together).unwrap();
        assert_eq!(&given, &expected, "{} of {n}", array.data_type());
    }
}
