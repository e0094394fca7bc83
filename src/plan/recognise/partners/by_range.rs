//! From a limit of partners to [`Partners`]: which order of the build side tells the partners that a row keeps.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{JoinSide, JoinType};
use datafusion::error::Result;
use datafusion::functions::math::abs::AbsFunc;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr, ScalarFunctionExpr};
use datafusion::physical_plan::joins::utils::JoinFilter;

use crate::ir::partners::{Distance, PartnerLimit, Which};
use crate::ir::side::Side;
use crate::plan::compile::key_types::is_orderable;
use crate::plan::compile::sides::{is_same, map_columns};
use crate::plan::recognise::condition::Condition;
use crate::plan::recognise::partners::pair_values::{expression, partner_key};
use crate::plan::recognise::partners::same_value::{
    integer_of_time, is_same_value, is_widened, signed_range,
};
use crate::plan::sources::join_source::{JoinSource, PartnerSource};
use crate::plan::sources::set_value::side_of;
use crate::spec::guard::Guard;
use crate::spec::join::SideInput;
use crate::spec::partners::{BestPartners, Partners};

type Expr = Arc<dyn PhysicalExpr>;

/// A limit of partners as a device keeps it.
#[derive(Debug)]
pub(crate) struct KeptPartners {
    /// If a range of one column tells which partners a row keeps.
    pub(crate) partners: Option<Partners>,
    /// If a row may have more of them than it keeps.
    pub(crate) best: Option<BestPartners>,
    /// Conditions on the values under which the order is that of the query.
    pub(crate) guards: Vec<Guard>,
}

/// `None` if a range of one column does not tell which partners of a row are kept. Adds the columns that it needs to the sides' inputs.
pub(super) fn by_range(
    source: &JoinSource,
    wanted: &PartnerSource,
    condition: &Condition,
    left: &mut SideInput,
    right: &mut SideInput,
) -> Result<Option<KeptPartners>> {
    let Some(first) = wanted.keys.first() else {
        return Ok(None);
    };
    let all_are_ranges =
        condition.set.is_none() && condition.comparisons.iter().all(|c| c.op.is_range());
    if !all_are_ranges || !matches!(source.kind, JoinType::Inner | JoinType::Right) {
        return Ok(None);
    }
    let mut columns = condition.comparisons.iter().map(|c| c.left);
    let bound = columns.next();
    if columns.any(|column| Some(column) != bound) {
        return Ok(None);
    }
    let of_left = left.plan_columns();
    for conjunct in &condition.residual {
        if !is_limit_of(conjunct, first, of_left)? {
            return Ok(None);
        }
    }
    let by = match by_value(first, bound, left)? {
        Some(by) => Some(by),
        None => by_distance(first, bound, left, right)?,
    };
    let Some(By {
        which,
        column,
        centre,
        mut guards,
        decides,
    }) = by
    else {
        return Ok(None);
    };
    // NULLs match no range; without one they are partners, too.
    if bound.is_none() {
        guards.push(Guard::NotNull((Side::Left, column)));
    }
    let decides = match &wanted.keys[1..] {
        [] => decides,
        // Of two that are equally close the one with the lesser key is kept.
        [next] => decides && centre.is_some() && is_lesser(next, column, left),
        _ => false,
    };
    if wanted.is_final && !decides {
        return Ok(None);
    }
    let keys = wanted.keys.iter().map(|key| partner_key(key, left, right));
    let best = match wanted.is_final {
        true => Some(BestPartners {
            most: wanted.most,
            with_ties: false,
            display: String::new(),
            keys: keys.collect::<Result<_>>()?,
        }),
        false => None,
    };
    Ok(Some(KeptPartners {
        partners: Some(Partners {
            limit: PartnerLimit {
                most: wanted.most,
                which,
                with_ties: !wanted.is_final,
            },
            column,
            centre,
        }),
        best,
        guards,
    }))
}

/// Whether `conjunct` bounds the order's first key, such as `abs(l.a - r.b) <= 2.5` in an order by `abs(l.a - r.b)`: of the partners that a row
/// keeps without it, those that satisfy it are the ones that the row keeps.
fn is_limit_of(conjunct: &JoinFilter, key: &PhysicalSortExpr, of_left: usize) -> Result<bool> {
    let Some(comparison) = conjunct.expression().downcast_ref::<BinaryExpr>() else {
        return Ok(false);
    };
    let (bounded, op, limit) = match comparison.left().is::<Literal>() {
        false => (comparison.left(), *comparison.op(), comparison.right()),
        true => match comparison.op().swap() {
            Some(op) => (comparison.right(), op, comparison.left()),
            None => return Ok(false),
        },
    };
    let is_bound = match key.options.descending {
        true => matches!(op, Operator::Gt | Operator::GtEq),
        false => matches!(op, Operator::Lt | Operator::LtEq),
    };
    if !is_bound || !limit.is::<Literal>() {
        return Ok(false);
    }
    let indices = conjunct.column_indices();
    let bounded = map_columns(bounded, |column| {
        let of = &indices[column.index()];
        let at = match of.side {
            JoinSide::Right => of_left + of.index,
            JoinSide::Left | JoinSide::None => of.index,
        };
        Column::new(column.name(), at)
    })?;
    Ok(is_same(&bounded, &key.expr))
}

/// What the first key of an order says of a row's partners.
struct By {
    which: Which,
    column: usize,
    centre: Option<usize>,
    guards: Vec<Guard>,
    /// Whether partners that are equal in it are equal in DataFusion's order.
    decides: bool,
}

