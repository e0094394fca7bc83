//! The pages of the book against the code: each option, function and metric has a row in its page, and each row has one of them; an
//! option's row has its values and its default. `messages` looks for the messages that pages quote in the
//! sources, and `coverage` for those of the sources on the pages. `examples` runs the SQL of some pages, and `rust_blocks` has
//! their Rust. `minimums` compares the numbers of tests that scripts ask for with those there are, `papers` the tables of systems with what they name.

mod coverage;
mod examples;
mod messages;
mod minimums;
mod papers;
mod rust_blocks;
mod sources;

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::cast::as_string_array;
use datafusion::common::config::ExtensionOptions;
use datafusion::physical_plan::collect;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, SpillMetrics};
use datafusion::prelude::SessionContext;
use datafusion_bowtie::BowtieOptions;

use crate::docs::sources::{MEMBERS, files, literals, text_of};
use crate::support::answer::shown;
use crate::support::session::{session, set};

/// The rows of a page's tables that begin with code, from heading `from` on up to `to`: a row's cells.
fn rows<'a>(page: &'a str, from: &str, to: Option<&str>) -> Vec<Vec<&'a str>> {
    let begin = page.find(from).unwrap_or_else(|| panic!("no {from}"));
    let page = &page[begin..];
    let end = to.map(|to| page.find(to).unwrap_or_else(|| panic!("no {to}")));
    let lines = page[..end.unwrap_or(page.len())].lines();
    let rows = lines.filter(|line| line.starts_with("| `"));
    let cells = |row: &'a str| row.trim_matches('|').split(" | ").map(str::trim).collect();
    rows.map(cells).collect()
}

/// The names in backticks that begin these rows.
fn names(page: &str, from: &str, to: Option<&str>) -> BTreeSet<String> {
    let rows = rows(page, from, to);
    let names = rows.iter().filter_map(|row| row[0].split('`').nth(1));
    names.map(str::to_string).collect()
}

/// The parts of a list of values, such as "`a`, `b` or `c`".
fn alternatives(values: &str) -> Vec<String> {
    let values = values.replace('`', "").replace(", or ", ", ");
    let values = values.replace(" or ", ", ");
    values.split(", ").map(str::to_string).collect()
}

/// The values that an option takes, as it names them when it refuses another one.
fn values_of(option: &str) -> Vec<String> {
    let refusal = BowtieOptions::default().set(option, "no value");
    let refusal = refusal.unwrap_err().to_string();
    let (_, values) = refusal.split_once(": use ").unwrap();
    // Examples and explanations follow.
    let values = values.split(" such as ").next().unwrap();
    alternatives(values.split(" with the ").next().unwrap())
}

#[tokio::test]
async fn every_option_has_a_row() {
    let page = include_str!("../../docs/reference/options.md");
    let state = session().state();
    let entries = state.config_options().entries();
    let registered = entries.into_iter().map(|entry| entry.key);
    let registered: BTreeSet<String> = registered.filter(|k| k.starts_with("bowtie.")).collect();
    assert!(!registered.is_empty());
    assert_eq!(names(page, "# Options", Some("\n## ")), registered);

    let entries = BowtieOptions::default().entries();
    let of_code = entries.into_iter().map(|entry| {
        let values = values_of(entry.key.trim_start_matches("bowtie."));
        (entry.key, values, entry.value.unwrap())
    });
    let of_code: BTreeSet<_> = of_code.collect();
    let rows = rows(page, "# Options", Some("\n## "));
    let of_page = rows.iter().map(|row| {
        let plain = |cell: &str| cell.replace('`', "");
        (plain(row[0]), alternatives(row[1]), plain(row[2]))
    });
    let of_page: BTreeSet<_> = of_page.collect();
    assert_eq!(of_page, of_code);

    for (option, values, _) in of_page {
        for value in values {
            // Of a range its end; any number of a GPU.
            let value = value.split(' ').next_back().unwrap().replace(":N", ":0");
            let option = option.trim_start_matches("bowtie.");
            let taken = BowtieOptions::default().set(option, &value);
            assert!(taken.is_ok(), "{option} = {value}: {taken:?}");
        }
    }
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
    assert_eq!(names(page, "## Functions of sets", next), of_sets);
    let tables = with.table_functions().keys();
    let tables = tables.filter(|name| !plain.table_functions().contains_key(*name));
    let tables: BTreeSet<String> = tables.cloned().collect();
    let next = Some("\n### ");
    assert_eq!(names(page, "## Table functions", next), tables);
}

