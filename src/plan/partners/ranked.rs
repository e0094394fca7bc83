//! [`Ranked`]: `row_number()` over the rows of a join, of which a filter keeps the first ones.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::functions_window::rank::Rank;
use datafusion::functions_window::row_number::RowNumber;
use datafusion::logical_expr::{Operator, WindowUDFImpl};
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::physical_expr::window::{StandardWindowExpr, WindowExpr};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr, split_conjunction};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec, WindowUDFExpr};

use crate::plan::compile::permitted::{Use, permits, seen_through};
use crate::plan::sources::join_nodes::join_source;

type Plan = Arc<dyn ExecutionPlan>;

/// A filter of the first rows by number of each partition, with what is below it down to a join.
#[derive(Debug)]
pub(crate) struct Ranked {
    pub(crate) join: Plan,
    /// The nodes above the join up to the filter, the lowest one first.
    pub(crate) above: Vec<Plan>,
    /// The number of the last row that is kept.
    pub(crate) most: u32,
    /// The filter's other conjuncts, none of which can fail.
    pub(crate) rest: Vec<Arc<dyn PhysicalExpr>>,
    /// Whether the rows are numbered, so that no two of a partition have the same number; otherwise they are ranked.
    pub(crate) is_numbered: bool,
    /// Over the output of the join.
    pub(crate) partition_by: Vec<Arc<dyn PhysicalExpr>>,
    pub(crate) order_by: Vec<PhysicalSortExpr>,
    /// What the columns of the filter's input are.
    pub(crate) columns: Vec<Ranking>,
    /// Those of the filter's output, among these.
    pub(crate) projection: Option<Vec<usize>>,
}

/// A column above a numbering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ranking {
    /// A column of the join's output.
    Column(usize),
    /// The row number.
    Number,
    /// Something else.
    Computed,
}

impl Ranked {
    /// `None` if `plan` is something else.
    pub(crate) fn of(plan: &Plan) -> Option<Self> {
        let filter = plan.downcast_ref::<FilterExec>()?;
        if filter.fetch().is_some() {
            return None;
        }
        let mut above = vec![Arc::clone(plan)];
        // Down to the window, with projections of columns between.
        let mut node = Arc::clone(filter.input());
        let mut columns: Vec<usize> = (0..node.schema().fields().len()).collect();
        while let Some(projection) = node.downcast_ref::<ProjectionExec>() {
            columns = through(projection, &columns)?;
            above.push(Arc::clone(&node));
            let below = Arc::clone(projection.input());
            node = below;
        }
        let (window, input) = match node.downcast_ref::<BoundedWindowAggExec>() {
            Some(window) => (window.window_expr(), window.input()),
            None => {
                let window = node.downcast_ref::<WindowAggExec>()?;
                (window.window_expr(), window.input())
            }
        };
        let [window] = window else {
            return None;
        };
        let is_numbered = is_function::<RowNumber>(window);
        // The same type serves DENSE_RANK and PERCENT_RANK.
        let is_rank = is_function::<Rank>(window) && name_of(window) == Some("rank");
        if !is_numbered && !is_rank {
            return None;
        }
        let number = input.schema().fields().len();
        let conjuncts = split_conjunction(filter.predicate());
        let (limit, most) = conjuncts.iter().enumerate().find_map(|(i, conjunct)| {
            let (column, most) = at_most(conjunct)?;
            (*columns.get(column)? == number).then_some((i, most))
        })?;
        let rest = conjuncts.iter().enumerate().filter(|(i, _)| *i != limit);
        let rest: Vec<_> = rest.map(|(_, conjunct)| Arc::clone(conjunct)).collect();
        // They are not evaluated of partners that are dropped, where they might fail.
        let fields = filter.input().schema();
        if !rest
            .iter()
            .all(|conjunct| permits(conjunct, Use::Move(&fields)))
        {
            return None;
        }
        above.push(Arc::clone(&node));

        // Down to the join. What the order needs several times is computed between.
        let fields = input.schema();
        let fields = fields.fields().iter().enumerate();
        let fields = fields
            .map(|(i, field)| Arc::new(Column::new(field.name(), i)) as Arc<dyn PhysicalExpr>);
        let mut mapped: Vec<Arc<dyn PhysicalExpr>> = fields.collect();
        let mut below = Arc::clone(input);
        while let Some(projection) = below.downcast_ref::<ProjectionExec>() {
            let computed: Vec<_> = projection
                .expr()
                .iter()
                .map(|of| Arc::clone(&of.expr))
                .collect();
            let over = mapped.iter().map(|expr| seen_through(expr, &computed));
            mapped = over.collect::<Option<_>>()?;
            above.push(Arc::clone(&below));
            let next = Arc::clone(projection.input());
            below = next;
        }
        join_source(&below)?.ok()?;
        above.reverse();
        let over_join = |expr: &Arc<dyn PhysicalExpr>| seen_through(expr, &mapped);
        let order_by = window.order_by().iter().map(|key| {
            let expr = over_join(&key.expr)?;
            Some(PhysicalSortExpr {
                expr,
                options: key.options,
            })
        });
        let order_by = order_by.collect::<Option<Vec<_>>>()?;
        let partition_by = window.partition_by().iter().map(over_join);
        let partition_by = partition_by.collect::<Option<Vec<_>>>()?;
        let columns = columns.into_iter().map(|column| match column == number {
            true => Ranking::Number,
            false => match mapped[column].downcast_ref::<Column>() {
                Some(column) => Ranking::Column(column.index()),
                None => Ranking::Computed,
            },
        });
        Some(Self {
            join: below,
            above,
            most,
            rest,
            is_numbered,
            partition_by,
            order_by,
            columns: columns.collect(),
            projection: filter.projection().as_ref().map(|columns| columns.to_vec()),
        })
    }
}

