//! Classifying a join's condition: equalities, comparisons of one side with the other, and the residual.
//!
//! Every sub-expression that reads one side only is evaluated once a row on that side, by DataFusion's own expressions. Comparisons of such
//! expressions of the two sides run on the device; all other conjuncts are the residual filter. A conjunct of it that compiles is evaluated
//! by the device, on candidates; the others by DataFusion's own expressions.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_expr::expressions::BinaryExpr;
use datafusion::physical_expr::{PhysicalExpr, conjunction, split_conjunction};
use datafusion::physical_plan::joins::utils::JoinFilter;

use crate::ir::pair_program::Program;
use crate::ir::set_predicate::SetSpec;
use crate::ir::side::Side;
use crate::plan::compile::comparison::comparison_of;
use crate::plan::compile::key_types::are_comparable;
use crate::plan::compile::pair_program;
use crate::plan::compile::sides::{ExprComparison, named, on_side, side_of, sides_named};
use crate::plan::recognise::rewrites::band::{GuardExpr, Rewritten};
use crate::plan::recognise::rewrites::common_width::to_common_width;
use crate::plan::recognise::rewrites::{band, overlap_length};
use crate::plan::recognise::set_predicate;
use crate::spec::guard::Guard;
use crate::spec::join::{ColumnComparison, ConditionDisplay, SideInput};

/// A filter, in parts.
#[derive(Debug, Default)]
pub(crate) struct Condition {
    pub comparisons: Vec<ColumnComparison>,
    /// Conditions on the values under which the comparisons are equivalent to the filter.
    pub guards: Vec<Guard>,
    pub residual: Vec<JoinFilter>,
    /// A predicate on sets, which finds the candidates.
    pub set: Option<SetSpec>,
    /// The conjuncts of the residual filter that compile.
    pub program: Option<Program>,
    pub display: ConditionDisplay,
}

/// How a filter's conjuncts are classified.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Classified {
    /// Whether a predicate on sets finds the candidates; otherwise such predicates are residual.
    pub sets: bool,
    /// The side whose expressions are compared as they are where a limit, as of `abs(l.a - r.b) <= 5`, goes to one of them.
    pub unmoved: Option<Side>,
}

/// Classifies the conjuncts of `filter`, and adds the expressions that its comparisons need to the sides' inputs.
pub(crate) fn classify(
    filter: &JoinFilter,
    left: &mut SideInput,
    right: &mut SideInput,
    Classified { sets, unmoved }: Classified,
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
    let mut compared: Vec<ExprComparison> = vec![];
    let mut shown: Vec<Option<String>> = vec![];
    let conjuncts = split_conjunction(filter.expression()).into_iter();
    let others = conjuncts.enumerate().filter(|(i, _)| Some(*i) != found);
    for (_, conjunct) in others {
        let Rewritten {
            comparisons,
            guards,
            exact,
            display,
        } = match comparison(filter, conjunct)? {
            Some(comparison) => Rewritten {
                comparisons: vec![comparison],
                guards: vec![],
                exact: true,
                display: None,
            },
            None => match rewritten(filter, conjunct, unmoved)? {
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
        compared.extend(comparisons);
        shown.resize(compared.len(), display);
        for guard in guards {
            condition.guards.push(match guard {
                GuardExpr::NoOverflow {
                    first,
                    second,
                    subtract,
                    low,
                    high,
                } => Guard::NoOverflow {
                    first: column_of(first.0, &first.1, left, right)?,
                    second: column_of(second.0, &second.1, left, right)?,
                    subtract,
                    low,
                    high,
                },
                GuardExpr::Finite(side, expr) => {
                    Guard::Finite(column_of(side, &expr, left, right)?)
                }
            });
        }
    }
    to_common_width(&mut compared, [left.plan(), right.plan()])?;
    for ((left_expr, op, right_expr), shown) in compared.into_iter().zip(shown) {
        let comparison = ColumnComparison {
            left: left.column_of(&left_expr)?,
            op,
            right: right.column_of(&right_expr)?,
        };
        if !condition.comparisons.contains(&comparison) {
            condition.comparisons.push(comparison);
            let shown = match shown {
                Some(shown) => shown,
                None => {
                    let left = named(Side::Left, &left_expr)?;
                    format!("{left} {op} {}", named(Side::Right, &right_expr)?)
                }
            };
            if !condition.display.theta.contains(&shown) {
                condition.display.theta.push(shown);
            }
        }
    }
    condition.residual = residual
        .into_iter()
        .map(|e| with_expression(filter, e))
        .collect();
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

/// A conjunct that mixes the sides as comparisons; `None` if it has no such form.
fn rewritten(
    filter: &JoinFilter,
    conjunct: &Arc<dyn PhysicalExpr>,
    unmoved: Option<Side>,
) -> Result<Option<Rewritten>> {
    match overlap_length::rewrite(filter, conjunct)? {
        Some(rewritten) => Ok(Some(rewritten)),
        None => band::rewrite(filter, conjunct, unmoved),
    }
}

/// The conjuncts of a filter, each as a filter.
pub(crate) fn conjuncts(filter: &JoinFilter) -> Vec<JoinFilter> {
    split_conjunction(filter.expression())
        .into_iter()
        .map(|conjunct| with_expression(filter, Arc::clone(conjunct)))
        .collect()
}

/// A filter over the same columns.
fn with_expression(filter: &JoinFilter, expression: Arc<dyn PhysicalExpr>) -> JoinFilter {
    JoinFilter::new(
        expression,
        filter.column_indices().to_vec(),
        Arc::clone(filter.schema()),
    )
}

/// The side and column that hold `expr`.
fn column_of(
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
