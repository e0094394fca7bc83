//! Recognising text predicates that a device evaluates: a column, or a substring of it, tested against constants or another column.
//!
//! ```text
//! substr(phone, 1, 2) IN ('13', '31')     TextTest { column: phone, slice: 2 characters behind 0, among ["13", "31"] }
//! ```
//!
//! A test has a value on every row where the columns that it reads are not NULL; [`Verdict`] is the expression's value by it.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::functions::string::contains::ContainsFunc;
use datafusion::functions::string::ends_with::EndsWithFunc;
use datafusion::functions::string::starts_with::StartsWithFunc;
use datafusion::functions::unicode::left::LeftFunc;
use datafusion::functions::unicode::strpos::StrposFunc;
use datafusion::functions::unicode::substr::SubstrFunc;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr,
    TryCastExpr,
};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

use crate::ir::comparison::Comparison;
use crate::ir::text_predicate::{LikePattern, TextPredicate, TextSlice, TextTest};
use crate::plan::compile::comparison::comparison_of;
use crate::plan::compile::compiler::is_of;
use crate::plan::compile::constants::constant;

type Expr = Arc<dyn PhysicalExpr>;

/// Bytes of a pattern at most: DataFusion may fail on a longer one.
const MOST_PATTERN_BYTES: usize = 1000;

/// A column of text, or a substring of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Operand {
    pub column: usize,
    pub slice: Option<TextSlice>,
    /// Bytes that need not be text.
    pub binary: bool,
}

/// The value of an expression by the result of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The result of the test, or its negation.
    Is { negated: bool },
    /// The result of the test; NULL where that is false.
    OrNull { negated: bool },
    /// The same, with false for NULL.
    Surely { negated: bool },
    /// Whether it has a value, or has none.
    StatisticsCache { negated: bool },
}

