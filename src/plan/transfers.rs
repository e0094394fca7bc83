//! Borders between device nodes fall away: an upload of what a download brings down, directly or through nodes of DataFusion that a
//! device node can stand for.
//!
//! ```text
//! BowtieJoinExec                              BowtieJoinExec
//!   BowtieUploadExec                 ──►        BowtieJoinExec: … columns of the projection
//!     ProjectionExec: plain columns             …
//!       BowtieDownloadExec
//!         BowtieJoinExec
//!   …
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::fmt_sql;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::union::UnionExec;

use crate::device::primitives::device::Device;
use crate::exec::join::node::JoinOperator;
use crate::exec::node::{DeviceNode, DeviceOperator};
use crate::exec::rows::filter::FilterOperator;
use crate::exec::rows::projection::ProjectionOperator;
use crate::exec::rows::union::UnionOperator;
use crate::exec::transfer::chunk_limits::Role;
use crate::exec::transfer::download::BowtieDownloadExec;
use crate::exec::transfer::upload::UploadOperator;
use crate::plan::compile::fallible::cannot_fail;
use crate::plan::compile::row_program;
use crate::plan::recognise::sides::map_columns;
use crate::spec::rows::{FilterSpec, Projected, ProjectionSpec};

type Plan = Arc<dyn ExecutionPlan>;

/// A node between two device nodes whose expressions have no program, so that rows are brought to the host for it.
pub(crate) struct Border {
    pub node: String,
    /// The first such expression.
    pub expression: String,
}

impl Border {
    /// `None` where all of `expressions` compile.
    fn of(node: &str, expressions: &[Arc<dyn PhysicalExpr>], input: &SchemaRef) -> Option<Self> {
        let alone = |expression| row_program::compile(std::slice::from_ref(expression), input);
        let without = expressions
            .iter()
            .find(|expression| alone(expression).is_none());
        // All of them together may need too many registers or instructions.
        let expression = without.or(expressions.first())?;
        Some(Self {
            node: node.to_string(),
            expression: fmt_sql(expression.as_ref()).to_string(),
        })
    }
}

/// The plan without borders between device nodes, as far as expressions compile; `borders` are what is left of them for want of that.
pub(crate) fn remove_borders(plan: Plan, borders: &mut Vec<Border>) -> Result<Plan> {
    plan.transform_up(|node| {
        let Some((upload, operator)) = DeviceNode::find::<UploadOperator>(&node) else {
            return Ok(Transformed::no(node));
        };
        let [input] = upload.inputs() else {
            return Ok(Transformed::no(node));
        };
        let below = match on_device(input, upload.device(), borders)? {
            Some(below) => evaluated((upload, operator), input, below, borders)?,
            None => None,
        };
        Ok(match below {
            Some(below) => Transformed::yes(below),
            None => Transformed::no(node),
        })
    })
    .data()
}

/// A node of an operator above device nodes.
fn above(
    operator: impl DeviceOperator,
    inputs: Vec<Plan>,
    device: &Arc<dyn Device>,
) -> Result<Plan> {
    let device = Arc::clone(device);
    Ok(Arc::new(DeviceNode::try_new(
        Arc::new(operator),
        inputs,
        device,
    )?))
}

/// The rows of `plan` as they lie on `device`, where all that makes them is there.
fn on_device(
    plan: &Plan,
    device: &Arc<dyn Device>,
    borders: &mut Vec<Border>,
) -> Result<Option<Plan>> {
    if let Some(download) = plan.downcast_ref::<BowtieDownloadExec>() {
        if !Arc::ptr_eq(download.device().budget(), device.budget()) {
            return Ok(None);
        }
        return DeviceNode::with_output_on_device(download.input());
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        return match on_device(projection.input(), device, borders)? {
            Some(below) => projected(projection, below, device, borders),
            None => Ok(None),
        };
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        return match on_device(filter.input(), device, borders)? {
            Some(below) => filtered(filter, below, device, borders),
            None => Ok(None),
        };
    }
    if let Some(union) = plan.downcast_ref::<UnionExec>() {
        let mut inputs = vec![];
        for input in union.inputs() {
            match on_device(input, device, borders)? {
                Some(below) => inputs.push(below),
                None => return Ok(None),
            }
        }
        return above(UnionOperator(union.schema()), inputs, device).map(Some);
    }
    Ok(None)
}

