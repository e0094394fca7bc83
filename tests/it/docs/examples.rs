//! The SQL of pages runs. A block's rows are the same by DataFusion and offloaded, and those that the page shows: in a table below the block, or
//! in comments behind a statement. Blocks with `…` are patterns, and do not run.

use arrow::util::display::FormatOptions;
use arrow::util::pretty::pretty_format_batches_with_options;
use datafusion::prelude::SessionContext;

use crate::support::answer::answer;
use crate::support::compare::same_rows;
use crate::support::session::{session, set};

/// A block of SQL, and what the page shows below it.
struct Block {
    statements: Vec<Statement>,
    /// As DataFusion prints it.
    text: Option<String>,
    /// The cells of a Markdown table, its heads first.
    table: Option<Vec<Vec<String>>>,
}

struct Statement {
    sql: String,
    comments: Vec<String>,
}

/// The blocks of a page that are no patterns, and how many are.
fn blocks(page: &str) -> (Vec<Block>, usize) {
    let (mut blocks, mut patterns) = (vec![], 0);
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        if line != "```sql" {
            continue;
        }
        let sql: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        if sql.iter().any(|line| line.contains('…')) {
            patterns += 1;
            continue;
        }
        while lines.next_if(|line| line.is_empty()).is_some() {}
        let mut block = Block {
            statements: statements(&sql),
            text: None,
            table: None,
        };
        if lines.next_if_eq(&"```text").is_some() {
            let text: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            block.text = Some(text.join("\n"));
        } else {
            let mut rows: Vec<Vec<String>> = vec![];
            while let Some(row) = lines.next_if(|line| line.starts_with("| ")) {
                let cells = row.trim_matches('|').split('|');
                rows.push(cells.map(|cell| cell.trim().to_string()).collect());
                lines.next_if(|line| line.starts_with("|-"));
            }
            block.table = Some(rows).filter(|rows| !rows.is_empty());
        }
        blocks.push(block);
    }
    (blocks, patterns)
}

fn statements(lines: &[&str]) -> Vec<Statement> {
    let mut statements: Vec<Statement> = vec![];
    let mut open = String::new();
    for line in lines {
        let (code, comment) = line.split_once("--").unwrap_or((line, ""));
        let comment = Some(comment.trim().to_string()).filter(|comment| !comment.is_empty());
        if code.trim().is_empty() && open.is_empty() {
            if let Some(statement) = statements.last_mut() {
                statement.comments.extend(comment);
            }
            continue;
        }
        open += code.trim_end();
        if let Some(sql) = open.strip_suffix(';') {
            statements.push(Statement {
                sql: sql.to_string(),
                comments: comment.into_iter().collect(),
            });
            open.clear();
        } else {
            open += "\n";
        }
    }
    if !open.is_empty() {
        statements.push(Statement {
            sql: open,
            comments: vec![],
        });
    }
    statements
}

async fn run(ctx: &SessionContext, sql: &str) {
    let frame = ctx.sql(sql).await.unwrap_or_else(|e| panic!("{sql}\n{e}"));
    let rows = frame.collect().await;
    rows.unwrap_or_else(|e| panic!("{sql}\n{e}"));
}

/// Whether the query has a node that bowtie serves.
fn has_node(sql: &str) -> bool {
    let forms = [" JOIN ", "\nJOIN ", "LATERAL", "LIMIT 1)"];
    let functions = ["asof", "nearest", "similar", "clusters"];
    let is_called = |name: &&str| sql.contains(&format!("bowtie_{name}("));
    forms.iter().any(|form| sql.contains(form)) || functions.iter().any(is_called)
}

