//! From a join node of DataFusion to a [`JoinSpec`], or the reason why not.

use std::sync::Arc;

use datafusion::physical_expr_common::physical_expr::fmt_sql;

use crate::error::Decline;
use crate::ir::side::Side;
use crate::ir::strategies::Strategy;
use crate::options::BowtieOptions;
#[cfg(test)]
use crate::plan::calls;
use crate::plan::compile::key_types::is_groupable;
use crate::plan::compile::permitted::{Use, permits};
use crate::plan::compile::sides::{named, side_of};
use crate::plan::recognise::candidate::JoinCandidate;
use crate::plan::recognise::condition;
use crate::plan::recognise::condition::{Classified, Condition};
use crate::plan::recognise::gain::{CompiledPart, Gain, gain, partners_gain, set_join_gain};
use crate::plan::recognise::partners::kept::kept_partners;
use crate::plan::recognise::partners::pair_values::over_pairs;
use crate::plan::recognise::refusal::Refusal;
use crate::plan::recognise::strategy;
use crate::plan::sources::join_source::JoinSource;
use crate::plan::statistics::statistics_cache::StatisticsCache;
use crate::spec::join::{JoinSpec, MatchSpec, MatchValue, Output, SideInput, join_columns};

/// What bowtie can make of a join under `options`. Its fields are read already.
pub(crate) fn join_candidate(
    source: Result<JoinSource, Decline>,
    options: &BowtieOptions,
    statistics: &StatisticsCache,
) -> JoinCandidate {
    let spec = match &source {
        Ok(source) => join_spec(source, options, statistics),
        Err(decline) => Err(decline.clone().into()),
    };
    let (gain, spec) = match spec {
        Ok((gain, spec)) => (gain, spec),
        Err(refusal) => (Gain::OnAnyDevice, Err(refusal)),
    };
    JoinCandidate { source, gain, spec }
}

/// Whether `auto` gains from the join, and its spec, or why the strategy of the options cannot serve it.
type Recognised = (Gain, Result<JoinSpec, Refusal>);

