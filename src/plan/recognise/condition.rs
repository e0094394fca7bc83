//! Classifying a join's condition: equalities, comparisons of one side with the other, and the residual.
//!
//! Every sub-expression that reads one side only is evaluated once a row on that side, by DataFusion's own expressions.
//! What compares such expressions of the two sides goes to the device; whatever is left is the residual. What of it compiles
//! to a program is evaluated on the device, on candidates; the rest by DataFusion's own expressions.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::JoinSide;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, LambdaVariable};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, conjunction, split_conjunction};
use datafusion::physical_expr_common::physical_expr::fmt_sql;
use datafusion::physical_plan::joins::utils::JoinFilter;

use crate::ir::comparison::Comparison;
use crate::ir::pair_program::Program;
use crate::ir::set_predicate::SetSpec;
use crate::plan::compile::pair_program;
use crate::plan::recognise::band_rewrite::{GuardExpr, Rewritten};
use crate::plan::recognise::{band_rewrite, set_predicate};
use crate::spec::guard::Guard;
use crate::spec::join::{ColumnComparison, ConditionDisplay, Side, SideInput};

/// `left expression OP right expression`, each over the columns of its side.
pub(crate) type ExprComparison = (Arc<dyn PhysicalExpr>, Comparison, Arc<dyn PhysicalExpr>);

/// A filter, taken apart.
#[derive(Debug, Default)]
pub(crate) struct Condition {
    pub comparisons: Vec<ColumnComparison>,
    /// What must hold of the values for the comparisons to say what the filter says.
    pub guards: Vec<Guard>,
    pub residual: Vec<JoinFilter>,
    /// A predicate on sets, which finds the pairs.
    pub set: Option<SetSpec>,
    /// What the device decides of the residual.
    pub program: Option<Program>,
    pub display: ConditionDisplay,
}

/// Takes `filter` apart, adding the expressions that its comparisons need to the sides' inputs. Without `sets` predicates on sets
/// are residual.
pub(crate) fn classify(
    filter: &JoinFilter,
    left: &mut SideInput,
    right: &mut SideInput,
    sets: bool,
) -> Result<Condition> {
    let mut condition = Condition::default();
    let mut residual: Vec<Arc<dyn PhysicalExpr>> = vec![];
    let best = match sets {
        true => set_predicate::best(filter)?,
        false => None,
    };
    let found = best.as_ref().map(|(conjunct, _)| *conjunct);
    if let Some((_, set)) = best {
        condition.set = Some(SetSpec {
            predicate: set.predicate,
            left: left.column_of(&set.left)?,
            right: right.column_of(&set.right)?,
        });
        condition.display.set = Some(set.display);
    }
    let conjuncts = split_conjunction(filter.expression()).into_iter();
    let others = conjuncts.enumerate().filter(|(i, _)| Some(*i) != found);
    for (_, conjunct) in others {
        let Rewritten {
            comparisons,
            guards,
            exact,
        } = match comparison(filter, conjunct)? {
            Some(comparison) => Rewritten {
                comparisons: vec![comparison],
                guards: vec![],
                exact: true,
            },
            None => match band_rewrite::rewrite(filter, conjunct)? {
                Some(rewritten) => rewritten,
                None => {
                    residual.push(Arc::clone(conjunct));
                    continue;
                }
            },
        };
        if !exact {
            residual.push(Arc::clone(conjunct));
        }
        for (left_expr, op, right_expr) in comparisons {
            let comparison = ColumnComparison {
                left: left.column_of(&left_expr)?,
                op,
                right: right.column_of(&right_expr)?,
            };
            if !condition.comparisons.contains(&comparison) {
                condition.comparisons.push(comparison);
                let (l, r) = (
                    named(Side::Left, &left_expr)?,
                    named(Side::Right, &right_expr)?,
                );
                condition.display.theta.push(format!("{l} {op} {r}"));
            }
        }
        for guard in guards {
            condition.guards.push(match guard {
                GuardExpr::NoOverflow {
                    first,
                    second,
                    subtract,
                    low,
                    high,
                } => Guard::NoOverflow {
                    first: place(first.0, &first.1, left, right)?,
                    second: place(second.0, &second.1, left, right)?,
                    subtract,
                    low,
                    high,
                },
                GuardExpr::Finite(side, expr) => Guard::Finite(place(side, &expr, left, right)?),
            });
        }
    }
    condition.residual = residual.into_iter().map(|e| like(filter, e)).collect();
    condition.program = pair_program::compile(&condition.residual, left, right)?;
    let covered = |i: &usize| match &condition.program {
        Some(program) => program.covers.contains(i),
        None => false,
    };
    let (program, rest): (Vec<usize>, Vec<usize>) =
        (0..condition.residual.len()).partition(covered);
    let shown = |conjuncts: Vec<usize>| -> Result<Option<String>> {
        let conjuncts = conjuncts.into_iter().map(|i| &condition.residual[i]);
        let conjuncts: Vec<_> = conjuncts.map(|c| Arc::clone(c.expression())).collect();
        match conjuncts.is_empty() {
            true => Ok(None),
            false => sides_named(filter, &conjunction(conjuncts)).map(Some),
        }
    };
    (condition.display.program, condition.display.residual) = (shown(program)?, shown(rest)?);
    Ok(condition)
}

