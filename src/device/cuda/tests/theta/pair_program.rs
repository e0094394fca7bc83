//! Random pair programs: on ranges alone, and after tests.

use crate::device::cuda::tests::theta::range::{same_pairs, sides};
use crate::device::cuda::tests::theta::tested_fold::same_folds_of_some;
use crate::device::cuda::tests::*;
use crate::device::data::matches::BoundProgram;
use crate::device::primitives::rows::RowPrimitives;
use crate::device::primitives::theta::ThetaPrimitives;
use crate::device::primitives::transfer::TransferPrimitives;
use crate::error::BowtieError;
use crate::ir::pair_program::{MAX_INSTRUCTIONS, MAX_REGISTERS, Program};
use crate::ir::program::{Instruction, Kind, Op};
use crate::ir::side::Side;

pub(crate) const KINDS: [Kind; 11] = [
    Kind::I8,
    Kind::I16,
    Kind::I32,
    Kind::I64,
    Kind::U8,
    Kind::U16,
    Kind::U32,
    Kind::U64,
    Kind::F32,
    Kind::F64,
    Kind::Bool,
];
const LEFT: [Kind; 8] = [
    Kind::I8,
    Kind::I16,
    Kind::I32,
    Kind::I64,
    Kind::F32,
    Kind::F64,
    Kind::Bool,
    Kind::U64,
];
const RIGHT: [Kind; 8] = [
    Kind::U8,
    Kind::U16,
    Kind::U32,
    Kind::U64,
    Kind::F32,
    Kind::F64,
    Kind::Bool,
    Kind::I64,
];

/// A column of a kind; in some columns values at the limits of the type.
pub(crate) fn column(random: &mut Random, kind: Kind, rows: usize) -> ArrayRef {
    let extremes = random.below(3) == 0;
    let words: Vec<u64> = (0..rows)
        .map(|_| match random.below(8) {
            0 if extremes => [0, u64::MAX, 1 << 63, 1 << 31][random.below(4) as usize],
            _ => random.below(50),
        })
        .collect();
    let nulls = random.below(3) as usize;
    let nulls = random.nulls(rows, if nulls == 1 { 0 } else { nulls });
    macro_rules! primitive {
        ($t:ty, $value:expr) => {{
            let values: Vec<_> = words.iter().map(|word| $value(*word)).collect();
            Arc::new(PrimitiveArray::<$t>::new(values.into(), nulls)) as ArrayRef
        }};
    }
    let special = |word: u64| match word {
        0 => -0.0,
        u64::MAX => f64::NAN,
        word if word >= 1 << 31 => f64::INFINITY,
        word => word as f64 / 4.0 - 3.0,
    };
    match kind {
        Kind::I8 => primitive!(Int8Type, |w| w as i8),
        Kind::I16 => primitive!(Int16Type, |w| w as i16),
        Kind::I32 => primitive!(Int32Type, |w| w as i32),
        Kind::I64 => primitive!(Int64Type, |w| w as i64),
        Kind::U8 => primitive!(UInt8Type, |w| w as u8),
        Kind::U16 => primitive!(UInt16Type, |w| w as u16),
        Kind::U32 => primitive!(UInt32Type, |w| w as u32),
        Kind::U64 => primitive!(UInt64Type, |w| w),
        Kind::F32 => primitive!(Float32Type, |w| special(w) as f32),
        Kind::F64 => primitive!(Float64Type, special),
        Kind::Bool => {
            let bits = BooleanBuffer::collect_bool(rows, |row| words[row] & 1 != 0);
            Arc::new(BooleanArray::new(bits, nulls))
        }
        Kind::Decimal => unreachable!("pair programs have no decimals"),
    }
}

/// Operations whose result is a Boolean.
pub(crate) const BOOLEAN_OPS: [Op; 13] = [
    Op::Eq,
    Op::NotEq,
    Op::Lt,
    Op::LtEq,
    Op::Gt,
    Op::GtEq,
    Op::Distinct,
    Op::NotDistinct,
    Op::And,
    Op::Or,
    Op::Not,
    Op::IsNull,
    Op::IsNotNull,
];

/// Whether the operands of one of [`BOOLEAN_OPS`] are Booleans too.
pub(crate) fn takes_booleans(op: Op) -> bool {
    matches!(op, Op::And | Op::Or | Op::Not)
}

/// Whether one of [`BOOLEAN_OPS`] has one operand.
pub(crate) fn is_unary(op: Op) -> bool {
    matches!(op, Op::Not | Op::IsNull | Op::IsNotNull)
}

/// Writes programs whose registers are handed out as a stack.
struct Writer<'a> {
    random: &'a mut Random,
    code: Vec<Instruction>,
    /// Whether divisions and casts with possible faults occur.
    faults: bool,
}

