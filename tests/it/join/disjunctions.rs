//! Joins by an OR across the sides, as unions of joins.
//!
//! The oracle is the same query with `bowtie.offload = 'off'`, which DataFusion answers by a nested loop; one case is checked against a loop
//! of our own.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{Int32Type, Int64Type};
use datafusion::prelude::SessionContext;

use crate::support::answer::{Answer, answer, check, forced, stock};
use crate::support::compare::{same_rows, similar_rows};
use crate::support::join_types::{KINDS, Kind};
use crate::support::lists::{Shape, table};
use crate::support::session::{session, set};
use crate::support::tables::register;
use crate::support::tuning::Tuning;

/// Tables r and s of [`table`], with NULLs.
fn tables() -> SessionContext {
    let ctx = session();
    register(&ctx, "r", &table(Shape::short(60, 0.1, 5)));
    register(&ctx, "s", &table(Shape::short(45, 0.1, 6)));
    ctx
}

/// Conditions whose OR is split.
const SPLIT: [&str; 15] = [
    // Equalities.
    "r.a = s.a OR r.x = s.x",
    "r.t = s.t OR s.x = r.x OR r.g = s.a",
    "lower(r.t) = s.t OR CAST(r.a AS BIGINT) = s.id OR substr(r.t, 1, 1) = s.t",
    // An equality and a predicate on sets, in either order.
    "r.a = s.a OR array_overlap(r.v, s.v) >= 3",
    "array_overlap(r.v, s.v) >= 3 OR r.a = s.a",
    "r.t = s.t OR array_has(s.v, r.x)",
    // Predicates on sets.
    "array_jaccard(r.v, s.v) >= 0.5 OR array_containment(s.v, r.v) > 0.8 OR 2 < array_overlap(r.v, s.v)",
    // Ranges with two bounds.
    "r.x = s.x OR abs(r.a - s.a) <= 1",
    "r.x = s.x OR r.a BETWEEN s.a - 1 AND s.a + 1",
    "(r.g = s.g AND abs(r.a - s.a) <= 1) OR array_dice(r.v, s.v) > 0.6 OR (r.t = s.t AND r.x <> s.x)",
    "(r.a <= s.x AND s.a <= r.x) OR r.t = s.t",
    // Beside what all disjuncts need.
    "r.id < s.id AND (r.a = s.a OR array_overlap(r.v, s.v) >= 3)",
    "r.g > 0 AND s.x IS NOT NULL AND (r.a = s.a OR array_has_any(r.v, s.v))",
    // A disjunct that also tests one side, and one with an OR inside.
    "(r.a = s.a AND s.g > 1) OR (r.x = s.x AND (r.g = 1 OR s.g = 2))",
    "r.a + s.a > 12 AND (r.a = s.a OR r.x = s.x)",
];

/// Whether the union of a join of this kind is one node: anti joins are a chain, mark joins stay.
fn has_union(kind: &Kind) -> bool {
    matches!(kind, Kind::Join(name) if !name.ends_with("ANTI"))
}

/// The answer in `auto`, where DataFusion has some of the joins.
async fn automatic(ctx: &SessionContext, sql: &str, tuning: &Tuning) -> Answer {
    tuning.apply(ctx);
    set(ctx, "bowtie.offload", "auto");
    answer(ctx, sql).await.unwrap()
}

fn assert_same(sql: &str, expected: &Answer, given: &Answer) {
    if let Err(difference) = same_rows(expected, given) {
        panic!("{sql}\n{}\n{difference}", given.plan);
    }
}

#[tokio::test]
async fn join_types_and_conditions() {
    let ctx = tables();
    let mut n = 0;
    for kind in KINDS {
        for condition in SPLIT {
            let sql = kind.sql("r", "s", &["id", "t"], condition);
            let stock = stock(&ctx, &sql).await.unwrap();
            let tuning = Tuning::nth(n);
            let plan = check(&ctx, &sql, &tuning, &stock, &["BowtieJoinExec"]).await;
            assert_eq!(
                plan.contains("UnionExec"),
                has_union(&kind),
                "{sql}\n{plan}"
            );
            if matches!(kind, Kind::Join(_)) {
                assert!(plan.matches("BowtieJoinExec").count() >= 2, "{sql}\n{plan}");
            }
            let given = automatic(&ctx, &sql, &Tuning::nth(n + 1)).await;
            assert_same(&sql, &stock, &given);
            n += 1;
        }
    }
}

