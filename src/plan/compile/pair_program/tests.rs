//! Random expressions of all types: the program that they compile to, run on the host device, beside DataFusion's own
//! evaluation of each pair.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{JoinSide, NullEquality, ScalarValue};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, IsNotNullExpr, IsNullExpr, NegativeExpr, NotExpr,
    TryCastExpr, in_list, lit,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::device::budget::Budget;
use crate::device::data::batch::DeviceBatch;
use crate::device::host::device::HostDevice;
use crate::device::lazy_column::Need;
use crate::device::primitives::device::Device;
use crate::ir::pair_program::Program;
use crate::ir::side::Side;
use crate::ir::strategies::Strategy;
use crate::ops::build_index::BuildIndex;
use crate::ops::probe::{Probe, Wanted};
use crate::plan::compile::pair_program::compile;
use crate::spec::join::{MatchSpec, SideInput};

type Expr = Arc<dyn PhysicalExpr>;

const TYPES: [DataType; 13] = [
    DataType::Int8,
    DataType::Int16,
    DataType::Int32,
    DataType::Int64,
    DataType::UInt8,
    DataType::UInt16,
    DataType::UInt32,
    DataType::UInt64,
    DataType::Float32,
    DataType::Float64,
    DataType::Boolean,
    DataType::Date32,
    DataType::Timestamp(TimeUnit::Microsecond, None),
];

/// Values of a type: NULL, small ones, and those at its ends.
fn values(data_type: &DataType) -> Vec<ScalarValue> {
    macro_rules! integers {
        ($variant:ident, $t:ty) => {
            [
                0,
                1,
                2,
                7,
                100,
                <$t>::MIN,
                <$t>::MAX,
                (0 as $t).wrapping_sub(1),
            ]
            .map(|v| ScalarValue::$variant(Some(v)))
            .to_vec()
        };
    }
    macro_rules! floats {
        ($variant:ident, $t:ty) => {
            [
                0.0,
                -0.0,
                1.0,
                -1.5,
                3.25,
                1e10,
                <$t>::NAN,
                -<$t>::NAN,
                <$t>::INFINITY,
                <$t>::NEG_INFINITY,
                <$t>::MAX,
                <$t>::MIN_POSITIVE / 2.0,
            ]
            .map(|v| ScalarValue::$variant(Some(v)))
            .to_vec()
        };
    }
    let mut values = match data_type {
        DataType::Int8 => integers!(Int8, i8),
        DataType::Int16 => integers!(Int16, i16),
        DataType::Int32 => integers!(Int32, i32),
        DataType::Int64 => integers!(Int64, i64),
        DataType::UInt8 => integers!(UInt8, u8),
        DataType::UInt16 => integers!(UInt16, u16),
        DataType::UInt32 => integers!(UInt32, u32),
        DataType::UInt64 => integers!(UInt64, u64),
        DataType::Float32 => floats!(Float32, f32),
        DataType::Float64 => floats!(Float64, f64),
        DataType::Boolean => [true, false]
            .map(|v| ScalarValue::Boolean(Some(v)))
            .to_vec(),
        DataType::Date32 => integers!(Date32, i32),
        _ => [0, 5, -7, i64::MAX]
            .map(|v| ScalarValue::TimestampMicrosecond(Some(v), None))
            .to_vec(),
    };
    values.push(ScalarValue::try_from(data_type).unwrap());
    values
}

/// A column of each type.
fn side(rng: &mut StdRng, name: &str, rows: usize) -> RecordBatch {
    let columns = TYPES.iter().map(|data_type| {
        let values = values(data_type);
        let drawn = (0..rows).map(|_| values.choose(rng).unwrap().clone());
        let array = ScalarValue::iter_to_array(drawn.collect::<Vec<_>>()).unwrap();
        (format!("{name}_{data_type}"), array, true)
    });
    RecordBatch::try_from_iter_with_nullable(columns.collect::<Vec<_>>()).unwrap()
}

/// Makes expressions over the columns of both sides: left ones first.
struct Generator<'a> {
    rng: &'a mut StdRng,
    schema: SchemaRef,
}

