//! From a limit of partners to what a device keeps: a range of the build side, or the best ones of all matches of a row.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalSortExpr;

use crate::plan::compile::key_types::is_orderable;
use crate::plan::compile::sides::sides_named;
use crate::plan::recognise::condition::Condition;
use crate::plan::recognise::partners::by_range::{KeptPartners, by_range};
use crate::plan::recognise::partners::pair_values::{expression, over_pairs, partner_key};
use crate::plan::sources::join_source::{JoinSource, PartnerSource, ValueSource};
use crate::plan::sources::set_value::SetCall;
use crate::spec::join::SideInput;
use crate::spec::partners::{BestPartners, KeyValue, PartnerKey};

/// Adds the columns that it needs to the sides' inputs, and the values of sets to `values`. `None` if no column of a side is compared, and no set.
pub(crate) fn kept_partners(
    source: &JoinSource,
    wanted: &PartnerSource,
    condition: &Condition,
    sides: [&mut SideInput; 2],
    values: &mut Vec<ValueSource>,
) -> Result<Option<KeptPartners>> {
    let [left, right] = sides;
    let (mut of_left, mut of_right) = (left.clone(), right.clone());
    let kept = by_range(source, wanted, condition, &mut of_left, &mut of_right)?;
    if kept.is_some() {
        (*left, *right) = (of_left, of_right);
        return Ok(kept);
    }
    // DataFusion orders dictionaries by a way of its own.
    let has_order = |key: &PhysicalSortExpr| -> Result<bool> {
        let of_pair = over_pairs(&key.expr, left, right)?;
        let data_type = of_pair.expression().data_type(of_pair.schema())?;
        let is_dictionary = matches!(data_type, DataType::Dictionary(..));
        Ok(is_orderable(&data_type) && !is_dictionary)
    };
    for key in &wanted.keys {
        if !has_order(key)? {
            return Ok(None);
        }
    }
    let is_tested = condition.set.is_some() || !condition.comparisons.is_empty();
    let keeps_right = matches!(source.kind, JoinType::Inner | JoinType::Right);
    if !is_tested || !keeps_right || wanted.keys.is_empty() {
        return Ok(None);
    }
    let mut key = |key: &PhysicalSortExpr| -> Result<PartnerKey> {
        let call = SetCall::of(&key.expr, left.plan_columns())?;
        let of_matches = call.filter(|call| {
            condition.set.as_ref().is_some_and(|set| {
                call.has_lists([&expression(left, set.left), &expression(right, set.right)])
            })
        });
        let Some(call) = of_matches else {
            return partner_key(key, left, right);
        };
        let known = values
            .iter()
            .position(|known| known.call.value == call.value);
        let number = known.unwrap_or_else(|| {
            values.push(ValueSource {
                call,
                expr: Arc::clone(&key.expr),
                name: "bowtie_partner_key".into(),
            });
            values.len() - 1
        });
        Ok(PartnerKey {
            value: KeyValue::OfSets(number),
            options: key.options,
        })
    };
    Ok(Some(KeptPartners {
        partners: None,
        best: Some(BestPartners {
            most: wanted.most,
            with_ties: !wanted.is_final,
            display: shown_order(&wanted.keys, left, right)?,
            keys: wanted.keys.iter().map(&mut key).collect::<Result<_>>()?,
        }),
        guards: vec![],
    }))
}

/// Keys of an order as EXPLAIN shows them, with their sides.
fn shown_order(keys: &[PhysicalSortExpr], left: &SideInput, right: &SideInput) -> Result<String> {
    let keys = keys.iter().map(|key| {
        let of_pair = over_pairs(&key.expr, left, right)?;
        let shown = sides_named(&of_pair, of_pair.expression())?;
        Ok(match key.options.descending {
            true => format!("{shown} DESC"),
            false => shown,
        })
    });
    Ok(keys.collect::<Result<Vec<_>>>()?.join(", "))
}