/// The type of a dictionary's values; any other type as it is.
fn plain(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

/// Whether a column's values are text, or binary.
fn is_text(data_type: &DataType) -> Option<bool> {
    use DataType::*;
    match plain(data_type) {
        Utf8 | LargeUtf8 | Utf8View => Some(false),
        Binary | LargeBinary | BinaryView => Some(true),
        _ => None,
    }
}

/// Whether a cast leaves text as it is, and never fails for its length.
pub(crate) fn keeps_text(from: &DataType, to: &DataType) -> bool {
    use DataType::*;
    let wider = matches!(
        (plain(from), to),
        (Utf8, LargeUtf8 | Utf8View) | (Binary, LargeBinary | BinaryView)
    );
    wider || (is_text(from).is_some() && (from == to || plain(from) == to))
}

/// The column, or the substring of it, that `expr` is.
pub(crate) fn operand(expr: &Expr, schema: &Schema) -> Option<Operand> {
    if let Some(column) = expr.downcast_ref::<Column>() {
        let data_type = schema.fields().get(column.index())?.data_type();
        return Some(Operand {
            column: column.index(),
            slice: None,
            binary: is_text(data_type)?,
        });
    }
    if let Some(from) = cast(expr) {
        let data_type = from.data_type(schema).ok()?;
        let keeps = keeps_text(&data_type, &expr.data_type(schema).ok()?);
        return match keeps {
            true => operand(from, schema),
            false => None,
        };
    }
    let call = expr.downcast_ref::<ScalarFunctionExpr>()?;
    let (text, numbers) = call.args().split_first()?;
    let numbers = numbers.iter().map(integer);
    let numbers: Vec<i64> = numbers.collect::<Option<_>>()?;
    let slice = match numbers.as_slice() {
        [start] if is_of::<SubstrFunc>(expr) => characters(*start, None)?,
        [start, count] if is_of::<SubstrFunc>(expr) => characters(*start, Some(*count))?,
        [count] if is_of::<LeftFunc>(expr) => characters(1, Some(*count))?,
        _ => return None,
    };
    let whole = operand(text, schema)?;
    (whole.slice.is_none() && !whole.binary).then_some(Operand {
        slice: Some(slice),
        ..whole
    })
}

/// A CASE with a base that is text, as one of conditions.
pub(crate) fn case_of_text(expr: &Expr, schema: &Schema) -> Option<CaseExpr> {
    let case = expr.downcast_ref::<CaseExpr>()?;
    let base = case.expr()?;
    operand(base, schema)?;
    let branches = case.when_then_expr().iter().map(|(when, then)| {
        let equals = BinaryExpr::new(Arc::clone(base), Operator::Eq, Arc::clone(when));
        (Arc::new(equals) as Expr, Arc::clone(then))
    });
    CaseExpr::try_new(None, branches.collect(), case.else_expr().cloned()).ok()
}

/// `count` characters from the one numbered `start` on, of which the first has number 1.
fn characters(start: i64, count: Option<i64>) -> Option<TextSlice> {
    let skipped = start.checked_sub(1)?;
    let skip = u32::try_from(skipped.max(0)).ok()?;
    let take = match count {
        None => TextSlice::ALL,
        Some(count) if count < 0 => return None,
        // Those before the first one count.
        Some(count) => {
            let end = skipped.saturating_add(count).max(0);
            let take = end - i64::from(skip).min(end);
            u32::try_from(take).unwrap_or(TextSlice::ALL)
        }
    };
    Some(TextSlice { skip, take })
}

fn cast(expr: &Expr) -> Option<&Expr> {
    let cast = expr.downcast_ref::<CastExpr>().map(CastExpr::expr);
    cast.or_else(|| expr.downcast_ref::<TryCastExpr>().map(TryCastExpr::expr))
}

fn value(expr: &Expr) -> Option<ScalarValue> {
    if !collect_columns(expr).is_empty() {
        return None;
    }
    let data_type = expr.data_type(&Schema::empty()).ok()?;
    constant(expr, &data_type)
}

fn integer(expr: &Expr) -> Option<i64> {
    match value(expr)? {
        ScalarValue::Int64(value) => value,
        ScalarValue::Int32(value) => value.map(i64::from),
        _ => None,
    }
}

/// Whether a pattern is a constant of text, and so short that DataFusion never fails on it.
pub(crate) fn has_short_pattern(like: &LikeExpr) -> bool {
    let pattern = bytes(like.pattern()).flatten();
    pattern.is_some_and(|(pattern, binary)| !binary && pattern.len() <= MOST_PATTERN_BYTES)
}

/// The bytes of a constant, and whether it is binary; `None` inside for NULL.
fn bytes(expr: &Expr) -> Option<Option<(Vec<u8>, bool)>> {
    fn of(value: ScalarValue) -> Option<Option<(Vec<u8>, bool)>> {
        use ScalarValue::*;
        Some(match value {
            Dictionary(_, value) => return of(*value),
            Utf8(text) | LargeUtf8(text) | Utf8View(text) => text.map(|t| (t.into_bytes(), false)),
            Binary(bytes) | LargeBinary(bytes) | BinaryView(bytes) => bytes.map(|b| (b, true)),
            _ => return None,
        })
    }
    of(value(expr)?)
}

/// A constant beside an operand of its kind.
fn bytes_beside(operand: &Operand, expr: &Expr) -> Option<Vec<u8>> {
    let (bytes, binary) = bytes(expr)??;
    (binary == operand.binary).then_some(bytes)
}

/// The text predicate of `expr`, a Boolean, and its value by it; `None` for any other expression.
pub(crate) fn test(expr: &Expr, schema: &Schema) -> Option<(TextTest, Verdict)> {
    let of = |operand: Operand, predicate| TextTest {
        column: operand.column,
        slice: operand.slice,
        predicate,
    };
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        return comparison(binary, schema).or_else(|| position(binary, schema));
    }
    if let Some(in_list) = expr.downcast_ref::<InListExpr>() {
        let operand = operand(in_list.expr(), schema)?;
        let mut constants = vec![];
        let mut nulls = false;
        for item in in_list.list() {
            match bytes(item)? {
                None => nulls = true,
                Some((bytes, binary)) if binary == operand.binary => constants.push(bytes),
                Some(_) => return None,
            }
        }
        constants.sort();
        constants.dedup();
        let negated = in_list.negated();
        let verdict = match (in_list.list().is_empty(), nulls) {
            (true, _) => return None,
            (_, true) => Verdict::OrNull { negated },
            (_, false) => Verdict::Is { negated },
        };
        return Some((of(operand, TextPredicate::Among(constants)), verdict));
    }
    if let Some(like) = expr.downcast_ref::<LikeExpr>() {
        let operand = operand(like.expr(), schema)?;
        let pattern = bytes_beside(&operand, like.pattern())?;
        if like.case_insensitive() || operand.binary || pattern.len() > MOST_PATTERN_BYTES {
            return None;
        }
        let pattern = LikePattern::of_like(std::str::from_utf8(&pattern).ok()?);
        let negated = like.negated();
        return Some((
            of(operand, TextPredicate::Like(pattern)),
            Verdict::Is { negated },
        ));
    }
    let null = |expr: &Expr, negated| {
        let operand = operand(expr, schema)?;
        Some((
            of(operand, TextPredicate::Present),
            Verdict::StatisticsCache { negated },
        ))
    };
    if let Some(is_null) = expr.downcast_ref::<IsNullExpr>() {
        return null(is_null.arg(), true);
    }
    if let Some(is_not_null) = expr.downcast_ref::<IsNotNullExpr>() {
        return null(is_not_null.arg(), false);
    }
    let call = expr.downcast_ref::<ScalarFunctionExpr>()?;
    let [text, part] = call.args() else {
        return None;
    };
    let (before, behind) = match () {
        () if is_of::<StartsWithFunc>(expr) => (false, true),
        () if is_of::<EndsWithFunc>(expr) => (true, false),
        () if is_of::<ContainsFunc>(expr) => (true, true),
        () => return None,
    };
    let test = contains(text, part, [before, behind], schema)?;
    Some((test, Verdict::Is { negated: false }))
}

