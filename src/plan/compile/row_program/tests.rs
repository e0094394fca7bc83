//! Random expressions of all types: the program that they compile to, run on the CPU backend, beside DataFusion's own evaluation.

use std::sync::Arc;

use arrow::array::{ArrayRef, Date32Array, RecordBatch, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, IntervalMonthDayNano, Schema, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::functions::datetime::date_trunc::DateTruncFunc;
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

use crate::device::batches::batch::DeviceBatch;
use crate::device::budget::Budget;
use crate::device::host::device::HostDevice;
use crate::device::primitives::device::Device;
use crate::error::BowtieError;
use crate::exec::rows::evaluate::on_device;
use crate::plan::compile::compiler::is_of;
use crate::plan::compile::row_program::compile;

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
    let up = |column: &ArrayRef| device.upload(&[Arc::clone(column)]).unwrap();
    let batch = DeviceBatch::of(batch.num_rows(), batch.columns().iter().map(up));
    let made = match on_device(device, &compiled, &batch) {
        Err(BowtieError::NeedsDataFusion) => return Some(None),
        made => made.unwrap(),
    };
    let made = made.iter().map(|column| column.download(device).unwrap());
    Some(Some(made.collect()))
}

/// Whether a part without a program truncates times, which overflows in DataFusion at the ends of what a timestamp can say.
fn truncates_by_distinct_values(expressions: &[Expr], batch: &RecordBatch) -> bool {
    fn truncates(expr: &Expr) -> bool {
        is_of::<DateTruncFunc>(expr) || expr.children().into_iter().any(truncates)
    }
    compile(expressions, &batch.schema()).is_ok_and(|compiled| {
        let parts = compiled.distinct.iter();
        parts.map(|part| &part.expression).any(truncates)
    })
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
        if truncates_by_distinct_values(&expressions, &batch) {
            continue;
        }
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

/// DataFusion wraps the negatives of a column, but fails on the least integer where one value stands for all rows of a batch.
#[test]
fn the_negative_of_a_case_of_integers_is_declined() {
    let schema = Arc::new(Schema::new(vec![
        Field::new("v", DataType::Int32, true),
        Field::new("d", DataType::Float64, true),
        Field::new("f", DataType::Boolean, true),
    ]));
    let column = |name: &str| Arc::new(Column::new_with_schema(name, &schema).unwrap()) as Expr;
    let case = |value: Expr, otherwise: Expr| -> Expr {
        let branch = vec![(column("f"), value)];
        Arc::new(CaseExpr::try_new(None, branch, Some(otherwise)).unwrap())
    };
    let compiles = |expr: Expr| compile(&[expr], &schema).is_ok();
    let negative = |expr: Expr| -> Expr { Arc::new(NegativeExpr::new(expr)) };
    assert!(compiles(negative(column("v"))));
    assert!(compiles(case(column("v"), lit(i32::MIN))));
    assert!(!compiles(negative(case(column("v"), lit(i32::MIN)))));
    assert!(compiles(negative(case(column("d"), lit(0.0)))));
    // It fails on no row, so that it may stand behind an AND.
    let positive = BinaryExpr::new(
        negative(case(column("d"), lit(0.0))),
        Operator::Gt,
        lit(0.0),
    );
    let and: Expr = Arc::new(BinaryExpr::new(
        column("f"),
        Operator::And,
        Arc::new(positive),
    ));
    assert!(compiles(and));
}
