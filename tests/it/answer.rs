//! Running a query on both sides, and comparing rows as multisets.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, SchemaRef};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::error::Result;
use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use datafusion::prelude::*;

use crate::session::{Tuning, set};

/// Relative difference that two orders of adding floats may show.
const TOLERANCE: f64 = 1e-9;

#[derive(Debug)]
pub struct Answer {
    pub plan: String,
    pub schema: SchemaRef,
    pub batches: Vec<RecordBatch>,
}

pub async fn plan_of(ctx: &SessionContext, sql: &str) -> Result<Arc<dyn ExecutionPlan>> {
    ctx.sql(sql).await?.create_physical_plan().await
}

pub fn shown(plan: &Arc<dyn ExecutionPlan>) -> String {
    displayable(plan.as_ref()).indent(true).to_string()
}

/// The answer under the options as they are.
pub async fn answer(ctx: &SessionContext, sql: &str) -> Result<Answer> {
    let plan = plan_of(ctx, sql).await?;
    let text = shown(&plan);
    let schema = plan.schema();
    let batches = collect(plan, ctx.task_ctx()).await?;
    Ok(Answer {
        plan: text,
        schema,
        batches,
    })
}

/// The answer of DataFusion alone.
pub async fn stock(ctx: &SessionContext, sql: &str) -> Result<Answer> {
    Tuning::PLAIN.apply(ctx);
    set(ctx, "bowtie.offload", "off");
    let stock = answer(ctx, sql).await?;
    assert!(!stock.plan.contains("Bowtie"), "{}", stock.plan);
    Ok(stock)
}

/// The answer with every node offloaded that can be.
pub async fn forced(ctx: &SessionContext, sql: &str, tuning: &Tuning) -> Result<Answer> {
    tuning.apply(ctx);
    set(ctx, "bowtie.offload", "force");
    answer(ctx, sql).await
}

/// Checks that `sql` gives the rows of `stock` when forced; returns the forced plan.
///
/// `nodes` are names that the plan must hold. No join of DataFusion may be left.
pub async fn check(
    ctx: &SessionContext,
    sql: &str,
    tuning: &Tuning,
    stock: &Answer,
    nodes: &[&str],
) -> String {
    let forced = match forced(ctx, sql, tuning).await {
        Ok(forced) => forced,
        Err(error) => panic!("{sql}\n{tuning:?}\nfails when forced: {error}"),
    };
    assert_offloaded(sql, &forced.plan, nodes);
    if let Err(difference) = same_rows(stock, &forced) {
        panic!("{sql}\n{tuning:?}\n{}\n{difference}", forced.plan);
    }
    forced.plan
}

pub fn assert_offloaded(sql: &str, plan: &str, nodes: &[&str]) {
    for node in nodes {
        assert!(plan.contains(node), "no {node}: {sql}\n{plan}");
    }
    for left in ["LoopJoinExec", "HashJoinExec", "MergeJoinExec", "CrossJoin"] {
        assert!(!plan.contains(left), "{left} is left: {sql}\n{plan}");
    }
}

/// A row: its columns as text but for floats that are computed, which are compared with a tolerance.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    text: String,
    floats: Vec<Option<f64>>,
}

/// Whether two answers are the same multiset of rows, with floats exact.
pub fn same_rows(expected: &Answer, given: &Answer) -> Result<(), String> {
    compare(expected, given, |_| false)
}

/// As [`same_rows`], but floats may differ by rounding.
pub fn similar_rows(expected: &Answer, given: &Answer) -> Result<(), String> {
    compare(expected, given, DataType::is_floating)
}

fn compare(
    expected: &Answer,
    given: &Answer,
    is_computed: impl Fn(&DataType) -> bool,
) -> Result<(), String> {
    let types = |answer: &Answer| -> Vec<(String, DataType)> {
        let fields = answer.schema.fields().iter();
        fields
            .map(|f| (f.name().clone(), f.data_type().clone()))
            .collect()
    };
    if types(expected) != types(given) {
        return Err(format!(
            "schemas differ\nexpected {:?}\n   given {:?}",
            expected.schema, given.schema
        ));
    }
    let (want, have) = (rows(expected, &is_computed), rows(given, &is_computed));
    if want.len() != have.len() || !want.iter().zip(&have).all(|(a, b)| is_similar(a, b)) {
        let missing = want
            .iter()
            .filter(|a| !have.iter().any(|b| is_similar(a, b)));
        let surplus = have
            .iter()
            .filter(|a| !want.iter().any(|b| is_similar(a, b)));
        return Err(format!(
            "expected {} rows, given {}\nmissing {:#?}\nsurplus {:#?}",
            want.len(),
            have.len(),
            missing.take(5).collect::<Vec<_>>(),
            surplus.take(5).collect::<Vec<_>>(),
        ));
    }
    Ok(())
}

fn rows(answer: &Answer, is_computed: &impl Fn(&DataType) -> bool) -> Vec<Row> {
    let mut rows = vec![];
    for batch in &answer.batches {
        let options = FormatOptions::default().with_null("NULL");
        let (computed, exact): (Vec<_>, Vec<_>) = batch
            .columns()
            .iter()
            .partition(|column| is_computed(column.data_type()));
        let exact: Vec<ArrayFormatter> = exact
            .into_iter()
            .map(|column| ArrayFormatter::try_new(column, &options).unwrap())
            .collect();
        let computed: Vec<ArrayRef> = computed
            .into_iter()
            .map(|column| cast(column, &DataType::Float64).unwrap())
            .collect();
        for i in 0..batch.num_rows() {
            let text: Vec<String> = exact.iter().map(|f| f.value(i).to_string()).collect();
            let floats = computed
                .iter()
                .map(|c| {
                    c.is_valid(i)
                        .then(|| c.as_primitive::<Float64Type>().value(i))
                })
                .collect();
            rows.push(Row {
                text: text.join("|"),
                floats,
            });
        }
    }
    rows.sort_by(|a, b| {
        let floats = || {
            let pairs = a.floats.iter().zip(&b.floats);
            pairs
                .map(|(a, b)| match (a, b) {
                    (Some(a), Some(b)) => a.total_cmp(b),
                    _ => a.is_some().cmp(&b.is_some()),
                })
                .find(|order| order.is_ne())
                .unwrap_or(Ordering::Equal)
        };
        a.text.cmp(&b.text).then_with(floats)
    });
    rows
}

fn is_similar(a: &Row, b: &Row) -> bool {
    let close = |a: &Option<f64>, b: &Option<f64>| match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) if a.is_nan() || b.is_nan() => a.is_nan() && b.is_nan(),
        (Some(a), Some(b)) => a == b || (a - b).abs() <= TOLERANCE * a.abs().max(b.abs()),
        _ => false,
    };
    a.text == b.text && a.floats.iter().zip(&b.floats).all(|(a, b)| close(a, b))
}

/// `sql` is left to DataFusion by force, too: no `node` is in its plan, and `bowtie_explain` says why.
pub async fn declines(ctx: &SessionContext, sql: &str, node: &str, reason: &str) {
    let given = forced(ctx, sql, &Tuning::PLAIN).await.unwrap();
    assert!(!given.plan.contains(node), "{sql}\n{}", given.plan);
    let explained = format!("SELECT reason FROM bowtie_explain('{sql}')");
    let reasons = ctx.sql(&explained).await.unwrap();
    let reasons = reasons.to_string().await.unwrap();
    assert!(reasons.contains(reason), "{sql}\n{reasons}");
}
