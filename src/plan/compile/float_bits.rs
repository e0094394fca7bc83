//! [`FloatBits`]: floats as the integers of their bits, by which DataFusion distinguishes values.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;

use crate::exec::aggregate::distinct::same_bits;

/// The bits of a float: two values are equal where their bits are, zeros and NaN among them. `exec/aggregate/distinct.rs` makes floats of them again.
#[derive(Debug)]
pub(crate) struct FloatBits {
    value: Arc<dyn PhysicalExpr>,
}

impl FloatBits {
    pub(crate) fn new(value: Arc<dyn PhysicalExpr>) -> Self {
        Self { value }
    }
}

impl PartialEq for FloatBits {
    fn eq(&self, other: &Self) -> bool {
        self.value.eq(&other.value)
    }
}

impl Eq for FloatBits {}

impl Hash for FloatBits {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.value.hash(state);
    }
}

impl fmt::Display for FloatBits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bits({})", self.value)
    }
}

impl PhysicalExpr for FloatBits {
    fn data_type(&self, input_schema: &Schema) -> Result<DataType> {
        Ok(bits_of(&self.value.data_type(input_schema)?))
    }

    fn nullable(&self, input_schema: &Schema) -> Result<bool> {
        self.value.nullable(input_schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let floats = self.value.evaluate(batch)?.into_array(batch.num_rows())?;
        let bits = same_bits(&floats, &bits_of(floats.data_type()))?;
        Ok(ColumnarValue::Array(bits))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.value]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(match children.pop() {
            Some(value) => Arc::new(Self { value }),
            None => self,
        })
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bits(")?;
        self.value.fmt_sql(f)?;
        write!(f, ")")
    }
}

/// The integers as wide as a type of floats.
fn bits_of(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Float16 => DataType::Int16,
        DataType::Float32 => DataType::Int32,
        _ => DataType::Int64,
    }
}
