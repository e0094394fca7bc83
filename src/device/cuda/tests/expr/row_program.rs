//! Programs over rows, the rows for which a column is true, and pieces put together.

use arrow::compute::concat;

use crate::device::cuda::tests::theta::pair_program::{KINDS, column};
use crate::device::cuda::tests::*;
use crate::device::primitives::expr::ExprPrimitives;
use crate::device::primitives::rows::RowPrimitives;
use crate::device::primitives::transfer::TransferPrimitives;
use crate::error::BowtieError;
use crate::ir::pair_program::{Kind, Op};
use crate::ir::row_program::{
    MAX_ROW_REGISTERS, RowInstruction, RowKind, RowOp, RowProgram, RowSource,
};

const DECIMAL: DataType = DataType::Decimal128(38, 2);

pub(crate) fn type_of(kind: RowKind) -> DataType {
    use DataType::*;
    match kind {
        RowKind::Decimal => DECIMAL,
        RowKind::Plain(kind) => match kind {
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
        },
    }
}

/// Small decimals, and now and then some at the ends of 128 bits.
fn decimals(random: &mut Random, rows: usize) -> ArrayRef {
    let extremes = random.below(3) == 0;
    let values: Vec<i128> = (0..rows)
        .map(|_| match random.below(8) {
            0 if extremes => {
                [i128::MAX, i128::MIN, 1 << 64, -(1 << 63), 1 << 126][random.below(5) as usize]
            }
            1 => i128::from(random.next() as i64) << random.below(30),
            _ => i128::from(random.below(200)) - 100,
        })
        .collect();
    let nulls = random.below(3) as usize;
    let nulls = random.nulls(rows, if nulls == 1 { 0 } else { nulls });
    let array = PrimitiveArray::<Decimal128Type>::new(values.into(), nulls);
    Arc::new(array.with_data_type(DECIMAL))
}

/// Writes programs whose registers are handed out as a stack. Column `k` is of kind `k`, the last one of decimals.
struct Writer<'a> {
    random: &'a mut Random,
    code: Vec<RowInstruction>,
    /// Of the values.
    kinds: &'a [RowKind],
    /// Whether what may be for the host occurs.
    faults: bool,
}