impl Generator<'_> {
    fn one_of(&mut self, types: &[DataType]) -> DataType {
        types.choose(self.rng).unwrap().clone()
    }

    fn leaf(&mut self, data_type: &DataType) -> Expr {
        if self.rng.random_bool(0.2) {
            return lit(values(data_type).choose(self.rng).unwrap().clone());
        }
        let at = TYPES.iter().position(|t| t == data_type).unwrap();
        let index = at + if self.rng.random() { TYPES.len() } else { 0 };
        Arc::new(Column::new(self.schema.field(index).name(), index))
    }

    fn binary(&mut self, op: Operator, data_type: &DataType, depth: usize) -> Expr {
        let (left, right) = (self.any(data_type, depth), self.any(data_type, depth));
        Arc::new(BinaryExpr::new(left, op, right))
    }

    fn any(&mut self, data_type: &DataType, depth: usize) -> Expr {
        if depth == 0 || self.rng.random_bool(0.15) {
            return self.leaf(data_type);
        }
        let below = depth - 1;
        if self.rng.random_bool(0.12) {
            return self.case(data_type, below);
        }
        if *data_type == DataType::Boolean {
            return self.boolean(below);
        }
        if !data_type.is_integer() && !data_type.is_floating() {
            return self.leaf(data_type);
        }
        use Operator::{Divide, Minus, Modulo, Multiply, Plus};
        match self.rng.random_range(0..10) {
            0 if data_type.is_floating() => Arc::new(NegativeExpr::new(self.any(data_type, below))),
            // Whether DataFusion fails on the least integer depends on the batch, where the operand is a CASE.
            0 if data_type.is_signed_integer() => Arc::new(NegativeExpr::new(self.leaf(data_type))),
            1 => {
                let from = self.one_of(&TYPES[..11]);
                let operand = self.any(&from, below);
                match self.rng.random() {
                    true => Arc::new(CastExpr::new(operand, data_type.clone(), None)),
                    false => Arc::new(TryCastExpr::new(operand, data_type.clone())),
                }
            }
            2 => {
                let arguments = vec![self.any(data_type, below)];
                let abs = datafusion::functions::math::abs();
                let options = Arc::new(ConfigOptions::default());
                Arc::new(
                    ScalarFunctionExpr::try_new(abs, arguments, &self.schema, options).unwrap(),
                )
            }
            _ => {
                let op = [Plus, Minus, Multiply, Plus, Minus, Multiply, Divide, Modulo];
                let op = *op.choose(self.rng).unwrap();
                self.binary(op, data_type, below)
            }
        }
    }

    fn boolean(&mut self, below: usize) -> Expr {
        use Operator::*;
        let compared = self.one_of(&TYPES);
        match self.rng.random_range(0..12) {
            0 => self.binary(And, &DataType::Boolean, below),
            1 => self.binary(Or, &DataType::Boolean, below),
            2 => Arc::new(NotExpr::new(self.any(&DataType::Boolean, below))),
            3 => Arc::new(IsNullExpr::new(self.any(&compared, below))),
            4 => Arc::new(IsNotNullExpr::new(self.any(&compared, below))),
            5 => {
                let from = self.one_of(&TYPES[..11]);
                let operand = self.any(&from, below);
                Arc::new(CastExpr::new(operand, DataType::Boolean, None))
            }
            6 => {
                let list = (0..self.rng.random_range(1..4))
                    .map(|_| match self.rng.random() {
                        true => self.leaf(&compared),
                        false => lit(values(&compared).choose(self.rng).unwrap().clone()),
                    })
                    .collect();
                let value = self.any(&compared, below);
                let negated = self.rng.random();
                in_list(value, list, &negated, &self.schema).unwrap()
            }
            7 => self.binary(IsDistinctFrom, &compared, below),
            8 => self.binary(IsNotDistinctFrom, &compared, below),
            _ => {
                let op = *[Eq, NotEq, Lt, LtEq, Gt, GtEq].choose(self.rng).unwrap();
                self.binary(op, &compared, below)
            }
        }
    }

    fn case(&mut self, data_type: &DataType, below: usize) -> Expr {
        let base = self.rng.random_bool(0.4).then(|| self.one_of(&TYPES));
        let when = base.clone().unwrap_or(DataType::Boolean);
        let branches = (0..self.rng.random_range(1..4))
            .map(|_| (self.any(&when, below), self.any(data_type, below)))
            .collect();
        let base = base.map(|base| self.any(&base, below));
        let otherwise = self
            .rng
            .random_bool(0.7)
            .then(|| self.any(data_type, below));
        Arc::new(CaseExpr::try_new(base, branches, otherwise).unwrap())
    }
}

/// A side's columns with those that its input evaluates; `None` when one fails.
fn evaluated(input: &SideInput, batch: &RecordBatch) -> Option<RecordBatch> {
    let mut columns = batch.columns().to_vec();
    for expression in &input.expressions {
        let value = expression.evaluate(batch).ok()?;
        columns.push(value.into_array(batch.num_rows()).ok()?);
    }
    Some(RecordBatch::try_new(input.schema(), columns).unwrap())
}

