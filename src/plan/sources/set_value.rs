//! [`SetCall`]: a function of two lists, one of each side of a join, such as `array_jaccard(a.tags, b.tags)`.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::JoinType;
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

use crate::functions::set_function::{SetFunction, element_type};
use crate::ir::set_predicate::SetValue;
use crate::ir::side::Side;
use crate::list_sets::elements::are_elements;
use crate::plan::compile::permitted::{Use, permits};
use crate::plan::compile::sides::{is_null_of_nulls, is_same, map_columns};

type Expr = Arc<dyn PhysicalExpr>;

/// A function of a list of the left side and one of the right side.
#[derive(Debug, Clone)]
pub(crate) struct SetCall {
    pub(crate) value: SetValue,
    /// The lists, each over the columns of its side.
    pub(crate) lists: [Expr; 2],
}

impl SetCall {
    /// An expression over the columns of both sides, of which the first `of_left` are the left side's; `None` if it is something else.
    pub(crate) fn of(expr: &Expr, of_left: usize) -> Result<Option<Self>> {
        let Some((function, call)) = set_function(expr) else {
            return Ok(None);
        };
        let [first, second] = call.args() else {
            return Ok(None);
        };
        if !permits(expr, Use::Repeat) {
            return Ok(None);
        }
        let (left, right) = match (side_of(first, of_left), side_of(second, of_left)) {
            (Some(Side::Left), Some(Side::Right)) => (first, second),
            (Some(Side::Right), Some(Side::Left)) => (second, first),
            _ => return Ok(None),
        };
        let right = map_columns(right, |column| {
            Column::new(column.name(), column.index() - of_left)
        })?;
        Ok(Some(Self {
            value: function.value(),
            lists: [Arc::clone(left), right],
        }))
    }

    pub(crate) fn has_lists(&self, lists: [&Expr; 2]) -> bool {
        let [left, right] = &self.lists;
        is_same(left, lists[0]) && is_same(right, lists[1])
    }

    /// Whether a device compares its lists, which are over the columns of two plans and have a value on each of their rows.
    pub(crate) fn is_supported(&self, schemas: [&Schema; 2]) -> Result<bool> {
        for (list, schema) in self.lists.iter().zip(schemas) {
            let data_type = list.data_type(schema)?;
            if !element_type(&data_type).is_some_and(are_elements)
                || !permits(list, Use::Move(schema))
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether it is NULL in the rows that a join of this kind pads.
    pub(crate) fn is_null_of_padded(&self, kind: JoinType, schemas: [&Schema; 2]) -> Result<bool> {
        let [left, right] = &self.lists;
        let of_left = || is_null_of_nulls(left, schemas[0]);
        let of_right = || is_null_of_nulls(right, schemas[1]);
        Ok(match kind {
            JoinType::Left => of_right()?,
            JoinType::Right => of_left()?,
            JoinType::Full => of_left()? && of_right()?,
            _ => true,
        })
    }
}

pub(crate) fn set_function(expr: &Expr) -> Option<(&SetFunction, &ScalarFunctionExpr)> {
    let call = expr.downcast_ref::<ScalarFunctionExpr>()?;
    Some((call.fun().inner().downcast_ref::<SetFunction>()?, call))
}

/// The one side whose columns an expression over the joined columns reads.
pub(crate) fn side_of(expr: &Expr, of_left: usize) -> Option<Side> {
    let columns = collect_columns(expr).into_iter();
    let mut sides = columns.map(|column| match column.index() < of_left {
        true => Side::Left,
        false => Side::Right,
    });
    let side = sides.next()?;
    sides.all(|other| other == side).then_some(side)
}
