//! Random conditions of all types.

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::common::config::ConfigOptions;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, IsNotNullExpr, IsNullExpr, NegativeExpr, NotExpr, TryCastExpr,
    in_list, lit,
};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use crate::plan::compile::pair_program::tests::Expr;
use crate::plan::compile::test_expressions::{Generate, plain_values};

pub(crate) const TYPES: [DataType; 13] = [
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
pub(crate) fn values(data_type: &DataType) -> Vec<ScalarValue> {
    let mut values = plain_values(data_type);
    values.extend(match data_type {
        DataType::Float32 => [-f32::NAN, f32::NEG_INFINITY, f32::MIN_POSITIVE / 2.0]
            .map(|v| ScalarValue::Float32(Some(v)))
            .to_vec(),
        DataType::Float64 => [-f64::NAN, f64::NEG_INFINITY, f64::MIN_POSITIVE / 2.0]
            .map(|v| ScalarValue::Float64(Some(v)))
            .to_vec(),
        DataType::Date32 => plain_values(&DataType::Int32)
            .iter()
            .map(|days| days.cast_to(data_type).unwrap())
            .collect(),
        DataType::Timestamp(..) => [0, 5, -7, i64::MAX]
            .map(|v| ScalarValue::TimestampMicrosecond(Some(v), None))
            .to_vec(),
        _ => vec![],
    });
    values.push(ScalarValue::try_from(data_type).unwrap());
    values
}

/// Makes expressions over the columns of both sides: left ones first.
pub(crate) struct Generator<'a> {
    pub(crate) rng: &'a mut StdRng,
    pub(crate) schema: SchemaRef,
}

impl Generate for Generator<'_> {
    const TYPES: &'static [DataType] = &TYPES;

    fn rng(&mut self) -> &mut StdRng {
        self.rng
    }

    fn leaf(&mut self, data_type: &DataType) -> Expr {
        if self.rng.random_bool(0.2) {
            return lit(values(data_type).choose(self.rng).unwrap().clone());
        }
        let at = TYPES.iter().position(|t| t == data_type).unwrap();
        let index = at + if self.rng.random() { TYPES.len() } else { 0 };
        Arc::new(Column::new(self.schema.field(index).name(), index))
    }

    fn operation(&mut self, data_type: &DataType, below: usize) -> Expr {
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
}

impl Generator<'_> {
    fn binary(&mut self, op: Operator, data_type: &DataType, depth: usize) -> Expr {
        let (left, right) = (self.any(data_type, depth), self.any(data_type, depth));
        Arc::new(BinaryExpr::new(left, op, right))
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
}
