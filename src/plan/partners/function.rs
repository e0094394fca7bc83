//! `bowtie_asof`, `bowtie_nearest` and `bowtie_similar`: table functions that join each row with the last, the next, the nearest or the most similar
//! rows of another table.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::catalog::view::ViewTable;
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::alias::AliasGenerator;
use datafusion::common::{Column, DFSchema, JoinType, ScalarValue, TableReference};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, SortExpr, cast, lit, when,
};

use crate::plan::cache::state_of::state_of;
use crate::plan::compile::read_again::differs_when_read_again;
use crate::plan::partners::intervals::{Ends, NearestIntervals};
use crate::plan::partners::numbered::{FirstPartners, columns_of};
use crate::plan::query_text::query_plan;

/// A table function of two tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartnersFunction {
    /// `bowtie_asof(left, right, on [, by [, direction [, tolerance]]])`
    Asof,
    /// `bowtie_nearest(left, right, on [, by [, k [, within]]])`
    Nearest,
    /// `bowtie_similar(left, right, on [, k [, measure [, at_least [, by [, except]]]]])`
    Similar,
}

/// In which direction partners are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Backward,
    Forward,
    Nearest,
}

impl PartnersFunction {
    pub(crate) const ALL: [Self; 3] = [Self::Asof, Self::Nearest, Self::Similar];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Asof => "bowtie_asof",
            Self::Nearest => "bowtie_nearest",
            Self::Similar => "bowtie_similar",
        }
    }

    fn usage(self) -> &'static str {
        match self {
            Self::Asof => "bowtie_asof(left, right, on [, by [, direction [, tolerance]]])",
            Self::Nearest => "bowtie_nearest(left, right, on [, by [, k [, within]]])",
            Self::Similar => {
                "bowtie_similar(left, right, on [, k [, measure [, at_least [, by [, except]]]]])"
            }
        }
    }

    fn most_arguments(self) -> usize {
        match self {
            Self::Asof | Self::Nearest => 6,
            Self::Similar => 8,
        }
    }

    pub(super) fn error(self, what: impl std::fmt::Display) -> DataFusionError {
        DataFusionError::Plan(format!("{}: {what}", self.usage()))
    }

    /// A text argument; `None` where it is left out or NULL.
    pub(super) fn text(self, arguments: &[Expr], at: usize, name: &str) -> Result<Option<String>> {
        match arguments.get(at) {
            None => Ok(None),
            Some(Expr::Literal(value, _)) if value.is_null() => Ok(None),
            Some(Expr::Literal(value, _)) => match value.try_as_str() {
                Some(Some(text)) => Ok(Some(text.to_string())),
                _ => Err(self.error(format!("{name} is a string, not {}", Self::shown(value)))),
            },
            Some(other) => Err(self.error(format!("{name} is a constant string, not {other}"))),
        }
    }

    pub(super) fn needed(self, arguments: &[Expr], at: usize, name: &str) -> Result<String> {
        let text = self.text(arguments, at, name)?;
        text.ok_or_else(|| self.error(format!("{name} is missing")))
    }

    /// The direction, and the number of partners.
    fn direction(self, arguments: &[Expr]) -> Result<(Direction, u64)> {
        match self {
            Self::Asof => {
                let direction = self.text(arguments, 4, "direction")?;
                let direction = direction.map(|direction| direction.to_ascii_lowercase());
                let direction = match direction.as_deref() {
                    None | Some("backward") => Direction::Backward,
                    Some("forward") => Direction::Forward,
                    Some("nearest") => Direction::Nearest,
                    Some(other) => {
                        return Err(self.error(format!(
                            "direction is 'backward', 'forward' or 'nearest', not '{other}'"
                        )));
                    }
                };
                Ok((direction, 1))
            }
            Self::Nearest | Self::Similar => Ok((Direction::Nearest, self.count(arguments, 4)?)),
        }
    }

    /// A number of partners; 1 where it is left out or NULL.
    pub(super) fn count(self, arguments: &[Expr], at: usize) -> Result<u64> {
        match arguments.get(at) {
            None => Ok(1),
            Some(Expr::Literal(value, _)) if value.is_null() => Ok(1),
            Some(Expr::Literal(value, _)) => match value.cast_to(&DataType::UInt32) {
                Ok(ScalarValue::UInt32(Some(k))) if k > 0 && value.data_type().is_integer() => {
                    Ok(u64::from(k))
                }
                _ => Err(self.error(format!(
                    "k is a whole number from 1 to {}, not {}",
                    u32::MAX,
                    Self::shown(value)
                ))),
            },
            Some(other) => Err(self.error(format!("k is a constant number, not {other}"))),
        }
    }

    /// Columns of both sides by text: `a` or `a = b`, with commas between.
    pub(super) fn columns(self, text: &str, sides: [&DFSchema; 2]) -> Result<Vec<[Expr; 2]>> {
        let pairs = text.split(',').map(|pair| {
            let (left, right) = match pair.split_once('=') {
                Some((left, right)) => (left.trim(), right.trim()),
                None => (pair.trim(), pair.trim()),
            };
            Ok([
                self.column(left, sides[0], "left")?,
                self.column(right, sides[1], "right")?,
            ])
        });
        pairs.collect()
    }

    fn column(self, name: &str, schema: &DFSchema, side: &str) -> Result<Expr> {
        let quoted = name
            .strip_prefix('"')
            .and_then(|name| name.strip_suffix('"'));
        let exact = quoted.unwrap_or(name);
        let lower = exact.to_lowercase();
        let named = |wanted: &str| schema.iter().find(|(_, field)| field.name() == wanted);
        let known = match quoted {
            Some(exact) => named(exact),
            None => named(exact).or_else(|| named(&lower)),
        };
        match known {
            Some((qualifier, field)) => {
                Ok(Expr::Column(Column::new(qualifier.cloned(), field.name())))
            }
            None => Err(self.error(format!(
                "{side} has no column '{exact}', only {}",
                schema
                    .fields()
                    .iter()
                    .map(|f| f.name().as_str())
                    .collect::<Vec<_>>()
                    .join(", ")
            ))),
        }
    }
}

