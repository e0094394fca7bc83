//! Parts of expressions that do not compile, but read one column: DataFusion evaluates them once for each distinct value.
//!
//! ```text
//! upper(t) = u AND a > 1     result[0] = u AND a > 1     result[0]: upper(t) by the distinct values of t
//! ```
//!
//! A part is as large as possible. Its value must depend on the column's value alone, and so must whether it fails: where DataFusion may
//! leave out an operand on some rows, by what other rows of the batch have, that operand is a part of its own. A part that fails on a
//! value makes DataFusion evaluate the whole expression on all rows (`exec/rows/distinct.rs`).

use std::sync::Arc;

use arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::{Operator, Volatility};
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr,
    Literal, NegativeExpr, NotExpr, TryCastExpr,
};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::fmt_sql;

use crate::functions::text::shingles::Shingles;
use crate::plan::compile::compiler::Expr;
use crate::plan::compile::fallible::may_be_scalar;
use crate::plan::compile::key_types::is_orderable;
use crate::plan::compile::permitted::{Use, permits};
use crate::spec::rows::DistinctExpression;

/// Expressions in which parts are columns.
pub(crate) struct Parted {
    pub(crate) expressions: Vec<Expr>,
    /// The input's columns, and behind them the results of the parts.
    pub(crate) schema: SchemaRef,
    pub(crate) distinct: Vec<DistinctExpression>,
}

/// Which expressions over rows of a schema compile.
#[derive(Clone, Copy)]
pub(crate) struct Compiles {
    /// Into a column.
    pub(crate) column: fn(&Schema, &Expr) -> bool,
    /// Into a register, as an operand of others.
    pub(crate) operand: fn(&Schema, &Expr) -> bool,
}

/// Makes parts of what does not compile; `None` where nothing can be one. An expression that does not compile even so is as it was.
pub(crate) fn part(expressions: &[Expr], input: &SchemaRef, compiles: Compiles) -> Option<Parted> {
    let mut parts = Parts {
        input,
        compiles,
        schema: Arc::clone(input),
        distinct: vec![],
        of: vec![],
        even_by_rows: false,
    };
    let parted = expressions.iter().map(|expr| {
        let parted = match !permits(expr, Use::Repeat) || (compiles.column)(&parts.schema, expr) {
            true => None,
            false => parts.of(expr),
        };
        parted.unwrap_or_else(|| Arc::clone(expr))
    });
    let expressions = parted.collect();
    (!parts.distinct.is_empty()).then_some(Parted {
        expressions,
        schema: parts.schema,
        distinct: parts.distinct,
    })
}

struct Parts<'a> {
    input: &'a SchemaRef,
    compiles: Compiles,
    schema: SchemaRef,
    distinct: Vec<DistinctExpression>,
    /// What each of `distinct` is in the expressions.
    of: Vec<Expr>,
    /// Of the parts that are made now.
    even_by_rows: bool,
}

