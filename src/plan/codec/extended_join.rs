//! A join that stands for several nodes of DataFusion ([`ExtendedJoinExec`]), in a region.
//!
//! | part | what |
//! |---|---|
//! | 0 | DataFusion's join of its keys, filter and type, above inputs 0 and 1 |
//! | 1 | an empty plan of its schema |
//! | 2 | the keys by which partners are kept, and behind them the values of sets: a projection of both sides' columns |
//! | 3 | DataFusion's nodes in its place above inputs 0 and 1, if there are any |
//!
//! The plan of DataFusion that has the rows of an as-of join ([`ExtendedJoinExec::with_instead`]) is above other inputs, and is not sent: its rows in
//! memory would be sent twice. The receiver offloads the join in any case (`region.rs`).

use std::collections::HashMap;
use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{exec_datafusion_err, exec_err, not_impl_err};
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::PhysicalSortExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::joins::utils::build_join_schema;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, PartitionMode};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use serde_json::json;

use crate::exec::stage::input::{Reads, StageInputExec};
use crate::plan::codec::message::{Kind, Message};
use crate::plan::sources::extended_join::{ExtendedJoinExec, Original};
use crate::plan::sources::join_nodes::join_source;
use crate::plan::sources::join_source::{JoinSource, PartnerSource, ValueSource};
use crate::plan::sources::set_value::SetCall;
use crate::plan::statistics::statistics_cache::StatisticsCache;

type Plan = Arc<dyn ExecutionPlan>;

pub(super) fn encoded(
    node: &Plan,
    codec: &dyn PhysicalExtensionCodec,
    converter: &dyn PhysicalProtoConverterExtension,
) -> Result<Message> {
    let Some(join) = node.downcast_ref::<ExtendedJoinExec>() else {
        return not_impl_err!("bowtie's codec has no form of {}", node.name());
    };
    let source = join.source();
    let statistics = StatisticsCache::default();
    let input = |number: usize, plan: &Plan| -> Plan {
        let known = statistics.statistics(plan);
        let input = StageInputExec::new(number, Arc::clone(plan), Reads::All, known);
        Arc::new(input)
    };
    let [left, right] = [input(0, &source.left), input(1, &source.right)];
    let partners = source.partners.as_ref();
    let keys = partners.map_or(&[][..], |partners| &partners.keys);
    let options = keys.iter().map(|key| key.options);
    let options: Vec<_> = options.map(|o| [o.descending, o.nulls_first]).collect();
    let original = join.stands_for();
    let header = json!({
        "tests_all_pairs": source.tests_all_pairs,
        "fetch": source.fetch,
        "projection": source.projection,
        "metadata": source.metadata,
        "most": partners.map(|partners| partners.most),
        "is_final": partners.is_some_and(|partners| partners.is_final),
        "keys": options,
        "is_swapped": original.is_some_and(|original| original.is_swapped),
        "has_above": original.is_some_and(|original| original.above.is_some()),
    });
    let columns = columns_of_both(source);
    let keys = keys.iter().enumerate();
    let keys = keys.map(|(i, key)| ProjectionExpr::new(Arc::clone(&key.expr), format!("key {i}")));
    let values = source.values.iter();
    let values =
        values.map(|value| ProjectionExpr::new(Arc::clone(&value.expr), value.name.clone()));
    let computed: Vec<ProjectionExpr> = keys.chain(values).collect();
    let mut message = Message::new(Kind::ExtendedJoin, header);
    let parts: [Plan; 3] = [
        plain_join(source, [Arc::clone(&left), Arc::clone(&right)])?,
        Arc::new(EmptyExec::new(node.schema())),
        Arc::new(ProjectionExec::try_new(
            computed,
            Arc::new(EmptyExec::new(columns)),
        )?),
    ];
    for part in &parts {
        message.add(part, codec, converter)?;
    }
    if original.is_some() {
        message.add(&join.original([left, right])?, codec, converter)?;
    }
    Ok(message)
}