impl TableFunctionImpl for PartnersFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let arguments = args.exprs();
        if arguments.len() > self.most_arguments() {
            return Err(self.error(format!("it has {} arguments", arguments.len())));
        }
        let state = state_of(args.session(), self.name())?;
        let names = &state.execution_props().alias_generator;
        let side = |at, name: &str| {
            let text = self.needed(arguments, at, name)?;
            let plan = query_plan(self.name(), state, &text)?;
            // One qualifier for all of its columns.
            let alias = TableReference::bare(names.next(&format!("__bowtie_{name}")));
            LogicalPlanBuilder::from(plan).alias(alias)?.build()
        };
        let (left, right) = (side(0, "left")?, side(1, "right")?);
        if *self == Self::Similar {
            return self.similar(arguments, [left, right], names);
        }
        let schemas = [left.schema().as_ref(), right.schema().as_ref()];
        let on = self.columns(&self.needed(arguments, 2, "on")?, schemas)?;
        let by = match self.text(arguments, 3, "by")? {
            Some(by) => self.columns(&by, schemas)?,
            None => vec![],
        };
        let (direction, k) = self.direction(arguments)?;
        let tolerance = arguments
            .get(5)
            .filter(|tolerance| !matches!(tolerance, Expr::Literal(value, _) if value.is_null()));
        let [left_on, right_on] = match (self, on.as_slice()) {
            (_, [on]) => on.clone(),
            (Self::Nearest, [start, stop]) => {
                let ends = [start, stop];
                return self.intervals([left, right], ends, &by, k, tolerance, names);
            }
            (Self::Nearest, _) => {
                return Err(self.error(
                    "on is one column, or the beginning and the end of intervals: each is a name, or left column = right column",
                ));
            }
            _ => return Err(self.error("on is one column, or left column = right column")),
        };
        let types = [
            left_on.get_type(schemas[0])?,
            right_on.get_type(schemas[1])?,
        ];
        let common = self.common_type(&types, tolerance)?;
        let [left_on, right_on] =
            [(left_on, &types[0]), (right_on, &types[1])].map(|(on, of)| match *of == common {
                true => on,
                false => cast(on, common.clone()),
            });
        let distance = match direction {
            Direction::Nearest => Some(self.distance(&left_on, &right_on, &common)?),
            _ => None,
        };
        let bound = |is_earlier| match tolerance {
            Some(tolerance) => self
                .bound(&left_on, tolerance, &common, is_earlier)
                .map(Some),
            None => Ok(None),
        };
        let partner = || right_on.clone();
        let earliest = bound(true)?.map(|bound| partner().gt_eq(bound));
        let latest = bound(false)?.map(|bound| partner().lt_eq(bound));
        let bounds = match (direction, &distance, tolerance) {
            (Direction::Backward, ..) => [Some(partner().lt_eq(left_on.clone())), earliest],
            (Direction::Forward, ..) => [Some(partner().gt_eq(left_on.clone())), latest],
            // Two NaN, or two infinities, are between bounds, and have no distance.
            (Direction::Nearest, Some(distance), Some(most)) if common.is_floating() => {
                let most = cast(most.clone(), DataType::Float64);
                [Some(distance.clone().lt_eq(most)), None]
            }
            (Direction::Nearest, ..) => [earliest, latest],
        };
        let mut condition: Vec<Expr> = bounds.into_iter().flatten().collect();
        let keys = by
            .iter()
            .map(|[left, right]| left.clone().eq(right.clone()));
        condition.extend(keys);
        let order = match (&distance, direction) {
            (Some(distance), _) => vec![
                SortExpr::new(distance.clone(), true, false),
                SortExpr::new(partner(), true, false),
            ],
            (None, Direction::Backward) => vec![SortExpr::new(partner(), false, true)],
            (None, _) => vec![SortExpr::new(partner(), true, false)],
        };

        // A row without a value has no partner, and none is a partner of it.
        let mut inside = LogicalPlanBuilder::from(right.clone()).filter(partner().is_not_null())?;
        if direction == Direction::Nearest && tolerance.is_none() {
            let has_none = names.next("__bowtie_has_none");
            let columns = columns_of(right.schema()).chain([lit(false).alias(&has_none)]);
            inside = inside.project(columns)?;
            let of_left = when(left_on.clone().is_null(), lit(true)).otherwise(lit(false))?;
            condition.push(of_left.eq(Expr::Column(Column::new_unqualified(has_none))));
        }
        let wanted = FirstPartners {
            condition: conjunction(condition).unwrap_or_else(|| lit(true)),
            order,
            kind: JoinType::Left,
            skip: 0,
            last: lit(k),
        };
        let of_left = left.schema().as_ref().clone();
        let (plan, partners) = wanted.of(left, inside.build()?, names)?;
        let columns = output(&of_left, right.schema(), partners, &by, None);
        let plan = LogicalPlanBuilder::from(plan).project(columns)?.build()?;
        Ok(Arc::new(ViewTable::new(plan, None)))
    }
}

