//! A join: its inputs, its condition, its output.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::{JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr_common::physical_expr::fmt_sql;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::{JoinFilter, build_join_schema};

use crate::ir::comparison::Comparison;
use crate::ir::pair_program::Program;
use crate::ir::set_predicate::{SetSpec, SetTechnique, SetValue};
use crate::ir::side::Side;
use crate::ir::strategies::{EquiStrategy, Materialization, Strategy};
use crate::spec::guard::Guard;
use crate::spec::partners::{BestPartners, Partners};

/// The columns of a side on the device: those of its plan, then one column for each expression.
#[derive(Debug, Clone)]
pub(crate) struct SideInput {
    /// The schema of the plan below.
    plan: SchemaRef,
    /// DataFusion's own expressions, evaluated once a row.
    pub expressions: Vec<Arc<dyn PhysicalExpr>>,
    fields: Vec<FieldRef>,
}

impl SideInput {
    pub(crate) fn new(plan: SchemaRef) -> Self {
        Self {
            fields: plan.fields().to_vec(),
            plan,
            expressions: vec![],
        }
    }

    /// The schema of the plan below.
    pub(crate) fn plan(&self) -> &SchemaRef {
        &self.plan
    }

    /// Columns of the plan below.
    pub(crate) fn plan_columns(&self) -> usize {
        self.plan.fields().len()
    }

    /// Columns of the plan below and evaluated ones.
    pub(crate) fn columns(&self) -> usize {
        self.fields.len()
    }

    pub(crate) fn data_type(&self, column: usize) -> &DataType {
        self.fields[column].data_type()
    }

    /// All columns.
    pub(crate) fn schema(&self) -> SchemaRef {
        Arc::new(Schema::new_with_metadata(
            self.fields.clone(),
            self.plan.metadata().clone(),
        ))
    }

    /// The column that holds `expression`: one of the plan's own, or an evaluated one, added when it is not there yet.
    pub(crate) fn column_of(&mut self, expression: &Arc<dyn PhysicalExpr>) -> Result<usize> {
        if let Some(column) = expression.downcast_ref::<Column>() {
            return Ok(column.index());
        }
        let known = self
            .expressions
            .iter()
            .position(|known| known == expression);
        let at = match known {
            Some(at) => at,
            None => {
                let name = format!("bowtie_{}", fmt_sql(expression.as_ref()));
                let data_type = expression.data_type(&self.plan)?;
                // Nullable, since an expression that fails leaves NULLs behind.
                self.fields
                    .push(Arc::new(Field::new(name, data_type, true)));
                self.expressions.push(Arc::clone(expression));
                self.expressions.len() - 1
            }
        };
        Ok(self.plan_columns() + at)
    }
}

/// `left column OP right column`, by index in each side's input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ColumnComparison {
    pub left: usize,
    pub op: Comparison,
    pub right: usize,
}

impl ColumnComparison {
    pub(crate) fn column(&self, side: Side) -> usize {
        match side {
            Side::Left => self.left,
            Side::Right => self.right,
        }
    }

    /// The comparison read from `side`: `column(side) OP column(other)`.
    pub(crate) fn op_from(&self, side: Side) -> Comparison {
        match side {
            Side::Left => self.op,
            Side::Right => self.op.swap(),
        }
    }
}

/// How a join finds the candidates of a row.
#[derive(Debug, Clone)]
pub(crate) enum MatchMethod {
    /// By equal keys alone. `None`: the device chooses the algorithm.
    Equi(Option<EquiStrategy>),
    /// By a range of one sorted column. Each row of the probe side, which is the right one then, keeps only these of its partners.
    Range(Option<Partners>),
    /// By a range of one sorted column, and tests of others with zone maps. Sampled selectivities decide which column is sorted.
    Dominance,
    /// By tests of every pair (within an equality group) that zone maps cannot reject.
    Tiles,
    /// By a predicate on sets (within an equality group). `None`: the device chooses the technique.
    Set(SetSpec, Option<SetTechnique>),
}

/// The part of a condition that a device's join primitives evaluate.
#[derive(Debug, Clone)]
pub(crate) struct MatchSpec {
    pub method: MatchMethod,
    /// The build side; the other one is the probe side.
    pub build: Side,
    /// Columns that must be equal, by index in each side's input.
    pub equalities: Vec<(usize, usize)>,
    pub null_equality: NullEquality,
    pub comparisons: Vec<ColumnComparison>,
    /// Whether values of the sets of matches come out.
    pub has_values: bool,
    /// The lists of which they are values, if no predicate on sets finds the matches: by index in each side's input.
    pub compared_lists: Option<(usize, usize)>,
    /// Of equi-joins; `None`: the device chooses.
    pub materialization: Option<Materialization>,
}