/// By an expression of the build side.
fn by_value(
    key: &PhysicalSortExpr,
    bound: Option<usize>,
    left: &mut SideInput,
) -> Result<Option<By>> {
    if side_of(&key.expr, left.plan_columns()) != Some(Side::Left) {
        return Ok(None);
    }
    let data_type = key.expr.data_type(left.plan())?;
    if !is_orderable(&data_type) || matches!(data_type, DataType::Dictionary(..)) {
        return Ok(None);
    }
    let column = match bound {
        Some(bound) if is_same_value(&expression(left, bound), &key.expr, left)? => bound,
        Some(_) => return Ok(None),
        None => left.column_of(&key.expr)?,
    };
    Ok(Some(By {
        which: match key.options.descending {
            true => Which::Last,
            false => Which::First,
        },
        column,
        centre: None,
        guards: vec![],
        // To an order of floats −0.0 is less than 0.0, to a comparison they are equal.
        decides: !data_type.is_floating(),
    }))
}

/// By the distance of an expression of the build side from one of the probe side: `abs(a - b)`, the least first.
fn by_distance(
    key: &PhysicalSortExpr,
    bound: Option<usize>,
    left: &mut SideInput,
    right: &mut SideInput,
) -> Result<Option<By>> {
    let Some((a, b)) = difference(&key.expr).filter(|_| !key.options.descending) else {
        return Ok(None);
    };
    let of_left = left.plan_columns();
    let a_is_left = match (side_of(a, of_left), side_of(b, of_left)) {
        (Some(Side::Left), Some(Side::Right)) => true,
        (Some(Side::Right), Some(Side::Left)) => false,
        _ => return Ok(None),
    };
    let (near, centre) = match a_is_left {
        true => (a, b),
        false => (b, a),
    };
    let centre = map_columns(centre, |column| {
        Column::new(column.name(), column.index() - of_left)
    })?;
    let data_type = near.data_type(left.plan())?;
    if centre.data_type(right.plan())? != data_type {
        return Ok(None);
    }
    let (near_column, centre_column) = (left.column_of(near)?, right.column_of(&centre)?);
    let (distance, mut guards) = match (signed_range(&data_type), &data_type) {
        (Some((low, high)), _) => {
            let sides = [(Side::Left, near_column), (Side::Right, centre_column)];
            let [first, second] = match a_is_left {
                true => sides,
                false => [sides[1], sides[0]],
            };
            let guard = Guard::NoOverflow {
                first,
                second,
                subtract: true,
                // The least integer has no absolute value.
                low: low + 1,
                high,
            };
            (Distance::Integers, vec![guard])
        }
        // A difference of two has 38 digits at most.
        (None, DataType::Decimal128(precision, _)) if *precision < 38 => {
            (Distance::Integers, vec![])
        }
        (None, DataType::Float64) => (
            Distance::Floats,
            vec![
                Guard::Finite((Side::Left, near_column)),
                Guard::Finite((Side::Right, centre_column)),
            ],
        ),
        (None, _) => return Ok(None),
    };
    let (column, centre) = match bound {
        None => (near_column, centre_column),
        Some(bound) if bound == near_column => (near_column, centre_column),
        Some(bound) => {
            let wide = left.data_type(bound).clone();
            if !is_same_value(&expression(left, bound), near, left)? {
                return Ok(None);
            }
            match integer_of_time(&wide) {
                // The keys of a time are those of its integers, of any width.
                Some(_) if data_type.is_signed_integer() => (bound, centre_column),
                Some(_) => return Ok(None),
                // Widened numbers have the same differences, and those of the row can be widened, too.
                None if !is_widened(&data_type, &wide) => return Ok(None),
                None => {
                    let centre: Expr = Arc::new(CastExpr::new(centre, wide, None));
                    (bound, right.column_of(&centre)?)
                }
            }
        }
    };
    if matches!(left.data_type(column), DataType::Decimal128(..)) {
        // Values that lie too far apart have ranks for keys, which tell no distances.
        guards.push(Guard::NoOverflow {
            first: (Side::Left, column),
            second: (Side::Left, column),
            subtract: true,
            low: i64::MIN.into(),
            high: i64::MAX.into(),
        });
    }
    Ok(Some(By {
        which: Which::Nearest(distance),
        column,
        centre: Some(centre),
        guards,
        decides: true,
    }))
}

/// `a` and `b` of `abs(a - b)`.
fn difference(expr: &Expr) -> Option<(&Expr, &Expr)> {
    let function = expr.downcast_ref::<ScalarFunctionExpr>()?;
    let [argument] = function.args() else {
        return None;
    };
    let minus = argument.downcast_ref::<BinaryExpr>()?;
    let is_abs = function.fun().inner().is::<AbsFunc>();
    (is_abs && *minus.op() == Operator::Minus).then(|| (minus.left(), minus.right()))
}

/// Whether `key` is the build side's column `column` ascending.
fn is_lesser(key: &PhysicalSortExpr, column: usize, left: &SideInput) -> bool {
    !key.options.descending
        && side_of(&key.expr, left.plan_columns()) == Some(Side::Left)
        && is_same_value(&expression(left, column), &key.expr, left).unwrap_or(false)
        && key
            .expr
            .data_type(left.plan())
            .is_ok_and(|t| !t.is_floating())
}
