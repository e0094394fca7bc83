//! [`as_union`]: the rows of a join by an OR as a union of joins.
//!
//! ```text
//! a JOIN b ON c AND (p OR q)         a JOIN b ON c AND p
//!                                    UNION ALL a JOIN b ON c AND q AND (p IS NOT TRUE)
//! a SEMI JOIN b ON c AND (p OR q)    a SEMI JOIN b ON c AND p
//!                                    UNION ALL (a ANTI JOIN b ON c AND p) SEMI JOIN b ON c AND q
//! a ANTI JOIN b ON c AND (p OR q)    (a ANTI JOIN b ON c AND p) ANTI JOIN b ON c AND q
//! ```
//!
//! An outer join is the inner one, and the rows of the anti join with NULLs beside them. A pair is a row of the first join whose disjunct is
//! true, and of no other one: where an earlier disjunct is NULL, it is not true, and the later one decides, as in the OR.

use std::iter::once;
use std::sync::Arc;

use arrow::datatypes::Field;
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::{Column, DFSchema, JoinType, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, Join, LogicalPlan, Projection, Union};

use crate::ir::side::Side;
use crate::plan::disjunctions::split::Split;

/// How many joins the union of a join with `disjuncts` has; `None` for joins that are not split.
pub(super) fn joins_of(kind: JoinType, disjuncts: usize) -> Option<usize> {
    match kind {
        JoinType::Inner | JoinType::LeftAnti | JoinType::RightAnti => Some(disjuncts),
        JoinType::Left | JoinType::Right => Some(2 * disjuncts),
        JoinType::Full => Some(3 * disjuncts),
        JoinType::LeftSemi | JoinType::RightSemi => Some(disjuncts * (disjuncts + 1) / 2),
        JoinType::LeftMark | JoinType::RightMark => None,
    }
}

/// The rows of `join`, whose condition is `split`, with its columns; `None` if its schema would be another one.
pub(super) fn as_union(join: &Join, split: &Split) -> Result<Option<LogicalPlan>> {
    let branches = Branches { join, split };
    let rows = match join.join_type {
        JoinType::LeftAnti => return branches.unmatched(Side::Left).map(Some),
        JoinType::RightAnti => return branches.unmatched(Side::Right).map(Some),
        JoinType::LeftSemi => branches.matched(Side::Left)?,
        JoinType::RightSemi => branches.matched(Side::Right)?,
        _ => {
            let mut rows = branches.pairs()?;
            if matches!(join.join_type, JoinType::Left | JoinType::Full) {
                rows.push(branches.padded(Side::Left)?);
            }
            if matches!(join.join_type, JoinType::Right | JoinType::Full) {
                rows.push(branches.padded(Side::Right)?);
            }
            rows
        }
    };
    // Metadata of a schema are those of one side or the other. A union has what all branches agree on, and its plan what the last one has.
    let metadata = |rows: &LogicalPlan| rows.schema().metadata().clone();
    let differ = rows
        .iter()
        .any(|other| metadata(other) != *join.schema.metadata());
    if differ {
        return Ok(None);
    }
    let rows = rows.into_iter().map(Arc::new).collect();
    let rows = LogicalPlan::Union(Union::try_new(rows)?);
    let columns = join.schema.iter().enumerate();
    let columns = columns.map(|(i, (qualifier, field))| {
        Expr::Column(Column::new_unqualified(name(i)))
            .alias_qualified(qualifier.cloned(), field.name())
    });
    let columns = columns.collect();
    Projection::try_new(columns, Arc::new(rows)).map(|rows| Some(LogicalPlan::Projection(rows)))
}

struct Branches<'a> {
    join: &'a Join,
    split: &'a Split,
}

