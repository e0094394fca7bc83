//! [`JoinSource`]: what a join node of DataFusion says.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::Field;
use datafusion::common::{JoinType, NullEquality};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::JoinFilter;

use crate::plan::compile::sides::map_columns;
use crate::plan::sources::set_value::SetCall;

pub(crate) type ExprPair = (Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>);

/// A join node of DataFusion, whatever its algorithm.
#[derive(Debug, Clone)]
pub(crate) struct JoinSource {
    pub left: Arc<dyn ExecutionPlan>,
    pub right: Arc<dyn ExecutionPlan>,
    pub kind: JoinType,
    pub on: Vec<ExprPair>,
    pub null_equality: NullEquality,
    pub filter: Option<JoinFilter>,
    /// Indexes of the output columns, among those of the unprojected join.
    pub projection: Option<Vec<usize>>,
    pub fetch: Option<usize>,
    /// Whether DataFusion's node tests every pair.
    pub tests_all_pairs: bool,
    /// Of the output schema.
    pub metadata: HashMap<String, String>,
    /// Whether it is a NOT IN: an anti join of one key, in which a NULL may equal anything.
    pub null_aware: bool,
    /// Which partners each row of the right side keeps.
    pub partners: Option<PartnerSource>,
    /// Values of sets that come out behind the columns of both sides.
    pub values: Vec<ValueSource>,
}

/// A function of two lists: of those by which a set join matches, or of the same ones for all values of another join.
#[derive(Debug, Clone)]
pub(crate) struct ValueSource {
    pub call: SetCall,
    /// The call, over the columns of the unprojected join.
    pub expr: Arc<dyn PhysicalExpr>,
    pub name: String,
}

/// The partners that each row of a join's right side keeps: the first ones in an order.
#[derive(Debug, Clone)]
pub(crate) struct PartnerSource {
    pub most: u32,
    /// The order, over the columns of the unprojected join.
    pub keys: Vec<PhysicalSortExpr>,
    /// Whether no row may have more than `most` partners. Otherwise a node above drops those that are too many, and partners that are as good
    /// as the last one must be kept.
    pub is_final: bool,
}

impl ValueSource {
    /// NULL in rows that are padded.
    pub(crate) fn field(&self) -> Field {
        Field::new(&self.name, self.call.value.data_type(), true)
    }
}

impl JoinSource {
    /// An inner or outer join of all pairs, of which every one is tested, without a condition: what a node says besides is set by its reader.
    pub(crate) fn new(
        left: &Arc<dyn ExecutionPlan>,
        right: &Arc<dyn ExecutionPlan>,
        kind: JoinType,
    ) -> Self {
        Self {
            left: Arc::clone(left),
            right: Arc::clone(right),
            kind,
            on: vec![],
            null_equality: NullEquality::NullEqualsNothing,
            filter: None,
            projection: None,
            fetch: None,
            tests_all_pairs: true,
            metadata: HashMap::new(),
            null_aware: false,
            partners: None,
            values: vec![],
        }
    }

    /// The same join with its sides exchanged, and the same output.
    pub(crate) fn swapped(self) -> datafusion::error::Result<Self> {
        let widths = (
            self.left.schema().fields().len(),
            self.right.schema().fields().len(),
        );
        let swapped = |column: usize| match column < widths.0 {
            true => column + widths.1,
            false => column - widths.0,
        };
        let all: Vec<usize> = match self.projection {
            Some(columns) => columns,
            None => (0..widths.0 + widths.1).collect(),
        };
        let partners = match self.partners {
            None => None,
            Some(partners) => {
                let keys = partners.keys.into_iter().map(|key| {
                    let expr = map_columns(&key.expr, |column| {
                        Column::new(column.name(), swapped(column.index()))
                    })?;
                    Ok(PhysicalSortExpr { expr, ..key })
                });
                Some(PartnerSource {
                    keys: keys.collect::<datafusion::error::Result<_>>()?,
                    ..partners
                })
            }
        };
        Ok(Self {
            left: self.right,
            right: self.left,
            kind: self.kind.swap(),
            on: self
                .on
                .into_iter()
                .map(|(left, right)| (right, left))
                .collect(),
            filter: self.filter.map(|filter| filter.swap()),
            projection: Some(all.into_iter().map(swapped).collect()),
            partners,
            ..self
        })
    }
}