impl MatchSpec {
    /// The method's name in plans.
    pub(crate) fn strategy(&self) -> Strategy {
        match &self.method {
            MatchMethod::Equi(strategy) => Strategy::Equi(*strategy),
            MatchMethod::Range(_) => Strategy::Range,
            MatchMethod::Dominance => Strategy::Dominance,
            MatchMethod::Tiles => Strategy::Tiles,
            MatchMethod::Set(_, technique) => Strategy::Set(*technique),
        }
    }

    /// The predicate on sets that finds the candidates.
    pub(crate) fn set(&self) -> Option<&SetSpec> {
        match &self.method {
            MatchMethod::Set(set, _) => Some(set),
            _ => None,
        }
    }

    /// The partners that each row of the probe side keeps.
    pub(crate) fn partners(&self) -> Option<&Partners> {
        match &self.method {
            MatchMethod::Range(partners) => partners.as_ref(),
            _ => None,
        }
    }

    /// The columns of `side` that must be equal to those of the other one.
    pub(crate) fn keys(&self, side: Side) -> impl Iterator<Item = usize> {
        let keys = self.equalities.iter();
        keys.map(move |(left, right)| match side {
            Side::Left => *left,
            Side::Right => *right,
        })
    }

    /// The column of lists of a side whose values come out, if no predicate on sets finds the matches.
    pub(crate) fn compared_list(&self, side: Side) -> Option<usize> {
        let (left, right) = self.compared_lists?;
        Some(match side {
            Side::Left => left,
            Side::Right => right,
        })
    }

    /// Whether NULLs are equal.
    pub(crate) fn null_equal(&self) -> bool {
        self.null_equality == NullEquality::NullEqualsNull
    }

    /// Whether the strategy can sort `side`: a range needs one column there for all its inequalities.
    pub(crate) fn can_sort(&self, side: Side) -> bool {
        let mut columns = self
            .comparisons
            .iter()
            .filter(|c| c.op.is_range())
            .map(|c| c.column(side));
        match (&self.method, columns.next()) {
            (MatchMethod::Range(_), Some(first)) => columns.all(|column| column == first),
            (MatchMethod::Range(_), None) => false,
            _ => true,
        }
    }
}

/// One output column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    Column(Side, usize),
    /// Whether the row has a match.
    Mark,
    /// A value of the sets of a match, by its number in [`JoinSpec::values`].
    Value(usize),
}

/// The value of a function of the lists by which rows match.
#[derive(Debug, Clone)]
pub(crate) struct MatchValue {
    pub value: SetValue,
    /// DataFusion's own call, over columns of both sides.
    pub call: JoinFilter,
    /// NULL in rows that are padded.
    pub field: FieldRef,
}

/// A join.
#[derive(Debug, Clone)]
pub(crate) struct JoinSpec {
    pub kind: JoinType,
    /// A left anti join of one key for NOT IN: it has no output when a right key is NULL, whatever the condition says or raises on other
    /// rows, and a left row whose key is NULL is output only when there is no right row.
    pub null_aware: bool,
    /// Metadata of the output schema.
    pub metadata: HashMap<String, String>,
    pub theta: MatchSpec,
    /// Where one of them fails, the whole filter is evaluated instead of the comparisons.
    pub guards: Vec<Guard>,
    /// The residual filter: conjuncts that are not comparisons, evaluated on candidates, by `program` or by DataFusion's own expressions. Each
    /// is evaluated on the candidates that satisfy those before it, so that none fails on a candidate that another one rejects.
    pub residual: Vec<JoinFilter>,
    /// The conjuncts of the residual filter that are compiled.
    pub program: Option<Program>,
    /// The conjuncts of the source's whole filter. They replace comparisons and residual where one of their expressions
    /// fails on a row, so that an error arises only where DataFusion's own join would raise it.
    pub whole_filter: Vec<JoinFilter>,
    pub left: SideInput,
    pub right: SideInput,
    pub output: Vec<Output>,
    /// What comes out beside the columns of both sides.
    pub values: Vec<MatchValue>,
    /// Of a join with a limit of partners: how they are chosen where ranges do not tell it. `None` if ranges always do, and a node above drops
    /// those that are too many.
    pub best_partners: Option<BestPartners>,
    /// Rows after which the join may stop.
    pub fetch: Option<usize>,
    /// Whether the node above reads its rows on the device.
    pub output_on_device: bool,
    /// The condition as EXPLAIN shows it.
    pub display: ConditionDisplay,
}

