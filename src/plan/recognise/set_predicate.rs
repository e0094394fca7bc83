//! Recognising predicates on sets: conjuncts of a join's filter that compare a list of one side with a list, or an element, of the
//! other one.
//!
//! | conjunct | predicate |
//! |---|---|
//! | `array_has_all(a, b)`, `a @> b`, `b <@ a` | containment |
//! | `array_has_any(a, b)` | an overlap of 1 |
//! | `array_has(a, x)` | containment of the set `{x}` |
//! | `array_overlap(a, b) >= k`, `> k` | an overlap |
//! | `array_jaccard(a, b) >= t`, `> t`, and the other degrees; `= 1` | a degree |
//!
//! with the sides in any order, and constants on either side of the comparison. Lists may be expressions: the upload evaluates them.
//! A NULL list, or NULL element of `array_has`, matches nothing.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions_nested::array_has::{ArrayHas, ArrayHasAll, ArrayHasAny};
use datafusion::physical_expr::expressions::{BinaryExpr, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr, split_conjunction};
use datafusion::physical_plan::joins::utils::JoinFilter;

use crate::functions::set_function::{SetFunction, element_type};
use crate::ir::comparison::Comparison;
use crate::ir::set_predicate::{SetPredicate, SetValue};
use crate::ir::side::Side;
use crate::list_sets::elements::are_elements;
use crate::plan::compile::comparison::comparison_of;
use crate::plan::compile::sides::{on_side, side_of, sides_named};

/// A predicate on a left and a right expression, each over the columns of its side.
#[derive(Debug)]
pub(crate) struct SetExprs {
    pub predicate: SetPredicate,
    pub left: Arc<dyn PhysicalExpr>,
    pub right: Arc<dyn PhysicalExpr>,
    /// As EXPLAIN shows it.
    pub display: String,
}

/// The conjunct of `filter`, by its number, whose predicate on sets is the most selective one.
pub(crate) fn best(filter: &JoinFilter) -> Result<Option<(usize, SetExprs)>> {
    let mut best: Option<(f64, usize, SetExprs)> = None;
    for (i, conjunct) in split_conjunction(filter.expression()).iter().enumerate() {
        if let Some(found) = recognise(filter, conjunct)? {
            let strength = strength(&found.predicate);
            if best.as_ref().is_none_or(|(known, _, _)| strength > *known) {
                best = Some((strength, i, found));
            }
        }
    }
    Ok(best.map(|(_, i, found)| (i, found)))
}

/// The estimated selectivity of a predicate, compared with others.
fn strength(predicate: &SetPredicate) -> f64 {
    match predicate {
        SetPredicate::Contains(_) => 1.0,
        // An overlap of 1 is the least selective.
        SetPredicate::Overlap(least) => 1.0 - 1.0 / *least as f64,
        SetPredicate::Degree { threshold, .. } => threshold.min(1.0),
    }
}

fn recognise(filter: &JoinFilter, conjunct: &Arc<dyn PhysicalExpr>) -> Result<Option<SetExprs>> {
    if let Some([container, contained]) = arguments::<ArrayHasAll>(conjunct) {
        let of = |side| Some(SetPredicate::Contains(side));
        return lists(filter, conjunct, container, contained, of);
    }
    if let Some([first, second]) = arguments::<ArrayHasAny>(conjunct) {
        return lists(filter, conjunct, first, second, |_| {
            Some(SetPredicate::Overlap(1))
        });
    }
    if let Some([list, element]) = arguments::<ArrayHas>(conjunct) {
        let types = [list, element].map(|e| e.data_type(filter.schema()));
        let [list_type, of_element] = types;
        let (list_type, of_element) = (list_type?, of_element?);
        return match element_type(&list_type) {
            Some(elements) if *elements == of_element && are_elements(elements) => {
                let of = |side| Some(SetPredicate::Contains(side));
                sides(filter, conjunct, list, element, of)
            }
            _ => Ok(None),
        };
    }
    let Some((function, comparison, constant)) = compared(conjunct) else {
        return Ok(None);
    };
    let Some([first, second]) = arguments::<SetFunction>(function) else {
        return Ok(None);
    };
    let Some(value) = function
        .downcast_ref::<ScalarFunctionExpr>()
        .and_then(|function| function.fun().inner().downcast_ref::<SetFunction>())
        .map(SetFunction::value)
    else {
        return Ok(None);
    };
    lists(filter, conjunct, first, second, |_| {
        predicate(value, comparison, constant)
    })
}

