//! Every technique × predicate × type of elements.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};

use crate::support::answer::{answer_and_counts, assert_offloaded, check, stock};
use crate::support::compare::same_rows;
use crate::support::key_types::orderable_types;
use crate::support::left_out::{By, LeftOut};
use crate::support::lists::{PREDICATES, Shape, TECHNIQUES, typed_table, with_lists};
use crate::support::session::{session, set};
use crate::support::tables::register;
use crate::support::tuning::Tuning;

/// Techniques and predicates in full; types in rotation of these.
#[tokio::test]
async fn techniques_predicates_and_types() {
    let mut left_out = LeftOut::default();
    let mut n = 0;
    for data_type in orderable_types() {
        let ctx = session();
        let shape = |rows, seed| Shape::short(rows, 0.08, seed);
        register(&ctx, "r", &typed_table(&data_type, shape(31, 7)));
        register(&ctx, "s", &typed_table(&data_type, shape(23, 8)));
        // Each type meets three predicates, in rotation.
        for _ in 0..3 {
            let predicate = PREDICATES[n % PREDICATES.len()];
            let sql = |condition: &str| {
                format!("SELECT r.id AS i, s.id AS j FROM r JOIN s ON {condition}")
            };
            n += 1;
            let case = format!("{data_type}: {}", predicate.sql);
            let Ok(stock) = stock(&ctx, &sql(&predicate.guarded())).await else {
                left_out.leave(case, By::DataFusion);
                continue;
            };
            let sql = sql(predicate.sql);
            for technique in TECHNIQUES {
                Tuning::PLAIN.apply(&ctx);
                set(&ctx, "bowtie.offload", "force");
                set(&ctx, "bowtie.set_strategy", technique);
                let given = answer_and_counts(&ctx, &sql).await;
                let (given, counts) = given.unwrap_or_else(|e| panic!("{case} {technique}: {e}"));
                assert_offloaded(&sql, &given.plan, &["BowtieJoinExec"]);
                if let Err(difference) = same_rows(&stock, &given) {
                    panic!("{case} {technique}\n{}\n{difference}", given.plan);
                }
                if !given.plan.contains("strategy=set") {
                    left_out.leave(&case, By::Bowtie);
                    continue;
                }
                left_out.compared(&case);
                let ran = counts.indexed();
                match predicate.run_by(technique) {
                    Some(expected) => {
                        let shown = format!("strategy=set_{expected},");
                        assert!(given.plan.contains(&shown), "{case}\n{}", given.plan);
                        assert_eq!(ran, [expected], "{case} {technique}");
                    }
                    None => {
                        assert!(given.plan.contains("strategy=set,"), "{}", given.plan);
                        assert!(!ran.is_empty(), "{case}: {counts:?}");
                    }
                }
            }
        }
    }
    left_out.assert_are(&[]);
}

/// Kinds of lists.
#[tokio::test]
async fn kinds_of_lists() {
    let shape = |rows, seed| Shape::short(rows, 0.1, seed);
    let element = Arc::new(Field::new_list_field(DataType::Int32, true));
    let [plain, large, view, large_view] = [
        DataType::List,
        DataType::LargeList,
        DataType::ListView,
        DataType::LargeListView,
    ]
    .map(|kind| kind(element.clone()));
    let (r, s) = (
        typed_table(&DataType::Int32, shape(40, 7)),
        typed_table(&DataType::Int32, shape(30, 8)),
    );
    for (n, (left, right)) in [
        (&plain, &large),
        (&large, &plain),
        (&large, &large),
        (&view, &plain),
        (&large_view, &view),
        (&large, &view),
        (&view, &view),
    ]
    .into_iter()
    .enumerate()
    {
        let ctx = session();
        register(&ctx, "r", &with_lists(&r, left));
        register(&ctx, "s", &with_lists(&s, right));
        for (m, predicate) in PREDICATES.into_iter().enumerate() {
            let sql = |condition: &str| {
                // The lists are in the output too.
                format!(
                    "SELECT r.id AS i, s.id AS j, r.v, s.v AS w FROM r FULL JOIN s ON {condition}"
                )
            };
            let stock = match stock(&ctx, &sql(&predicate.guarded())).await {
                Ok(stock) => stock,
                Err(error) => panic!("{left} {right} {}: {error}", predicate.sql),
            };
            set(
                &ctx,
                "bowtie.set_strategy",
                TECHNIQUES[(n + m) % TECHNIQUES.len()],
            );
            check(
                &ctx,
                &sql(predicate.sql),
                &Tuning::nth(m),
                &stock,
                &["BowtieJoinExec"],
            )
            .await;
        }
    }
    let ctx = session();
    register(&ctx, "r", &r);
    register(&ctx, "s", &s);
    let pairs = |t: &str| {
        format!(
            "(SELECT id, arrow_cast(make_array(a, CAST(x AS INT)), 'FixedSizeList(2, Int32)') AS v FROM {t}) {t}"
        )
    };
    for predicate in [
        "array_has_any(r.v, s.v)",
        "array_jaccard(r.v, s.v) >= 0.3",
        "array_has_all(r.v, s.v)",
    ] {
        let sql = format!(
            "SELECT r.id AS i, s.id AS j FROM {} JOIN {} ON {predicate}",
            pairs("r"),
            pairs("s")
        );
        let stock = stock(&ctx, &sql).await.unwrap();
        for technique in TECHNIQUES {
            set(&ctx, "bowtie.set_strategy", technique);
            check(&ctx, &sql, &Tuning::PLAIN, &stock, &["BowtieJoinExec"]).await;
        }
    }
}
