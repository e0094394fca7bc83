//! [`Numbering`]: a column with the numbers of a plan's rows, and the plan without it, where no node needs the numbers any more.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions_window::row_number::RowNumber;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::windows::BoundedWindowAggExec;

use crate::plan::compile::permitted::{is_free, merged};
use crate::plan::partners::ranked::is_function;
use crate::plan::sources::join_nodes::join_source;
use crate::plan::statistics::origin::below;

type Plan = Arc<dyn ExecutionPlan>;

/// A column that numbers the rows of a plan.
pub(super) struct Numbering<'a> {
    plan: &'a Plan,
    pub(super) column: usize,
}

/// `column` of `plan`, if it holds the numbers of all rows.
pub(super) fn numbering(plan: &Plan, column: usize) -> Option<Numbering<'_>> {
    let (mut node, mut at) = (plan, column);
    loop {
        if let Some(window) = node.downcast_ref::<BoundedWindowAggExec>() {
            let of_window = at.checked_sub(window.input().schema().fields().len());
            return match of_window {
                Some(i) => {
                    let expr = window.window_expr().get(i)?;
                    let numbers = is_function::<RowNumber>(expr) && expr.partition_by().is_empty();
                    numbers.then_some(Numbering { plan, column })
                }
                // Other columns are those of the rows below.
                None => {
                    (node, at) = (window.input(), at);
                    continue;
                }
            };
        }
        // A join repeats rows.
        if join_source(node).is_some() {
            return None;
        }
        (node, at) = below(node, at)?;
    }
}

impl Numbering<'_> {
    /// The plan without the numbers: the column stays, with a constant. As it is if other columns or nodes need them.
    pub(super) fn without(&self) -> Result<Plan> {
        let (mut node, mut columns): (&Plan, Vec<Arc<dyn PhysicalExpr>>) = {
            let schema = self.plan.schema();
            let columns = schema.fields().iter().enumerate();
            let columns = columns
                .map(|(i, field)| Arc::new(Column::new(field.name(), i)) as Arc<dyn PhysicalExpr>);
            (self.plan, columns.collect())
        };
        while let Some(projection) = node.downcast_ref::<ProjectionExec>() {
            let computed = projection.expr().iter();
            let computed: Vec<_> = computed.map(|of| Arc::clone(&of.expr)).collect();
            match columns_merged(&columns, &computed) {
                Some(below) => columns = below,
                None => return Ok(Arc::clone(self.plan)),
            }
            node = projection.input();
        }
        let Some(window) = node.downcast_ref::<BoundedWindowAggExec>() else {
            return Ok(Arc::clone(self.plan));
        };
        let of_input = window.input().schema().fields().len();
        let schema = self.plan.schema();
        let mut projected = vec![];
        for (i, (expr, field)) in columns.iter().zip(schema.fields()).enumerate() {
            let reads_window = collect_columns(expr)
                .into_iter()
                .any(|column| column.index() >= of_input);
            let expr: Arc<dyn PhysicalExpr> = match (i == self.column, reads_window) {
                (true, _) => unread(&DataType::Boolean)?,
                (false, true) => return Ok(Arc::clone(self.plan)),
                (false, false) => Arc::clone(expr),
            };
            projected.push(ProjectionExpr {
                expr,
                alias: field.name().clone(),
            });
        }
        let input = Arc::clone(window.input());
        Ok(Arc::new(ProjectionExec::try_new(projected, input)?))
    }
}

/// Columns of a projection over what that projection computes them `from`. `None` if one of them is computed above it, or would be computed
/// twice here, which DataFusion keeps projections apart for.
fn columns_merged(
    above: &[Arc<dyn PhysicalExpr>],
    from: &[Arc<dyn PhysicalExpr>],
) -> Option<Vec<Arc<dyn PhysicalExpr>>> {
    let mut computed = vec![false; from.len()];
    for column in above {
        let at = column.downcast_ref::<Column>()?.index();
        if !is_free(from.get(at)?) && std::mem::replace(&mut computed[at], true) {
            return None;
        }
    }
    merged(above, from)
}

/// In place of a column that is not read.
pub(super) fn unread(data_type: &DataType) -> Result<Arc<dyn PhysicalExpr>> {
    Ok(Arc::new(Literal::new(ScalarValue::try_new_null(
        data_type,
    )?)))
}