/// `value COMPARISON constant` as a predicate.
pub(crate) fn predicate(
    value: SetValue,
    comparison: Comparison,
    constant: &ScalarValue,
) -> Option<SetPredicate> {
    match (value, constant) {
        (SetValue::Overlap, ScalarValue::Int64(Some(constant))) => {
            let least = match comparison {
                Comparison::GtEq => *constant,
                Comparison::Gt => constant.checked_add(1)?,
                _ => return None,
            };
            let least = u64::try_from(least).ok().filter(|least| *least > 0)?;
            Some(SetPredicate::Overlap(least))
        }
        (SetValue::Degree(measure), ScalarValue::Float64(Some(threshold))) => {
            let above = match comparison {
                Comparison::GtEq => false,
                Comparison::Gt => true,
                // No degree is more than 1.
                Comparison::Eq if *threshold == 1.0 => false,
                _ => return None,
            };
            SetPredicate::degree(measure, *threshold, above)
        }
        _ => None,
    }
}

/// `expression COMPARISON constant`, with the constant on the right.
fn compared(
    conjunct: &Arc<dyn PhysicalExpr>,
) -> Option<(&Arc<dyn PhysicalExpr>, Comparison, &ScalarValue)> {
    let binary = conjunct.downcast_ref::<BinaryExpr>()?;
    let comparison = comparison_of(*binary.op())?;
    let constant = |e: &'_ Arc<dyn PhysicalExpr>| e.downcast_ref::<Literal>().is_some();
    let value = |e| <dyn PhysicalExpr>::downcast_ref::<Literal>(e).map(Literal::value);
    match (constant(binary.left()), constant(binary.right())) {
        (false, true) => Some((binary.left(), comparison, value(binary.right().as_ref())?)),
        (true, false) => Some((
            binary.right(),
            comparison.swap(),
            value(binary.left().as_ref())?,
        )),
        _ => None,
    }
}

/// The two arguments of a call of a function of type `F`.
fn arguments<F: datafusion::logical_expr::ScalarUDFImpl + 'static>(
    expression: &Arc<dyn PhysicalExpr>,
) -> Option<[&Arc<dyn PhysicalExpr>; 2]> {
    let function = ScalarFunctionExpr::try_downcast_func::<F>(expression.as_ref())?;
    let [first, second] = function.args() else {
        return None;
    };
    Some([first, second])
}

/// As [`sides`], where both arguments are lists with elements of one type.
fn lists(
    filter: &JoinFilter,
    conjunct: &Arc<dyn PhysicalExpr>,
    first: &Arc<dyn PhysicalExpr>,
    second: &Arc<dyn PhysicalExpr>,
    predicate: impl Fn(Side) -> Option<SetPredicate>,
) -> Result<Option<SetExprs>> {
    let of_first = first.data_type(filter.schema())?;
    let of_second = second.data_type(filter.schema())?;
    let plain = |list: &DataType| element_type(list).filter(|e| are_elements(e)).cloned();
    match (plain(&of_first), plain(&of_second)) {
        (Some(a), Some(b)) if a == b => sides(filter, conjunct, first, second, predicate),
        _ => Ok(None),
    }
}

/// `predicate` of the side of `first`, where `first` and `second` read one side each, and not the same.
fn sides(
    filter: &JoinFilter,
    conjunct: &Arc<dyn PhysicalExpr>,
    first: &Arc<dyn PhysicalExpr>,
    second: &Arc<dyn PhysicalExpr>,
    predicate: impl Fn(Side) -> Option<SetPredicate>,
) -> Result<Option<SetExprs>> {
    let (left, right) = match (side_of(filter, first), side_of(filter, second)) {
        (Some(Side::Left), Some(Side::Right)) => (first, second),
        (Some(Side::Right), Some(Side::Left)) => (second, first),
        _ => return Ok(None),
    };
    let of_first = if Arc::ptr_eq(left, first) {
        Side::Left
    } else {
        Side::Right
    };
    let Some(predicate) = predicate(of_first) else {
        return Ok(None);
    };
    Ok(Some(SetExprs {
        predicate,
        left: on_side(filter, left)?,
        right: on_side(filter, right)?,
        display: sides_named(filter, conjunct)?,
    }))
}
