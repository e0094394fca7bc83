//! [`replace_ranked`]: puts an [`ExtendedJoinExec`] in place of joins whose rows are numbered, where bowtie can keep partners by ranges.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinType, ScalarValue};
use datafusion::error::Result;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, conjunction};
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

use crate::ir::side::Side;
use crate::options::{BowtieOptions, Offload};
use crate::plan::compile::permitted::{Use, permits};
use crate::plan::compile::sides::map_columns;
use crate::plan::partners::ranked::{Ranked, Ranking};
use crate::plan::partners::row_numbers::{numbering, unread};
use crate::plan::recognise::gain::Gain;
use crate::plan::recognise::join::join_candidate;
use crate::plan::sources::extended_join::{ExtendedJoinExec, Original};
use crate::plan::sources::join_nodes::join_source;
use crate::plan::sources::join_source::{JoinSource, PartnerSource};
use crate::plan::statistics::statistics_cache::StatisticsCache;
use crate::spec::join::{JoinSpec, joined_schema};

type Plan = Arc<dyn ExecutionPlan>;

/// The plan with limits of partners.
pub(crate) fn replace_ranked(
    plan: Plan,
    options: &BowtieOptions,
    statistics: &StatisticsCache,
) -> Result<Plan> {
    let replace = |node: Plan| {
        // A projection above tells whether the numbers are read.
        if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
            let below = projection.input();
            let read = projection
                .expr()
                .iter()
                .flat_map(|e| collect_columns(&e.expr));
            let read: Vec<usize> = read.map(|column| column.index()).collect();
            let replaced = replaced(below, &|column| read.contains(&column), options, statistics)?;
            return Ok(match replaced {
                Some(below) => Transformed::yes(replace_children_if_necessary(node, vec![below])?),
                None => Transformed::no(node),
            });
        }
        Ok(match replaced(&node, &|_| true, options, statistics)? {
            Some(replaced) => Transformed::yes(replaced),
            None => Transformed::no(node),
        })
    };
    plan.transform_down(replace).data()
}

/// A filter of numbered rows with a limit of partners in place of what is below it; `None` if it is something else. `is_read`: whether a
/// column of it is read.
fn replaced(
    node: &Plan,
    is_read: &dyn Fn(usize) -> bool,
    options: &BowtieOptions,
    statistics: &StatisticsCache,
) -> Result<Option<Plan>> {
    let Some(ranked) = Ranked::of(node) else {
        return Ok(None);
    };
    let Some((wanted, is_swapped)) = wanted(&ranked)? else {
        return Ok(None);
    };
    let kept = |source: &JoinSource| {
        let candidate = join_candidate(Ok(source.clone()), options, statistics);
        let gains = matches!(candidate.gain, Gain::OnAnyDevice);
        let spec = candidate.spec.ok().filter(JoinSpec::limits_partners)?;
        let kept = match spec.chooses_among_all() {
            true => Kept::AmongAll,
            false => Kept::ByRange,
        };
        // To find all matches of comparisons DataFusion's partitions work beside each other.
        let gains = gains && (kept == Kept::ByRange || spec.theta.set().is_some());
        (gains || options.offload == Offload::Force).then_some(kept)
    };
    let last = without_numbers(node, &ranked, is_read, &wanted)?;
    let of_last = last.as_ref().and_then(|last| kept(last.exec.source()));
    // A range of partners that a node above numbers costs less than a look at all of them.
    let of_wanted = match of_last {
        Some(Kept::ByRange) => None,
        _ => kept(&wanted),
    };
    if of_last.is_some()
        && of_wanted != Some(Kept::ByRange)
        && let Some(last) = last
    {
        return last.into_plan(&ranked).map(Some);
    }
    if of_wanted.is_none() {
        return Ok(None);
    }
    let schema = ranked.join.schema();
    let original = Original {
        join: Arc::clone(&ranked.join),
        is_swapped,
        above: None,
    };
    let exec: Plan = Arc::new(ExtendedJoinExec::new(wanted, Some(original), schema));
    let mut above = ranked.above.into_iter();
    let above = above.try_fold(exec, |below, node| {
        replace_children_if_necessary(node, vec![below])
    });
    above.map(Some)
}

/// How a device keeps the partners of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// They are a range of the build side.
    ByRange,
    /// They are chosen among all matches of the row.
    AmongAll,
}