/// Rows that are there twice, and columns that do not tell them apart.
#[tokio::test]
async fn duplicates() {
    let ctx = session();
    let twice = |batch: RecordBatch| {
        let schema = batch.schema();
        concat_batches(&schema, [&batch, &batch]).unwrap()
    };
    register(&ctx, "r", &twice(table(Shape::short(30, 0.1, 7))));
    register(&ctx, "s", &twice(table(Shape::short(25, 0.1, 8))));
    let mut n = 0;
    for kind in KINDS {
        for condition in [SPLIT[0], SPLIT[3], SPLIT[6], SPLIT[7]] {
            let sql = kind.sql("r", "s", &["g"], condition);
            let stock = stock(&ctx, &sql).await.unwrap();
            check(&ctx, &sql, &Tuning::nth(n), &stock, &["BowtieJoinExec"]).await;
            n += 3;
        }
    }
}

/// Without rows, and without values.
#[tokio::test]
async fn empty_sides() {
    let ctx = tables();
    for (left, right) in [
        ("(SELECT * FROM r WHERE id < 0)", "s"),
        ("r", "(SELECT * FROM s WHERE id < 0)"),
        ("(SELECT * FROM r WHERE a IS NULL)", "s"),
        ("r", "(SELECT * FROM s WHERE v IS NULL)"),
    ] {
        for (n, kind) in KINDS.into_iter().enumerate() {
            let sql = kind.sql(left, right, &["id", "t"], SPLIT[3]);
            let stock = stock(&ctx, &sql).await.unwrap();
            let given = forced(&ctx, &sql, &Tuning::nth(n)).await.unwrap();
            assert_same(&sql, &stock, &given);
        }
    }
}

/// Other forms of a query, and nodes above the union.
#[tokio::test]
async fn queries() {
    let ctx = tables();
    register(&ctx, "u", &table(Shape::short(20, 0.1, 9)));
    let view = "CREATE VIEW known AS SELECT id, lower(t) AS name, v AS names FROM s WHERE g > 0";
    ctx.sql(view).await.unwrap().collect().await.unwrap();
    let queries = [
        // A self join, each pair once.
        "SELECT p.id AS i, q.id AS j FROM r p JOIN r q ON p.id < q.id AND (p.t = q.t OR array_overlap(p.v, q.v) >= 3)",
        "SELECT r.id AS i, s.id AS j FROM r, s WHERE r.a = s.a OR r.x = s.x",
        "SELECT r.id AS i, s.id AS j FROM r CROSS JOIN s WHERE r.id <> s.id AND (r.a = s.a OR r.x = s.x)",
        "SELECT r.id AS i FROM r WHERE EXISTS (SELECT 1 FROM s WHERE r.a = s.a OR array_overlap(r.v, s.v) >= 3)",
        "SELECT r.id AS i, known.id AS j FROM r JOIN known ON r.t = known.name OR array_overlap(r.v, known.names) >= 3",
        "SELECT * FROM r FULL JOIN s ON r.a = s.a OR r.x = s.x",
        "SELECT p.id, q.id FROM (SELECT id, a, make_array(a, g) AS w FROM r WHERE id % 3 > 0) p
         LEFT JOIN (SELECT id, a, make_array(g, a) AS w FROM s) q ON p.a = q.a OR array_jaccard(p.w, q.w) > 0.5",
        "SELECT i, j FROM (VALUES (1, 2), (3, 4), (NULL, 2)) p(i, k) JOIN (VALUES (1, 5), (7, 4), (NULL, 2)) q(j, l) ON i = j OR k = l",
        // Above it.
        "SELECT r.g, count(*) AS n, sum(s.a) AS a FROM r LEFT JOIN s ON r.a = s.a OR r.x = s.x GROUP BY r.g",
        "SELECT count(*) AS n FROM r RIGHT JOIN s ON r.a = s.a OR array_has_any(r.v, s.v)",
        "SELECT DISTINCT r.g, s.g AS h FROM r JOIN s ON r.a = s.a OR r.x = s.x",
        "SELECT r.id AS i, s.id AS j FROM r LEFT JOIN s ON r.a = s.a OR r.x = s.x WHERE s.g > 1 ORDER BY i, j LIMIT 20",
        "SELECT r.id AS i, s.id AS j FROM r LEFT JOIN s ON r.a = s.a OR r.x = s.x WHERE s.id IS NULL",
        "SELECT r.id AS i, s.id AS j, u.id AS k FROM r JOIN s ON r.a = s.a OR r.x = s.x JOIN u ON u.g = s.g AND u.a < r.a",
        "SELECT r.id AS i, s.id AS j FROM r JOIN s ON r.a = s.a OR r.x = s.x
         UNION ALL SELECT s.id, u.id FROM s JOIN u ON s.a = u.a OR s.t = u.t",
        "SELECT r.id AS i, row_number() OVER (PARTITION BY r.id ORDER BY s.id) AS n FROM r JOIN s ON r.a = s.a OR r.x = s.x",
    ];
    for (i, sql) in queries.iter().enumerate() {
        let stock = stock(&ctx, sql).await.unwrap();
        for n in 0..5 {
            let given = forced(&ctx, sql, &Tuning::nth(i + 3 * n)).await.unwrap();
            // Rows without a match are those of a chain of anti joins.
            let is_split =
                given.plan.contains("UnionExec") || given.plan.matches("Anti").count() == 2;
            assert!(is_split, "{sql}\n{}", given.plan);
            assert!(
                !given.plan.contains("LoopJoinExec"),
                "{sql}\n{}",
                given.plan
            );
            if let Err(difference) = similar_rows(&stock, &given) {
                panic!("{sql}\n{}\n{difference}", given.plan);
            }
        }
    }
    let none = "SELECT r.id AS i FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE r.a = s.a OR array_has_any(r.v, s.v))";
    let stock = stock(&ctx, none).await.unwrap();
    let plan = check(&ctx, none, &Tuning::PLAIN, &stock, &["BowtieJoinExec"]).await;
    assert_eq!(plan.matches("BowtieJoinExec").count(), 2, "{plan}");
}