/// The expressions of an upload, beside the columns of a device node; `None` where the device cannot evaluate them.
fn evaluated(
    (upload, operator): (&DeviceNode, &UploadOperator),
    input: &Plan,
    below: Plan,
    borders: &mut Vec<Border>,
) -> Result<Option<Plan>> {
    let expressions = &operator.columns.expressions;
    if expressions.is_empty() {
        return Ok(Some(below));
    }
    let input = input.schema();
    // A join may do without a value on rows that it drops, and asks for the error later, if at all.
    let may_fail = |expression| !cannot_fail(expression, &input);
    if operator.role != Role::Grouped && expressions.iter().any(may_fail) {
        return Ok(None);
    }
    let Some(compiled) = row_program::compile(expressions, &input) else {
        borders.extend(Border::of(upload.name(), expressions, &input));
        return Ok(None);
    };
    let columns = (0..input.fields().len()).map(Projected::Input);
    let made = (0..expressions.len()).map(Projected::Made);
    let spec = ProjectionSpec {
        columns: columns.chain(made).collect(),
        made: Some(compiled),
        schema: upload.schema(),
    };
    let operator = ProjectionOperator(Arc::new(spec));
    above(operator, vec![below], upload.device()).map(Some)
}

/// A projection of the rows of a device node; `None` where the device cannot evaluate it.
fn projected(
    projection: &ProjectionExec,
    below: Plan,
    device: &Arc<dyn Device>,
    borders: &mut Vec<Border>,
) -> Result<Option<Plan>> {
    let (mut columns, mut expressions) = (vec![], vec![]);
    for projected in projection.expr() {
        columns.push(match projected.expr.downcast_ref::<Column>() {
            Some(column) => Projected::Input(column.index()),
            None => {
                expressions.push(Arc::clone(&projected.expr));
                Projected::Made(expressions.len() - 1)
            }
        });
    }
    let mut input = projection.input().schema();
    let mut below = below;
    // A join need not gather the columns that are not read.
    if let Some((node, join)) = DeviceNode::find::<JoinOperator>(&below) {
        let read = expressions
            .iter()
            .flat_map(collect_columns)
            .map(|c| c.index());
        let handed = columns.iter().filter_map(|column| column.input());
        let read: BTreeSet<usize> = read.chain(handed).collect();
        let read = Vec::from_iter(read);
        let place = |column: usize| {
            read.iter()
                .position(|read| *read == column)
                .unwrap_or(column)
        };
        if expressions.is_empty() {
            let handed: Vec<usize> = columns.iter().filter_map(|column| column.input()).collect();
            let join = Arc::new(join.with_output(&handed)?);
            return Ok(Some(Arc::new(node.with_operator(join)?)));
        }
        for expression in &mut expressions {
            *expression = map_columns(expression, |column| {
                Column::new(column.name(), place(column.index()))
            })?;
        }
        for column in &mut columns {
            if let Projected::Input(i) = column {
                *i = place(*i);
            }
        }
        input = Arc::new(input.project(&read)?);
        let join = Arc::new(join.with_output(&read)?);
        below = Arc::new(node.with_operator(join)?);
    }
    let made = match expressions.is_empty() {
        true => None,
        false => match row_program::compile(&expressions, &input) {
            None => {
                borders.extend(Border::of(projection.name(), &expressions, &input));
                return Ok(None);
            }
            made => made,
        },
    };
    let spec = ProjectionSpec {
        columns,
        made,
        schema: projection.schema(),
    };
    above(ProjectionOperator(Arc::new(spec)), vec![below], device).map(Some)
}

/// A filter of the rows of a device node; `None` where the device cannot evaluate it.
fn filtered(
    filter: &FilterExec,
    below: Plan,
    device: &Arc<dyn Device>,
    borders: &mut Vec<Border>,
) -> Result<Option<Plan>> {
    if filter.fetch().is_some() {
        return Ok(None);
    }
    let input = filter.input().schema();
    let expressions = vec![Arc::clone(filter.predicate())];
    let Some(predicate) = row_program::compile(&expressions, &input) else {
        borders.extend(Border::of(filter.name(), &expressions, &input));
        return Ok(None);
    };
    let columns = match filter.projection() {
        Some(columns) => columns.to_vec(),
        None => (0..input.fields().len()).collect(),
    };
    let spec = FilterSpec {
        predicate,
        columns,
        schema: filter.schema(),
    };
    above(FilterOperator(Arc::new(spec)), vec![below], device).map(Some)
}