/// The join with a limit of partners, whose right side's rows are those that are limited, and whether its sides were exchanged for that;
/// `None` if the numbers are not those of partners of one side's rows.
fn wanted(ranked: &Ranked) -> Result<Option<(JoinSource, bool)>> {
    let Some(Ok(mut source)) = join_source(&ranked.join) else {
        return Ok(None);
    };
    if source.partners.is_some() || source.fetch.is_some() || source.null_aware {
        return Ok(None);
    }
    // Of partners that are dropped further keys are not evaluated, and the first one is once a row.
    let schema = ranked.join.schema();
    let is_of_first = |expr: &Arc<dyn PhysicalExpr>| {
        let first = ranked.order_by.first();
        first.is_some_and(|first| is_part(expr, &first.expr))
    };
    let further = ranked.order_by.iter().skip(1).map(|key| &key.expr);
    let mut others = further.chain(&ranked.partition_by);
    let mut keys = ranked.order_by.iter().map(|key| &key.expr);
    if !others.all(|expr| permits(expr, Use::Move(&schema)) || is_of_first(expr))
        || keys.any(|expr| !permits(expr, Use::Repeat) || !permits(expr, Use::Rebind))
    {
        return Ok(None);
    }
    let of_left = source.left.schema().fields().len();
    let unprojected = |column: usize| match &source.projection {
        Some(columns) => columns[column],
        None => column,
    };
    let over_sides = |expr: &Arc<dyn PhysicalExpr>| {
        map_columns(expr, |column| {
            Column::new(column.name(), unprojected(column.index()))
        })
    };
    let mut limited: Option<Side> = None;
    for expr in &ranked.partition_by {
        for column in collect_columns(&over_sides(expr)?) {
            let side = match column.index() < of_left {
                true => Side::Left,
                false => Side::Right,
            };
            if *limited.get_or_insert(side) != side {
                return Ok(None);
            }
        }
    }
    // Rows of the limited side may stay without a partner, as partners of others are dropped.
    let is_swapped = match (limited, source.kind) {
        (Some(Side::Left), JoinType::Inner | JoinType::Left) => true,
        (Some(Side::Right), JoinType::Inner | JoinType::Right) => false,
        _ => return Ok(None),
    };
    let keys = ranked.order_by.iter().map(|key| {
        Ok(datafusion::physical_expr::PhysicalSortExpr {
            expr: over_sides(&key.expr)?,
            options: key.options,
        })
    });
    source.partners = Some(PartnerSource {
        most: ranked.most,
        keys: keys.collect::<Result<_>>()?,
        is_final: false,
    });
    Ok(Some(match is_swapped {
        true => (source.swapped()?, true),
        false => (source, false),
    }))
}

/// Whether an expression is a part of another one.
fn is_part(expr: &Arc<dyn PhysicalExpr>, whole: &Arc<dyn PhysicalExpr>) -> bool {
    whole == expr
        || whole
            .children()
            .into_iter()
            .any(|child| is_part(expr, child))
}

/// A join in place of which no rows need to be numbered.
struct Last {
    exec: ExtendedJoinExec,
    /// The columns of the filter's input.
    columns: Vec<ProjectionExpr>,
}

impl Last {
    /// The plan in place of the filter.
    fn into_plan(self, ranked: &Ranked) -> Result<Plan> {
        let exec: Plan = Arc::new(self.exec);
        let schema = exec.schema();
        let mut columns = self.columns.iter().enumerate();
        let as_they_are = schema.fields().len() == self.columns.len()
            && columns.all(|(i, column)| {
                let of_exec = column.expr.downcast_ref::<Column>();
                of_exec.is_some_and(|of| of.index() == i) && schema.field(i).name() == &column.alias
            });
        let input: Plan = match as_they_are {
            true => exec,
            false => Arc::new(ProjectionExec::try_new(self.columns, exec)?),
        };
        if !ranked.rest.is_empty() {
            let filter = FilterExecBuilder::new(conjunction(ranked.rest.clone()), input);
            let filter = filter.apply_projection(ranked.projection.clone())?;
            return Ok(Arc::new(filter.build()?));
        }
        let Some(projection) = &ranked.projection else {
            return Ok(input);
        };
        let schema = input.schema();
        let columns = projection.iter().map(|column| {
            let name = schema.field(*column).name();
            ProjectionExpr {
                expr: Arc::new(Column::new(name, *column)) as _,
                alias: name.clone(),
            }
        });
        let columns: Vec<ProjectionExpr> = columns.collect();
        Ok(Arc::new(ProjectionExec::try_new(columns, input)?))
    }
}