impl Writer<'_> {
    fn emit(&mut self, op: Op, kind: Kind, [out, a, b, c]: [u8; 4]) -> &mut Instruction {
        self.code.push(Instruction {
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

    fn kind(&mut self) -> Kind {
        KINDS[self.random.below(11) as usize]
    }

    fn leaf(&mut self, kind: Kind, out: u8) {
        let of = |kinds: [Kind; 8]| kinds.iter().position(|of| *of == kind);
        let left_first = self.random.below(2) == 0;
        let (op, column) = match (of(LEFT), of(RIGHT)) {
            (Some(left), right) if left_first || right.is_none() => (Op::Load, left),
            (_, Some(right)) => (Op::LoadRight, right),
            _ => unreachable!("each kind is on a side"),
        };
        if self.random.below(5) == 0 {
            let null = u8::from(self.random.below(6) == 0);
            let word = self.random.below(2 + u64::from(kind != Kind::Bool) * 10);
            let constant = match kind {
                Kind::F32 => u64::from((word as f32).to_bits()),
                Kind::F64 => (word as f64).to_bits(),
                _ => word,
            };
            self.emit(Op::Constant, kind, [out, 0, null, 0]).constant = constant.into();
        } else {
            self.emit(op, kind, [out, 0, 0, 0]).column = column as u16;
        }
    }

    fn value(&mut self, kind: Kind, depth: usize, out: u8) {
        if depth == 0 {
            return self.leaf(kind, out);
        }
        let below = depth - 1;
        match self.random.below(8) {
            0 => self.leaf(kind, out),
            1 => {
                self.value(Kind::Bool, below, out);
                self.value(kind, below, out + 1);
                self.value(kind, below, out + 2);
                self.emit(Op::Select, kind, [out, out, out + 1, out + 2]);
            }
            2 => {
                let from = self.kind();
                let fits = kind == Kind::Bool || kind.is_float() || kind.holds_all_of(from);
                let from = if fits || self.faults { from } else { kind };
                self.value(from, below, out);
                self.emit(Op::Cast, kind, [out, out, 0, 0]).from = from;
            }
            _ if kind == Kind::Bool => self.boolean(below, out),
            3 => {
                self.value(kind, below, out);
                self.emit(Op::Neg, kind, [out, out, 0, 0]);
            }
            _ => {
                let ops = [Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Rem];
                let some = if self.faults || kind.is_float() { 5 } else { 3 };
                let op = ops[self.random.below(some) as usize];
                self.value(kind, below, out);
                self.value(kind, below, out + 1);
                self.emit(op, kind, [out, out, out + 1, 0]);
            }
        }
    }

    fn boolean(&mut self, below: usize, out: u8) {
        let op = BOOLEAN_OPS[self.random.below(BOOLEAN_OPS.len() as u64) as usize];
        let kind = match takes_booleans(op) {
            true => Kind::Bool,
            false => self.kind(),
        };
        self.value(kind, below, out);
        if is_unary(op) {
            self.emit(op, kind, [out, out, 0, 0]);
        } else {
            self.value(kind, below, out + 1);
            self.emit(op, kind, [out, out, out + 1, 0]);
        }
    }
}

/// A program within the limits of programs.
fn program(random: &mut Random, faults: bool) -> Program {
    loop {
        let mut writer = Writer {
            code: vec![],
            faults,
            random: &mut *random,
        };
        writer.value(Kind::Bool, 4, 0);
        let program = Program {
            instructions: writer.code,
            left: (0..8).collect(),
            right: (0..8).collect(),
            covers: vec![],
            can_fail: faults,
        };
        if program.instructions.len() <= MAX_INSTRUCTIONS && program.registers() <= MAX_REGISTERS {
            return program;
        }
    }
}

#[test]
fn programs_decide_as_the_hosts() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(9);
    let mut decided = 0;
    for (turn, sizes) in [(1, 1), (65, 64), (1000, 257), (3000, 1500), (200_001, 60)]
        .into_iter()
        .cycle()
        .take(200)
        .enumerate()
    {
        // Long ranges, and short ones, whose candidates are listed.
        let groups = (turn % 3 == 0).then_some([5, 500][turn / 6 % 2]);
        let sides = sides(&host, &gpu, &mut random, sizes, [0, 4, 5][turn % 3], groups);
        let program = program(&mut random, turn % 4 == 0);
        let build_side = [Side::Left, Side::Right][turn % 2];
        let (of_build, of_probe) = match build_side {
            Side::Left => (LEFT, RIGHT),
            Side::Right => (RIGHT, LEFT),
        };
        let gather = |random: &mut Random,
                      kinds: [Kind; 8],
                      rows,
                      of_host: &OrderedRows,
                      of_gpu: &OrderedRows| {
            let arrays = kinds.map(|kind| column(random, kind, rows));
            let of_host = arrays.each_ref().map(|array| {
                let column = host.upload(from_ref(array)).unwrap();
                host.gather(&column, &of_host.rows).unwrap()
            });
            let of_gpu = arrays.each_ref().map(|array| {
                let column = gpu.upload(from_ref(array)).unwrap();
                gpu.gather(&column, &of_gpu.rows).unwrap()
            });
            (of_host, of_gpu)
        };
        let (build, build_on_gpu) = gather(
            &mut random,
            of_build,
            sides.rows,
            &sides.build,
            &sides.build_on_gpu,
        );
        let (probe, probe_on_gpu) = gather(
            &mut random,
            of_probe,
            sides.probe_rows,
            &sides.probe,
            &sides.probe_on_gpu,
        );
        let bound = |probe| match turn % 2 {
            0 => vec![],
            _ => vec![Bound {
                op: Comparison::Lt,
                probe,
            }],
        };
        let groups = sides.groups.as_ref();
        let (b, p) = (&sides.build, &sides.probe);
        let ranges = host
            .range_bounds(b, p, &bound(&sides.keys), groups.map(|g| &g.0))
            .unwrap();
        let (b, p) = (&sides.build_on_gpu, &sides.probe_on_gpu);
        let bounds = bound(&sides.keys_on_gpu);
        let ranges_on_gpu = gpu
            .range_bounds(b, p, &bounds, groups.map(|g| &g.1))
            .unwrap();

        // After no test, one, two or five; with nine the host fallback runs.
        let tests = [0, 1, 5, 2, 0, 9][turn % 6];
        let keys: Vec<_> = (0..tests)
            .map(|i| {
                let left = u64_column(random.words(sides.rows, i), None);
                let right = u64_column(random.words(sides.probe_rows, i), None);
                let (left, left_on_gpu) = keys_of(&host, &gpu, &left);
                let (right, right_on_gpu) = keys_of(&host, &gpu, &right);
                (
                    host.zone_keys(&left, &sides.build).unwrap(),
                    host.zone_keys(&right, &sides.probe).unwrap(),
                    gpu.zone_keys(&left_on_gpu, &sides.build_on_gpu).unwrap(),
                    gpu.zone_keys(&right_on_gpu, &sides.probe_on_gpu).unwrap(),
                )
            })
            .collect();
        let op = Comparison::NotEq;
        let of_host = keys
            .iter()
            .map(|(build, probe, _, _)| Test { op, build, probe });
        let of_gpu = keys
            .iter()
            .map(|(_, _, build, probe)| Test { op, build, probe });
        let (of_host, of_gpu): (Vec<_>, Vec<_>) = (of_host.collect(), of_gpu.collect());
        let matches = Matches {
            build: &sides.build,
            probe: &sides.probe,
            ranges: &ranges,
            tests: &of_host,
            program: Some(BoundProgram {
                program: &program,
                build_side,
                build: &build,
                probe: &probe,
            }),
        };
        let matches_on_gpu = Matches {
            build: &sides.build_on_gpu,
            probe: &sides.probe_on_gpu,
            ranges: &ranges_on_gpu,
            tests: &of_gpu,
            program: Some(BoundProgram {
                program: &program,
                build_side,
                build: &build_on_gpu,
                probe: &probe_on_gpu,
            }),
        };
        let what = format!("{sizes:?}, {tests} tests, {:#?}", program.instructions);
        let counts = host.count_matches(matches, false);
        let counts_on_gpu = gpu.count_matches(matches_on_gpu, false);
        match (counts, counts_on_gpu) {
            (Ok(_), Ok(_)) => decided += 1,
            (Err(BowtieError::NeedsDataFusion), Err(BowtieError::NeedsDataFusion)) => continue,
            (of_host, of_gpu) => panic!("{what}: {of_host:?} here, {of_gpu:?} there"),
        }
        let exists = host.count_matches(matches, true).unwrap();
        let exists_on_gpu = gpu.count_matches(matches_on_gpu, true).unwrap();
        assert_eq!(
            exists.counts.on_host().unwrap(),
            &down(&exists_on_gpu.counts),
            "{what}: exists"
        );
        same_pairs(&host, &gpu, matches, matches_on_gpu, &mut random, &what);
        same_folds_of_some(
            (&host, &gpu),
            (matches, matches_on_gpu),
            &mut random,
            (sides.rows, sides.probe_rows),
            turn,
            &what,
        );
    }
    assert!(decided > 100, "{decided} programs decided");
}
