//! What `plan` says and `exec` does, as plain data: it can be printed, tested without a device, and costed.

mod aggregate;
mod comparison;
mod guard;
mod join;

pub(crate) use aggregate::{AggregateFunction, AggregateSpec, GroupSide, JoinAggregateSpec};
pub(crate) use comparison::Comparison;
pub(crate) use guard::Guard;
pub(crate) use join::{
    ColumnComparison, ConditionDisplay, JoinSpec, Output, Side, SideInput, Strategy, ThetaSpec,
    join_columns,
};
