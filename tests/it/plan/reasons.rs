//! Reasons and messages as the reference has them, each by a statement that gives it.

use datafusion::prelude::SessionContext;
use datafusion_bowtie::explain;

use crate::plan::explain_function::decisions;
use crate::support::snapshot::{empty_session, refusal, run, session};

/// The reasons of the nodes of a query that have this name.
async fn reasons(context: &SessionContext, sql: &str, node: &str) -> Vec<String> {
    let query = context.sql(sql).await;
    let query = query.unwrap_or_else(|error| panic!("{sql}\n{error}"));
    let report = explain(&query).await;
    let report = report.unwrap_or_else(|error| panic!("{sql}\n{error}"));
    let nodes = report.nodes.iter().filter(|of| of.node == node);
    let reasons: Vec<String> = nodes.map(|of| of.reason.clone()).collect();
    assert!(!reasons.is_empty(), "no {node}: {sql}\n{report}");
    reasons
}

const MOVES: &str = "it only moves rows between the host's threads";
const RECURSIVE: &str = "recursive queries run in DataFusion: no device has them";
const NO_ROWS: &str = "there are no rows to work on";

const GROUPED: &str = "SELECT k, count(*) FROM r GROUP BY k";
const PROJECTED: &str = "SELECT s.t AS u, r.a + 1 AS v FROM r JOIN s ON r.a > s.a";
const NUMBERED: &str = "SELECT a, row_number() OVER (ORDER BY a) AS n FROM r";
const STEPS: &str =
    "WITH RECURSIVE w AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM w WHERE n < 3) SELECT n FROM w";

/// Nodes that nobody decides on: `bowtie.offload`, a query, a node of its plan, and its reason.
const OTHER_NODES: [(&str, &str, &str, &str); 17] = [
    ("off", GROUPED, "RepartitionExec", MOVES),
    (
        "off",
        GROUPED,
        "AggregateExec",
        "it is the first stage of the aggregation above",
    ),
    (
        "off",
        GROUPED,
        "DataSourceExec",
        "DataFusion reads it, as the node above is DataFusion's",
    ),
    (
        "force",
        PROJECTED,
        "ProjectionExec",
        "it runs on a device only above stored tables and offloaded operators, where that gains",
    ),
    ("force", PROJECTED, "RepartitionExec", MOVES),
    (
        "force",
        "SELECT a FROM r WHERE a > 1",
        "FilterExec",
        "no node around it runs on a device",
    ),
    (
        "force",
        "SELECT x.m, s.a FROM (SELECT k, count(*) AS m FROM r GROUP BY k HAVING count(*) < 5) AS x JOIN s ON x.k = s.k AND x.m > s.a",
        "BowtieFilterExec",
        "its rows are on the device, and so is what it computes",
    ),
    (
        "force",
        NUMBERED,
        "BoundedWindowAggExec",
        "window functions run in DataFusion: no device has them",
    ),
    // It came into the plan for the window, behind bowtie's rule.
    (
        "force",
        NUMBERED,
        "SortExec",
        "sorts run on a device above offloaded operators and stored tables alone",
    ),
    (
        "force",
        "SELECT unnest(make_array(a, k)) AS x FROM r",
        "UnnestExec",
        "UNNEST runs in DataFusion: no device has it",
    ),
    ("force", STEPS, "RecursiveQueryExec", RECURSIVE),
    ("force", STEPS, "WorkTableExec", RECURSIVE),
    ("force", "SELECT 1 AS one", "PlaceholderRowExec", NO_ROWS),
    ("force", "SELECT a FROM r WHERE false", "EmptyExec", NO_ROWS),
    (
        "force",
        "INSERT INTO r SELECT * FROM s",
        "DataSinkExec",
        "it writes rows",
    ),
    (
        "force",
        "EXPLAIN ANALYZE SELECT a FROM r",
        "AnalyzeExec",
        "it shows the plan below",
    ),
    (
        "force",
        "SELECT value FROM generate_series(1, 5)",
        "LazyMemoryExec",
        "LazyMemoryExec runs in DataFusion: no device has such an operator",
    ),
];

#[tokio::test]
async fn of_nodes_that_nobody_decides_on() {
    for (offload, sql, node, reason) in OTHER_NODES {
        let context = session(offload).await;
        let given = reasons(&context, sql, node).await;
        assert!(
            given.iter().any(|given| given == reason),
            "{node} of {sql}: {given:?}"
        );
    }
}

/// Of a GPU that is not there: nothing runs.
#[tokio::test]
async fn of_transfers_to_a_gpu() {
    let context = session("force").await;
    for sql in ["SET bowtie.device = 'cuda:9'", "SET bowtie.cache = 'off'"] {
        run(&context, sql).await.unwrap();
    }
    let sql = "SELECT r.a, s.a FROM r JOIN s ON r.a > s.a";
    for (node, reason) in [
        (
            "BowtieDownloadExec",
            "copies rows from the GPU for the node above",
        ),
        (
            "DataSourceExec",
            "DataFusion reads it, and its rows are sent with each query: only columns of tables in memory and of Parquet files can stay on the GPU, within bowtie.cache",
        ),
    ] {
        let given = reasons(&context, sql, node).await;
        assert!(given.iter().all(|given| given == reason), "{given:?}");
    }
}