impl Branches<'_> {
    fn input(&self, side: Side) -> &Arc<LogicalPlan> {
        match side {
            Side::Left => &self.join.left,
            Side::Right => &self.join.right,
        }
    }

    /// A join of these inputs where all of `conditions` hold, beside the common ones.
    fn joined(
        &self,
        left: Arc<LogicalPlan>,
        right: Arc<LogicalPlan>,
        kind: JoinType,
        conditions: impl Iterator<Item = Expr>,
    ) -> Result<LogicalPlan> {
        let common = self.split.common.iter().cloned();
        let filter = common.chain(conditions).reduce(Expr::and);
        Join::try_new(
            left,
            right,
            vec![],
            filter,
            kind,
            self.join.join_constraint,
            self.join.null_equality,
            false,
        )
        .map(LogicalPlan::Join)
    }

    /// The pairs of rows of each disjunct, without those of earlier ones.
    fn pairs(&self) -> Result<Vec<LogicalPlan>> {
        let disjuncts = &self.split.disjuncts;
        let pairs = disjuncts.iter().enumerate().map(|(i, disjunct)| {
            let earlier = disjuncts[..i].iter().map(|of| of.clone().is_not_true());
            // Behind them: what fails on a pair that an earlier one has decided is not raised by the OR either.
            let conditions = earlier.chain(once(disjunct.clone()));
            let [left, right] = [Side::Left, Side::Right].map(|side| Arc::clone(self.input(side)));
            let pairs = self.joined(left, right, JoinType::Inner, conditions)?;
            let columns = columns_of(pairs.schema());
            branch(pairs, columns)
        });
        pairs.collect()
    }

    /// Those of `rows`, which are of a side, that have a match by `disjunct`; or those that have none.
    fn filtered(
        &self,
        side: Side,
        rows: Arc<LogicalPlan>,
        disjunct: &Expr,
        have_match: bool,
    ) -> Result<LogicalPlan> {
        let other = Arc::clone(self.input(side.other()));
        let kind = match (side, have_match) {
            (Side::Left, true) => JoinType::LeftSemi,
            (Side::Left, false) => JoinType::LeftAnti,
            (Side::Right, true) => JoinType::RightSemi,
            (Side::Right, false) => JoinType::RightAnti,
        };
        let (left, right) = match side {
            Side::Left => (rows, other),
            Side::Right => (other, rows),
        };
        self.joined(left, right, kind, once(disjunct.clone()))
    }

    /// The rows of a side that have a match: for each disjunct those that have none by earlier ones.
    fn matched(&self, side: Side) -> Result<Vec<LogicalPlan>> {
        let mut rest = Arc::clone(self.input(side));
        let mut matched = vec![];
        for disjunct in &self.split.disjuncts {
            let rows = self.filtered(side, Arc::clone(&rest), disjunct, true)?;
            let columns = columns_of(rows.schema());
            matched.push(branch(rows, columns)?);
            rest = Arc::new(self.filtered(side, rest, disjunct, false)?);
        }
        Ok(matched)
    }

    /// The rows of a side that have no match.
    fn unmatched(&self, side: Side) -> Result<LogicalPlan> {
        let mut rest = Arc::clone(self.input(side));
        for disjunct in &self.split.disjuncts {
            rest = Arc::new(self.filtered(side, rest, disjunct, false)?);
        }
        Ok(Arc::unwrap_or_clone(rest))
    }

    /// The rows of a side that have no match, with NULLs in place of the columns of the other side.
    fn padded(&self, side: Side) -> Result<LogicalPlan> {
        let own = columns_of(self.input(side).schema());
        let nulls = nulls_of(self.input(side.other()).schema())?;
        let columns = match side {
            Side::Left => [own, nulls],
            Side::Right => [nulls, own],
        };
        branch(self.unmatched(side)?, columns.concat())
    }
}

/// An input of the union: its columns get names of their own, since one table may be on both sides.
fn branch(rows: LogicalPlan, columns: Vec<Expr>) -> Result<LogicalPlan> {
    let columns = columns.into_iter().enumerate();
    let columns = columns.map(|(i, column)| column.alias(name(i))).collect();
    Projection::try_new(columns, Arc::new(rows)).map(LogicalPlan::Projection)
}

fn name(column: usize) -> String {
    format!("c{column}")
}

fn columns_of(schema: &DFSchema) -> Vec<Expr> {
    schema.columns().into_iter().map(Expr::Column).collect()
}

fn nulls_of(schema: &DFSchema) -> Result<Vec<Expr>> {
    let fields = schema.fields().iter();
    fields.map(|field| null_of(field)).collect()
}

/// A NULL in place of a column, with its metadata: a union keeps what all its inputs have.
fn null_of(field: &Field) -> Result<Expr> {
    let value = ScalarValue::try_new_null(field.data_type())?;
    let has_metadata = !field.metadata().is_empty();
    let metadata = has_metadata.then(|| FieldMetadata::from(field));
    Ok(Expr::Literal(value, metadata))
}
