//! One view of DataFusion's join nodes, and of a join with a limit of partners: every semantic field is either in [`JoinSource`] or makes the node decline.

use std::sync::Arc;

use datafusion::common::{JoinSide, JoinType};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::BinaryExpr;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PiecewiseMergeJoinExec, SortMergeJoinExec,
};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::error::Decline;
use crate::plan::compile::permitted::{Use, permits};
use crate::plan::sources::extended_join::ExtendedJoinExec;
use crate::plan::sources::join_source::JoinSource;

/// `None` when `plan` is no join.
pub(crate) fn join_source(plan: &Arc<dyn ExecutionPlan>) -> Option<Result<JoinSource, Decline>> {
    let source = if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        Ok(JoinSource {
            filter: join.filter().cloned(),
            projection: join.projection().as_ref().map(|p| p.to_vec()),
            fetch: join.fetch(),
            ..JoinSource::new(join.left(), join.right(), *join.join_type())
        })
    } else if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        hash_join(join)
    } else if let Some(join) = plan.downcast_ref::<SortMergeJoinExec>() {
        Ok(JoinSource {
            on: join.on.clone(),
            null_equality: join.null_equality,
            filter: join.filter.clone(),
            fetch: join.fetch(),
            tests_all_pairs: false,
            ..JoinSource::new(&join.left, &join.right, join.join_type)
        })
    } else if let Some(join) = plan.downcast_ref::<PiecewiseMergeJoinExec>() {
        piecewise_merge_join(join)
    } else if let Some(join) = plan.downcast_ref::<CrossJoinExec>() {
        Ok(JoinSource {
            fetch: join.fetch(),
            ..JoinSource::new(join.left(), join.right(), JoinType::Inner)
        })
    } else if let Some(partners) = plan.downcast_ref::<ExtendedJoinExec>() {
        Ok(partners.source().clone())
    } else {
        return None;
    };
    Some(source.and_then(|mut source| {
        source.metadata = plan.schema().metadata().clone();
        for (side, plan) in [("left", &source.left), ("right", &source.right)] {
            if plan.boundedness().is_unbounded() {
                return Decline::because(format!(
                    "its {side} input is unbounded: bowtie joins finite inputs only"
                ));
            }
        }
        Ok(source)
    }))
}

fn hash_join(join: &HashJoinExec) -> Result<JoinSource, Decline> {
    if !join.dynamic_expressions_produced().is_empty() {
        return Decline::because("it already produces a dynamic filter for its probe side");
    }
    Ok(JoinSource {
        on: join.on.clone(),
        null_equality: join.null_equality,
        filter: join.filter.clone(),
        projection: join.projection.as_ref().map(|p| p.to_vec()),
        fetch: join.fetch(),
        tests_all_pairs: false,
        null_aware: join.null_aware,
        ..JoinSource::new(&join.left, &join.right, join.join_type)
    })
}

/// Its one comparison becomes a filter over the two columns or expressions that it compares.
fn piecewise_merge_join(join: &PiecewiseMergeJoinExec) -> Result<JoinSource, Decline> {
    let (left, right) = (join.buffered(), join.streamed());
    let width = left.schema().fields().len();
    let column_indices: Vec<ColumnIndex> = (0..width)
        .map(|index| ColumnIndex {
            index,
            side: JoinSide::Left,
        })
        .chain((0..right.schema().fields().len()).map(|index| ColumnIndex {
            index,
            side: JoinSide::Right,
        }))
        .collect();
    let fields: Vec<_> = left
        .schema()
        .fields()
        .iter()
        .chain(right.schema().fields())
        .cloned()
        .collect();
    if !permits(&join.on.1, Use::Rebind) {
        return Decline::because("its condition has a lambda");
    }
    let shifted = crate::plan::compile::sides::shift_columns(&join.on.1, width)
        .map_err(|e| Decline(format!("its condition cannot be read: {e}")))?;
    let comparison = BinaryExpr::new(
        Arc::clone(&join.on.0),
        Operator::clone(&join.operator),
        shifted,
    );
    Ok(JoinSource {
        filter: Some(JoinFilter::new(
            Arc::new(comparison),
            column_indices,
            Arc::new(arrow::datatypes::Schema::new(fields)),
        )),
        fetch: join.fetch(),
        ..JoinSource::new(left, right, join.join_type())
    })
}
