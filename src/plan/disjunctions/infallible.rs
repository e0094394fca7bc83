//! Which expressions have a value on every pair of rows: the logical counterpart of `plan/compile/fallible.rs`. The joins of a union test
//! other pairs than one join does, so that an expression which may fail could fail in one of the plans alone.

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::TreeNode;
use datafusion::functions::math::abs::AbsFunc;
use datafusion::functions::string::btrim::BTrimFunc;
use datafusion::functions::string::lower::LowerFunc;
use datafusion::functions::string::ltrim::LtrimFunc;
use datafusion::functions::string::rtrim::RtrimFunc;
use datafusion::functions::string::upper::UpperFunc;
use datafusion::functions::unicode::substr::SubstrFunc;
use datafusion::functions_nested::array_has::{ArrayHas, ArrayHasAny};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};

use crate::functions::set_function::SetFunction;
use crate::functions::text::tokens::Tokens;
use crate::plan::compile::fallible::is_widening;
use crate::plan::compile::key_types::is_orderable;
use crate::plan::compile::text::keeps_text;
use crate::plan::disjunctions::index::is_difference;
use crate::plan::disjunctions::sides::Sides;

/// Whether `expr` has a value on every pair, the same one whenever it is evaluated and whatever evaluates it. Everything that is not known to
/// be so counts as if it were not: volatile functions, subqueries, and columns outside a subquery among them.
pub(super) fn cannot_fail(expr: &Expr, sides: &Sides) -> bool {
    let fails = expr.exists(|expr| Ok(!is_safe(expr, sides)));
    fails.is_ok_and(|fails| !fails)
}

/// The same of one operation.
fn is_safe(expr: &Expr, sides: &Sides) -> bool {
    match expr {
        Expr::Column(_)
        | Expr::Literal(..)
        | Expr::Not(_)
        | Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::IsTrue(_)
        | Expr::IsNotTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsNotFalse(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotUnknown(_) => true,
        Expr::BinaryExpr(binary) => is_safe_operation(binary, sides),
        Expr::Between(between) => is_ordered(&between.expr, sides),
        Expr::InList(list) => is_ordered(&list.expr, sides),
        Expr::Cast(cast) => sides.type_of(&cast.expr).is_some_and(|from| {
            let to = cast.field.data_type();
            is_widening(&from, to) || keeps_text(&from, to)
        }),
        Expr::ScalarFunction(call) => is_safe_call(call, sides),
        _ => false,
    }
}

fn is_safe_operation(binary: &BinaryExpr, sides: &Sides) -> bool {
    let operands = [binary.left.as_ref(), binary.right.as_ref()];
    let types = operands.map(|operand| sides.type_of(operand));
    let all = |is: &dyn Fn(&DataType) -> bool| {
        let mut types = types.iter();
        types.all(|operand| operand.as_ref().is_some_and(is))
    };
    match binary.op {
        Operator::And | Operator::Or => true,
        // Of −0.0 and NaN, a hash table and a comparison may not say the same.
        Operator::Eq | Operator::IsNotDistinctFrom => {
            all(&|operand| is_orderable(operand) && !operand.is_floating())
        }
        Operator::NotEq
        | Operator::Lt
        | Operator::LtEq
        | Operator::Gt
        | Operator::GtEq
        | Operator::IsDistinctFrom => all(&is_orderable),
        // On integers these wrap, on floats they round.
        Operator::Plus | Operator::Minus => {
            all(&|operand| operand.is_integer() || operand.is_floating())
        }
        _ => false,
    }
}

fn is_ordered(expr: &Expr, sides: &Sides) -> bool {
    sides.type_of(expr).is_some_and(|of| is_orderable(&of))
}

/// `array_has_all` is none of these: its value for a NULL list depends on the other rows of a batch. See [`split`](super::split).
fn is_safe_call(call: &ScalarFunction, sides: &Sides) -> bool {
    let function = call.func.inner();
    if function.is::<AbsFunc>() {
        return has_absolute(call, sides);
    }
    if function.is::<SubstrFunc>() {
        return has_safe_slice(call);
    }
    function.is::<SetFunction>()
        || function.is::<Tokens>()
        || function.is::<ArrayHas>()
        || function.is::<ArrayHasAny>()
        || function.is::<LowerFunc>()
        || function.is::<UpperFunc>()
        || function.is::<BTrimFunc>()
        || function.is::<LtrimFunc>()
        || function.is::<RtrimFunc>()
}

/// Of integers only the least one has no absolute value. That a difference wraps to it is left out of account.
fn has_absolute(call: &ScalarFunction, sides: &Sides) -> bool {
    let [of] = call.args.as_slice() else {
        return false;
    };
    let has = |data_type: DataType| {
        data_type.is_floating() || data_type.is_unsigned_integer() || is_difference(of, sides)
    };
    sides.type_of(of).is_some_and(has)
}

/// Whether the numbers of a `substr` are constants on which it cannot fail.
fn has_safe_slice(call: &ScalarFunction) -> bool {
    let constant = |expr: &Expr| match expr {
        Expr::Literal(ScalarValue::Int64(Some(value)), _) => Some(*value),
        _ => None,
    };
    match call.args.as_slice() {
        [_, start] => constant(start).is_some_and(|start| start > i64::MIN),
        [_, start, count] => {
            constant(start).is_some_and(|start| start > i64::MIN)
                && constant(count).is_some_and(|count| count >= 0)
        }
        _ => false,
    }
}