/// The pairs that pass, ascending; `None` when the host must decide.
fn passing(
    device: &dyn Device,
    program: &Program,
    build: Side,
    left: &RecordBatch,
    right: &RecordBatch,
) -> Option<Vec<(u32, u32)>> {
    let theta = MatchSpec {
        strategy: Strategy::Tiles,
        build,
        equalities: vec![],
        set: None,
        null_equality: NullEquality::NullEqualsNothing,
        comparisons: vec![],
        materialization: None,
    };
    let upload = |batch: &RecordBatch| {
        let needs = vec![Need::Now; batch.num_columns()];
        let column = |i: usize| {
            let array = batch.column(i);
            (vec![Arc::clone(array)], array.data_type().clone())
        };
        let uploaded = DeviceBatch::upload_async(device, batch.num_rows(), &needs, column).unwrap();
        uploaded.receive(device).unwrap()
    };
    let (left, right) = (upload(left), upload(right));
    let (indexed, probe) = match build {
        Side::Left => (&left, &right),
        Side::Right => (&right, &left),
    };
    let index = BuildIndex::build(device, &theta, Some(program), indexed, probe, true);
    let index = Arc::new(index.unwrap());
    let new = |wanted| {
        let index = Arc::clone(&index);
        Probe::new(device, &theta, Some(program), index, probe, wanted).unwrap()
    };
    let search = new(Wanted::Pairs);
    if !search.is_programmed() {
        return None;
    }
    let offsets = search.offsets(device).unwrap();
    let total = device.total(&offsets).unwrap();
    // In windows that begin inside a row's pairs, too.
    let mut pairs = vec![];
    for from in (0..total).step_by(37) {
        let len = (total - from).min(37) as usize;
        let rows = search.pairs(device, &offsets, from, len).unwrap();
        let ids = |side| device.read(rows.of(side)).unwrap();
        let (left, right) = (ids(Side::Left), ids(Side::Right));
        pairs.extend(left.iter().copied().zip(right.iter().copied()));
    }
    pairs.sort_unstable();
    let exists = new(Wanted::Exists).weights(device, build.other()).unwrap();
    for (row, exists) in device.read(&exists).unwrap().iter().enumerate() {
        let of = |pair: &&(u32, u32)| match build {
            Side::Left => pair.1 as usize == row,
            Side::Right => pair.0 as usize == row,
        };
        assert_eq!(*exists > 0, pairs.iter().any(|pair| of(&pair)));
    }
    Some(pairs)
}

struct Sides {
    left: RecordBatch,
    right: RecordBatch,
}

impl Sides {
    fn new(rng: &mut StdRng, left: usize, right: usize) -> Self {
        Self {
            left: side(rng, "l", left),
            right: side(rng, "r", right),
        }
    }

    fn schema(&self) -> SchemaRef {
        let (left, right) = (self.left.schema(), self.right.schema());
        let all: Vec<_> = left
            .fields()
            .iter()
            .chain(right.fields())
            .cloned()
            .collect();
        Arc::new(Schema::new(all))
    }

    fn filter(&self, expr: &Expr) -> JoinFilter {
        let columns = |side, n| (0..n).map(move |index| ColumnIndex { index, side });
        let indices = columns(JoinSide::Left, TYPES.len())
            .chain(columns(JoinSide::Right, TYPES.len()))
            .collect();
        JoinFilter::new(Arc::clone(expr), indices, self.schema())
    }

    /// What DataFusion says of a pair; `None` for an error.
    fn expected(&self, expr: &Expr, left: usize, right: usize) -> Option<bool> {
        let (left, right) = (self.left.slice(left, 1), self.right.slice(right, 1));
        let columns: Vec<ArrayRef> = left
            .columns()
            .iter()
            .chain(right.columns())
            .cloned()
            .collect();
        let pair = RecordBatch::try_new(self.schema(), columns).unwrap();
        let value = expr.evaluate(&pair).ok()?.into_array(1).ok()?;
        Some(value.as_boolean().iter().next().unwrap() == Some(true))
    }
}

#[derive(Default)]
struct Tally {
    compiled: usize,
    pairs: usize,
    failing: usize,
    /// Pairs left to the host on which DataFusion does not fail.
    left: usize,
}

