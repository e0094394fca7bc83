//! [`SplitDisjunctions`]: joins by an OR across the sides, as entity resolution writes its blocking rules, as unions of joins.
//!
//! ```sql
//! SELECT … FROM people a JOIN people b ON a.id < b.id AND (a.email = b.email OR array_overlap(a.names, b.names) >= 2)
//! ```
//!
//! An OR has no index, so that such a join tests all pairs. Each of its disjuncts has one.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{JoinType, NullEquality, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::{Join, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use crate::options::{BowtieOptions, Offload, ThetaStrategy};
use crate::plan::disjunctions::inputs::{Input, are_worth};
use crate::plan::disjunctions::sides::Sides;
use crate::plan::disjunctions::split::split;
use crate::plan::disjunctions::union::{as_union, joins_of};
use crate::plan::entrance::{Entrance, keeps_columns};

/// Joins at most in place of one: each of them reads both inputs.
const MOST_JOINS: usize = 16;

/// Stands behind the rules that make joins of subqueries, move what disjuncts have in common out of an OR, make keys of equalities, and move
/// filters into joins: all that DataFusion knows of a join is in it. DataFusion's rules run again, and make keys of the new joins' equalities.
#[derive(Debug, Default)]
pub(crate) struct SplitDisjunctions;

impl SplitDisjunctions {
    pub(crate) const NAME: &'static str = "bowtie_split_disjunctions";
}

impl OptimizerRule for SplitDisjunctions {
    fn name(&self) -> &str {
        Self::NAME
    }

    // Upwards: the joins of a union are not visited again.
    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Join(join) = &plan else {
            return Ok(Transformed::no(plan));
        };
        let entrance = Entrance {
            rule: Self::NAME,
            options: &BowtieOptions::of(&config.options()),
        };
        let rewritten = entrance.enter(|| {
            let union = union_of(join, config)?;
            union
                .iter()
                .try_for_each(|union| keeps_columns(&plan, union))?;
            Ok(union)
        })?;
        let rewritten = rewritten.unwrap_or(None);
        Ok(match rewritten {
            Some(rewritten) => Transformed::yes(rewritten),
            None => Transformed::no(plan),
        })
    }
}

/// The union in place of a join; `None` if that stays.
fn union_of(join: &Join, config: &dyn OptimizerConfig) -> Result<Option<LogicalPlan>> {
    let Some(condition) = &join.filter else {
        return Ok(None);
    };
    // With an equality beside the OR it is a hash join, whose candidates are few.
    let has_keys = !join.on.is_empty();
    let has_other_nulls = join.null_aware || join.null_equality != NullEquality::NullEqualsNothing;
    if has_keys || has_other_nulls {
        return Ok(None);
    }
    let options = config.options();
    let options = BowtieOptions::of(&options);
    // A strategy that is asked for serves the join as it is written.
    if options.offload == Offload::Off || options.theta_strategy != ThetaStrategy::AUTO {
        return Ok(None);
    }
    let Some(split) = Sides::of(join).and_then(|sides| split(condition, &sides)) else {
        return Ok(None);
    };
    let joins = joins_of(join.join_type, split.disjuncts.len());
    let Some(joins) = joins.filter(|joins| *joins <= MOST_JOINS && have_nulls(join)) else {
        return Ok(None);
    };
    let (Some(left), Some(right)) = (Input::of(&join.left)?, Input::of(&join.right)?) else {
        return Ok(None);
    };
    // A row without a match passes all disjuncts, among those that the rest of the condition lets through in a nested loop.
    let is_inner = join.join_type == JoinType::Inner;
    let gains = (is_inner || split.common.is_empty()) && are_worth(&[left, right], joins);
    match gains || options.offload == Offload::Force {
        true => as_union(join, &split),
        false => Ok(None),
    }
}

/// Whether there is a NULL of each column's type, which an outer join's rows may need.
fn have_nulls(join: &Join) -> bool {
    let mut fields = join.schema.fields().iter();
    fields.all(|field| ScalarValue::try_new_null(field.data_type()).is_ok())
}
