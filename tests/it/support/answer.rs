//! Runs a query by DataFusion alone and with everything offloaded.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::util::display::array_value_to_string;
use arrow::util::pretty::pretty_format_batches;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use datafusion::prelude::*;

use crate::support::codec;
use crate::support::compare::same_rows;
use crate::support::metrics::Counts;
use crate::support::session::set;
use crate::support::tuning::Tuning;

#[derive(Debug)]
pub(crate) struct Answer {
    pub plan: String,
    pub schema: SchemaRef,
    pub batches: Vec<RecordBatch>,
}

impl Answer {
    /// Its rows as text, in ascending order.
    pub(crate) fn rows(&self) -> Vec<String> {
        let mut rows = vec![];
        for batch in &self.batches {
            for row in 0..batch.num_rows() {
                let values = batch.columns().iter();
                let values = values.map(|column| array_value_to_string(column, row).unwrap());
                rows.push(values.collect::<Vec<_>>().join("|"));
            }
        }
        rows.sort();
        rows
    }
}

pub(crate) async fn plan_of(ctx: &SessionContext, sql: &str) -> Result<Arc<dyn ExecutionPlan>> {
    ctx.sql(sql).await?.create_physical_plan().await
}

pub(crate) fn shown(plan: &Arc<dyn ExecutionPlan>) -> String {
    displayable(plan.as_ref()).indent(true).to_string()
}

/// The answer under the options as they are.
pub(crate) async fn answer(ctx: &SessionContext, sql: &str) -> Result<Answer> {
    let plan = plan_of(ctx, sql).await?;
    answer_of(ctx, codec::as_executed(ctx, plan)?).await
}

/// The same of a query whose data frame gets the values of its parameters.
pub(crate) async fn answer_with(
    ctx: &SessionContext,
    sql: &str,
    values: Vec<ScalarValue>,
) -> Result<Answer> {
    let query = ctx.sql(sql).await?.with_param_values(values)?;
    let plan = query.create_physical_plan().await?;
    answer_of(ctx, codec::as_executed(ctx, plan)?).await
}

pub(crate) async fn answer_of(
    ctx: &SessionContext,
    plan: Arc<dyn ExecutionPlan>,
) -> Result<Answer> {
    let text = shown(&plan);
    let schema = plan.schema();
    let batches = collect(plan, ctx.task_ctx()).await?;
    Ok(Answer {
        plan: text,
        schema,
        batches,
    })
}

/// The same, and what the nodes of its plan counted.
pub(crate) async fn answer_and_counts(ctx: &SessionContext, sql: &str) -> Result<(Answer, Counts)> {
    let plan = plan_of(ctx, sql).await?;
    let plan = codec::as_executed(ctx, plan)?;
    let answer = answer_of(ctx, Arc::clone(&plan)).await?;
    Ok((answer, Counts::of(&plan)))
}

/// The answer of DataFusion alone.
pub(crate) async fn stock(ctx: &SessionContext, sql: &str) -> Result<Answer> {
    Tuning::PLAIN.apply(ctx);
    set(ctx, "bowtie.offload", "off");
    let stock = answer(ctx, sql).await?;
    assert!(!stock.plan.contains("Bowtie"), "{}", stock.plan);
    Ok(stock)
}

/// The answer with every node offloaded that can be.
pub(crate) async fn forced(ctx: &SessionContext, sql: &str, tuning: &Tuning) -> Result<Answer> {
    tuning.apply(ctx);
    set(ctx, "bowtie.offload", "force");
    answer(ctx, sql).await
}

/// The same, of a plan that is sent before it runs. Something of bowtie's arrives, unless it filters and computes rows of stored tables alone, or
/// makes clusters of them: the receiver has none of these.
pub(crate) async fn forced_and_sent(
    ctx: &SessionContext,
    sql: &str,
    tuning: &Tuning,
) -> Result<Answer> {
    tuning.apply(ctx);
    set(ctx, "bowtie.offload", "force");
    let plan = plan_of(ctx, sql).await?;
    let sent = codec::sent(ctx, &plan)?;
    let of_rows = [
        "Download",
        "Filter",
        "Projection",
        "Union",
        "Scan",
        "Clusters",
    ];
    let has_nodes = |plan| {
        let text = shown(plan);
        let mut names = text.split("Bowtie").skip(1);
        names.any(|name| !of_rows.iter().any(|of| name.starts_with(of)))
    };
    assert_eq!(
        has_nodes(&plan),
        has_nodes(&sent),
        "{sql}\n{}",
        shown(&sent)
    );
    answer_of(ctx, sent).await
}

/// Checks that `sql` gives the rows of `stock` when forced; returns the forced plan.
///
/// `nodes` are names that the plan must contain. It may contain no join of DataFusion.
pub(crate) async fn check(
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

pub(crate) fn assert_offloaded(sql: &str, plan: &str, nodes: &[&str]) {
    for node in nodes {
        assert!(plan.contains(node), "no {node}: {sql}\n{plan}");
    }
    for left in ["LoopJoinExec", "HashJoinExec", "MergeJoinExec", "CrossJoin"] {
        let mut lines = plan.lines().map(str::trim_start);
        let is_left = lines.any(|line| line.contains(left) && !line.starts_with("Bowtie"));
        assert!(!is_left, "{left} is left: {sql}\n{plan}");
    }
}

/// Checks that a node is declined even when forced: no `node` is in the plan, and `bowtie_explain` shows the reason.
pub(crate) async fn declines(ctx: &SessionContext, sql: &str, node: &str, reason: &str) {
    let given = forced(ctx, sql, &Tuning::PLAIN).await.unwrap();
    assert!(!given.plan.contains(node), "{sql}\n{}", given.plan);
    let explained = format!("SELECT reason FROM bowtie_explain('{sql}')");
    let reasons = ctx.sql(&explained).await.unwrap();
    let reasons = reasons.to_string().await.unwrap();
    assert!(reasons.contains(reason), "{sql}\n{reasons}");
}

/// The answer under the options as they are, as a table of text.
pub(crate) async fn text(ctx: &SessionContext, sql: &str) -> String {
    let answer = answer(ctx, sql).await.unwrap();
    pretty_format_batches(&answer.batches).unwrap().to_string()
}

/// The plan with its metrics, as EXPLAIN ANALYZE shows it.
pub(crate) async fn analyzed(ctx: &SessionContext, sql: &str) -> String {
    text(ctx, &format!("EXPLAIN ANALYZE {sql}")).await
}