impl Writer<'_> {
    fn emit(&mut self, op: RowOp, kind: RowKind, [out, a, b, c]: [u8; 4]) -> &mut RowInstruction {
        self.code.push(RowInstruction {
            op,
            kind,
            out,
            a,
            b,
            c,
            column: 0,
            constant: 0,
            from: kind,
        });
        self.code.last_mut().unwrap()
    }

    fn kind(&mut self) -> RowKind {
        self.kinds[self.random.below(self.kinds.len() as u64) as usize]
    }

    /// Another one than of decimals, which casts and scales are from; `otherwise` where there is none.
    fn plain(&mut self, otherwise: Kind) -> Kind {
        match self.kind() {
            RowKind::Plain(kind) => kind,
            RowKind::Decimal => otherwise,
        }
    }

    fn leaf(&mut self, kind: RowKind, out: u8) {
        if self.random.below(5) > 0 {
            self.emit(RowOp::Load, kind, [out, 0, 0, 0]).column = kind.code().into();
            return;
        }
        let null = u8::from(self.random.below(6) == 0);
        let word = self.random.below(2);
        let constant = match kind {
            RowKind::Plain(Kind::F32) => (word as f32).to_bits().into(),
            RowKind::Plain(Kind::F64) => (word as f64).to_bits().into(),
            RowKind::Decimal => -i128::from(word),
            RowKind::Plain(_) => word.into(),
        };
        self.emit(RowOp::Constant, kind, [out, 0, null, 0]).constant = constant;
    }

    fn value(&mut self, kind: RowKind, depth: usize, out: u8) {
        if depth == 0 || self.random.below(8) == 0 {
            return self.leaf(kind, out);
        }
        let below = depth - 1;
        match (self.random.below(7), kind) {
            (0, _) => {
                self.value(RowKind::Plain(Kind::Bool), below, out);
                self.value(kind, below, out + 1);
                self.value(kind, below, out + 2);
                self.emit(RowOp::Plain(Op::Select), kind, [out, out, out + 1, out + 2]);
            }
            (_, RowKind::Plain(Kind::Bool)) => self.boolean(below, out),
            (_, RowKind::Decimal) => self.decimal(below, out),
            (1, RowKind::Plain(Kind::I32)) => {
                self.value(RowKind::Plain(Kind::I64), below, out);
                let kind = RowKind::Plain(Kind::I64);
                self.emit(RowOp::Floor, kind, [out, out, 0, 0]).constant = 86_400;
                let part = self.random.below(3) as u8;
                self.emit(RowOp::Part, RowKind::Plain(Kind::I32), [out, out, part, 0]);
            }
            (6, RowKind::Plain(Kind::F64)) => {
                self.value(RowKind::Decimal, below, out);
                let made = self.emit(RowOp::ToFloat, kind, [out, out, 0, 0]);
                (made.constant, made.from) = (100f64.to_bits().into(), RowKind::Decimal);
            }
            (6, RowKind::Plain(plain)) if self.faults && !plain.is_float() => {
                self.value(RowKind::Decimal, below, out);
                let made = self.emit(RowOp::Truncate, kind, [out, out, 0, 0]);
                (made.constant, made.from) = (1000, RowKind::Decimal);
            }
            (2, RowKind::Plain(plain)) => {
                let from = self.plain(plain);
                let fits = plain.is_float() || plain.holds_all_of(from);
                let from = if fits || self.faults { from } else { plain };
                self.value(RowKind::Plain(from), below, out);
                if from != plain {
                    self.emit(RowOp::Plain(Op::Cast), kind, [out, out, 0, 0])
                        .from = RowKind::Plain(from);
                }
            }
            (3, RowKind::Plain(_)) => {
                self.value(kind, below, out);
                self.emit(RowOp::Plain(Op::Neg), kind, [out, out, 0, 0]);
            }
            (_, RowKind::Plain(plain)) => {
                let ops = [Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Rem];
                let some = if self.faults || plain.is_float() {
                    5
                } else {
                    3
                };
                let op = ops[self.random.below(some) as usize];
                self.value(kind, below, out);
                self.value(kind, below, out + 1);
                self.emit(RowOp::Plain(op), kind, [out, out, out + 1, 0]);
            }
        }
    }

    fn decimal(&mut self, below: usize, out: u8) {
        let kind = RowKind::Decimal;
        let digits = match self.faults {
            true => [0, 3, 38][self.random.below(3) as usize],
            false => 0,
        };
        match self.random.below(7) {
            6 if self.faults => {
                let from = RowKind::Plain(Kind::F64);
                self.value(from, below, out);
                let made = self.emit(RowOp::FromFloat, kind, [out, out, digits, 0]);
                (made.constant, made.from) = (1000f64.to_bits().into(), from);
            }
            0 => {
                let from = match self.plain(Kind::I64) {
                    Kind::F32 | Kind::F64 | Kind::Bool => Kind::U64,
                    integer => integer,
                };
                let from = RowKind::Plain(from);
                self.value(from, below, out);
                let scale = self.emit(RowOp::Scale, kind, [out, out, digits, 0]);
                (scale.constant, scale.from) = (1000, from);
            }
            1 => {
                self.value(kind, below, out);
                self.emit(RowOp::Scale, kind, [out, out, digits, 0])
                    .constant = 10;
            }
            2 => {
                self.value(kind, below, out);
                self.emit(RowOp::Round, kind, [out, out, digits, 0])
                    .constant = 100;
            }
            _ => {
                let some = if self.faults { 5 } else { 3 };
                let op = [Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Rem];
                let op = op[self.random.below(some) as usize];
                self.value(kind, below, out);
                self.value(kind, below, out + 1);
                self.emit(RowOp::Plain(op), kind, [out, out, out + 1, 0]);
            }
        }
    }

    fn boolean(&mut self, below: usize, out: u8) {
        use crate::ir::pair_program::Op::And;
        use crate::ir::pair_program::Op::Distinct;
        use crate::ir::pair_program::Op::Eq;
        use crate::ir::pair_program::Op::Gt;
        use crate::ir::pair_program::Op::GtEq;
        use crate::ir::pair_program::Op::IsNotNull;
        use crate::ir::pair_program::Op::IsNull;
        use crate::ir::pair_program::Op::Lt;
        use crate::ir::pair_program::Op::LtEq;
        use crate::ir::pair_program::Op::Not;
        use crate::ir::pair_program::Op::NotDistinct;
        use crate::ir::pair_program::Op::NotEq;
        use crate::ir::pair_program::Op::Or;
        let ops = [
            Eq,
            NotEq,
            Lt,
            LtEq,
            Gt,
            GtEq,
            Distinct,
            NotDistinct,
            And,
            Or,
            Not,
            IsNull,
            IsNotNull,
        ];
        let op = ops[self.random.below(13) as usize];
        let kind = match op {
            And | Or | Not => RowKind::Plain(Kind::Bool),
            _ => self.kind(),
        };
        self.value(kind, below, out);
        let b = match op {
            Not | IsNull | IsNotNull => 0,
            _ => {
                self.value(kind, below, out + 1);
                out + 1
            }
        };
        self.emit(RowOp::Plain(op), kind, [out, out, b, 0]);
    }
}