/// In DataFusion `array_has_all` of a NULL list may be true, so the oracle has a filter.
#[tokio::test]
async fn containment_of_null_lists() {
    let ctx = tables();
    let guarded = "r.v IS NOT NULL AND s.v IS NOT NULL";
    for (n, kind) in KINDS.into_iter().enumerate() {
        if !matches!(kind, Kind::Join(_)) {
            continue;
        }
        let of = |condition: &str| kind.sql("r", "s", &["id"], condition);
        let oracle = format!(
            "(array_has_all(r.v, s.v) AND {guarded}) OR (s.v @> r.v AND {guarded}) OR r.a = s.a"
        );
        let stock = stock(&ctx, &of(&oracle)).await.unwrap();
        let sql = of("array_has_all(r.v, s.v) OR s.v @> r.v OR r.a = s.a");
        for tuning in [Tuning::PLAIN, Tuning::nth(n)] {
            check(&ctx, &sql, &tuning, &stock, &["BowtieJoinExec"]).await;
        }
    }
}

/// Joins whose OR stays: in `auto` they are DataFusion's, since there are few rows.
#[tokio::test]
async fn what_is_not_split() {
    let ctx = tables();
    let equalities = |number: i32| -> String {
        let all: Vec<String> = (0..number).map(|i| format!("r.a + {i} = s.x")).collect();
        all.join(" OR ")
    };
    let nine = equalities(9);
    let conditions = [
        // Some disjunct has no index.
        "r.a = s.a OR r.g = 1",
        "r.a = s.a OR r.x <> s.x",
        "r.a = s.a OR r.x < s.x",
        "r.a = s.a OR r.a * s.a > 100",
        "r.a = s.a OR array_overlap(r.v, s.v) = 2",
        "r.a = s.a OR NOT array_has_any(r.v, s.v)",
        "r.a = s.a OR array_jaccard(r.v, s.v) >= CAST(s.a AS DOUBLE) / 10",
        // A value that is another one each time, or may not be there.
        "(r.a = s.a AND random() < 2.0) OR r.x = s.x",
        "(r.a = s.a AND r.id / (s.id + 1) >= 0) OR r.x = s.x",
        "r.id % (s.id + 1) >= 0 AND (r.a = s.a OR r.x = s.x)",
        "r.a = s.a OR CAST(r.t || '1' AS VARCHAR) = s.t",
        // Of −0.0 a hash table may not say what a comparison does.
        "r.a = s.a OR CAST(r.x AS DOUBLE) + 0.5 = CAST(s.x AS DOUBLE) + 0.5",
        // With it DataFusion would take other equalities for such ones, too.
        "(r.a IS NOT DISTINCT FROM s.a) OR r.x = s.x",
        // A range with two bounds is an index, too.
        "r.g + s.g = 3 AND (r.a = s.a OR r.x = s.x)",
        "r.g BETWEEN s.g - 1 AND s.g + 1 AND (r.a = s.a OR r.x = s.x)",
        // More than eight.
        nine.as_str(),
        // The rest of the condition has an index.
        "array_has_any(r.v, s.v) AND (r.a = s.a OR r.x = s.x)",
    ];
    for condition in conditions {
        let sql = format!("SELECT r.id AS i, s.id AS j FROM r JOIN s ON {condition}");
        stays(&ctx, &sql, "NestedLoopJoinExec").await;
    }
    let eight = equalities(8);
    let sql = format!("SELECT r.id AS i, s.id AS j FROM r JOIN s ON {eight}");
    let stock = stock(&ctx, &sql).await.unwrap();
    let plan = check(&ctx, &sql, &Tuning::PLAIN, &stock, &["UnionExec"]).await;
    assert_eq!(plan.matches("BowtieJoinExec").count(), 8, "{plan}");
    // Its union would have 36 joins.
    let semi = format!("SELECT r.id AS i FROM r LEFT SEMI JOIN s ON {eight}");
    stays(&ctx, &semi, "NestedLoopJoinExec").await;

    let above =
        "SELECT r.id AS i, s.id AS j FROM r JOIN s ON r.a = s.a OR r.x = s.x WHERE r.g = s.g";
    stays(&ctx, above, "HashJoinExec").await;

    // An equality beside the OR, or in all disjuncts.
    for condition in [
        "r.g = s.g AND (r.a = s.a OR r.x = s.x)",
        "(r.g = s.g AND r.a = s.a) OR (r.g = s.g AND r.x = s.x)",
        "(r.g IS NOT DISTINCT FROM s.g) AND (r.a = s.a OR r.x = s.x)",
    ] {
        let sql = format!("SELECT r.id AS i, s.id AS j FROM r JOIN s ON {condition}");
        stays(&ctx, &sql, "HashJoinExec").await;
    }
}