impl Parts<'_> {
    /// The same expression, which compiles.
    fn of(&mut self, expr: &Expr) -> Option<Expr> {
        if let Some(column) = by_distinct_values(expr, self.input) {
            return self.result(expr, column);
        }
        let parted = self.of_operands(expr)?;
        (self.compiles.column)(&self.schema, &parted).then_some(parted)
    }

    /// The same expression over operands that are parts, or are made of parts, where they do not compile.
    fn of_operands(&mut self, expr: &Expr) -> Option<Expr> {
        let operands = expr.children();
        if operands.is_empty() {
            return None;
        }
        // Their lists have many times the bytes of a text.
        let even_by_rows = std::mem::replace(&mut self.even_by_rows, is_of_shingles(expr));
        let operands = operands.into_iter().map(|operand| self.operand(operand));
        let operands = operands.collect::<Option<Vec<_>>>();
        self.even_by_rows = even_by_rows;
        let operands = operands?;
        Arc::clone(expr).with_new_children(operands).ok()
    }

    fn operand(&mut self, expr: &Expr) -> Option<Expr> {
        let is_source = expr.is::<Column>() || collect_columns(expr).is_empty();
        if is_source || (self.compiles.operand)(&self.schema, expr) {
            return Some(Arc::clone(expr));
        }
        if let Some(column) = by_distinct_values(expr, self.input) {
            return self.result(expr, column);
        }
        let parted = self.of_operands(expr)?;
        (self.compiles.operand)(&self.schema, &parted).then_some(parted)
    }

    /// The column of the results of `expr`, which reads one column of the input.
    fn result(&mut self, expr: &Expr, column: usize) -> Option<Expr> {
        let width = self.input.fields().len();
        let known = self.of.iter().position(|known| known == expr);
        let at = match known {
            Some(at) => at,
            None => {
                let distinct = DistinctExpression {
                    column,
                    even_by_rows: self.even_by_rows,
                    expression: over_one_column(expr)?,
                    schema: Arc::new(self.input.project(&[column]).ok()?),
                };
                let data_type = expr.data_type(self.input).ok()?;
                let result = Field::new(fmt_sql(expr.as_ref()).to_string(), data_type, true);
                let fields = self.schema.fields().iter().cloned();
                let fields: Vec<FieldRef> = fields.chain([Arc::new(result)]).collect();
                self.schema = Arc::new(Schema::new(fields));
                self.distinct.push(distinct);
                self.of.push(Arc::clone(expr));
                self.of.len() - 1
            }
        };
        let name = self.schema.field(width + at).name();
        Some(Arc::new(Column::new(name, width + at)))
    }
}

/// Whether an expression is a call of `shingles`.
pub(crate) fn is_of_shingles(expr: &Expr) -> bool {
    let call = expr.downcast_ref::<ScalarFunctionExpr>();
    call.is_some_and(|call| call.fun().inner().is::<Shingles>())
}

/// The same expression over a batch of the only column that it reads.
fn over_one_column(expr: &Expr) -> Option<Expr> {
    let moved = Arc::clone(expr).transform(|node| {
        Ok(match node.downcast_ref::<Column>() {
            Some(column) => Transformed::yes(Arc::new(Column::new(column.name(), 0)) as Expr),
            None => Transformed::no(node),
        })
    });
    moved.data().ok()
}

/// The only column that `expr` reads, if rows with equal values of it have equal results.
fn by_distinct_values(expr: &Expr, input: &Schema) -> Option<usize> {
    let columns = collect_columns(expr);
    let mut columns = columns.iter();
    let (Some(column), None) = (columns.next(), columns.next()) else {
        return None;
    };
    let data_type = expr.data_type(input).ok()?;
    let of_column = input.fields().get(column.index())?.data_type();
    let is_one = is_orderable(&data_type) && is_orderable(of_column);
    (is_one && depends_on_values_alone(expr, input)).then(|| column.index())
}

/// Whether the value of `expr`, and whether it fails, depends on the values of its columns in the same row, and on nothing else.
fn depends_on_values_alone(expr: &Expr, input: &Schema) -> bool {
    let is_plain = if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
        // DataFusion's functions may treat a value that all rows have in another way.
        call.fun().signature().volatility == Volatility::Immutable
            && !call.args().iter().any(may_be_scalar)
    } else if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        match binary.op() {
            // DataFusion leaves out the right operand where the left one decides enough rows.
            Operator::And | Operator::Or => permits(binary.right(), Use::Move(input)),
            _ => true,
        }
    } else if let Some(in_list) = expr.downcast_ref::<InListExpr>() {
        // It leaves out items once each row has found one.
        in_list
            .list()
            .iter()
            .all(|item| permits(item, Use::Move(input)))
    } else if let Some(negative) = expr.downcast_ref::<NegativeExpr>() {
        !may_be_scalar(negative.arg())
    } else {
        expr.is::<Column>()
            || expr.is::<Literal>()
            || expr.is::<CaseExpr>()
            || expr.is::<CastExpr>()
            || expr.is::<TryCastExpr>()
            || expr.is::<IsNullExpr>()
            || expr.is::<IsNotNullExpr>()
            || expr.is::<LikeExpr>()
            || expr.is::<NotExpr>()
    };
    let operands = expr.children();
    is_plain
        && operands
            .into_iter()
            .all(|operand| depends_on_values_alone(operand, input))
}
