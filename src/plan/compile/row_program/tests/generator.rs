//! Random expressions of all types.

use std::sync::Arc;

use arrow::datatypes::{DataType, IntervalMonthDayNano, Schema, SchemaRef, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::common::config::ConfigOptions;
use datafusion::logical_expr::{Operator, ScalarUDF};
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, IsNotNullExpr, IsNullExpr, NegativeExpr, NotExpr,
    TryCastExpr, in_list, lit,
};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use crate::plan::compile::row_program::tests::{Expr, dates};
use crate::plan::compile::test_expressions::{Generate, plain_values};

pub(crate) const TYPES: [DataType; 17] = [
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
    DataType::Timestamp(TimeUnit::Second, None),
    DataType::Decimal128(12, 2),
    DataType::Decimal128(20, 0),
    DataType::Decimal128(38, 10),
];

/// Numbers and Booleans, which are cast to one another.
const PLAIN: usize = 11;

const DECIMALS: std::ops::Range<usize> = 14..17;

/// Values of a type: NULL, small ones, and those at its ends.
pub(crate) fn values(data_type: &DataType) -> Vec<ScalarValue> {
    let mut values = plain_values(data_type);
    values.extend(match data_type {
        DataType::Date32 => [
            0,
            -1,
            59,
            60,
            11_016,
            11_017,
            -719_468,
            -719_529,
            2_932_896,
            i32::MAX,
        ]
        .map(|v| ScalarValue::Date32(Some(v)))
        .to_vec(),
        DataType::Timestamp(TimeUnit::Second, None) => [0, -1, 86_399, 86_400, -86_401, i64::MAX]
            .map(|v| ScalarValue::TimestampSecond(Some(v), None))
            .to_vec(),
        DataType::Timestamp(..) => [0, 5, -7, 951_782_400_000_000, i64::MIN]
            .map(|v| ScalarValue::TimestampMicrosecond(Some(v), None))
            .to_vec(),
        DataType::Decimal128(digits, scale) => {
            let most = 10i128.pow((*digits).into()) - 1;
            [0, 1, -1, 5, -50, 12_345, -6_789_051, most, -most]
                .map(|v| ScalarValue::Decimal128(Some(v), *digits, *scale))
                .to_vec()
        }
        _ => vec![],
    });
    values.push(ScalarValue::try_from(data_type).unwrap());
    values
}

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
        let index = TYPES.iter().position(|t| t == data_type).unwrap();
        Arc::new(Column::new(self.schema.field(index).name(), index))
    }

    fn operation(&mut self, data_type: &DataType, below: usize) -> Expr {
        if data_type.is_decimal() {
            return match self.rng.random_bool(0.2) {
                true => self.call(data_type, below),
                false => self.decimal(data_type, below),
            };
        }
        if *data_type == DataType::Boolean {
            return self.boolean(below);
        }
        if *data_type == DataType::Int32 && self.rng.random_bool(0.3) {
            return self.date_part(below);
        }
        if self.rng.random_bool(0.2) {
            return self.call(data_type, below);
        }
        if !data_type.is_integer() && !data_type.is_floating() {
            return self.time(data_type, below);
        }
        use Operator::{Divide, Minus, Modulo, Multiply, Plus};
        match self.rng.random_range(0..10) {
            0 if data_type.is_floating() => Arc::new(NegativeExpr::new(self.any(data_type, below))),
            0 if data_type.is_signed_integer() => Arc::new(NegativeExpr::new(self.leaf(data_type))),
            1 if self.rng.random_bool(0.4) => {
                let operand = self.some_decimal(below);
                self.cast(operand, data_type)
            }
            1 => {
                let from = self.one_of(&TYPES[..PLAIN]);
                let operand = self.any(&from, below);
                self.cast(operand, data_type)
            }
            2 if *data_type == DataType::Int64 => {
                let (left, right) = (self.any(&TYPES[11], below), self.any(&TYPES[11], below));
                Arc::new(BinaryExpr::new(left, Minus, right))
            }
            _ => {
                let op = [Plus, Minus, Multiply, Plus, Minus, Multiply, Divide, Modulo];
                let op = *op.choose(self.rng).unwrap();
                let (left, right) = (self.any(data_type, below), self.any(data_type, below));
                Arc::new(BinaryExpr::new(left, op, right))
            }
        }
    }
}