fn join_spec(
    source: &JoinSource,
    options: &BowtieOptions,
    statistics: &StatisticsCache,
) -> Result<Recognised, Refusal> {
    #[cfg(test)]
    calls::count(calls::Maker::JoinSpec);
    let rows = statistics.sides(source);
    let (left_schema, right_schema) = (source.left.schema(), source.right.schema());
    let mut left = SideInput::new(Arc::clone(&left_schema));
    let mut right = SideInput::new(Arc::clone(&right_schema));
    let columns = join_columns(source.kind, left.plan_columns(), right.plan_columns());

    let mut equalities = vec![];
    let mut keys = vec![];
    for (left_key, right_key) in &source.on {
        let types = (
            left_key.data_type(&left_schema)?,
            right_key.data_type(&right_schema)?,
        );
        if types.0 != types.1 || !is_groupable(&types.0) {
            return Err(Decline(format!(
                "its key {} = {} has the types {} and {}, which bowtie does not support as keys: cast both sides to a supported type",
                fmt_sql(left_key.as_ref()),
                fmt_sql(right_key.as_ref()),
                types.0,
                types.1
            ))
            .into());
        }
        equalities.push((left.column_of(left_key)?, right.column_of(right_key)?));
        let (l, r) = (named(Side::Left, left_key)?, named(Side::Right, right_key)?);
        keys.push(format!("{l} = {r}"));
    }

    if let Some(filter) = &source.filter
        && !permits(filter.expression(), Use::Repeat)
    {
        return Err(Decline(
            "its condition is volatile: compute the volatile expression in a subquery".into(),
        )
        .into());
    }
    let condition = match &source.filter {
        Some(filter) => {
            // A strategy of theta joins that is asked for serves comparisons; NOT IN is no join by sets.
            let how = Classified {
                sets: options.theta_strategy.0.is_none() && !source.null_aware,
                // One order of the build side, the left one, tells which partners are kept.
                unmoved: source.partners.as_ref().map(|_| Side::Left),
            };
            condition::classify(filter, &mut left, &mut right, how)?
        }
        None => Condition::default(),
    };
    let mut values = source.values.clone();
    let known_values = values.len();
    let kept = match &source.partners {
        Some(wanted) => {
            let sides = [&mut left, &mut right];
            let kept = kept_partners(source, wanted, &condition, sides, &mut values)?;
            if kept.is_none() {
                return Err(Decline(
                    "each row keeps some of its partners, which no comparison and no set predicate finds".into(),
                )
                .into());
            }
            kept
        }
        None => None,
    };
    let compared_lists = match (&condition.set, source.values.first()) {
        (None, Some(value)) => {
            let [of_left, of_right] = &value.call.lists;
            Some((left.column_of(of_left)?, right.column_of(of_right)?))
        }
        _ => None,
    };
    let (partners, best_partners, kept_guards) = match kept {
        Some(kept) => (kept.partners, kept.best, kept.guards),
        None => (None, None, vec![]),
    };
    let Condition {
        comparisons,
        mut guards,
        residual,
        set,
        program,
        mut display,
    } = condition;
    guards.extend(kept_guards);
    display.keys = keys;
    let covered = match &program {
        Some(program) if program.covers.len() == residual.len() => CompiledPart::All {
            can_fail: program.can_fail,
            one_sided: residual
                .iter()
                .any(|conjunct| side_of(conjunct, conjunct.expression()).is_some()),
        },
        _ => CompiledPart::Part,
    };
    let gain = match set {
        _ if partners.is_some() => partners_gain(rows),
        Some(_) => set_join_gain(source, rows, statistics),
        // All pairs are made anyway; each list is encoded once for them.
        None if compared_lists.is_some() && source.on.is_empty() && residual.is_empty() => {
            partners_gain(rows)
        }
        None => gain(source, &comparisons, covered, rows),
    };
    let (strategy, build) = match &set {
        // The build side is in the order that tells which partners are kept.
        _ if partners.is_some() => (Strategy::Range, Side::Left),
        // The index of the left side serves all slices of the right one.
        Some(set) if best_partners.is_some() => {
            (Strategy::Set(strategy::technique(options, set)), Side::Left)
        }
        Some(set) => (
            Strategy::Set(strategy::technique(options, set)),
            strategy::indexed_side(source),
        ),
        None => strategy::strategy(options, source, &comparisons, rows),
    };

    if best_partners.is_some() && matches!(strategy, Strategy::Equi(_)) {
        return Err(Decline(
            "each row keeps some of its partners, which equal keys alone find".into(),
        )
        .into());
    }

    let of_pair = |expr| over_pairs(expr, &left, &right);
    let values = values.iter().map(|value| {
        Ok(MatchValue {
            value: value.call.value,
            call: of_pair(&value.expr)?,
            field: Arc::new(value.field()),
        })
    });
    let values = values.collect::<datafusion::error::Result<Vec<_>>>()?;
    let mut columns = columns;
    columns.extend((0..known_values).map(Output::Value));
    let output: Vec<Output> = match &source.projection {
        Some(projection) => projection.iter().map(|i| columns[*i]).collect(),
        None => columns,
    };
    let spec = JoinSpec {
        kind: source.kind,
        null_aware: source.null_aware,
        metadata: source.metadata.clone(),
        theta: MatchSpec {
            strategy,
            build,
            equalities,
            null_equality: source.null_equality,
            comparisons,
            set,
            has_values: !values.is_empty(),
            compared_lists,
            partners,
            materialization: options.materialization.0,
        },
        guards,
        residual,
        program,
        whole_filter: source
            .filter
            .as_ref()
            .map(condition::conjuncts)
            .unwrap_or_default(),
        left,
        right,
        output,
        values,
        best_partners,
        fetch: source.fetch,
        output_on_device: false,
        display,
    };
    Ok((gain, Ok(spec)))
}