/// Runs the blocks of a page after `tables`; returns how many ran, how many have rows on the page, and how many are patterns.
async fn run_page(page: &str, tables: &[&str]) -> (usize, usize, usize) {
    let ctx = session();
    for sql in tables {
        run(&ctx, sql).await;
    }
    let (blocks, patterns) = blocks(page);
    let mut shown = 0;
    for block in &blocks {
        for (i, Statement { sql, comments }) in block.statements.iter().enumerate() {
            // The state of the process.
            let states = ["bowtie_devices", "bowtie_stats", "bowtie_cache"];
            let pins = ["bowtie_pin", "bowtie_unpin"];
            let is_state = states.iter().chain(&pins).any(|state| sql.contains(state));
            let is_query = ["SELECT", "WITH"].iter().any(|word| sql.starts_with(word));
            if is_state || !is_query {
                // Examples of a page have tables of one name.
                run(
                    &ctx,
                    &sql.replace("CREATE TABLE", "CREATE OR REPLACE TABLE"),
                )
                .await;
                continue;
            }
            set(&ctx, "bowtie.offload", "off");
            let stock = answer(&ctx, sql).await;
            let stock = stock.unwrap_or_else(|e| panic!("{sql}\n{e}"));
            set(&ctx, "bowtie.offload", "force");
            let given = answer(&ctx, sql).await;
            let given = given.unwrap_or_else(|e| panic!("{sql}\n{e}"));
            assert!(!given.rows().is_empty(), "it has no rows: {sql}");
            assert_eq!(
                given.plan.contains("Bowtie"),
                has_node(sql),
                "{sql}\n{}",
                given.plan
            );
            if let Err(difference) = same_rows(&stock, &given) {
                panic!("{sql}\n{}\n{difference}", given.plan);
            }
            if !comments.is_empty() {
                shown += 1;
                // Cells are separated by commas, and what follows a semicolon is an explanation.
                let expected = comments
                    .iter()
                    .map(|row| row.split(';').next().unwrap_or_default());
                let expected: Vec<&str> = expected.collect();
                let rows = given.rows();
                let rows: Vec<String> = rows.iter().map(|row| row.replace('|', ", ")).collect();
                assert_eq!(rows, expected, "{sql}");
            }
            if i + 1 < block.statements.len() {
                continue;
            }
            if let Some(text) = &block.text {
                shown += 1;
                let options = FormatOptions::default().with_null("NULL");
                let rows = pretty_format_batches_with_options(&given.batches, &options);
                let rows = rows.unwrap();
                assert_eq!(rows.to_string(), *text, "{sql}");
            }
            let names = given.schema.fields().iter().map(|field| field.name());
            // A table may also explain.
            if let Some((heads, table)) = block.table.as_deref().and_then(<[_]>::split_first)
                && names.eq(heads)
            {
                shown += 1;
                let expected: Vec<String> = table.iter().map(|row| row.join("|")).collect();
                assert_eq!(given.rows(), expected, "{sql}");
            }
        }
    }
    (blocks.len(), shown, patterns)
}

#[tokio::test]
async fn functions() {
    let page = include_str!("../../../docs/reference/functions.md");
    let lineitem = "CREATE TABLE lineitem AS SELECT value AS l_orderkey, value % 9 AS l_shipdate FROM range(0, 90)";
    assert_eq!(run_page(page, &[lineitem]).await, (13, 12, 2));
}

#[tokio::test]
async fn partners_of_each_row() {
    let page = include_str!("../../../docs/reference/sql.md");
    let articles = "CREATE TABLE articles AS SELECT value AS id,
        make_array(value % 3, 10 + value % 4, 20 + value % 5, 30 + value) AS tags FROM range(0, 20)";
    assert_eq!(run_page(page, &[articles]).await, (1, 0, 0));
}