impl Generator<'_> {
    /// A decimal of some type, brought to `data_type` at last.
    fn decimal(&mut self, data_type: &DataType, depth: usize) -> Expr {
        let any = self.some_decimal(depth);
        match any.data_type(&self.schema).unwrap() == *data_type {
            true => any,
            false => self.cast(any, data_type),
        }
    }

    fn some_decimal(&mut self, depth: usize) -> Expr {
        if depth == 0 {
            let data_type = self.one_of(&TYPES[DECIMALS]);
            return self.leaf(&data_type);
        }
        use Operator::{Divide, Minus, Modulo, Multiply, Plus};
        match self.rng.random_range(0..5) {
            0 => {
                let from = self.one_of(&TYPES[..10]);
                let operand = self.any(&from, depth - 1);
                let to = self.one_of(&TYPES[DECIMALS]);
                self.cast(operand, &to)
            }
            1 if self.rng.random_bool(0.3) => {
                Arc::new(NegativeExpr::new(self.some_decimal(depth - 1)))
            }
            _ => {
                let (left, right) = (self.some_decimal(depth - 1), self.some_decimal(depth - 1));
                let op = [Plus, Minus, Multiply, Plus, Minus, Multiply, Divide, Modulo];
                let op = *op.choose(self.rng).unwrap();
                let binary: Expr = Arc::new(BinaryExpr::new(left, op, right));
                // Beyond 38 digits behind the point there is no type.
                match binary.data_type(&self.schema) {
                    Ok(_) => binary,
                    Err(_) => self.some_decimal(0),
                }
            }
        }
    }

    fn cast(&mut self, operand: Expr, to: &DataType) -> Expr {
        match self.rng.random() {
            true => Arc::new(CastExpr::new(operand, to.clone(), None)),
            false => Arc::new(TryCastExpr::new(operand, to.clone())),
        }
    }

    fn date_part(&mut self, below: usize) -> Expr {
        let of = self.one_of(&TYPES[11..14]);
        let part = *dates::PARTS.choose(self.rng).unwrap();
        let arguments = vec![lit(part), self.any(&of, below)];
        self.function(datafusion::functions::datetime::date_part(), arguments)
    }

    fn function(&self, of: Arc<ScalarUDF>, arguments: Vec<Expr>) -> Expr {
        function(of, arguments, &self.schema)
    }

    /// A call of a function that gives what it is given.
    fn call(&mut self, data_type: &DataType, below: usize) -> Expr {
        use datafusion::functions::{core, math};
        let some =
            |this: &mut Self, of: usize| (0..of).map(|_| this.any(data_type, below)).collect();
        let numbers = data_type.is_numeric();
        match self.rng.random_range(0..4) {
            0 if numbers => {
                let arguments = some(self, 1);
                self.function(math::abs(), arguments)
            }
            0 | 1 => {
                let arguments = some(self, 2);
                self.function(core::nullif(), arguments)
            }
            of => {
                let how_many = self.rng.random_range(1..4);
                let arguments = some(self, how_many);
                let function = if of == 2 {
                    core::greatest()
                } else {
                    core::least()
                };
                self.function(function, arguments)
            }
        }
    }

    /// A date or a timestamp.
    fn time(&mut self, data_type: &DataType, below: usize) -> Expr {
        use Operator::{Minus, Plus};
        match self.rng.random_range(0..4) {
            0 => self.leaf(data_type),
            1 if *data_type != DataType::Date32 => {
                let parts = [
                    "microsecond",
                    "SECOND",
                    "minute",
                    "hour",
                    "day",
                    "week",
                    "month",
                    "year",
                ];
                let part = *parts.choose(self.rng).unwrap();
                let arguments = vec![lit(part), self.any(data_type, below)];
                self.function(datafusion::functions::datetime::date_trunc(), arguments)
            }
            2 => {
                let from = self.one_of(&TYPES[11..14]);
                let operand = self.any(&from, below);
                match from.is_temporal()
                    && data_type.is_temporal()
                    && (from == DataType::Date32) != (*data_type == DataType::Date32)
                {
                    true => self.cast(operand, data_type),
                    false => self.leaf(data_type),
                }
            }
            _ => {
                let days = *[0, 1, -1, 30, 400, 90_000, i32::MAX]
                    .choose(self.rng)
                    .unwrap();
                let nanos = match *data_type == DataType::Date32 {
                    true => 0,
                    false => *[0, 1_000_000_000, -3_600_000_000_000, 7]
                        .choose(self.rng)
                        .unwrap(),
                };
                let interval = IntervalMonthDayNano::new(0, days, nanos);
                let interval = lit(ScalarValue::IntervalMonthDayNano(Some(interval)));
                let time = self.any(data_type, below);
                match self.rng.random_range(0..3) {
                    0 => Arc::new(BinaryExpr::new(interval, Plus, time)),
                    1 => Arc::new(BinaryExpr::new(time, Plus, interval)),
                    _ => Arc::new(BinaryExpr::new(time, Minus, interval)),
                }
            }
        }
    }

    fn boolean(&mut self, below: usize) -> Expr {
        use Operator::*;
        let compared = self.one_of(&TYPES);
        let bool = DataType::Boolean;
        match self.rng.random_range(0..12) {
            of @ (0 | 1) => {
                let (left, right) = (self.any(&bool, below), self.any(&bool, below));
                Arc::new(BinaryExpr::new(left, if of == 0 { And } else { Or }, right))
            }
            2 => Arc::new(NotExpr::new(self.any(&bool, below))),
            3 => Arc::new(IsNullExpr::new(self.any(&compared, below))),
            4 => Arc::new(IsNotNullExpr::new(self.any(&compared, below))),
            5 => {
                let from = self.one_of(&TYPES[..PLAIN]);
                let operand = self.any(&from, below);
                Arc::new(CastExpr::new(operand, bool, None))
            }
            6 => {
                let list = (0..self.rng.random_range(1..4))
                    .map(|_| lit(values(&compared).choose(self.rng).unwrap().clone()))
                    .collect();
                let value = self.any(&compared, below);
                let negated = self.rng.random();
                in_list(value, list, &negated, &self.schema).unwrap()
            }
            _ => {
                let ops = [
                    Eq,
                    NotEq,
                    Lt,
                    LtEq,
                    Gt,
                    GtEq,
                    IsDistinctFrom,
                    IsNotDistinctFrom,
                ];
                let op = *ops.choose(self.rng).unwrap();
                let (left, right) = (self.any(&compared, below), self.any(&compared, below));
                Arc::new(BinaryExpr::new(left, op, right))
            }
        }
    }
}

