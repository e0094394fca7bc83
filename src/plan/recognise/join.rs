//! From a join node of DataFusion to a [`JoinSpec`], or the reason why not.

use std::sync::Arc;

use datafusion::physical_expr_common::physical_expr::fmt_sql;

use crate::error::Decline;
use crate::ir::side::Side;
use crate::options::BowtieOptions;
#[cfg(test)]
use crate::plan::calls;
use crate::plan::compile::key_types::is_groupable;
use crate::plan::compile::permitted::{Use, permits};
use crate::plan::compile::sides::{named, side_of};
use crate::plan::recognise::candidate::JoinCandidate;
use crate::plan::recognise::condition;
use crate::plan::recognise::condition::{Classified, Condition};
use crate::plan::recognise::gain::{
    CompiledPart, Gain, SideLists, gain, partners_gain, set_join_gain, set_values_gain,
};
use crate::plan::recognise::partners::by_range::KeptPartners;
use crate::plan::recognise::partners::kept::kept_partners;
use crate::plan::recognise::partners::pair_values::over_pairs;
use crate::plan::recognise::refusal::Refusal;
use crate::plan::recognise::strategy;
use crate::plan::sources::join_source::{JoinSource, ValueSource};
use crate::plan::statistics::statistics_cache::{RowEstimate, StatisticsCache};
use crate::spec::join::{
    JoinSpec, MatchMethod, MatchSpec, MatchValue, Output, SideInput, join_columns,
};

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

