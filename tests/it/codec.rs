//! Plans that are sent to another process, as `BowtieCodec` does it: the same nodes and rows, and clear errors.

mod damaged;

use datafusion::prelude::SessionContext;

use crate::support::answer::{answer_of, forced_and_sent, plan_of, shown, stock};
use crate::support::codec::{assert_same_nodes, decoded, encoded, sent};
use crate::support::compare::similar_rows;
use crate::support::session::{Rule, session_by, set};
use crate::support::tables::{mixed_table, register};
use crate::support::tuning::Tuning;

/// A session with the tables `r` and `s`, of lists also, whose plans are sent.
async fn tables() -> SessionContext {
    let ctx = session_by(Rule::Early);
    register(&ctx, "r", &mixed_table(60, 0.1, 1));
    register(&ctx, "s", &mixed_table(50, 0.1, 2));
    let lists = "CREATE TABLE l AS SELECT id, make_array(a % 5, b % 7, id % 3) AS v FROM r";
    ctx.sql(lists).await.unwrap().collect().await.unwrap();
    ctx
}

/// Joins of each strategy, and what stands above them.
const QUERIES: [&str; 17] = [
    "SELECT r.id, s.id FROM r JOIN s ON r.a = s.a",
    "SELECT r.id, s.id FROM r LEFT JOIN s ON r.a < s.a AND r.b > s.b",
    "SELECT r.id, s.id FROM r FULL JOIN s ON r.a * s.b > 40",
    "SELECT r.g, count(*), sum(s.a) FROM r JOIN s ON r.a < s.a GROUP BY r.g",
    "SELECT g, t, count(*), avg(c), max(t), count(DISTINCT a), var_pop(b) FROM r GROUP BY ROLLUP (g, t)",
    "SELECT id FROM r WHERE a NOT IN (SELECT a FROM s WHERE a IS NOT NULL)",
    "SELECT r.id FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.a = r.a AND s.b < r.b)",
    "SELECT r.t, s.a FROM r JOIN s ON r.a = s.b ORDER BY r.id, s.id LIMIT 7 OFFSET 2",
    "SELECT x.id FROM l x JOIN l y ON array_has_all(x.v, y.v)",
    "SELECT x.id, y.id, array_jaccard(x.v, y.v) FROM l x JOIN l y ON array_overlap(x.v, y.v) >= 2",
    "SELECT x.id, y.id, array_overlap(x.v, y.v) FROM l x CROSS JOIN l y",
    "SELECT r.id, n.id FROM r JOIN LATERAL (SELECT s.id FROM s WHERE s.a <= r.a ORDER BY s.a DESC, s.id LIMIT 2) n ON true",
    "SELECT * FROM (SELECT x.id, y.id AS j, row_number() OVER (PARTITION BY x.id ORDER BY array_jaccard(x.v, y.v) DESC, y.id) AS n FROM l x JOIN l y ON array_overlap(x.v, y.v) >= 1) AS ranked WHERE n <= 2",
    "SELECT * FROM bowtie_clusters('SELECT x.id, y.id FROM l x JOIN l y ON array_jaccard(x.v, y.v) >= 0.9')",
    "SELECT * FROM bowtie_clusters('SELECT id, a FROM r')",
    "SELECT * FROM bowtie_clusters('SELECT r.id, s.a FROM r JOIN s ON r.a = s.a')",
    "SELECT id FROM r UNION SELECT id FROM s",
];

#[tokio::test]
async fn plans_arrive_with_their_rows() {
    let ctx = tables().await;
    for sql in QUERIES {
        let stock = stock_of(&ctx, sql).await;
        for cache in ["off", "auto"] {
            let tuning = Tuning {
                partitions: 3,
                cache: Some(cache),
                ..Tuning::PLAIN
            };
            let given = forced_and_sent(&ctx, sql, &tuning).await;
            let given = given.unwrap_or_else(|error| panic!("{sql}\n{error}"));
            if let Err(difference) = similar_rows(&stock, &given) {
                panic!("{sql}\n{}\n{difference}", given.plan);
            }
        }
    }
}

async fn stock_of(ctx: &SessionContext, sql: &str) -> crate::support::answer::Answer {
    stock(ctx, sql)
        .await
        .unwrap_or_else(|error| panic!("{sql}\n{error}"))
}

/// A plan with a join that is offloaded.
const JOIN: &str = "SELECT r.id, s.id FROM r JOIN s ON r.a < s.a";

#[tokio::test]
async fn the_same_nodes_arrive() {
    let ctx = tables().await;
    set(&ctx, "bowtie.offload", "force");
    for sql in &QUERIES[..10] {
        let plan = plan_of(&ctx, sql).await.unwrap();
        assert_same_nodes(sql, &plan, &sent(&ctx, &plan).unwrap());
    }
}