#[tokio::test]
async fn range_joins() {
    let page = include_str!("../../../docs/guide/range-joins.md");
    let at = |seconds: &str| format!("to_timestamp({seconds})");
    let tables = [
        "CREATE TABLE events AS SELECT value AS id, 's' || (value % 3) AS sku, value * 7 % 50 AS ts FROM range(0, 40)".to_string(),
        "CREATE TABLE prices AS SELECT 's' || (value % 3) AS sku, value * 5 AS valid_from, value * 5 + 15 AS valid_to, value * 1.5 AS price FROM range(0, 9)".to_string(),
        format!("CREATE TABLE trades AS SELECT value AS id, 's' || (value % 3) AS sym, {} AS ts FROM range(0, 30)", at("value * 11")),
        format!("CREATE TABLE quotes AS SELECT 's' || (value % 3) AS sym, {} AS ts, value * 10 AS bid FROM range(0, 90)", at("value * 4 + 2")),
        format!("CREATE TABLE readings AS SELECT value AS id, value % 4 AS sensor, {} AS ts FROM range(0, 80)", at("value * 61")),
        "CREATE TABLE spans AS SELECT value AS id, 'chr' || (value % 2) AS chrom, value * 13 % 400 AS start, value * 13 % 400 + 5 + value % 40 AS stop FROM range(0, 60)".to_string(),
        "CREATE TABLE genes AS SELECT 'chr' || (value % 2) AS chrom, value * 17 AS start, value * 17 + 9 AS stop, 'g' || value AS gene FROM range(0, 30)".to_string(),
        "CREATE TABLE sessions AS SELECT value AS id, value * 7 % 100 AS start, value * 7 % 100 + value % 9 + 1 AS stop FROM range(0, 70)".to_string(),
    ];
    let tables: Vec<&str> = tables.iter().map(String::as_str).collect();
    assert_eq!(run_page(page, &tables).await, (13, 0, 0));
}

#[tokio::test]
async fn set_joins() {
    let page = include_str!("../../../docs/guide/set-joins.md");
    // Each title has two others that are similar, so that no limit chooses.
    let titles = |name: &str, rows: usize| {
        format!(
            "CREATE TABLE {name} AS SELECT value AS id, 1990 + value AS year,
             array_append(range(1000 * (value / 3), 1000 * (value / 3) + 9), -value - 1) AS words
             FROM range(0, {rows})"
        )
    };
    let tables = [
        titles("titles", 12),
        titles("old_titles", 6),
        titles("new_titles", 9),
        "CREATE TABLE queries AS SELECT value AS id, make_array('t' || (value % 3), 't' || (value % 5)) AS tags FROM range(0, 12)".to_string(),
        "CREATE TABLE docs AS SELECT value AS id, make_array('t' || (value % 3), 't' || (value % 4), 't' || (value % 5)) AS tags FROM range(0, 60)".to_string(),
    ];
    let tables: Vec<&str> = tables.iter().map(String::as_str).collect();
    assert_eq!(run_page(page, &tables).await, (5, 1, 1));
}

#[test]
fn blocks_are_found() {
    let page = "text\n```sql\nSELECT 1; -- 1; one\nSELECT 2\n  AS x;\n-- 2\n```\n\n```text\n+\n```\n```sql\nSELECT …\n```\n\
        ```sql\nSELECT 3\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n";
    let (blocks, patterns) = blocks(page);
    assert_eq!((blocks.len(), patterns), (2, 1));
    let of = |block: &Block| -> Vec<(String, Vec<String>)> {
        let statements = block.statements.iter();
        statements
            .map(|statement| (statement.sql.clone(), statement.comments.clone()))
            .collect()
    };
    assert_eq!(
        of(&blocks[0]),
        [
            ("SELECT 1".to_string(), vec!["1; one".to_string()]),
            ("SELECT 2\n  AS x".to_string(), vec!["2".to_string()]),
        ]
    );
    assert_eq!(blocks[0].text.as_deref(), Some("+"));
    assert_eq!(of(&blocks[1]), [("SELECT 3\n".to_string(), vec![])]);
    let table = [["a", "b"], ["1", "2"]].map(|row| row.map(str::to_string).to_vec());
    assert_eq!(blocks[1].table, Some(table.to_vec()));
}
