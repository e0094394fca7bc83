//! Random expressions of all types: the program that they compile to, run on the CPU backend, beside DataFusion's own
//! evaluation of each pair.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{JoinSide, NullEquality, ScalarValue};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, IsNullExpr};
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use crate::device::batches::batch::DeviceBatch;
use crate::device::budget::Budget;
use crate::device::host::device::HostDevice;
use crate::device::lazy_column::Need;
use crate::device::primitives::device::Device;
use crate::ir::pair_program::Program;
use crate::ir::side::Side;
use crate::ops::build_index::BuildIndex;
use crate::ops::probe::{Probe, ProbeResult};
use crate::plan::compile::pair_program::compile;
use crate::plan::compile::pair_program::tests::generator::{Generator, TYPES, values};
use crate::plan::compile::test_expressions::Generate;
use crate::spec::join::{MatchMethod, MatchSpec, SideInput};

type Expr = Arc<dyn PhysicalExpr>;

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
        has_values: false,
        compared_lists: None,
        method: MatchMethod::Tiles,
        build,
        equalities: vec![],
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
    let index = BuildIndex::build(device, &theta, Some(program), indexed, probe);
    let index = Arc::new(index.unwrap());
    let new = |wanted| {
        let index = Arc::clone(&index);
        Probe::new(device, &theta, Some(program), index, probe, wanted).unwrap()
    };
    let search = new(ProbeResult::Pairs);
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
    let exists = new(ProbeResult::Exists)
        .weights(device, build.other())
        .unwrap();
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

pub(crate) mod generator;
