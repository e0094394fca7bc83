//! [`Entrance`]: where DataFusion's optimizer calls one of bowtie's rules. A rule cannot fail a query: what it fails on is declined, and the plan
//! stays as it was.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::datatypes::FieldRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;

use crate::device::counters::Counted;
use crate::device::trace;
use crate::error::Decline;
use crate::error::panics::message_of;
use crate::options::BowtieOptions;

/// The entrance of a rule.
pub(crate) struct Entrance<'a> {
    pub(crate) rule: &'static str,
    pub(crate) options: &'a BowtieOptions,
}

impl Entrance<'_> {
    /// What `rewrite` makes of a plan; a decline where it fails or panics, which is counted and logged.
    ///
    /// # Errors
    /// When the options ask for what this machine does not have, such as a GPU that is not there. Under `bowtie.strict`, and in builds for
    /// tests (feature `faults`), whatever `rewrite` fails with.
    pub(crate) fn enter<T>(
        &self,
        rewrite: impl FnOnce() -> Result<T>,
    ) -> Result<std::result::Result<T, Decline>> {
        let (is_on_purpose, outcome) = match planning_faults::strikes(self.rule) {
            Some(error) => (true, Ok(Err(error))),
            None if self.shows_errors() => (false, Ok(rewrite())),
            // The plan is made of shared nodes that nothing changes, so that no half-made state is left behind.
            None => (false, catch_unwind(AssertUnwindSafe(rewrite))),
        };
        let error = match outcome {
            Ok(Ok(rewritten)) => return Ok(Ok(rewritten)),
            Ok(Err(error)) if is_asked_for(&error) => return Err(error),
            Ok(Err(error)) if self.shows_errors() && !is_on_purpose => return Err(error),
            Ok(Err(error)) => error.strip_backtrace(),
            Err(panic) => format!("a panic, {}", message_of(panic.as_ref())),
        };
        trace::count(Counted::PlanningErrors, 1);
        log::warn!(
            "bowtie's rule {} failed, and the query is DataFusion's: {error}; please report it, with the query",
            self.rule
        );
        Ok(Err(Decline(format!("planning failed: {error}"))))
    }

    /// Whether errors of a rule end the query.
    fn shows_errors(&self) -> bool {
        self.options.strict || cfg!(feature = "faults")
    }
}

/// That a rule kept the columns of a plan: DataFusion fails a query otherwise.
///
/// # Errors
/// When a column has another name, type or metadata, or may be NULL where it could not.
pub(crate) fn keeps_schema(
    plan: &Arc<dyn ExecutionPlan>,
    rewritten: &Arc<dyn ExecutionPlan>,
) -> Result<()> {
    let (before, after) = (plan.schema(), rewritten.schema());
    let is_kept = |(before, after): (&FieldRef, &FieldRef)| {
        let are_same = before.name() == after.name()
            && before.data_type() == after.data_type()
            && before.metadata() == after.metadata();
        are_same && (before.is_nullable() || !after.is_nullable())
    };
    let mut fields = before.fields().iter().zip(after.fields());
    let are_kept = before.fields().len() == after.fields().len()
        && before.metadata() == after.metadata()
        && fields.all(is_kept);
    match are_kept {
        true => Ok(()),
        false => Err(DataFusionError::Internal(format!(
            "the plan has the columns {after} in place of {before}"
        ))),
    }
}

/// The same of a logical plan, whose fields' nullability DataFusion does not compare.
///
/// # Errors
/// When a column has another name or type.
pub(crate) fn keeps_columns(plan: &LogicalPlan, rewritten: &LogicalPlan) -> Result<()> {
    let (before, after) = (plan.schema(), rewritten.schema());
    match before.logically_equivalent_names_and_types(after) {
        true => Ok(()),
        false => Err(DataFusionError::Internal(format!(
            "the plan has the columns {after} in place of {before}"
        ))),
    }
}

/// Whether an error tells that the options cannot be had.
fn is_asked_for(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::Configuration(told) => told.starts_with("bowtie."),
        _ => false,
    }
}

#[cfg(feature = "faults")]
pub(crate) use crate::plan::planning_faults;

#[cfg(not(feature = "faults"))]
mod planning_faults {
    pub(super) fn strikes(_: &'static str) -> Option<datafusion::error::DataFusionError> {
        None
    }
}