/// An expression over the filter's columns as text that names their sides.
pub(crate) fn sides_named(filter: &JoinFilter, expr: &Arc<dyn PhysicalExpr>) -> Result<String> {
    let named = map_columns(expr, |column| {
        let side = match filter.column_indices()[column.index()].side {
            JoinSide::Right => Side::Right,
            _ => Side::Left,
        };
        Column::new(&format!("{side}.{}", column.name()), column.index())
    })?;
    Ok(fmt_sql(named.as_ref()).to_string())
}

/// The conjuncts of a filter, each as a filter.
pub(crate) fn conjuncts(filter: &JoinFilter) -> Vec<JoinFilter> {
    split_conjunction(filter.expression())
        .into_iter()
        .map(|conjunct| like(filter, Arc::clone(conjunct)))
        .collect()
}

/// A filter over the same columns.
fn like(filter: &JoinFilter, expression: Arc<dyn PhysicalExpr>) -> JoinFilter {
    JoinFilter::new(
        expression,
        filter.column_indices().to_vec(),
        Arc::clone(filter.schema()),
    )
}

/// The side and column that hold `expr`.
fn place(
    side: Side,
    expr: &Arc<dyn PhysicalExpr>,
    left: &mut SideInput,
    right: &mut SideInput,
) -> Result<(Side, usize)> {
    let input = match side {
        Side::Left => left,
        Side::Right => right,
    };
    Ok((side, input.column_of(expr)?))
}

/// An expression of one side as text that names the side.
pub(crate) fn named(side: Side, expr: &Arc<dyn PhysicalExpr>) -> Result<String> {
    let named = map_columns(expr, |column| {
        Column::new(&format!("{side}.{}", column.name()), column.index())
    })?;
    Ok(fmt_sql(named.as_ref()).to_string())
}

/// `conjunct` as a comparison of a left expression with a right one, each over the columns of its side.
fn comparison(
    filter: &JoinFilter,
    conjunct: &Arc<dyn PhysicalExpr>,
) -> Result<Option<ExprComparison>> {
    let Some(binary) = conjunct.downcast_ref::<BinaryExpr>() else {
        return Ok(None);
    };
    let Some(op) = comparison_of(*binary.op()) else {
        return Ok(None);
    };
    let types = (
        binary.left().data_type(filter.schema())?,
        binary.right().data_type(filter.schema())?,
    );
    if !are_comparable(&types.0, &types.1) {
        return Ok(None);
    }
    let sides = (
        side_of(filter, binary.left()),
        side_of(filter, binary.right()),
    );
    Ok(match sides {
        (Some(Side::Left), Some(Side::Right)) => Some((
            on_side(filter, binary.left())?,
            op,
            on_side(filter, binary.right())?,
        )),
        (Some(Side::Right), Some(Side::Left)) => Some((
            on_side(filter, binary.right())?,
            op.swap(),
            on_side(filter, binary.left())?,
        )),
        _ => None,
    })
}

pub(crate) fn comparison_of(op: Operator) -> Option<Comparison> {
    Some(match op {
        Operator::Lt => Comparison::Lt,
        Operator::LtEq => Comparison::LtEq,
        Operator::Gt => Comparison::Gt,
        Operator::GtEq => Comparison::GtEq,
        Operator::Eq => Comparison::Eq,
        Operator::NotEq => Comparison::NotEq,
        _ => return None,
    })
}