/// Inputs that may have other rows each time, or cost more than a scan.
#[tokio::test]
async fn inputs_that_are_read_once() {
    let ctx = tables();
    for (left, condition) in [
        (
            "(SELECT max(id) AS id, a, x FROM r GROUP BY a, x)",
            "r.a = s.a OR r.x = s.x",
        ),
        (
            "(SELECT DISTINCT id, a, x FROM r)",
            "r.a = s.a OR r.x = s.x",
        ),
        (
            "(SELECT * FROM r ORDER BY id LIMIT 20)",
            "r.a = s.a OR r.x = s.x",
        ),
        (
            "(SELECT * FROM r WHERE random() < 2.0)",
            "r.a = s.a OR r.x = s.x",
        ),
        (
            "(SELECT r.id, r.a, u.x FROM r JOIN r u ON r.id = u.id)",
            "r.a = s.a OR r.x = s.x",
        ),
        (
            "(SELECT value AS id FROM generate_series(1, 30))",
            "r.id = s.a OR r.id = s.x",
        ),
    ] {
        let sql = format!("SELECT r.id AS i, s.id AS j FROM {left} r JOIN s ON {condition}");
        stays(&ctx, &sql, "JoinExec").await;
    }
    let recursive = "WITH RECURSIVE w AS (SELECT 0 AS n
        UNION ALL SELECT w.n + 1 FROM w JOIN r ON w.n = r.a OR w.n = r.x WHERE w.n < 2) SELECT n FROM w";
    stays(&ctx, recursive, "JoinExec").await;
    // A strategy that is asked for serves the join as it is.
    let sql = "SELECT r.id AS i, s.id AS j FROM r JOIN s ON r.a = s.a OR r.x = s.x";
    let stock = stock(&ctx, sql).await.unwrap();
    let tiles = Tuning::PLAIN.with_strategy("tiles");
    let plan = check(&ctx, sql, &tiles, &stock, &["strategy=tiles"]).await;
    assert!(!plan.contains("UnionExec"), "{plan}");
}

/// Checks that the plan in `auto` has a `node`, which is DataFusion's for few rows, and that it has no union, when forced either.
async fn stays(ctx: &SessionContext, sql: &str, node: &str) {
    let stock = stock(ctx, sql).await.unwrap();
    let given = automatic(ctx, sql, &Tuning::PLAIN).await;
    assert!(
        given.plan.contains(node),
        "no {node}: {sql}\n{}",
        given.plan
    );
    let forced = forced(ctx, sql, &Tuning::PLAIN).await.unwrap();
    for given in [given, forced] {
        assert!(!given.plan.contains("UnionExec"), "{sql}\n{}", given.plan);
        assert_same(sql, &stock, &given);
    }
}

