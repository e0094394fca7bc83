//! From a join node of DataFusion to a [`JoinSpec`], or the reason why not.

use std::sync::Arc;

use datafusion::physical_expr_common::physical_expr::{fmt_sql, is_volatile};

use crate::error::Decline;
use crate::ir::side::Side;
use crate::ir::strategies::Strategy;
use crate::options::BowtieOptions;
use crate::plan::choose::strategy;
use crate::plan::choose::strategy::{Estimate, ProgramCover, Taking};
use crate::plan::recognise::condition;
use crate::plan::recognise::condition::Condition;
use crate::plan::recognise::source::JoinSource;
use crate::spec::join::{JoinSpec, MatchSpec, Output, SideInput, join_columns};

/// Why a node is not taken: it is declined, or the options contradict the query.
pub(crate) enum Refusal {
    Decline(Decline),
    Error(datafusion::error::DataFusionError),
}

impl From<Decline> for Refusal {
    fn from(decline: Decline) -> Self {
        Self::Decline(decline)
    }
}

impl From<datafusion::error::DataFusionError> for Refusal {
    fn from(error: datafusion::error::DataFusionError) -> Self {
        Self::Error(error)
    }
}

/// The spec of `source` under `options`, where it is taken.
pub(crate) fn join_spec(
    source: &JoinSource,
    options: &BowtieOptions,
    rows: (Estimate, Estimate),
    taking: Taking<'_>,
) -> Result<JoinSpec, Refusal> {
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
        if types.0 != types.1 || !crate::plan::recognise::key_types::is_groupable(&types.0) {
            return Err(Decline(format!(
                "its key {} = {} has the types {} and {}, which bowtie cannot group",
                fmt_sql(left_key.as_ref()),
                fmt_sql(right_key.as_ref()),
                types.0,
                types.1
            ))
            .into());
        }
        equalities.push((left.column_of(left_key)?, right.column_of(right_key)?));
        let (l, r) = (
            crate::plan::recognise::sides::named(Side::Left, left_key)?,
            crate::plan::recognise::sides::named(Side::Right, right_key)?,
        );
        keys.push(format!("{l} = {r}"));
    }

    if let Some(filter) = &source.filter
        && is_volatile(filter.expression())
    {
        return Err(
            Decline("its condition is volatile: it has another value each time".into()).into(),
        );
    }
    let Condition {
        comparisons,
        guards,
        residual,
        set,
        program,
        mut display,
    } = match &source.filter {
        Some(filter) => {
            // A strategy of theta joins that is asked for serves comparisons; NOT IN is no join by sets.
            let sets = options.theta_strategy.0.is_none() && !source.null_aware;
            condition::classify(filter, &mut left, &mut right, sets)?
        }
        None => Condition::default(),
    };
    display.keys = keys;
    let covered = match &program {
        Some(program) if program.covers.len() == residual.len() => ProgramCover::All {
            can_fail: program.can_fail,
            one_sided: residual.iter().any(|conjunct| {
                crate::plan::recognise::sides::side_of(conjunct, conjunct.expression()).is_some()
            }),
        },
        _ => ProgramCover::Part,
    };
    match set {
        Some(_) => strategy::sets_pay(taking, source, rows)?,
        None => strategy::pays(taking, source, &comparisons, covered, rows)?,
    }
    let (strategy, build) = match set {
        Some(_) => (
            Strategy::Set(options.set_strategy.0),
            strategy::indexed_side(source),
        ),
        None => strategy::strategy(options, source, &comparisons, rows, &display)?,
    };

    let output: Vec<Output> = match &source.projection {
        Some(projection) => projection.iter().map(|i| columns[*i]).collect(),
        None => columns,
    };
    Ok(JoinSpec {
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
        fetch: source.fetch,
        output_on_device: false,
        display,
    })
}
