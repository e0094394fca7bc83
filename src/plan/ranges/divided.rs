//! The join by ranges that stands for a join of comparisons.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{JoinSide, JoinType, NullEquality, UnnestOptions};
use datafusion::error::Result;
use datafusion::logical_expr::{Operator, ScalarUDF, ScalarUDFImpl};
use datafusion::physical_expr::expressions::{BinaryExpr, Column, lit};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::unnest::{ListUnnest, UnnestExec};

use crate::functions::ranges::{RangeOf, Ranges, RangesOf};
use crate::ir::side::Side;
use crate::plan::ranges::bounds::Bounds;
use crate::plan::sources::join_source::JoinSource;

type Expr = Arc<dyn PhysicalExpr>;
type Plan = Arc<dyn ExecutionPlan>;

/// The number of a row's range.
const RANGE: &str = "bowtie_range";
/// Whether it is the first one of the row.
const IS_FIRST: &str = "bowtie_is_first";

/// A side of the join by ranges: the columns of the original side, then those of ranges.
struct Divided {
    plan: Plan,
    /// The original columns.
    columns: usize,
}

/// Makes the plans of sides.
struct Maker<'a> {
    ranges: Ranges,
    config: &'a Arc<ConfigOptions>,
}

/// The join of `source` by ranges.
pub(crate) fn divided(
    source: &JoinSource,
    bounds: &Bounds,
    ranges: Ranges,
    config: &Arc<ConfigOptions>,
) -> Result<Plan> {
    let maker = Maker { ranges, config };
    let (left, right) = (&source.left, &source.right);
    let mut filter = source.filter.clone();
    let sides = match bounds {
        Bounds::Between { inner, value, ends } => match inner {
            Side::Left => [maker.single(left, value)?, maker.repeated(right, ends)?],
            Side::Right => [maker.repeated(left, ends)?, maker.single(right, value)?],
        },
        Bounds::Overlap([of_left, of_right]) => {
            let sides = [
                maker.repeated_with_first(left, of_left)?,
                maker.repeated_with_first(right, of_right)?,
            ];
            // Of the ranges in which a pair meets, the first one is the first one of a row.
            filter = filter.map(|filter| in_first_range(&filter, &sides));
            sides
        }
    };
    let ranges_of = |side: &Divided| Arc::new(Column::new(RANGE, side.columns)) as Expr;
    let on = vec![(ranges_of(&sides[0]), ranges_of(&sides[1]))];
    let projection = output(source, &sides);
    let [left, right] = sides;
    Ok(Arc::new(HashJoinExec::try_new(
        left.plan,
        right.plan,
        on,
        filter,
        &source.kind,
        Some(projection),
        PartitionMode::Partitioned,
        NullEquality::NullEqualsNothing,
        false,
    )?))
}

/// The columns of the new join that come out.
fn output(source: &JoinSource, [left, right]: &[Divided; 2]) -> Vec<usize> {
    use JoinType::*;
    let all = |side: &Divided| side.plan.schema().fields().len();
    let marked = |side: &Divided| (0..side.columns).chain([all(side)]);
    let columns: Vec<usize> = match source.kind {
        Inner | Left | Right | Full => {
            let of_right = all(left)..all(left) + right.columns;
            (0..left.columns).chain(of_right).collect()
        }
        LeftSemi | LeftAnti => (0..left.columns).collect(),
        RightSemi | RightAnti => (0..right.columns).collect(),
        LeftMark => marked(left).collect(),
        RightMark => marked(right).collect(),
    };
    match &source.projection {
        None => columns,
        Some(projection) => projection.iter().map(|column| columns[*column]).collect(),
    }
}