/// The columns of both sides before a projection, and the values behind them.
fn columns_of_both(source: &JoinSource) -> SchemaRef {
    let (left, right) = (source.left.schema(), source.right.schema());
    let (columns, _) = build_join_schema(&left, &right, &source.kind);
    let values = source.values.iter().map(|value| Arc::new(value.field()));
    let fields = columns.fields().iter().cloned().chain(values);
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// DataFusion's join, as far as it has the fields: a projection may have values among its columns.
fn plain_join(source: &JoinSource, [left, right]: [Plan; 2]) -> Result<Plan> {
    let filter = source.filter.clone();
    if source.on.is_empty() {
        let join = NestedLoopJoinExec::try_new(left, right, filter, &source.kind, None)?;
        return Ok(Arc::new(join));
    }
    Ok(Arc::new(HashJoinExec::try_new(
        left,
        right,
        source.on.clone(),
        filter,
        &source.kind,
        None,
        PartitionMode::CollectLeft,
        source.null_equality,
        source.null_aware,
    )?))
}

/// `sides`: gives the inputs of the join.
pub(super) fn decoded(
    message: &Message,
    sides: &dyn PhysicalExtensionCodec,
    reader: (&TaskContext, &dyn PhysicalProtoConverterExtension),
) -> Result<Plan> {
    let cut_off = || exec_datafusion_err!("a message of bowtie is cut off");
    let part = |number: usize| message.plan(number, sides, reader);
    let plain = join_source(&part(0)?).ok_or_else(cut_off)?;
    let plain = plain.map_err(|declined| exec_datafusion_err!("{}", declined.0))?;
    let schema = part(1)?.schema();
    let computed = part(2)?;
    let computed = computed
        .downcast_ref::<ProjectionExec>()
        .ok_or_else(cut_off)?;
    let options = message.header["keys"].as_array().into_iter().flatten();
    let options = options.map(|option| SortOptions {
        descending: option[0].as_bool().unwrap_or(false),
        nulls_first: option[1].as_bool().unwrap_or(false),
    });
    let mut computed = computed.expr().iter();
    let keys = options.zip(computed.by_ref());
    let keys = keys.map(|(options, key)| PhysicalSortExpr {
        expr: Arc::clone(&key.expr),
        options,
    });
    let keys: Vec<_> = keys.collect();
    let of_left = plain.left.schema().fields().len();
    let values = computed.map(|value| {
        let call = SetCall::of(&value.expr, of_left)?;
        Ok(ValueSource {
            call: call.ok_or_else(cut_off)?,
            expr: Arc::clone(&value.expr),
            name: value.alias.clone(),
        })
    });
    let metadata = message.header["metadata"].as_object().into_iter().flatten();
    let metadata = metadata.map(|(key, value)| {
        let value = value.as_str().unwrap_or_default().to_string();
        (key.clone(), value)
    });
    let most = message
        .number("most")
        .and_then(|most| u32::try_from(most).ok());
    let source = JoinSource {
        values: values.collect::<Result<_>>()?,
        tests_all_pairs: message.flag("tests_all_pairs"),
        fetch: message.number("fetch"),
        projection: match message.header["projection"].is_null() {
            true => None,
            false => Some(message.numbers("projection")?),
        },
        metadata: metadata.collect::<HashMap<_, _>>(),
        partners: most.map(|most| PartnerSource {
            most,
            keys,
            is_final: message.flag("is_final"),
        }),
        ..plain
    };
    let columns = columns_of_both(&source).fields().len();
    let mut projected = source.projection.iter().flatten();
    if projected.any(|column| *column >= columns) {
        return exec_err!("a message of bowtie names a column that its join does not have");
    }
    let original = match message.parts.len() {
        4 => {
            let nodes = part(3)?;
            let join = nodes.children().into_iter().next().map(Arc::clone);
            Some(match (message.flag("has_above"), join) {
                (true, Some(join)) => Original {
                    join,
                    is_swapped: message.flag("is_swapped"),
                    above: Some(nodes),
                },
                _ => Original {
                    join: nodes,
                    is_swapped: message.flag("is_swapped"),
                    above: None,
                },
            })
        }
        _ => None,
    };
    Ok(Arc::new(ExtendedJoinExec::new(source, original, schema)))
}