/// The steps: keys, condition, partners that rows keep, method, gain, values, output.
fn join_spec(
    source: &JoinSource,
    options: &BowtieOptions,
    statistics: &StatisticsCache,
) -> Result<Recognised, Refusal> {
    #[cfg(test)]
    calls::count(calls::Maker::JoinSpec);
    let mut sides = Sides {
        left: SideInput::new(source.left.schema()),
        right: SideInput::new(source.right.schema()),
    };
    let keys = sides.keys(source)?;
    let condition = sides.condition(source, options)?;
    let mut values = source.values.clone();
    let kept = sides.kept_partners(source, &condition, &mut values)?;
    let compared_lists = match (&condition.set, source.values.first()) {
        (None, Some(value)) => {
            let [of_left, of_right] = &value.call.lists;
            let left = sides.left.column_of(of_left)?;
            Some((left, sides.right.column_of(of_right)?))
        }
        _ => None,
    };
    let rows = statistics.sides(source);
    let gain = match condition.set {
        _ if kept.partners.is_some() => partners_gain(rows),
        Some(set) => {
            let lists = sides.lists(source, (set.left, set.right), statistics);
            set_join_gain(source, lists, statistics)
        }
        // All pairs are made anyway; each list is encoded once for them.
        None => match compared_lists {
            Some(columns) if source.on.is_empty() && condition.residual.is_empty() => {
                set_values_gain(sides.lists(source, columns, statistics))
            }
            _ => gain(
                source,
                &condition.comparisons,
                compiled_part(&condition),
                rows,
            ),
        },
    };
    let (method, build) = method(source, options, &condition, &kept, rows)?;
    let Sides { left, right } = sides;
    let values = match_values(&values, &left, &right)?;
    let Condition {
        comparisons,
        mut guards,
        residual,
        set: _,
        program,
        mut display,
    } = condition;
    guards.extend(kept.guards);
    display.keys = keys.display;
    let spec = JoinSpec {
        kind: source.kind,
        null_aware: source.null_aware,
        metadata: source.metadata.clone(),
        theta: MatchSpec {
            method,
            build,
            equalities: keys.equalities,
            null_equality: source.null_equality,
            comparisons,
            has_values: !values.is_empty(),
            compared_lists,
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
        output: output(source, &left, &right),
        left,
        right,
        values,
        best_partners: kept.best,
        fetch: source.fetch,
        output_on_device: false,
        display,
    };
    Ok((gain, Ok(spec)))
}

/// The columns of both sides: each step adds those that it needs.
struct Sides {
    left: SideInput,
    right: SideInput,
}

/// Columns that must be equal, and their text in EXPLAIN.
struct EqualKeys {
    equalities: Vec<(usize, usize)>,
    display: Vec<String>,
}

impl Sides {
    fn keys(&mut self, source: &JoinSource) -> Result<EqualKeys, Refusal> {
        let (left_schema, right_schema) = (source.left.schema(), source.right.schema());
        let (mut equalities, mut display) = (vec![], vec![]);
        for (left, right) in &source.on {
            let types = (
                left.data_type(&left_schema)?,
                right.data_type(&right_schema)?,
            );
            if types.0 != types.1 || !is_groupable(&types.0) {
                return Err(Decline(format!(
                    "its key {} = {} has the types {} and {}, which bowtie does not support as keys: cast both sides to a supported type",
                    fmt_sql(left.as_ref()),
                    fmt_sql(right.as_ref()),
                    types.0,
                    types.1
                ))
                .into());
            }
            equalities.push((self.left.column_of(left)?, self.right.column_of(right)?));
            let (l, r) = (named(Side::Left, left)?, named(Side::Right, right)?);
            display.push(format!("{l} = {r}"));
        }
        Ok(EqualKeys {
            equalities,
            display,
        })
    }

    fn condition(
        &mut self,
        source: &JoinSource,
        options: &BowtieOptions,
    ) -> Result<Condition, Refusal> {
        let Some(filter) = &source.filter else {
            return Ok(Condition::default());
        };
        if !permits(filter.expression(), Use::Repeat) {
            return Err(Decline(
                "its condition is volatile: compute the volatile expression in a subquery".into(),
            )
            .into());
        }
        // A strategy of theta joins that is asked for serves comparisons; NOT IN is no join by sets.
        let how = Classified {
            sets: options.theta_strategy.0.is_none() && !source.null_aware,
            // One order of the build side, the left one, tells which partners are kept.
            unmoved: source.partners.as_ref().map(|_| Side::Left),
        };
        Ok(condition::classify(
            filter,
            &mut self.left,
            &mut self.right,
            how,
        )?)
    }

    /// Rows of both sides, and the elements in the lists of a column of each, or in a column of elements.
    fn lists(
        &self,
        source: &JoinSource,
        columns: (usize, usize),
        statistics: &StatisticsCache,
    ) -> (SideLists, SideLists) {
        let of_side = |plan, side: &SideInput, column| {
            let rows = statistics.rows(plan);
            let elements = match side.data_type(column).is_nested() {
                true if column < side.plan_columns() => statistics.elements(plan, column),
                // Of an expression.
                true => None,
                false => rows.rows(),
            };
            SideLists { rows, elements }
        };
        (
            of_side(&source.left, &self.left, columns.0),
            of_side(&source.right, &self.right, columns.1),
        )
    }

    /// The partners that rows of the right side keep. Values of sets by which they are ordered are added to `values`.
    fn kept_partners(
        &mut self,
        source: &JoinSource,
        condition: &Condition,
        values: &mut Vec<ValueSource>,
    ) -> Result<KeptPartners, Refusal> {
        let Some(wanted) = &source.partners else {
            return Ok(KeptPartners {
                partners: None,
                best: None,
                guards: vec![],
            });
        };
        let sides = [&mut self.left, &mut self.right];
        let kept = kept_partners(source, wanted, condition, sides, values)?;
        Ok(kept.ok_or_else(|| {
            Decline(
                "each row keeps some of its partners, which no comparison and no set predicate finds".into(),
            )
        })?)
    }
}

/// How much of the condition that is not a comparison is compiled.
fn compiled_part(condition: &Condition) -> CompiledPart {
    let residual = &condition.residual;
    match &condition.program {
        Some(program) if program.covers.len() == residual.len() => CompiledPart::All {
            can_fail: program.can_fail,
            one_sided: residual
                .iter()
                .any(|conjunct| side_of(conjunct, conjunct.expression()).is_some()),
        },
        _ => CompiledPart::Part,
    }
}

/// How matches are found, and the build side.
fn method(
    source: &JoinSource,
    options: &BowtieOptions,
    condition: &Condition,
    kept: &KeptPartners,
    rows: (RowEstimate, RowEstimate),
) -> Result<(MatchMethod, Side), Refusal> {
    // The build side is in the order that tells which partners are kept.
    if kept.partners.is_some() {
        return Ok((MatchMethod::Range(kept.partners), Side::Left));
    }
    if let Some(set) = condition.set {
        let method = MatchMethod::Set(set, strategy::technique(options, &set));
        // The index of the left side serves all slices of the right one.
        let build = match kept.best {
            Some(_) => Side::Left,
            None => strategy::indexed_side(source),
        };
        return Ok((method, build));
    }
    let (method, build) = strategy::method(options, source, &condition.comparisons, rows);
    if kept.best.is_some() && matches!(method, MatchMethod::Equi(_)) {
        return Err(Decline(
            "each row keeps some of its partners, which equal keys alone find".into(),
        )
        .into());
    }
    Ok((method, build))
}

/// Values of sets of each match.
fn match_values(
    values: &[ValueSource],
    left: &SideInput,
    right: &SideInput,
) -> Result<Vec<MatchValue>, Refusal> {
    let values = values.iter().map(|value| {
        Ok(MatchValue {
            value: value.call.value,
            call: over_pairs(&value.expr, left, right)?,
            field: Arc::new(value.field()),
        })
    });
    values.collect()
}

/// The columns that come out.
fn output(source: &JoinSource, left: &SideInput, right: &SideInput) -> Vec<Output> {
    let mut columns = join_columns(source.kind, left.plan_columns(), right.plan_columns());
    columns.extend((0..source.values.len()).map(Output::Value));
    match &source.projection {
        Some(projection) => projection.iter().map(|i| columns[*i]).collect(),
        None => columns,
    }
}
