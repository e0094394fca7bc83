//! What the function does not take, and what it says.

use datafusion::prelude::SessionContext;

use crate::support::session::session;
use crate::support::snapshot::{answer, refusal};

async fn with_pairs() -> SessionContext {
    let ctx = session();
    let sql = "CREATE TABLE pairs AS VALUES (1, 2), (2, 3)";
    ctx.sql(sql).await.unwrap().collect().await.unwrap();
    ctx
}

async fn refused(call: &str, reasons: &[&str]) {
    let ctx = with_pairs().await;
    let error = refusal(&ctx, &format!("SELECT * FROM {call}")).await;
    for reason in reasons {
        assert!(error.contains(reason), "{call}\n{error}");
    }
    // Nothing happened to the table.
    let sum = answer(&ctx, "SELECT count(*), sum(column1) FROM pairs").await;
    assert_eq!(sum, "2 3", "{call}");
}

#[tokio::test]
async fn other_arguments() {
    for arguments in ["", "1", "NULL", "'pairs', 'pairs'", "['pairs']", "random()"] {
        let call = format!("bowtie_clusters({arguments})");
        let reason = "bowtie_clusters takes one argument, a query of two columns or the name of a table as a string";
        refused(&call, &[reason]).await;
    }
}

#[tokio::test]
async fn other_columns() {
    for (query, reason) in [
        ("SELECT column1 FROM pairs", "has 1: pairs.column1"),
        (
            "SELECT *, 0 AS n FROM pairs",
            "has 3: pairs.column1, pairs.column2, n",
        ),
    ] {
        let call = format!("bowtie_clusters('{query}')");
        let needs = "bowtie_clusters needs a query of two columns, the ids of each pair";
        refused(&call, &[needs, reason]).await;
    }
    for (query, reason) in [
        ("SELECT true, DATE '2020-01-01'", "Boolean and Date32"),
        ("SELECT column1, [column2] FROM pairs", "Int64 and List("),
    ] {
        let call = format!("bowtie_clusters($${query}$$)");
        let cannot = "bowtie_clusters cannot compare the two columns of its query, ";
        refused(&call, &[cannot, reason, ": CAST one of them"]).await;
    }
}

#[tokio::test]
async fn other_statements() {
    for statement in [
        "CREATE TABLE x AS SELECT 1, 2",
        "CREATE VIEW x AS SELECT 1, 2",
        "DROP TABLE pairs",
        "INSERT INTO pairs VALUES (3, 4)",
        "INSERT INTO pairs SELECT * FROM pairs",
        "DELETE FROM pairs",
        "COPY pairs TO 'pairs.csv'",
        "SET datafusion.execution.batch_size = 1",
        "EXPLAIN SELECT 1, 2",
        "DESCRIBE pairs",
        "SELECT 1 AS a, 2 AS b INTO x",
    ] {
        let call = format!("bowtie_clusters($${statement}$$)");
        let reason = "bowtie_clusters takes a plain query (SELECT, WITH or VALUES)";
        refused(&call, &[reason]).await;
    }
}

#[tokio::test]
async fn queries_that_cannot_be_planned() {
    for (text, reason) in [
        ("nothing", "nothing"),
        ("SELECT * FROM nothing", "nothing"),
        ("other.pairs", "pairs"),
        ("SELECT column1, nothing FROM pairs", "nothing"),
        ("SELEC 1, 2", "SELEC"),
        ("SELECT 1, 2; SELECT 3, 4", "single SQL statement"),
        ("", "No SQL statements"),
    ] {
        let call = format!("bowtie_clusters('{text}')");
        refused(&call, &["bowtie_clusters cannot plan its query", reason]).await;
    }
}

/// An error of the query is the statement's.
#[tokio::test]
async fn queries_that_fail() {
    let query = "SELECT column1 / (column2 - column2), column1 FROM pairs";
    refused(&format!("bowtie_clusters('{query}')"), &["Divide by zero"]).await;
}