/// As-of joins have no nodes of DataFusion in their place where they arrive, so that they are offloaded there also where nothing is gained.
#[tokio::test]
async fn as_of_joins_arrive_on_a_device() {
    let ctx = tables().await;
    // Without NULLs nothing is filtered, so that numbers of rows are exact.
    register(&ctx, "d", &mixed_table(60, 0.0, 3));
    register(&ctx, "e", &mixed_table(50, 0.0, 4));
    for sql in [
        "SELECT id, a, a_right FROM bowtie_asof('d', 'e', 'a')",
        "SELECT id, a, a_right FROM bowtie_asof('d', 'e', 'a', 'g', 'forward', 3)",
        "SELECT id, a, a_right FROM bowtie_nearest('d', 'e', 'a', 'g', 2)",
    ] {
        let stock = stock_of(&ctx, sql).await;
        set(&ctx, "bowtie.offload", "auto");
        let by_auto = shown(&plan_of(&ctx, sql).await.unwrap());
        assert!(!by_auto.contains("partners="), "{sql}\n{by_auto}");
        // JSON of the same length: the receiver estimates, and gains nothing from so few rows.
        let (from, to) = (
            br#""bowtie.offload":"force""#,
            br#""bowtie.offload": "auto""#,
        );
        let bytes = altered(&ctx, sql, from, to).await;
        let arrived = decoded(&ctx, &bytes).unwrap_or_else(|error| panic!("{sql}\n{error}"));
        let given = answer_of(&ctx, arrived).await.unwrap();
        // Numbers of partners end at the current row.
        let is_numbered =
            |line: &str| line.contains("WindowAggExec") && line.contains("CURRENT ROW");
        let has_numbers = given.plan.lines().any(is_numbered);
        assert!(
            given.plan.contains("partners=") && !has_numbers,
            "{sql}\n{}",
            given.plan
        );
        if let Err(difference) = similar_rows(&stock, &given) {
            panic!("{sql}\n{}\n{difference}", given.plan);
        }
    }
}

/// The bytes of a plan, with some of them replaced.
async fn altered(ctx: &SessionContext, sql: &str, from: &[u8], to: &[u8]) -> Vec<u8> {
    set(ctx, "bowtie.offload", "force");
    let plan = plan_of(ctx, sql).await.unwrap();
    let mut bytes = encoded(&plan).unwrap();
    let mut windows = bytes.windows(from.len());
    let at = windows
        .position(|window| window == from)
        .expect("it is there");
    bytes[at..at + from.len()].copy_from_slice(to);
    bytes
}

#[tokio::test]
async fn what_cannot_be_decoded_says_so() {
    let ctx = tables().await;
    let newer = altered(&ctx, JOIN, b"BOWTIE\x01", b"BOWTIE\x63").await;
    let error = decoded(&ctx, &newer).unwrap_err().to_string();
    assert!(
        error.contains("version 99") && error.contains("reads version 1"),
        "{error}"
    );
    let unknown = altered(&ctx, JOIN, b"bowtie.offload", b"bowtie.offroad").await;
    let error = decoded(&ctx, &unknown).unwrap_err().to_string();
    assert!(
        error.contains("there is no option bowtie.offroad"),
        "{error}"
    );
    let nothing = "SELECT count(*) FROM r GROUP BY GROUPING SETS (())";
    let plan = plan_of(&ctx, nothing).await.unwrap();
    let error = encoded(&plan).unwrap_err().to_string();
    assert!(error.contains("GROUPING SETS without a key"), "{error}");
    let half = "SELECT g, max(arrow_cast(1.5, 'Float16')) FROM r GROUP BY g";
    let plan = plan_of(&ctx, half).await.unwrap();
    let error = encoded(&plan).unwrap_err().to_string();
    assert!(error.contains("a literal of the type Float16"), "{error}");
}

#[tokio::test]
async fn devices_that_are_not_there_are_named() {
    let ctx = tables().await;
    let devices = datafusion_bowtie::devices();
    // Names of one length, as the message says how long it is.
    let (here, elsewhere) = if devices.iter().any(|device| device.device == "cuda:0") {
        ("cuda:0", "cuda:9")
    } else {
        ("host", "cuda")
    };
    set(&ctx, "bowtie.device", here);
    let option = |device: &str| format!("\"bowtie.device\":\"{device}\"");
    let (from, to) = (option(here), option(elsewhere));
    let bytes = altered(&ctx, JOIN, from.as_bytes(), to.as_bytes()).await;
    let error = decoded(&ctx, &bytes).unwrap_err().to_string();
    assert!(error.contains(elsewhere), "{error}");
}