/// What serves an equi-join under each strategy, and a join that compares by `<>` alone.
#[tokio::test]
async fn of_strategies() {
    let context = session("force").await;
    for (strategy, reason) in [
        ("direct", "side are array indexes"),
        ("hash", "one hash table of the "),
        (
            "partitioned_hash",
            "both sides are partitioned by their keys' hashes",
        ),
        (
            "sort_merge",
            "both sides are sorted by their keys and merged",
        ),
    ] {
        let set = format!("SET bowtie.equi_join_strategy = '{strategy}'");
        run(&context, &set).await.unwrap();
        let said = decisions(&context, "SELECT r.a FROM r JOIN s ON r.k = s.k").await;
        assert!(
            said.contains("offloaded: ") && said.contains(reason),
            "{said}"
        );
    }
    let said = decisions(&context, "SELECT r.a FROM r JOIN s ON r.a <> s.a").await;
    let reason = "offloaded: all pairs that zone maps cannot decide are tested";
    assert!(said.contains(reason), "{said}");
}

const ASOF: &str = "bowtie_asof(left, right, on [, by [, direction [, tolerance]]])";
const NEAREST: &str = "bowtie_nearest(left, right, on [, by [, k [, within]]])";
const SIMILAR: &str =
    "bowtie_similar(left, right, on [, k [, measure [, at_least [, by [, except]]]]])";

/// Calls of table functions, whose form is wrong, and what is said behind it.
const WRONG_CALLS: [(&str, &str, &str); 8] = [
    (
        ASOF,
        "bowtie_asof('r', 's', random())",
        "on is a constant string, not random()",
    ),
    (
        ASOF,
        "bowtie_asof('r', 's', 'a, b')",
        "on is one column, or left column = right column",
    ),
    (
        ASOF,
        "bowtie_asof($$SELECT DATE '2024-01-01' AS ts$$, 'SELECT true AS ts', 'ts')",
        "Date32 and Boolean cannot be compared: CAST one of them",
    ),
    (
        ASOF,
        "bowtie_asof('r', 's', 'a', NULL, NULL, random())",
        "the distance is a constant, not random()",
    ),
    (
        NEAREST,
        "bowtie_nearest('r', 's', 'a', NULL, random())",
        "k is a constant number, not random()",
    ),
    (
        SIMILAR,
        "bowtie_similar('SELECT make_array(a) AS v FROM r', 'SELECT make_array(a) AS v FROM s', 'v', random())",
        "k is a constant number, not random()",
    ),
    (
        SIMILAR,
        "bowtie_similar('SELECT make_array(a) AS v FROM r', 'SELECT make_array(a) AS v FROM s', 'v, v')",
        "on is one column of lists, or left column = right column",
    ),
    (
        SIMILAR,
        "bowtie_similar('SELECT make_array(a) AS v FROM r', 'SELECT make_array(a) AS v FROM s', 'v', 1, 'jaccard', random())",
        "at_least is a constant number, not random()",
    ),
];

/// Statements that are refused, and why.
const REFUSED: [(&str, &str); 4] = [
    (
        "SELECT * FROM bowtie_devices(1)",
        "bowtie_devices takes no argument: SELECT * FROM bowtie_devices()",
    ),
    (
        "SELECT * FROM bowtie_cache(1)",
        "bowtie_cache takes no argument: SELECT * FROM bowtie_cache()",
    ),
    (
        "SELECT * FROM bowtie_stats('all')",
        "bowtie_stats takes no argument: SELECT * FROM bowtie_stats()",
    ),
    (
        "SELECT * FROM bowtie_explain(1)",
        "bowtie_explain takes one argument, the query as a string: bowtie_explain($$ SELECT … $$)",
    ),
];

#[tokio::test]
async fn of_statements_that_are_refused() {
    let context = session("force").await;
    let calls = WRONG_CALLS.iter().map(|(form, call, wrong)| {
        let sql = format!("SELECT * FROM {call}");
        (sql, format!("{form}: {wrong}"))
    });
    let statements = REFUSED.iter();
    let statements = statements.map(|(sql, message)| (sql.to_string(), message.to_string()));
    for (sql, expected) in calls.chain(statements) {
        let message = refusal(&context, &sql).await;
        assert!(message.contains(&expected), "{sql}\n{message}");
    }
}

/// Each query in a query takes a part of the stack.
#[test]
fn of_queries_in_queries() {
    let in_queries = |queries: usize| {
        let inner = "SELECT 1 AS a, 2 AS b".to_string();
        (0..queries).fold(inner, |sql, _| {
            format!(
                "SELECT * FROM bowtie_clusters('{}')",
                sql.replace('\'', "''")
            )
        })
    };
    let refused = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(async {
            let context = empty_session();
            context.sql(&in_queries(16)).await.unwrap();
            refusal(&context, &in_queries(17)).await
        })
    };
    // More than a thread of a test has.
    let thread = std::thread::Builder::new().stack_size(64 << 20);
    let message = thread.spawn(refused).unwrap().join().unwrap();
    let expected = "bowtie_clusters has 16 queries around it that are arguments of functions, and no more are planned: use views";
    assert!(message.contains(expected), "{message}");
}