impl Maker<'_> {
    /// Each row once, in the range of a value.
    fn single(&self, side: &Plan, value: &Expr) -> Result<Divided> {
        let range = self.call(RangeOf::new(), &[value], &side.schema())?;
        Ok(Divided {
            plan: with_range(side, range)?,
            columns: side.schema().fields().len(),
        })
    }

    /// Each row in all ranges between two values.
    fn repeated(&self, side: &Plan, ends: &[Expr; 2]) -> Result<Divided> {
        self.unnested(side, ends, false)
    }

    /// As `repeated`, with the mark of a row's first range.
    fn repeated_with_first(&self, side: &Plan, ends: &[Expr; 2]) -> Result<Divided> {
        self.unnested(side, ends, true)
    }

    fn unnested(&self, side: &Plan, [low, high]: &[Expr; 2], first: bool) -> Result<Divided> {
        let schema = side.schema();
        let columns = schema.fields().len();
        // The node that repeats rows finds columns by their names, of which a join's rows may have some twice.
        let name = |i: usize| format!("bowtie_{i}");
        let numbered = schema.fields().iter().enumerate();
        let numbered =
            numbered.map(|(i, field)| (Arc::new(Column::new(field.name(), i)) as Expr, name(i)));
        let lowest = self.call(RangeOf::new(), &[low, high], &schema)?;
        let ranges = self.call(RangesOf::new(), &[low, high], &schema)?;
        let own = [(lowest, IS_FIRST.to_string()), (ranges, RANGE.to_string())];
        let own = own.into_iter().skip(usize::from(!first));
        let all: Vec<(Expr, String)> = numbered.chain(own).collect();
        let at = all.len() - 1;
        let plan = unnested(Arc::new(ProjectionExec::try_new(all, Arc::clone(side))?))?;
        let range: Expr = Arc::new(Column::new(RANGE, at));
        let is_first = first.then(|| {
            let lowest: Expr = Arc::new(Column::new(IS_FIRST, columns));
            let is_first = BinaryExpr::new(Arc::clone(&range), Operator::Eq, lowest);
            (Arc::new(is_first) as Expr, IS_FIRST.to_string())
        });
        let named = schema.fields().iter().enumerate().map(|(i, field)| {
            let column: Expr = Arc::new(Column::new(&name(i), i));
            (column, field.name().clone())
        });
        let all = named.chain([(range, RANGE.to_string())]).chain(is_first);
        let all: Vec<(Expr, String)> = all.collect();
        Ok(Divided {
            plan: Arc::new(ProjectionExec::try_new(all, plan)?),
            columns,
        })
    }

    fn call(
        &self,
        function: impl ScalarUDFImpl + 'static,
        values: &[&Expr],
        schema: &Schema,
    ) -> Result<Expr> {
        let values = values.iter().map(|value| Arc::clone(value));
        let arguments = values.chain(self.ranges.arguments().into_iter().map(lit));
        let function = Arc::new(ScalarUDF::from(function));
        let config = Arc::clone(self.config);
        let call = ScalarFunctionExpr::try_new(function, arguments.collect(), schema, config)?;
        Ok(Arc::new(call))
    }
}

/// The columns of `plan`, then the number of a range.
fn with_range(plan: &Plan, range: Expr) -> Result<Plan> {
    let schema = plan.schema();
    let kept = schema.fields().iter().enumerate().map(|(i, field)| {
        let column: Expr = Arc::new(Column::new(field.name(), i));
        (column, field.name().clone())
    });
    let all: Vec<(Expr, String)> = kept.chain([(range, RANGE.to_string())]).collect();
    Ok(Arc::new(ProjectionExec::try_new(all, Arc::clone(plan))?))
}

/// A row for each element of the last column.
fn unnested(plan: Plan) -> Result<Plan> {
    let schema = plan.schema();
    let last = schema.fields().len() - 1;
    let mut fields = schema.fields().to_vec();
    fields[last] = Arc::new(Field::new(RANGE, DataType::Int64, true));
    let unnested: SchemaRef =
        Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
    let lists = vec![ListUnnest {
        index_in_input_schema: last,
        depth: 1,
    }];
    let options = UnnestOptions::new().with_preserve_nulls(false);
    Ok(Arc::new(UnnestExec::new(
        plan,
        lists,
        vec![],
        unnested,
        options,
    )?))
}

/// `filter`, in the first range that both rows of a pair have.
fn in_first_range(filter: &JoinFilter, sides: &[Divided; 2]) -> JoinFilter {
    let mut columns = filter.column_indices().to_vec();
    let mut fields = filter.schema().fields().to_vec();
    let marks = [JoinSide::Left, JoinSide::Right].into_iter().zip(sides);
    let marks = marks.map(|(side, divided)| {
        let name = format!("{IS_FIRST}_{side}");
        columns.push(ColumnIndex {
            index: divided.columns + 1,
            side,
        });
        fields.push(Arc::new(Field::new(&name, DataType::Boolean, true)));
        Arc::new(Column::new(&name, columns.len() - 1)) as Expr
    });
    let either = marks.reduce(|one, other| Arc::new(BinaryExpr::new(one, Operator::Or, other)));
    let schema = Arc::new(Schema::new(fields));
    let given = Arc::clone(filter.expression());
    let expression = match either {
        Some(either) => Arc::new(BinaryExpr::new(given, Operator::And, either)) as Expr,
        None => given,
    };
    JoinFilter::new(expression, columns, schema)
}