/// The join whose rows need no numbers: if each partition is one row of the limited side, and the numbers are read by the filter alone.
fn without_numbers(
    top: &Plan,
    ranked: &Ranked,
    is_read: &dyn Fn(usize) -> bool,
    wanted: &JoinSource,
) -> Result<Option<Last>> {
    let is_output = |column: usize| match &ranked.projection {
        Some(projection) => {
            let mut output = projection.iter().enumerate();
            output.any(|(i, of)| *of == column && is_read(i))
        }
        None => is_read(column),
    };
    let of_rest: Vec<usize> = {
        let columns = ranked.rest.iter().flat_map(collect_columns);
        columns.map(|column| column.index()).collect()
    };
    let is_read = |column: usize| is_output(column) || of_rest.contains(&column);
    let mut columns = ranked.columns.iter().enumerate();
    let reads_numbers = columns.any(|(i, of)| *of == Ranking::Number && is_read(i));
    if !ranked.is_numbered || (reads_numbers && ranked.most > 1) {
        return Ok(None);
    }
    let of_left = wanted.left.schema().fields().len();
    let width = of_left + wanted.right.schema().fields().len();
    let all = || (0..width).collect();
    let projection = wanted.projection.clone().unwrap_or_else(all);
    let partition = ranked.partition_by.iter().filter_map(|expr| {
        let column = expr.downcast_ref::<Column>()?;
        projection[column.index()].checked_sub(of_left)
    });
    let numbers = partition.filter_map(|column| numbering(&wanted.right, column));
    let Some(number) = { numbers }.next() else {
        return Ok(None);
    };

    // The output of the join: what is read of it.
    let mut output = vec![];
    let mut columns = vec![];
    let Some(filter) = top.downcast_ref::<FilterExec>() else {
        return Ok(None);
    };
    let schema = filter.input().schema();
    for (i, (ranking, field)) in ranked.columns.iter().zip(schema.fields()).enumerate() {
        let expr: Arc<dyn PhysicalExpr> = match ranking {
            _ if !is_read(i) => unread(field.data_type())?,
            Ranking::Column(column) => {
                let column = projection[*column];
                let known = output.iter().position(|known| *known == column);
                let at = known.unwrap_or_else(|| {
                    output.push(column);
                    output.len() - 1
                });
                Arc::new(Column::new(field.name(), at))
            }
            Ranking::Number => Arc::new(Literal::new(ScalarValue::UInt64(Some(1)))),
            Ranking::Computed => return Ok(None),
        };
        columns.push(ProjectionExpr {
            expr,
            alias: field.name().clone(),
        });
    }
    let mut source = JoinSource {
        projection: Some(output.clone()),
        ..wanted.clone()
    };
    if let Some(partners) = &mut source.partners {
        partners.is_final = true;
    }
    if !reads(&source, of_left + number.column) {
        source.right = number.without()?;
    }
    let instead = numbered(filter, ranked, &projection, &output)?;
    let schema = joined_schema(&source.left, &source.right, source.kind, &output);
    let metadata = ranked.join.schema().metadata().clone();
    let schema = Arc::new(Schema::new_with_metadata(schema.fields().clone(), metadata));
    // Their names are those of the join's columns.
    for column in &mut columns {
        if let Some(of_join) = column.expr.downcast_ref::<Column>() {
            let name = schema.field(of_join.index()).name();
            column.expr = Arc::new(Column::new(name, of_join.index()));
        }
    }
    Ok(Some(Last {
        // Numbers may be missing below it, which DataFusion's nodes need.
        exec: ExtendedJoinExec::new(source, None, schema).with_instead(instead),
        columns,
    }))
}

/// DataFusion's filter of numbered rows, with these columns of both sides.
fn numbered(
    filter: &FilterExec,
    ranked: &Ranked,
    joined: &[usize],
    output: &[usize],
) -> Result<Plan> {
    let all = FilterExecBuilder::new(Arc::clone(filter.predicate()), Arc::clone(filter.input()));
    let all: Plan = Arc::new(all.build()?);
    let schema = all.schema();
    let columns = output.iter().filter_map(|of| {
        let is_it = |ranking: &Ranking| matches!(ranking, Ranking::Column(i) if joined[*i] == *of);
        let at = ranked.columns.iter().position(is_it)?;
        let name = schema.field(at).name();
        let expr: Arc<dyn PhysicalExpr> = Arc::new(Column::new(name, at));
        Some(ProjectionExpr {
            expr,
            alias: name.clone(),
        })
    });
    let columns: Vec<_> = columns.collect();
    Ok(Arc::new(ProjectionExec::try_new(columns, all)?))
}

/// Whether a join reads a column of its sides beside the numbers of partitions.
fn reads(source: &JoinSource, column: usize) -> bool {
    let of_left = source.left.schema().fields().len();
    let has = |expr: &Arc<dyn PhysicalExpr>, shift: usize| {
        let mut columns = collect_columns(expr).into_iter();
        columns.any(|of| of.index() + shift == column)
    };
    let projected = source.projection.iter().flatten().any(|c| *c == column);
    let keys = source.on.iter().any(|(_, right)| has(right, of_left));
    let filter = source.filter.as_ref().is_some_and(|filter| {
        let mut columns = filter.column_indices().iter();
        columns.any(|of| {
            of.side == datafusion::common::JoinSide::Right && of.index + of_left == column
        })
    });
    let order = source.partners.iter().flat_map(|partners| &partners.keys);
    projected || keys || filter || { order }.any(|key| has(&key.expr, 0))
}
