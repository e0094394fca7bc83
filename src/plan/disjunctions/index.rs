//! By which index bowtie or DataFusion finds the matches of a conjunct: the logical counterpart of `plan/recognise/condition.rs`, which
//! recognises it again in the joins of the union.

use datafusion::common::ScalarValue;
use datafusion::functions::math::abs::AbsFunc;
use datafusion::functions_nested::array_has::{ArrayHas, ArrayHasAll, ArrayHasAny};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Between, BinaryExpr, Cast, Expr, Operator};

use crate::functions::set_function::{SetFunction, element_type};
use crate::ir::comparison::Comparison;
use crate::list_sets::elements::are_elements;
use crate::plan::compile::comparison::comparison_of;
use crate::plan::compile::fallible::is_widening;
use crate::plan::compile::key_types::are_comparable;
use crate::plan::disjunctions::sides::Sides;
use crate::plan::recognise::set_predicate::predicate;

/// What finds the matches of a conjunct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Index {
    /// A hash table, of keys that are equal.
    Equality,
    /// The elements of sets.
    Set,
    /// An order, in which the matches have this number of bounds: one or two.
    Range { bounds: usize },
}

/// `None` if nothing but a test of all pairs finds the matches.
pub(super) fn index_of(conjunct: &Expr, sides: &Sides) -> Option<Index> {
    match conjunct {
        Expr::BinaryExpr(binary) => of_comparison(binary, sides),
        Expr::Between(between) if !between.negated => of_between(between, sides),
        Expr::ScalarFunction(call) => tests_lists(call, sides).then_some(Index::Set),
        _ => None,
    }
}

/// The arguments of `array_has_all`, which is a conjunct.
pub(super) fn arguments_of_containment(conjunct: &Expr) -> Option<&[Expr]> {
    match conjunct {
        Expr::ScalarFunction(call) if call.func.inner().is::<ArrayHasAll>() => {
            Some(call.args.as_slice())
        }
        _ => None,
    }
}

fn of_comparison(binary: &BinaryExpr, sides: &Sides) -> Option<Index> {
    let (left, right) = (binary.left.as_ref(), binary.right.as_ref());
    let across = sides.are_across(left, right);
    if across && matches!(binary.op, Operator::Eq | Operator::IsNotDistinctFrom) {
        return Some(Index::Equality);
    }
    let comparison = comparison_of(binary.op)?;
    if across {
        let is_range = comparison.is_inequality() && have_one_order(left, right, sides);
        return is_range.then_some(Index::Range { bounds: 1 });
    }
    let (value, comparison, constant) = match (left, right) {
        (value, Expr::Literal(constant, _)) => (value, comparison, constant),
        (Expr::Literal(constant, _), value) => (value, comparison.swap(), constant),
        _ => return None,
    };
    if constant.is_null() {
        return None;
    }
    if compares_lists(value, comparison, constant, sides) {
        return Some(Index::Set);
    }
    let bounds = bounds_of_difference(value, comparison, sides)?;
    Some(Index::Range { bounds })
}

fn of_between(between: &Between, sides: &Sides) -> Option<Index> {
    let value = between.expr.as_ref();
    let ends = [between.low.as_ref(), between.high.as_ref()];
    let is_bound = |end: &Expr| sides.are_across(value, end) && have_one_order(value, end, sides);
    let bounds = ends.into_iter().filter(|end| is_bound(end)).count();
    if bounds > 0 {
        return Some(Index::Range { bounds });
    }
    let is_constant = |end: &Expr| matches!(end, Expr::Literal(value, _) if !value.is_null());
    let is_band =
        ends.into_iter().all(is_constant) && is_difference(without_widening(value, sides), sides);
    is_band.then_some(Index::Range { bounds: 2 })
}

fn have_one_order(a: &Expr, b: &Expr, sides: &Sides) -> bool {
    match (sides.type_of(a), sides.type_of(b)) {
        (Some(a), Some(b)) => are_comparable(&a, &b),
        _ => false,
    }
}

/// Whether `value COMPARISON constant` is a predicate on sets of both sides.
fn compares_lists(
    value: &Expr,
    comparison: Comparison,
    constant: &ScalarValue,
    sides: &Sides,
) -> bool {
    let Expr::ScalarFunction(call) = value else {
        return false;
    };
    let Some(function) = call.func.inner().downcast_ref::<SetFunction>() else {
        return false;
    };
    have_one_element_type(call, sides)
        && predicate(function.value(), comparison, constant).is_some()
}

/// Whether it is `array_has`, `array_has_all` or `array_has_any` of both sides.
fn tests_lists(call: &ScalarFunction, sides: &Sides) -> bool {
    let function = call.func.inner();
    if function.is::<ArrayHasAll>() || function.is::<ArrayHasAny>() {
        return have_one_element_type(call, sides);
    }
    let [list, element] = call.args.as_slice() else {
        return false;
    };
    let types = (sides.type_of(list), sides.type_of(element));
    let (true, (Some(list_type), Some(of_element))) = (function.is::<ArrayHas>(), types) else {
        return false;
    };
    let elements = element_type(&list_type).filter(|elements| are_elements(elements));
    elements == Some(&of_element) && sides.are_across(list, element)
}

/// Whether the arguments are a list of each side.
fn have_one_element_type(call: &ScalarFunction, sides: &Sides) -> bool {
    let [first, second] = call.args.as_slice() else {
        return false;
    };
    let types = (sides.type_of(first), sides.type_of(second));
    let (Some(of_first), Some(of_second)) = types else {
        return false;
    };
    let elements = element_type(&of_first).filter(|elements| are_elements(elements));
    elements.is_some() && elements == element_type(&of_second) && sides.are_across(first, second)
}

/// The bounds that `value COMPARISON constant` sets to a difference or sum across the sides, as `plan/recognise/rewrites/band.rs` does.
fn bounds_of_difference(value: &Expr, comparison: Comparison, sides: &Sides) -> Option<usize> {
    let value = without_widening(value, sides);
    if let Expr::ScalarFunction(call) = value {
        let [inner] = call.args.as_slice() else {
            return None;
        };
        let is_band = call.func.inner().is::<AbsFunc>()
            && matches!(comparison, Comparison::Lt | Comparison::LtEq)
            && is_difference(without_widening(inner, sides), sides);
        return is_band.then_some(2);
    }
    let bounds = match comparison {
        Comparison::Eq => 2,
        comparison if comparison.is_inequality() => 1,
        _ => return None,
    };
    is_difference(value, sides).then_some(bounds)
}

/// A difference or sum of numbers of one type, one of each side.
pub(super) fn is_difference(expr: &Expr, sides: &Sides) -> bool {
    let Expr::BinaryExpr(binary) = expr else {
        return false;
    };
    let (a, b) = (binary.left.as_ref(), binary.right.as_ref());
    let (Some(of_a), Some(of_b)) = (sides.type_of(a), sides.type_of(b)) else {
        return false;
    };
    matches!(binary.op, Operator::Plus | Operator::Minus)
        && (of_a.is_integer() || of_a.is_floating())
        && of_a == of_b
        && sides.are_across(a, b)
}

/// The operand of casts from one integer type to a wider one.
fn without_widening<'e>(expr: &'e Expr, sides: &Sides) -> &'e Expr {
    let Expr::Cast(Cast { expr: inner, field }) = expr else {
        return expr;
    };
    let from = sides.type_of(inner);
    let to = field.data_type();
    match from.is_some_and(|from| from.is_integer() && to.is_integer() && is_widening(&from, to)) {
        true => without_widening(inner, sides),
        false => expr,
    }
}
