//! Sessions over small tables, and what a statement answers, as text for snapshots.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use datafusion::prelude::*;
use datafusion_bowtie::BowtieSessionExt;

use crate::support::answer;
use crate::support::compare::same_rows;
use crate::support::session::{device, set};

/// Two partitions, so that plans tell whether an input is repartitioned or merged.
fn config() -> SessionConfig {
    SessionConfig::new()
        .with_target_partitions(2)
        .with_information_schema(true)
}

/// A session with bowtie and without tables.
pub(crate) fn empty_session() -> SessionContext {
    let state = SessionStateBuilder::new()
        .with_config(config())
        .with_default_features()
        .with_bowtie()
        .unwrap()
        .build();
    SessionContext::new_with_state(state)
}

/// A session with the tables `r` and `s` on the CPU backend, with this value of `bowtie.offload`.
pub(crate) async fn session(offload: &str) -> SessionContext {
    let context = empty_session();
    add_tables(&context).await;
    run(&context, "SET bowtie.device = 'host'").await.unwrap();
    run(&context, &format!("SET bowtie.offload = '{offload}'"))
        .await
        .unwrap();
    context
}

/// The same on the device that the tests run on.
pub(crate) async fn session_on_test_device(offload: &str) -> SessionContext {
    let context = session(offload).await;
    set(&context, "bowtie.device", &device());
    context
}

/// The same tables in DataFusion as it is.
pub(crate) async fn stock_session() -> SessionContext {
    let context = SessionContext::new_with_config(config());
    add_tables(&context).await;
    context
}

/// `r` and `s` have an integer key, two integers, a float and a text; some are NULL.
async fn add_tables(context: &SessionContext) {
    for (table, rows) in [("r", 6), ("s", 5)] {
        let sql = format!(
            "CREATE TABLE {table} AS SELECT
                value % 3 AS k, value AS a, nullif(10 - value, 7) AS b, value * 0.5 AS f, 'n' || value AS t
             FROM generate_series(1, {rows})"
        );
        run(context, &sql).await.unwrap();
    }
}

/// Runs a statement to its end.
pub(crate) async fn run(context: &SessionContext, sql: &str) -> Result<Vec<RecordBatch>> {
    context.sql(sql).await?.collect().await
}

/// The rows of an answer: a line each, values between spaces, sorted.
pub(crate) async fn answer(context: &SessionContext, sql: &str) -> String {
    let mut lines = lines(&run(context, sql).await.unwrap());
    lines.sort_unstable();
    lines.join("\n")
}

/// The rows of a query whose forced plan has each of `nodes`, as text. They are those of DataFusion alone.
pub(crate) async fn offloaded(context: &SessionContext, sql: &str, nodes: &[&str]) -> String {
    set(context, "bowtie.offload", "off");
    let stock = answer::answer(context, sql).await;
    let stock = stock.unwrap_or_else(|error| panic!("{sql}\n{error}"));
    assert!(!stock.plan.contains("Bowtie"), "{sql}\n{}", stock.plan);
    set(context, "bowtie.offload", "force");
    let given = answer::answer(context, sql).await;
    let given = given.unwrap_or_else(|error| panic!("{sql}\n{error}"));
    for node in nodes {
        assert!(
            given.plan.contains(node),
            "no {node}: {sql}\n{}",
            given.plan
        );
    }
    if let Err(difference) = same_rows(&stock, &given) {
        panic!("{sql}\n{}\n{difference}", given.plan);
    }
    let mut lines = lines(&given.batches);
    lines.sort_unstable();
    lines.join("\n")
}

/// The message of a statement's error.
pub(crate) async fn refusal(context: &SessionContext, sql: &str) -> String {
    match run(context, sql).await {
        Ok(_) => panic!("{sql} was not refused"),
        Err(e) => e.strip_backtrace(),
    }
}

pub(crate) fn lines(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::new().with_null("NULL");
    let mut lines = vec![];
    for batch in batches {
        let columns: Vec<_> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap())
            .collect();
        for row in 0..batch.num_rows() {
            let values: Vec<String> = columns.iter().map(|c| c.value(row).to_string()).collect();
            lines.push(values.join(" "));
        }
    }
    lines
}

/// The physical plan of a query.
pub(crate) async fn physical(
    context: &SessionContext,
    sql: &str,
) -> Result<Arc<dyn ExecutionPlan>> {
    context.sql(sql).await?.create_physical_plan().await
}

/// The physical plan, an indented line for each node.
pub(crate) async fn plan(context: &SessionContext, sql: &str) -> String {
    let plan = physical(context, sql).await.unwrap();
    displayable(plan.as_ref()).indent(true).to_string()
}

/// Only those lines of the plan that show a node with one of `names`, without their indentation.
pub(crate) async fn nodes(context: &SessionContext, sql: &str, names: &[&str]) -> String {
    plan(context, sql)
        .await
        .lines()
        .map(str::trim)
        .filter(|line| names.iter().any(|name| line.starts_with(name)))
        .collect::<Vec<_>>()
        .join("\n")
}
