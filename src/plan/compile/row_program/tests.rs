//! Random expressions of all types: the program that they compile to, run on the host device, beside DataFusion's own evaluation.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Int32Array, RecordBatch, TimestampMillisecondArray,
};
use arrow::datatypes::{DataType, IntervalMonthDayNano, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, NegativeExpr, lit,
};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::ir::program::Kind;
use crate::plan::compile::row_program::tests::generator::{Generator, TYPES, values};
use crate::plan::compile::test_expressions::Generate;

pub(crate) mod dates;
pub(crate) mod generator;
pub(crate) mod text;

use crate::device::budget::Budget;
use crate::device::data::column::Column as DeviceColumn;
use crate::device::host::device::HostDevice;
use crate::device::primitives::device::Device;
use crate::error::BowtieError;
use crate::ir::row_program::RowSource;
use crate::plan::compile::row_program::compile;
use crate::spec::rows::ExpressionColumn;

type Expr = Arc<dyn PhysicalExpr>;

/// A column of each type, most of whose values are small ones where `tame`.
fn table(rng: &mut StdRng, rows: usize, tame: bool) -> RecordBatch {
    let columns = TYPES.iter().map(|data_type| {
        let values = values(data_type);
        let few = if tame {
            values.len().min(4)
        } else {
            values.len()
        };
        let drawn = (0..rows).map(|_| match rng.random_bool(0.1) {
            true => values[values.len() - 1].clone(),
            false => values[..few].choose(rng).unwrap().clone(),
        });
        let array = ScalarValue::iter_to_array(drawn.collect::<Vec<_>>()).unwrap();
        (data_type.to_string(), array, true)
    });
    RecordBatch::try_from_iter_with_nullable(columns.collect::<Vec<_>>()).unwrap()
}

/// What the device makes of expressions; `None` when the host must decide.
fn made(
    device: &dyn Device,
    expressions: &[Expr],
    batch: &RecordBatch,
) -> Option<Option<Vec<ArrayRef>>> {
    let compiled = compile(expressions, &batch.schema()).ok()?;
    let up = |i: &usize| device.upload(&[Arc::clone(batch.column(*i))]).unwrap();
    let columns = compiled.program.columns.iter().map(|source| match source {
        RowSource::Column(i) => up(i),
        RowSource::Test(test) => {
            let other = test.other().map(|other| up(&other));
            let truths = device.test_text(&up(&test.column), other.as_deref(), test);
            Arc::new(truths.unwrap())
        }
    });
    let columns: Vec<Arc<DeviceColumn>> = columns.collect();
    let columns: Vec<&DeviceColumn> = columns.iter().map(AsRef::as_ref).collect();
    let outputs = match device.map(batch.num_rows(), &compiled.program, &columns) {
        Err(BowtieError::NeedsDataFusion) => return Some(None),
        outputs => outputs.unwrap(),
    };
    let mut outputs: Vec<Option<DeviceColumn>> = outputs.into_iter().map(Some).collect();
    let made = compiled.columns.iter().map(|column| match column {
        ExpressionColumn::Program(i) => device.download(outputs[*i].as_ref().unwrap()).unwrap(),
        ExpressionColumn::Choice { output, values } => {
            let numbers = outputs[*output].take().unwrap().into_row_ids().unwrap();
            let values = device.upload(&[Arc::clone(values)]).unwrap();
            let chosen = device.gather(&values, &numbers).unwrap();
            device.download(&chosen).unwrap()
        }
        ExpressionColumn::Slice { column, slice } => {
            let sliced = device.slice_text(&up(column), *slice).unwrap();
            device.download(&sliced).unwrap()
        }
    });
    Some(Some(made.collect()))
}

#[test]
fn programs_say_what_expressions_say() {
    let device = HostDevice::new(Budget::new(u64::MAX)).unwrap();
    let (mut compiled, mut decided, mut of_text) = (0, 0, 0);
    let turns = 4000;
    for seed in 0..turns {
        let rng = &mut StdRng::seed_from_u64(seed);
        let rows = *[1, 3, 40, 700].choose(rng).unwrap();
        let batch = table(rng, rows, seed % 2 == 0);
        let mut generator = Generator {
            rng,
            schema: batch.schema(),
        };
        let expressions: Vec<Expr> = (0..1 + seed % 2)
            .map(|_| {
                if generator.rng.random_bool(0.1) {
                    return generator.case_of_text(3);
                }
                let data_type = generator.one_of(&TYPES);
                generator.any(&data_type, 4)
            })
            .collect();
        let is_text = |expr: &Expr| Kind::of(&expr.data_type(&batch.schema()).unwrap()).is_none();
        let Some(made) = made(&device, &expressions, &batch) else {
            continue;
        };
        compiled += 1;
        of_text += u64::from(expressions.iter().any(is_text));
        let Some(made) = made else {
            continue;
        };
        decided += 1;
        for (expression, given) in expressions.iter().zip(made) {
            let expected = expression.evaluate(&batch).and_then(|v| v.into_array(rows));
            let expected = expected.unwrap_or_else(|e| panic!("seed {seed}: {expression}: {e}"));
            assert_eq!(&given, &expected, "seed {seed}: {expression}");
        }
    }
    assert!(compiled > turns / 3, "{compiled} of {turns} compile");
    assert!(decided > turns / 6, "{decided} of {turns} are decided");
    assert!(of_text > turns / 40, "{of_text} of {turns} make text");
}

/// DataFusion wraps the negatives of a column, but fails on the least integer where it has one value for all rows.
#[test]
fn a_negated_case_is_left_for_the_least_integer_only() {
    let device = HostDevice::new(Budget::new(u64::MAX)).unwrap();
    let batch = |values: Vec<Option<i32>>| {
        let flags = BooleanArray::from(vec![true; values.len()]);
        let columns: [(_, ArrayRef); 2] = [
            ("v", Arc::new(Int32Array::from(values))),
            ("f", Arc::new(flags)),
        ];
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, of)| (name, of, true)))
    };
    let small = batch(vec![Some(7), None, Some(-3)]).unwrap();
    let least = batch(vec![Some(7), Some(i32::MIN)]).unwrap();
    let flag = || Arc::new(Column::new("f", 1)) as Expr;
    let value = Arc::new(Column::new("v", 0)) as Expr;
    let case = CaseExpr::try_new(None, vec![(flag(), value)], Some(lit(0))).unwrap();
    let negative: Expr = Arc::new(NegativeExpr::new(Arc::new(case)));
    let given = made(&device, &[Arc::clone(&negative)], &small).unwrap();
    let expected = negative.evaluate(&small).unwrap().into_array(3).unwrap();
    assert_eq!(&given.unwrap()[0], &expected);
    assert!(matches!(
        made(&device, &[Arc::clone(&negative)], &least),
        Some(None)
    ));
    // It may fail on rows that the left operand decides.
    let positive = Arc::new(BinaryExpr::new(negative, Operator::Gt, lit(0)));
    let and: Expr = Arc::new(BinaryExpr::new(flag(), Operator::And, positive));
    assert!(made(&device, &[and], &small).is_none());
}