/// The one side whose columns `expr` reads; `None` when it reads none or both, or has to stay over the filter's columns.
pub(crate) fn side_of(filter: &JoinFilter, expr: &Arc<dyn PhysicalExpr>) -> Option<Side> {
    if has_lambda(expr) {
        return None;
    }
    let mut sides = collect_columns(expr)
        .into_iter()
        .map(|column| filter.column_indices()[column.index()].side)
        .collect::<Vec<_>>();
    sides.dedup();
    match sides.as_slice() {
        [] => None,
        [first, rest @ ..] if rest.iter().all(|side| side == first) => match first {
            JoinSide::Left => Some(Side::Left),
            JoinSide::Right => Some(Side::Right),
            JoinSide::None => None,
        },
        _ => None,
    }
}

/// An expression over the filter's schema, over the columns of its one side instead.
pub(crate) fn on_side(
    filter: &JoinFilter,
    expr: &Arc<dyn PhysicalExpr>,
) -> Result<Arc<dyn PhysicalExpr>> {
    map_columns(expr, |column| {
        Column::new(column.name(), filter.column_indices()[column.index()].index)
    })
}

/// Whether there is a lambda in it. The variables of a lambda are numbered behind the columns of the input that it was planned for, so it
/// means something else over another one.
pub(crate) fn has_lambda(expr: &Arc<dyn PhysicalExpr>) -> bool {
    expr.is::<LambdaVariable>() || expr.children().into_iter().any(has_lambda)
}

/// `expr` with the index of every column `by` higher.
pub(crate) fn shift_columns(
    expr: &Arc<dyn PhysicalExpr>,
    by: usize,
) -> Result<Arc<dyn PhysicalExpr>> {
    map_columns(expr, |column| {
        Column::new(column.name(), column.index() + by)
    })
}

/// `expr` with every column replaced.
pub(crate) fn map_columns(
    expr: &Arc<dyn PhysicalExpr>,
    map: impl Fn(&Column) -> Column,
) -> Result<Arc<dyn PhysicalExpr>> {
    Arc::clone(expr)
        .transform(|node| {
            Ok(match node.downcast_ref::<Column>() {
                Some(column) => Transformed::yes(Arc::new(map(column)) as Arc<dyn PhysicalExpr>),
                None => Transformed::no(node),
            })
        })
        .data()
}

/// Whether order keys compare values of these types exactly as DataFusion does.
fn are_comparable(left: &DataType, right: &DataType) -> bool {
    let (left, right) = (plain(left), plain(right));
    is_orderable(left)
        && match (left, right) {
            // Coercion gives both sides one scale; precision does not matter to the comparison.
            (DataType::Decimal128(_, a), DataType::Decimal128(_, b))
            | (DataType::Decimal32(_, a), DataType::Decimal32(_, b))
            | (DataType::Decimal64(_, a), DataType::Decimal64(_, b))
            | (DataType::Decimal256(_, a), DataType::Decimal256(_, b)) => a == b,
            (DataType::Timestamp(a, _), DataType::Timestamp(b, _)) => a == b,
            _ => left == right,
        }
}

/// The type of a dictionary's values; any other type as it is.
fn plain(data_type: &DataType) -> &DataType {
    match data_type {
        // DataFusion does not make −0.0 equal 0.0 inside a dictionary: such columns stay with the residual.
        DataType::Dictionary(_, values) if !values.is_floating() => values,
        other => other,
    }
}

/// Whether a column of this type has order keys.
pub(crate) fn is_orderable(data_type: &DataType) -> bool {
    use DataType::*;
    match plain(data_type) {
        Dictionary(..) => false,
        Boolean | Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..) | Duration(_)
        | Interval(_) => true,
        Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => {
            true
        }
        Decimal32(..) | Decimal64(..) | Decimal128(..) | Decimal256(..) => true,
        other => other.is_integer() || other.is_floating(),
    }
}

/// Whether rows are told apart by a column of this type: one that has order keys, or a nested one of such without dictionaries, which
/// Arrow's row format would encode anew for every few rows. Inside of nested values DataFusion compares floats bit by bit, as that does.
pub(crate) fn is_groupable(data_type: &DataType) -> bool {
    use DataType::*;
    let inside = |of: &DataType| !matches!(of, Dictionary(..)) && is_groupable(of);
    match data_type {
        List(of)
        | LargeList(of)
        | ListView(of)
        | LargeListView(of)
        | FixedSizeList(of, _)
        | Map(of, _) => inside(of.data_type()),
        Struct(fields) => fields.iter().all(|field| inside(field.data_type())),
        other => is_orderable(other),
    }
}