fn check(device: &dyn Device, sides: &Sides, expr: &Expr, build: Side, tally: &mut Tally) {
    let mut left = SideInput::new(sides.left.schema());
    let mut right = SideInput::new(sides.right.schema());
    let filter = sides.filter(expr);
    let Some(program) = compile(&[filter], &mut left, &mut right).unwrap() else {
        return;
    };
    let evaluated = (
        evaluated(&left, &sides.left),
        evaluated(&right, &sides.right),
    );
    let (Some(left), Some(right)) = evaluated else {
        return;
    };
    tally.compiled += 1;
    let whole = passing(device, &program, build, &left, &right);
    let mut expected = vec![];
    for l in 0..left.num_rows() {
        for r in 0..right.num_rows() {
            tally.pairs += 1;
            let said = sides.expected(expr, l, r);
            if said == Some(true) {
                expected.push((l as u32, r as u32));
            }
            if whole.is_some() {
                assert!(said.is_some(), "{expr} fails on the pair {l}, {r}");
                continue;
            }
            // Pair by pair: where it decides, it is right.
            let pair = (left.slice(l, 1), right.slice(r, 1));
            let given = passing(device, &program, build, &pair.0, &pair.1);
            match (said, given) {
                (None, given) => {
                    tally.failing += 1;
                    assert_eq!(given, None, "{expr} fails on the pair {l}, {r}");
                }
                (Some(_), None) => tally.left += 1,
                (Some(said), Some(given)) => {
                    assert_eq!(said, !given.is_empty(), "{expr} on {pair:?}")
                }
            }
        }
    }
    if let Some(whole) = whole {
        assert_eq!(whole, expected, "{expr}\n{program:#?}");
    }
}

fn device() -> HostDevice {
    HostDevice::new(Budget::new(u64::MAX)).unwrap()
}

#[test]
fn programs_say_what_datafusion_says() {
    let device = device();
    let rng = &mut StdRng::seed_from_u64(7);
    let mut tally = Tally::default();
    for i in 0..4000 {
        let sides = Sides::new(rng, 7, 6);
        let mut generator = Generator {
            schema: sides.schema(),
            rng,
        };
        let expr = generator.any(&DataType::Boolean, 1 + i % 4);
        let build = if i % 2 == 0 { Side::Left } else { Side::Right };
        check(&device, &sides, &expr, build, &mut tally);
    }
    // Most of it compiles, and little is left to the host for nothing.
    assert!(tally.compiled > 2500, "{} compile", tally.compiled);
    assert!(tally.failing > 500, "{} pairs fail", tally.failing);
    assert!(tally.left * 10 < tally.pairs, "{} pairs left", tally.left);
}

/// Ranges longer than a block, and just at the lengths where candidates are gathered otherwise.
#[test]
fn programs_over_long_ranges() {
    let device = device();
    let rng = &mut StdRng::seed_from_u64(11);
    let mut tally = Tally::default();
    for (i, rows) in [63, 64, 65, 511, 512, 513, 1100].into_iter().enumerate() {
        let sides = Sides::new(rng, rows, 3);
        let sides = Sides {
            // Some rows without NULLs.
            left: concat_batches(
                &sides.left.schema(),
                &[sides.left.slice(0, 1), sides.left.clone()],
            )
            .unwrap(),
            ..sides
        };
        let column = |name: &str, index| Arc::new(Column::new(name, index)) as Expr;
        let left = TYPES.len();
        let sum = BinaryExpr::new(column("l", 2), Operator::Plus, column("r", left + 2));
        let smaller = BinaryExpr::new(Arc::new(sum), Operator::Lt, column("l", 2));
        let or = BinaryExpr::new(Arc::new(smaller), Operator::Or, column("r", left + 10));
        let build = if i % 2 == 0 { Side::Left } else { Side::Right };
        check(&device, &sides, &(Arc::new(or) as Expr), build, &mut tally);
    }
    assert_eq!(tally.compiled, 7);
}

#[test]
fn what_does_not_compile_is_left() {
    let fields = |names: [&str; 2]| {
        let fields = names.map(|name| Field::new(name, DataType::Utf8, true));
        Arc::new(Schema::new(fields.to_vec()))
    };
    let (mut left, mut right) = (
        SideInput::new(fields(["a", "b"])),
        SideInput::new(fields(["c", "d"])),
    );
    let indices = [
        (JoinSide::Left, 0),
        (JoinSide::Right, 1),
        (JoinSide::Left, 1),
    ];
    let indices = indices.map(|(side, index)| ColumnIndex { index, side });
    let schema = fields(["a", "d"]);
    let text = BinaryExpr::new(
        Arc::new(Column::new("a", 0)),
        Operator::StringConcat,
        Arc::new(Column::new("d", 1)),
    );
    let filter = |expr: Expr| JoinFilter::new(expr, indices.to_vec(), Arc::clone(&schema));
    let is_null = filter(Arc::new(IsNullExpr::new(Arc::new(text))));
    let one_sided = filter(Arc::new(IsNullExpr::new(Arc::new(Column::new("d", 1)))));
    let program = compile(std::slice::from_ref(&is_null), &mut left, &mut right).unwrap();
    assert_eq!(program, None);
    assert!(left.expressions.is_empty() && right.expressions.is_empty());
    // Beside another conjunct that does compile: one side's text as a Boolean column.
    let program = compile(&[is_null, one_sided], &mut left, &mut right).unwrap();
    assert_eq!(program.unwrap().covers, [1]);
    assert_eq!(right.expressions.len(), 1);
}