/// The parts of a condition as text, for EXPLAIN.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ConditionDisplay {
    pub keys: Vec<String>,
    pub theta: Vec<String>,
    /// The predicate on sets.
    pub set: Option<String>,
    /// The compiled conjuncts of the residual filter.
    pub program: Option<String>,
    /// The conjuncts that DataFusion evaluates.
    pub residual: Option<String>,
}

impl JoinSpec {
    pub(crate) fn input(&self, side: Side) -> &SideInput {
        match side {
            Side::Left => &self.left,
            Side::Right => &self.right,
        }
    }

    /// The conjuncts of the residual filter that are not compiled.
    pub(crate) fn unprogrammed(&self) -> impl Iterator<Item = &JoinFilter> {
        let covers = self.program.as_ref().map_or(&[][..], |p| &p.covers);
        let rest = self.residual.iter().enumerate();
        rest.filter(|(i, _)| !covers.contains(i)).map(|(_, c)| c)
    }

    /// The partners that a row keeps, and by what, as text.
    pub(crate) fn kept_partners(&self) -> Option<String> {
        let Some(partners) = self.theta.partners() else {
            let best = self.best_partners.as_ref()?;
            let ties = if best.with_ties { " with ties" } else { "" };
            return Some(format!("first {}{ties} by {}", best.most, best.display));
        };
        let build = self.theta.build;
        let name = |side: Side, column: usize| {
            let schema = self.input(side).schema();
            format!("{side}.{}", schema.field(column).name())
        };
        let to = partners.centre.map(|centre| name(build.other(), centre));
        let to = to.map_or(String::new(), |centre| format!(" to {centre}"));
        Some(format!(
            "{} by {}{to}",
            partners.limit,
            name(build, partners.column)
        ))
    }

    /// Whether each row of the right side keeps only some of its partners.
    pub(crate) fn limits_partners(&self) -> bool {
        self.theta.partners().is_some() || self.best_partners.is_some()
    }

    /// Whether partners are chosen among all matches of a row, as no range tells them.
    pub(crate) fn chooses_among_all(&self) -> bool {
        self.theta.partners().is_none() && self.best_partners.is_some()
    }

    /// Whether equal keys alone decide which rows match.
    pub(crate) fn matches_by_keys_alone(&self) -> bool {
        self.theta.comparisons.is_empty()
            && self.theta.set().is_none()
            && self.whole_filter.is_empty()
            && self.residual.is_empty()
            && self.program.is_none()
    }

    /// Whether its output has columns of both sides.
    pub(crate) fn emits_pairs(&self) -> bool {
        matches!(
            self.kind,
            JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full
        )
    }

    /// Whether it must be known which rows of `side` have a match.
    pub(crate) fn flags_side(&self, side: Side) -> bool {
        use JoinType::*;
        match side {
            Side::Left => matches!(self.kind, Left | Full | LeftSemi | LeftAnti | LeftMark),
            Side::Right => matches!(self.kind, Right | Full | RightSemi | RightAnti | RightMark),
        }
    }
}

/// The columns of a join of this kind before its projection, in order: the counterpart of DataFusion's
/// `build_join_schema`.
pub(crate) fn join_columns(kind: JoinType, left: usize, right: usize) -> Vec<Output> {
    use JoinType::*;
    let all = |side, columns| (0..columns).map(move |i| Output::Column(side, i));
    match kind {
        Inner | Left | Right | Full => all(Side::Left, left)
            .chain(all(Side::Right, right))
            .collect(),
        LeftSemi | LeftAnti => all(Side::Left, left).collect(),
        RightSemi | RightAnti => all(Side::Right, right).collect(),
        LeftMark => all(Side::Left, left).chain([Output::Mark]).collect(),
        RightMark => all(Side::Right, right).chain([Output::Mark]).collect(),
    }
}

/// The schema of the columns `output` of an inner or outer join of two plans.
pub(crate) fn joined_schema(
    left: &Arc<dyn ExecutionPlan>,
    right: &Arc<dyn ExecutionPlan>,
    kind: JoinType,
    output: &[usize],
) -> SchemaRef {
    let (joined, _) = build_join_schema(&left.schema(), &right.schema(), &kind);
    let fields = output
        .iter()
        .map(|column| Arc::clone(&joined.fields()[*column]));
    Arc::new(Schema::new_with_metadata(
        fields.collect::<Vec<_>>(),
        joined.metadata().clone(),
    ))
}

impl fmt::Display for ConditionDisplay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = vec![];
        if !self.keys.is_empty() {
            parts.push(self.keys.join(" AND "));
        }
        parts.extend(self.set.clone());
        if !self.theta.is_empty() {
            parts.push(self.theta.join(" AND "));
        }
        parts.extend(self.program.clone());
        parts.extend(self.residual.clone());
        f.write_str(&parts.join(" AND "))
    }
}
