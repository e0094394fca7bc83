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
    /// Parts of them that do not compile. Their results are columns behind those of the input: `program` and `columns` read them there.
    pub distinct: Vec<DistinctExpression>,
    pub program: RowProgram,
    /// How each expression's column is computed.
    pub columns: Vec<ExpressionColumn>,
    /// Constants of the program that are known when the query runs.
    pub subqueries: Vec<SubqueryConstant>,
}

/// An expression of one column, which DataFusion evaluates once for each distinct value. It has no other input and no state, so rows of equal
/// values have equal results.
#[derive(Debug, Clone)]
pub(crate) struct DistinctExpression {
    /// The column of the input.
    pub column: usize,
    /// Whether it pays even where each row has another value: the device saves more on what it makes of it.
    pub even_by_rows: bool,
    /// Over a batch of that column alone.
    pub expression: Arc<dyn PhysicalExpr>,
    /// The schema of that batch.
    pub schema: SchemaRef,
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
        let (width, moved_width) = (self.input.fields().len(), input.fields().len());
        // Results of distinct values stay behind the columns of the input.
        let place = |column: usize| match column.checked_sub(width) {
            None => place(column),
            Some(result) => moved_width + result,
        };
        let columns = self.columns.iter().map(|column| column.over(&place));
        let distinct = self.distinct.iter().map(|distinct| DistinctExpression {
            column: place(distinct.column),
            ..distinct.clone()
        });
        Ok(Self {
            input,
            expressions: expressions.collect::<DataFusionResult<_>>()?,
            distinct: distinct.collect(),
            program: self.program.over(&place),
            columns: columns.collect(),
            subqueries: self.subqueries.clone(),
        })
    }

    /// What is evaluated by distinct values, as EXPLAIN shows it behind other fields; empty where nothing is.
    pub(crate) fn display_distinct(&self) -> String {
        if self.distinct.is_empty() {
            return String::new();
        }
        let parts = self.distinct.iter();
        let parts = parts.map(|part| fmt_sql(part.expression.as_ref()).to_string());
        format!(
            ", by_distinct_values=[{}]",
            parts.collect::<Vec<_>>().join(", ")
        )
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
    /// A column of the input, or a result of distinct values.
    Column(usize),
    /// An output of the program.
    Program(usize),
    /// The value of one of several sources, whose number is an output of the program.
    Choice { output: usize, sources: Sources },
    /// A substring of a column of text.
    Slice { column: usize, slice: TextSlice },
    /// Lists of the windows of `length` characters of a column of text.
    Shingles { column: usize, length: u32 },
}

/// Sources of one type for each row to choose from: first columns, then constants.
#[derive(Debug, Clone)]
pub(crate) struct Sources {
    pub columns: Vec<usize>,
    pub constants: ArrayRef,
}

impl ExpressionColumn {
    fn over(&self, place: &dyn Fn(usize) -> usize) -> Self {
        match self.clone() {
            Self::Column(column) => Self::Column(place(column)),
            Self::Slice { column, slice } => Self::Slice {
                column: place(column),
                slice,
            },
            Self::Choice { output, sources } => Self::Choice {
                output,
                sources: Sources {
                    columns: sources.columns.into_iter().map(place).collect(),
                    ..sources
                },
            },
            Self::Shingles { column, length } => Self::Shingles {
                column: place(column),
                length,
            },
            Self::Program(output) => Self::Program(output),
        }
    }
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

    /// As [`RowExpressions::display_distinct`].
    pub(crate) fn display_distinct(&self) -> String {
        let computed = self.computed.as_ref();
        computed.map_or_else(String::new, RowExpressions::display_distinct)
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