impl Generator<'_> {
    /// Of constants, of which some are NULL and some too long for a view.
    pub(crate) fn case_of_text(&mut self, below: usize) -> Expr {
        let data_type = self.one_of(&[DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View]);
        let text = |rng: &mut StdRng| -> Expr {
            let text = match rng.random_range(0..5) {
                0 => None,
                1 => Some("a constant that no view holds"),
                2 => Some(""),
                _ => Some(*["low", "high", "größer"].choose(rng).unwrap()),
            };
            let value = ScalarValue::Utf8(text.map(str::to_string));
            lit(value.cast_to(&data_type).unwrap())
        };
        let base = self.rng.random_bool(0.3).then(|| self.one_of(&TYPES));
        let when = base.clone().unwrap_or(DataType::Boolean);
        let branches = (0..self.rng.random_range(1..5))
            .map(|_| (self.any(&when, below), text(self.rng)))
            .collect();
        let base = base.map(|base| self.any(&base, below));
        let otherwise = self.rng.random_bool(0.7).then(|| text(self.rng));
        Arc::new(CaseExpr::try_new(base, branches, otherwise).unwrap())
    }
}

pub(crate) fn function(of: Arc<ScalarUDF>, arguments: Vec<Expr>, schema: &Schema) -> Expr {
    let options = Arc::new(ConfigOptions::default());
    Arc::new(ScalarFunctionExpr::try_new(of, arguments, schema, options).unwrap())
}