#[tokio::test]
async fn against_a_loop() {
    let ctx = session();
    let [r, s] = [
        table(Shape::short(60, 0.1, 11)),
        table(Shape::short(45, 0.1, 12)),
    ];
    register(&ctx, "r", &r);
    register(&ctx, "s", &s);
    let mut expected = vec![];
    for i in 0..r.num_rows() {
        for j in 0..s.num_rows() {
            if have_one_letter(&r, i, &s, j) || common_elements(&r, i, &s, j) >= 3 {
                expected.push((i as i64, j as i64));
            }
        }
    }
    expected.sort_unstable();
    let sql =
        "SELECT r.id AS i, s.id AS j FROM r JOIN s ON r.t = s.t OR array_overlap(r.v, s.v) >= 3";
    for n in 0..10 {
        let given = forced(&ctx, sql, &Tuning::nth(n)).await.unwrap();
        assert!(given.plan.contains("UnionExec"), "{}", given.plan);
        let mut pairs = vec![];
        for batch in &given.batches {
            let [i, j] = [0, 1].map(|c| batch.column(c).as_primitive::<Int64Type>());
            pairs.extend(i.values().iter().copied().zip(j.values().iter().copied()));
        }
        pairs.sort_unstable();
        assert_eq!(pairs, expected, "{}", given.plan);
    }
}

/// Whether the texts are there and equal.
fn have_one_letter(r: &RecordBatch, i: usize, s: &RecordBatch, j: usize) -> bool {
    let [t, u] = [r, s].map(|of| of.column_by_name("t").unwrap().as_string::<i32>());
    t.is_valid(i) && u.is_valid(j) && t.value(i) == u.value(j)
}

/// The distinct elements of both lists, NULL among them; 0 if a list is NULL.
fn common_elements(r: &RecordBatch, i: usize, s: &RecordBatch, j: usize) -> usize {
    let elements = |of: &RecordBatch, row: usize| -> Vec<Option<i32>> {
        let lists = of.column_by_name("v").unwrap().as_list::<i32>();
        if lists.is_null(row) {
            return vec![];
        }
        let list = lists.value(row);
        list.as_primitive::<Int32Type>().iter().collect()
    };
    let mut common = elements(r, i);
    common.sort_unstable();
    common.dedup();
    let others = elements(s, j);
    common.retain(|element| others.contains(element));
    common.len()
}

/// Tables whose schemas have metadata, of which a join's has those of one side.
#[tokio::test]
async fn metadata_of_schemas() {
    let ctx = session();
    for (name, rows, seed) in [("r", 60, 5), ("s", 45, 6)] {
        let batch = table(Shape::short(rows, 0.1, seed));
        let metadata = [("maker".to_string(), name.to_string())];
        let schema = batch
            .schema()
            .as_ref()
            .clone()
            .with_metadata(metadata.into());
        register(&ctx, name, &batch.with_schema(schema.into()).unwrap());
    }
    for (n, kind) in KINDS.into_iter().enumerate() {
        let sql = kind.sql("r", "s", &["id", "t"], SPLIT[3]);
        for sql in [format!("SELECT count(*) AS n FROM ({sql})"), sql] {
            let stock = stock(&ctx, &sql).await.unwrap();
            let given = forced(&ctx, &sql, &Tuning::nth(n)).await.unwrap();
            assert_same(&sql, &stock, &given);
        }
    }
}

/// Few rows are left in `auto`, and many are not.
#[tokio::test]
async fn costs() {
    let ctx = session();
    for (name, rows, seed) in [("r", 2_000, 5), ("s", 1_500, 6), ("few", 30, 7)] {
        register(&ctx, name, &table(Shape::short(rows, 0.1, seed)));
    }
    for (from, is_split) in [
        ("r JOIN s", true),
        ("r JOIN few s", false),
        ("(SELECT id, a, md5(t) AS t FROM r) r JOIN s", false),
        ("(SELECT id, a, t FROM r WHERE id % 2 = 0) r JOIN s", true),
    ] {
        let sql = format!("SELECT count(*) AS n FROM {from} ON r.id = s.id OR r.t || 'x' = s.t");
        let sql = sql.replace("r.t || 'x'", "lower(r.t)");
        let stock = stock(&ctx, &sql).await.unwrap();
        let given = automatic(&ctx, &sql, &Tuning::PLAIN).await;
        assert_eq!(
            given.plan.contains("UnionExec"),
            is_split,
            "{sql}\n{}",
            given.plan
        );
        assert_same(&sql, &stock, &given);
    }
}
