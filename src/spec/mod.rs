//! What `plan` says and `exec` does, as plain data: it can be printed, tested without a device, and costed.

mod aggregate;
mod comparison;
mod guard;
mod join;
mod program;
mod row_program;
mod rows;
mod set;
mod text;

pub(crate) use aggregate::{
    AggregateFunction, AggregateSpec, Fold, GroupAggregate, GroupSide, GroupSpec, GroupState,
    GroupStrategy, GroupingSet, JoinAggregateSpec, RowOrder,
};
pub(crate) use comparison::Comparison;
pub(crate) use guard::Guard;
pub(crate) use join::{
    ColumnComparison, ConditionDisplay, EquiStrategy, JoinSpec, Materialization, Output, Side,
    SideInput, Strategy, ThetaSpec, join_columns,
};
pub(crate) use program::{
    Instruction, Kind, MAX_COLUMNS, MAX_INSTRUCTIONS, MAX_REGISTERS, Op, Program,
};
pub(crate) use row_program::{
    FAR_DAYS, MAX_ROW_INSTRUCTIONS, MAX_ROW_REGISTERS, RowInstruction, RowKind, RowOp, RowProgram,
    RowSource,
};
pub(crate) use rows::{FilterSpec, MadeBy, Projected, ProjectionSpec, RowExpressions};
pub(crate) use set::{SetMeasure, SetPredicate, SetSpec, SetTechnique, SetTest};
pub(crate) use text::{LikePattern, TextPredicate, TextSlice, TextTest};

/// Most rows that a chunk may have: row ids are `u32`, with one value for "none", and kernels round up to whole tiles of rows.
pub(crate) const MAX_CHUNK_ROWS: usize = u32::MAX as usize - 4096;