impl PartnersFunction {
    /// Each row of the left side with its nearest intervals. `ends`: the beginning and the end of both sides.
    fn intervals(
        self,
        [left, right]: [LogicalPlan; 2],
        ends: [&[Expr; 2]; 2],
        by: &[[Expr; 2]],
        k: u64,
        within: Option<&Expr>,
        names: &AliasGenerator,
    ) -> Result<Arc<dyn TableProvider>> {
        // Each of them is read several times, of the left one the keys and the ends alone.
        let mut read_again: Vec<Expr> = vec![];
        for [of_left, _] in ends.into_iter().chain(by) {
            if !read_again.contains(of_left) {
                read_again.push(of_left.clone());
            }
        }
        let of_left = LogicalPlanBuilder::from(left.clone()).project(read_again)?;
        for side in [&of_left.build()?, &right] {
            if let Some(why) = differs_when_read_again(side)? {
                return Err(self.error(format!(
                    "a query of intervals has {why}, and is read several times: make a table of it first"
                )));
            }
        }
        let schemas = [left.schema().as_ref(), right.schema().as_ref()];
        let [[left_start, right_start], [left_stop, right_stop]] = ends;
        let starts = [
            left_start.get_type(schemas[0])?,
            right_start.get_type(schemas[1])?,
        ];
        let stops = [
            left_stop.get_type(schemas[0])?,
            right_stop.get_type(schemas[1])?,
        ];
        let common_of = |tolerance| {
            let ends = [
                self.common_type(&starts, tolerance)?,
                self.common_type(&stops, tolerance)?,
            ];
            self.common_type(&ends, tolerance)
        };
        let (common, plain) = (common_of(within)?, common_of(None)?);
        let number = self.number(&plain)?;
        let of_side = |side: usize| {
            let [start, stop] = ends.map(|end| cast(end[side].clone(), common.clone()));
            Ends { start, stop }
        };
        let gap = |greater: &Expr, less: &Expr| {
            // In the unit of the ends, whatever that of the greatest distance.
            let as_number = |end: &Expr| cast(cast(end.clone(), plain.clone()), number.clone());
            Ok(as_number(greater) - as_number(less))
        };
        let bound = |on: &Expr, is_earlier: bool| {
            let within = within.map(|within| self.bound(on, within, &common, is_earlier));
            within.transpose()
        };
        let nearest = NearestIntervals {
            left: of_side(0),
            right: of_side(1),
            by,
            k,
            gap: &gap,
            nothing: cast(lit(0), number.clone()),
            bound: &bound,
        };
        let (of_left, of_right) = (left.schema().clone(), right.schema().clone());
        let (plan, partners, distance) = nearest.plan(left, right, names)?;
        let columns = output(
            &of_left,
            &of_right,
            partners,
            by,
            Some(("distance", distance)),
        );
        let plan = LogicalPlanBuilder::from(plan).project(columns)?.build()?;
        Ok(Arc::new(ViewTable::new(plan, None)))
    }
}

/// The columns of the left side, then those of the right one without the keys, and a value of both; a name that is taken gets `_right`.
pub(super) fn output(
    left: &DFSchema,
    right: &DFSchema,
    partners: Vec<Expr>,
    by: &[[Expr; 2]],
    value: Option<(&str, Expr)>,
) -> Vec<Expr> {
    let mut taken: Vec<String> = left.fields().iter().map(|f| f.name().clone()).collect();
    let mut columns: Vec<Expr> = columns_of(left)
        .zip(left.fields())
        .map(|(column, field)| column.alias(field.name()))
        .collect();
    let rights = columns_of(right).zip(right.fields()).zip(partners);
    let rights = rights.filter(|((column, _), _)| by.iter().all(|[_, key]| key != column));
    let rights = rights.map(|((_, field), partner)| (field.name().clone(), partner));
    let value = value.map(|(name, value)| (name.to_string(), value));
    for (mut name, partner) in rights.chain(value) {
        while taken.contains(&name) {
            name.push_str("_right");
        }
        columns.push(partner.alias(&name));
        taken.push(name);
    }
    columns
}