/// Whether `text` contains `part`, with text `before` and `behind` it allowed.
fn contains(
    text: &Expr,
    part: &Expr,
    [before, behind]: [bool; 2],
    schema: &Schema,
) -> Option<TextTest> {
    let operand = operand(text, schema)?;
    let part = bytes_beside(&operand, part)?;
    let pattern = LikePattern::of_part(before, &part, behind);
    (!operand.binary).then_some(TextTest {
        column: operand.column,
        slice: operand.slice,
        predicate: TextPredicate::Like(pattern),
    })
}

fn comparison(binary: &BinaryExpr, schema: &Schema) -> Option<(TextTest, Verdict)> {
    let (left, right) = (
        operand(binary.left(), schema),
        operand(binary.right(), schema),
    );
    let distinct = |operator: &Operator| match operator {
        Operator::IsDistinctFrom => Some(true),
        Operator::IsNotDistinctFrom => Some(false),
        _ => None,
    };
    let (operand, other, op) = match (left, right) {
        (Some(left), Some(right)) => {
            let whole = left.slice.is_none() && right.slice.is_none();
            if !whole || left.binary != right.binary {
                return None;
            }
            let op = comparison_of(*binary.op())?;
            let test = TextTest {
                column: left.column,
                slice: None,
                predicate: TextPredicate::Column(op, right.column),
            };
            return Some((test, Verdict::Is { negated: false }));
        }
        (Some(left), None) => (left, binary.right(), comparison_of(*binary.op())),
        (None, Some(right)) => (
            right,
            binary.left(),
            comparison_of(*binary.op()).map(Comparison::swap),
        ),
        (None, None) => return None,
    };
    let constant = bytes_beside(&operand, other)?;
    let (predicate, verdict) = match (op, distinct(binary.op())) {
        (Some(Comparison::Eq), _) => (
            TextPredicate::Among(vec![constant]),
            Verdict::Is { negated: false },
        ),
        (Some(Comparison::NotEq), _) => (
            TextPredicate::Among(vec![constant]),
            Verdict::Is { negated: true },
        ),
        (Some(op), _) => (
            TextPredicate::Compare(op, constant),
            Verdict::Is { negated: false },
        ),
        (None, Some(negated)) => (
            TextPredicate::Among(vec![constant]),
            Verdict::Surely { negated },
        ),
        (None, None) => return None,
    };
    let test = TextTest {
        column: operand.column,
        slice: operand.slice,
        predicate,
    };
    Some((test, verdict))
}

/// `strpos(text, part) > 0`, and equivalent comparisons and their negations.
fn position(binary: &BinaryExpr, schema: &Schema) -> Option<(TextTest, Verdict)> {
    let least = integer(binary.right())?;
    let negated = match (binary.op(), least) {
        (Operator::Gt | Operator::NotEq, 0) | (Operator::GtEq, 1) => false,
        (Operator::LtEq | Operator::Eq, 0) | (Operator::Lt, 1) => true,
        _ => return None,
    };
    let left = binary.left();
    let found = match cast(left) {
        Some(inner) if left.data_type(schema).ok()? == DataType::Int64 => inner,
        Some(_) => return None,
        None => left,
    };
    let call = found.downcast_ref::<ScalarFunctionExpr>()?;
    let ([text, part], true) = (call.args(), is_of::<StrposFunc>(found)) else {
        return None;
    };
    let test = contains(text, part, [true, true], schema)?;
    Some((test, Verdict::Is { negated }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_of_a_slice() {
        let all = TextSlice::ALL;
        for (start, count, skip, take) in [
            (1, None, 0, all),
            (0, None, 0, all),
            (-5, None, 0, all),
            (3, Some(2), 2, 2),
            (0, Some(3), 0, 2),
            (-2, Some(2), 0, 0),
            (-2, Some(5), 0, 2),
            (1, Some(i64::MAX), 0, all),
            (7, Some(0), 6, 0),
        ] {
            let slice = characters(start, count);
            assert_eq!(slice, Some(TextSlice { skip, take }), "{start} {count:?}");
        }
        assert_eq!(characters(1, Some(-1)), None);
        assert_eq!(characters(i64::MIN, Some(1)), None);
    }
}
