//! Filters and projections of the rows of a device node.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr_common::physical_expr::fmt_sql;

use crate::ir::row_program::RowProgram;
use crate::ir::text_predicate::TextSlice;
use crate::spec::scalar_word::word_of;

/// Expressions over the rows of an input, as DataFusion's and compiled for a device.
#[derive(Debug, Clone)]
pub(crate) struct RowExpressions {
    pub input: SchemaRef,
    /// DataFusion's own, evaluated where the program needs the host.
    pub expressions: Vec<Arc<dyn PhysicalExpr>>,
    pub program: RowProgram,
    /// How each expression's column is computed.
    pub columns: Vec<ExpressionColumn>,
    /// Constants of the program that are known when the query runs.
    pub subqueries: Vec<SubqueryConstant>,
}

/// A constant of a program that comes from a scalar subquery. DataFusion runs the subquery before the node.
#[derive(Debug, Clone)]
pub(crate) struct SubqueryConstant {
    /// The number of its instruction.
    pub instruction: usize,
    /// An expression without columns.
    pub expression: Arc<dyn PhysicalExpr>,
}

impl RowExpressions {
    /// The same expressions over an input with the same columns at other places: column `i` at `place(i)`.
    ///
    /// # Errors
    /// When DataFusion cannot rebuild an expression.
    pub(crate) fn over(
        &self,
        input: SchemaRef,
        place: &dyn Fn(usize) -> usize,
    ) -> DataFusionResult<Self> {
        let expressions = self.expressions.iter().map(|expression| {
            let moved = Arc::clone(expression).transform(|node| {
                Ok(match node.downcast_ref::<Column>() {
                    Some(column) => {
                        let column = Column::new(column.name(), place(column.index()));
                        Transformed::yes(Arc::new(column) as Arc<dyn PhysicalExpr>)
                    }
                    None => Transformed::no(node),
                })
            });
            moved.data()
        });
        let columns = self.columns.iter().map(|column| match column.clone() {
            ExpressionColumn::Slice { column, slice } => ExpressionColumn::Slice {
                column: place(column),
                slice,
            },
            by_program => by_program,
        });
        Ok(Self {
            input,
            expressions: expressions.collect::<DataFusionResult<_>>()?,
            program: self.program.over(place),
            columns: columns.collect(),
            subqueries: self.subqueries.clone(),
        })
    }

    /// The same expressions with the values of the scalar subqueries that they read; as they are, where DataFusion has to evaluate them.
    pub(crate) fn with_subqueries(&self) -> Self {
        match self.subqueries.is_empty() {
            true => self.clone(),
            false => self.known().unwrap_or_else(|_| self.clone()),
        }
    }

    /// # Errors
    /// Where DataFusion cannot evaluate a subquery's expression, or a program cannot hold its value.
    fn known(&self) -> DataFusionResult<Self> {
        let mut known = self.clone();
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options)?;
        for subquery in known.subqueries.drain(..) {
            let value = match subquery.expression.evaluate(&row)? {
                ColumnarValue::Scalar(value) => value,
                ColumnarValue::Array(array) => ScalarValue::try_from_array(&array, 0)?,
            };
            let instructions = &mut known.program.instructions;
            let (Some(word), Some(constant)) =
                (word_of(&value), instructions.get_mut(subquery.instruction))
            else {
                return internal_err!("bowtie: {value} is no constant of a program");
            };
            constant.constant = word.unwrap_or_default();
            constant.b = word.is_none().into();
        }
        Ok(known)
    }
}

/// How the column of an expression is computed.
#[derive(Debug, Clone)]
pub(crate) enum ExpressionColumn {
    /// An output of the program.
    Program(usize),
    /// A constant of `values`, whose number is an output of the program.
    Choice { output: usize, values: ArrayRef },
    /// A substring of a column of text.
    Slice { column: usize, slice: TextSlice },
}

/// One output column of a projection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Projected {
    /// A column of the input, which is not copied.
    Input(usize),
    /// The column of an expression.
    Computed(usize),
}

impl Projected {
    /// The column of the input that it is.
    pub(crate) fn input(self) -> Option<usize> {
        match self {
            Self::Input(i) => Some(i),
            Self::Computed(_) => None,
        }
    }
}

/// A projection.
#[derive(Debug, Clone)]
pub(crate) struct ProjectionSpec {
    pub columns: Vec<Projected>,
    /// `None` where all columns are columns of the input.
    pub computed: Option<RowExpressions>,
    pub schema: SchemaRef,
}

impl ProjectionSpec {
    /// Its columns as EXPLAIN shows them.
    pub(crate) fn display(&self) -> String {
        let fields = self.schema.fields().iter();
        let shown =
            self.columns
                .iter()
                .zip(fields)
                .map(|(column, field)| match (column, &self.computed) {
                    (Projected::Computed(i), Some(computed)) => {
                        let expression = fmt_sql(computed.expressions[*i].as_ref());
                        format!("{expression} as {}", field.name())
                    }
                    _ => field.name().clone(),
                });
        shown.collect::<Vec<_>>().join(", ")
    }
}

/// A filter, and its output columns.
#[derive(Debug, Clone)]
pub(crate) struct FilterSpec {
    /// One expression, a Boolean.
    pub predicate: RowExpressions,
    pub columns: Vec<usize>,
    pub schema: SchemaRef,
}

impl FilterSpec {
    /// Its predicate as EXPLAIN shows it.
    pub(crate) fn display(&self) -> String {
        let shown = self.predicate.expressions.iter();
        let shown = shown.map(|expr| fmt_sql(expr.as_ref()).to_string());
        shown.collect::<Vec<_>>().join(" AND ")
    }
}