/// Kinds by the width of the widest, as kernels made for a program take more rows together the narrower they are; all of them too.
fn kinds(random: &mut Random) -> Vec<RowKind> {
    use crate::ir::pair_program::Kind::*;
    let plain = |kinds: &[Kind]| kinds.iter().copied().map(RowKind::Plain).collect();
    match random.below(8) {
        0 => plain(&[I8, U8, Bool]),
        1 => plain(&[I16, U16, I8, Bool]),
        2 => plain(&[I32, U32, Bool, U8]),
        3 => plain(&[F32, I32, Bool]),
        4 => plain(&[I64, U64, Bool, I16]),
        5 => plain(&[F64, F32, I64, Bool]),
        6 => [Kind::I64, Kind::Bool]
            .map(RowKind::Plain)
            .into_iter()
            .chain([RowKind::Decimal])
            .collect(),
        _ => KINDS
            .map(RowKind::Plain)
            .into_iter()
            .chain([RowKind::Decimal; 3])
            .collect(),
    }
}

/// A program of some outputs.
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
            writer.emit(RowOp::Store, kind, [0; 4]).column = output as u16;
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
    here: Option<(usize, Vec<Column>)>,
    there: Option<(usize, Vec<Column>)>,
    what: &str,
) {
    let (Some((rows, here)), Some((theirs, there))) = (&here, &there) else {
        assert!(here.is_none() && there.is_none(), "{what}: all rows");
        return;
    };
    assert_eq!(rows, theirs, "{what}: true rows");
    for (here, there) in here.iter().zip(there) {
        assert_eq!(
            here.on_host().unwrap(),
            &gpu.download(there).unwrap(),
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

/// Both devices' outputs, of which those that are predicates are kept by, too; whether the program was decided.
pub(crate) fn same_outputs(
    host: &HostDevice,
    gpu: &CudaDevice,
    arrays: &[ArrayRef],
    program: &RowProgram,
) -> bool {
    let rows = arrays[0].len();
    let (here, there) = (upload(host, arrays), upload(gpu, arrays));
    let (here, there) = (borrowed(&here), borrowed(&there));
    let what = format!("{rows} rows, {:#?}", program.instructions);
    match (
        host.map(rows, program, &here),
        gpu.map(rows, program, &there),
    ) {
        (Ok(made), Ok(theirs)) => {
            for (made, theirs) in made.iter().zip(&theirs) {
                assert_eq!(
                    made.on_host().unwrap(),
                    &gpu.download(theirs).unwrap(),
                    "{what}"
                );
                if *made.on_host().unwrap().data_type() == DataType::Boolean {
                    let kept = host.keep(made, &here).unwrap();
                    same_rows(gpu, kept, gpu.keep(theirs, &there).unwrap(), &what);
                }
            }
            true
        }
        (Err(BowtieError::NeedsHost), Err(BowtieError::NeedsHost)) => false,
        (here, there) => panic!("{what}: {here:?} here, {there:?} there"),
    }
}

#[test]
fn programs_over_rows_make_what_the_twins_do() {
    let Some((host, mut gpu)) = twins() else {
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

/// Days at which months and years end, and far ones.
#[test]
fn parts_of_dates_are_those_of_the_twin() {
    let Some((host, mut gpu)) = twins() else {
        return;
    };
    let days = (-800_000..800_000).step_by(7).chain(-1000..1000);
    let days: ArrayRef = Arc::new(Date32Array::from_iter_values(
        days.chain([-90_000_000, 90_000_000]),
    ));
    let kind = RowKind::Plain(Kind::I32);
    let step = |op, out, b, column| RowInstruction {
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
            step(RowOp::Load, 0, 0, 0),
            step(RowOp::Part, 0, part, 0),
            step(RowOp::Store, 0, 0, part.into()),
        ]
    });
    let program = RowProgram {
        instructions: instructions.collect(),
        columns: vec![RowSource::Column(0)],
        outputs: vec![DataType::Int32; 3],
    };
    let (here, there) = (host.upload(from_ref(&days)), gpu.upload(from_ref(&days)));
    let here = host.map(days.len(), &program, &[&here.unwrap()]).unwrap();
    let there = there.unwrap();
    for after in [u64::MAX, 0] {
        gpu.rows_before_compiling = after;
        let there = gpu.map(days.len(), &program, &[&there]).unwrap();
        for (here, there) in here.iter().zip(&there) {
            assert_eq!(here.on_host().unwrap(), &gpu.download(there).unwrap());
        }
    }
}

#[test]
fn pieces_are_put_together() {
    let Some((_, gpu)) = twins() else { return };
    let mut random = Random(23);
    for (turn, n) in SIZES.into_iter().enumerate() {
        pieces_of(&gpu, &mut random, n, turn);
    }
}

/// Pieces of columns of every type.
pub(crate) fn pieces_of(gpu: &CudaDevice, random: &mut Random, n: usize, turn: usize) {
    let words = random.words(n, turn);
    let mut arrays = columns(random, n, turn);
    let text = words.iter().map(|w| "é".repeat((w % 40) as usize));
    let text: Vec<String> = text.collect();
    arrays.push(Arc::new(StringViewArray::from_iter_values(&text)));
    let text = text.iter().map(String::as_str);
    arrays.push(Arc::new(text.collect::<DictionaryArray<Int32Type>>()));
    for array in arrays {
        // Pieces as joins make them, which begin at any bit, and some of another column.
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
