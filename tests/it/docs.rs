//! The reference pages of the book against the code: each option, function and metric has a row, and each row has one of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;

use crate::support::answer::shown;
use crate::support::session::{session, set};

/// The names in backticks that begin the rows of a page's tables, from heading `from` on up to `to`.
fn rows_of(page: &str, from: &str, to: Option<&str>) -> BTreeSet<String> {
    let begin = page.find(from).unwrap_or_else(|| panic!("no {from}"));
    let page = &page[begin..];
    let end = to.and_then(|to| page.find(to)).unwrap_or(page.len());
    let names = page[..end].lines().filter_map(|line| {
        let name = line.strip_prefix("| `")?;
        Some(name.split('`').next()?.to_string())
    });
    names.collect()
}

#[tokio::test]
async fn every_option_has_a_row() {
    let page = include_str!("../../docs/reference/options.md");
    let state = session().state();
    let entries = state.config_options().entries();
    let known = entries.into_iter().map(|entry| entry.key);
    let known: BTreeSet<String> = known.filter(|key| key.starts_with("bowtie.")).collect();
    assert!(!known.is_empty());
    assert_eq!(rows_of(page, "# Options", Some("\n## ")), known);
}

#[tokio::test]
async fn every_function_has_a_row() {
    let page = include_str!("../../docs/reference/functions.md");
    let (plain, with) = (SessionContext::new().state(), session().state());
    let of_sets = with.scalar_functions();
    let of_sets = of_sets.values().filter(|function| {
        // Each is registered under its name, and under its aliases.
        !plain.scalar_functions().contains_key(function.name())
    });
    let of_sets: BTreeSet<String> = of_sets
        .map(|function| function.name().to_string())
        .collect();
    let next = Some("## Table functions");
    assert_eq!(rows_of(page, "## Functions of sets", next), of_sets);
    let tables = with.table_functions().keys();
    let tables = tables.filter(|name| !plain.table_functions().contains_key(*name));
    let rows = rows_of(page, "## Table functions", None);
    for table in tables {
        assert!(rows.contains(table), "{table} has no row in {rows:?}");
    }
}

#[tokio::test]
async fn every_metric_has_a_row() {
    let page = include_str!("../../docs/reference/metrics.md");
    let documented = rows_of(page, "# Metrics", None);
    let ctx = session();
    set(&ctx, "bowtie.offload", "force");
    let r = "(SELECT value AS a, value % 7 AS k FROM generate_series(1, 300)) r";
    let s = "(SELECT value AS a, value % 5 AS k FROM generate_series(1, 400)) s";
    for sql in [
        format!("SELECT r.a, s.a FROM {r} JOIN {s} ON r.a < s.a AND r.k <> s.k"),
        format!("SELECT r.k, count(*), sum(s.a) FROM {r} JOIN {s} ON r.a < s.a GROUP BY r.k"),
        format!("SELECT k, count(DISTINCT a), avg(a) FROM {r} GROUP BY k"),
        format!("SELECT r.a FROM {r} WHERE NOT EXISTS (SELECT * FROM {s} WHERE s.k = r.k)"),
        format!("SELECT r.a + 1, s.k FROM {r} JOIN {s} ON r.a = s.a WHERE r.a * s.a % 2 = 0"),
    ] {
        let plan = ctx.sql(&sql).await.unwrap();
        let plan = plan.create_physical_plan().await.unwrap();
        collect(Arc::clone(&plan), ctx.task_ctx()).await.unwrap();
        assert!(shown(&plan).contains("Bowtie"), "{sql}");
        let mut nodes = vec![plan];
        while let Some(node) = nodes.pop() {
            nodes.extend(node.children().into_iter().cloned());
            if !node.name().starts_with("Bowtie") {
                continue;
            }
            let metrics = node.metrics().unwrap_or_default();
            for metric in metrics.iter() {
                let name = metric.value().name().to_string();
                if name.ends_with("_timestamp") {
                    // DataFusion's own, which EXPLAIN ANALYZE does not show.
                    continue;
                }
                assert!(
                    documented.contains(&name),
                    "{name} of {} has no row: {sql}",
                    node.name()
                );
            }
        }
    }
}