#[tokio::test]
async fn every_counter_has_a_row() {
    let page = include_str!("../../docs/reference/functions.md");
    let rows = rows(page, "### bowtie_stats", Some("### bowtie_cache"));
    let rows: BTreeSet<String> = rows.iter().map(|row| row.join(" ")).collect();
    let sql = "SELECT concat('`', counter, '` ', unit, ' ', meaning) FROM bowtie_stats()";
    let counters = session().sql(sql).await.unwrap().collect().await.unwrap();
    let counters: BTreeSet<String> = counters
        .iter()
        .flat_map(|batch| as_string_array(batch.column(0)).iter())
        .map(|counter| counter.unwrap().to_string())
        .collect();
    assert_eq!(rows, counters);
}

/// The file that makes bowtie's own metrics.
const METRICS: &str = "src/exec/metrics.rs";
/// The file of those that devices count for nodes, and of what is counted for the process alone.
const COUNTERS: &str = "src/device/counters.rs";
/// The file that shows them among a node's metrics, under their names.
const SHOWN: &str = "src/exec/node_counters.rs";

/// The names of bowtie's own metrics, all of which are made in one file. Some have the name of a strategy in theirs.
fn own_metrics() -> BTreeSet<String> {
    let mut made = vec![];
    let mut indexed = [values_of("equi_join_strategy"), values_of("set_strategy")].concat();
    for file in files(MEMBERS[0]) {
        let text = text_of(&file);
        let literals = || literals(&text).into_iter().map(|literal| literal.value);
        // Ways to index that no option names.
        let named = text.split("indexed_by(\"").skip(1);
        indexed.extend(named.filter_map(|rest| Some(rest.split('"').next()?.to_string())));
        if file.ends_with(METRICS) {
            made.extend(literals());
        } else if file.ends_with(COUNTERS) {
            made.extend(literals().filter(|literal| {
                let of_process = literal.ends_with("_queries")
                    || literal.ends_with("_nodes")
                    || literal == "planning_errors";
                let is_unit = ["count", "bytes", "ns"].contains(&literal.as_str());
                !literal.contains(' ') && !of_process && !is_unit
            }));
        } else if file.ends_with(SHOWN) {
            assert_eq!(literals().collect::<Vec<_>>(), Vec::<String>::new());
        } else {
            assert!(!text.contains("MetricBuilder"), "{}", file.display());
        }
    }
    assert!(!made.is_empty(), "{METRICS} makes no metrics");
    let names = made.into_iter().flat_map(|literal| {
        let Some((kind, _)) = literal.split_once('{') else {
            return vec![literal];
        };
        let strategies = match kind {
            "indexed_" => indexed.clone(),
            "by_" => values_of("group_strategy"),
            "counted_" => ["walk", "merge", "wavelet_tree", "tiles", "filter"]
                .map(String::from)
                .to_vec(),
            "on_" => vec!["host".into(), "cuda_N".into()],
            "materialized_" => values_of("materialization"),
            _ => panic!("{literal} has the names of unknown strategies"),
        };
        let strategies = strategies.iter().filter(|strategy| *strategy != "auto");
        strategies
            .map(|strategy| format!("{kind}{strategy}"))
            .collect()
    });
    names.collect()
}

/// The names of DataFusion's metrics that EXPLAIN ANALYZE shows of nodes, and of nodes that spilled.
fn metrics_of_datafusion() -> BTreeSet<String> {
    let set = ExecutionPlanMetricsSet::new();
    drop(BaselineMetrics::new(&set, 0));
    let _spilled = SpillMetrics::new(&set, 0);
    let metrics = set.clone_inner();
    let names = metrics.iter().map(|m| m.value().name().to_string());
    names.filter(|name| !name.ends_with("_timestamp")).collect()
}

#[test]
fn every_metric_has_a_row() {
    let page = include_str!("../../docs/reference/metrics.md");
    let of_datafusion = "## Of DataFusion";
    let own = names(page, "## Always shown", Some(of_datafusion));
    assert_eq!(own, own_metrics());
    assert_eq!(names(page, of_datafusion, None), metrics_of_datafusion());
}

#[tokio::test]
async fn every_metric_that_a_query_shows_has_a_row() {
    let page = include_str!("../../docs/reference/metrics.md");
    let documented = names(page, "# Metrics", None);
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