/// The input's columns that some columns of a projection are; `None` if one of them is computed.
fn through(projection: &ProjectionExec, columns: &[usize]) -> Option<Vec<usize>> {
    let columns = columns.iter().map(|column| {
        let projected = projection.expr().get(*column)?;
        Some(projected.expr.downcast_ref::<Column>()?.index())
    });
    columns.collect()
}

/// Whether `F` is the function of a window.
pub(crate) fn is_function<F: WindowUDFImpl>(window: &Arc<dyn WindowExpr>) -> bool {
    function(window).is_some_and(|function| function.fun().inner().is::<F>())
}

fn name_of(window: &Arc<dyn WindowExpr>) -> Option<&str> {
    function(window).map(|function| function.fun().name())
}

fn function(window: &Arc<dyn WindowExpr>) -> Option<&WindowUDFExpr> {
    let window = window.as_any().downcast_ref::<StandardWindowExpr>()?;
    let function = window.get_standard_func_expr().as_any();
    function.downcast_ref::<WindowUDFExpr>()
}

/// A column, and the greatest of the numbers from 1 on that it may have.
fn at_most(conjunct: &Arc<dyn PhysicalExpr>) -> Option<(usize, u32)> {
    let binary = conjunct.downcast_ref::<BinaryExpr>()?;
    let sides = (binary.left(), binary.right());
    let (column, op, literal) = match (
        sides.0.downcast_ref::<Column>(),
        sides.1.downcast_ref::<Column>(),
    ) {
        (Some(column), None) => (column, *binary.op(), sides.1),
        (None, Some(column)) => (column, binary.op().swap()?, sides.0),
        _ => return None,
    };
    let literal = literal.downcast_ref::<Literal>()?;
    let ScalarValue::UInt64(Some(value)) = literal.value() else {
        return None;
    };
    let most = match op {
        Operator::LtEq => *value,
        Operator::Lt => value.checked_sub(1)?,
        Operator::Eq if *value == 1 => 1,
        _ => return None,
    };
    let most = u32::try_from(most).ok().filter(|most| *most > 0)?;
    Some((column.index(), most))
}
