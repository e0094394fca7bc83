//! What the random expressions of programs over pairs and over rows are made of alike: values of each type, and CASE.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::physical_expr::expressions::CaseExpr;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use crate::plan::compile::compiler::Expr;

/// Small values of a number and those at the ends of its type, or both Booleans; nothing of other types.
pub(crate) fn plain_values(data_type: &DataType) -> Vec<ScalarValue> {
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
                <$t>::INFINITY,
                <$t>::MAX,
            ]
            .map(|v| ScalarValue::$variant(Some(v)))
            .to_vec()
        };
    }
    match data_type {
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
        _ => vec![],
    }
}

/// Makes random expressions.
pub(crate) trait Generate {
    /// The types of columns, which a CASE compares too.
    const TYPES: &'static [DataType];

    fn rng(&mut self) -> &mut StdRng;

    /// A column or a constant.
    fn leaf(&mut self, data_type: &DataType) -> Expr;

    /// An operation on expressions of depth `below`.
    fn operation(&mut self, data_type: &DataType, below: usize) -> Expr;

    /// An expression of `data_type` whose operations are nested at most `depth` deep.
    fn any(&mut self, data_type: &DataType, depth: usize) -> Expr {
        if depth == 0 || self.rng().random_bool(0.15) {
            return self.leaf(data_type);
        }
        match self.rng().random_bool(0.12) {
            true => self.case(data_type, depth - 1),
            false => self.operation(data_type, depth - 1),
        }
    }

    fn one_of(&mut self, types: &[DataType]) -> DataType {
        types.choose(self.rng()).unwrap().clone()
    }

    fn case(&mut self, data_type: &DataType, below: usize) -> Expr {
        let base = self
            .rng()
            .random_bool(0.4)
            .then(|| self.one_of(Self::TYPES));
        let when = base.clone().unwrap_or(DataType::Boolean);
        let branches = (0..self.rng().random_range(1..4))
            .map(|_| (self.any(&when, below), self.any(data_type, below)))
            .collect();
        let base = base.map(|base| self.any(&base, below));
        let otherwise = self
            .rng()
            .random_bool(0.7)
            .then(|| self.any(data_type, below));
        Arc::new(CaseExpr::try_new(base, branches, otherwise).unwrap())
    }
}
