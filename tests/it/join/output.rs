//! Output batches of joins: their sizes, and buffers that their rows share.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, DictionaryArray, Int32Array, ListArray, RecordBatch};
use arrow::compute::kernels::length::length;
use arrow::compute::{cast, sum};
use arrow::datatypes::{Int8Type, Int32Type};
use datafusion::physical_plan::execute_stream;
use futures::StreamExt;

use crate::support::answer::{Answer, assert_offloaded, forced, plan_of, shown, stock};
use crate::support::compare::same_rows;
use crate::support::session::{session, set};
use crate::support::tables::{permuted_table, register_batches, register_whole};
use crate::support::tuning::Tuning;

/// One row that matches many, whose text is wide: 40,000 pairs of 100 KB are more characters than 32-bit offsets reach.
#[tokio::test]
async fn wide_text_comes_out_in_short_pieces() {
    let ctx = session();
    register_whole(&ctx, "few", permuted_table(3, 100_000));
    register_whole(&ctx, "many", permuted_table(40_000, 0));
    Tuning::PLAIN.apply(&ctx);
    set(&ctx, "bowtie.offload", "force");
    // Conditions that are tested for each pair (<>, %), and a single inequality, whose output is long ranges.
    for condition in [
        "few.id <> many.id + 50000",
        "(few.id + many.id) % 7 < 9",
        "few.id < many.id + 10",
    ] {
        for tables in ["few JOIN many", "many JOIN few"] {
            let sql = format!("SELECT few.t FROM {tables} ON {condition}");
            let plan = plan_of(&ctx, &sql).await.unwrap();
            assert!(shown(&plan).contains("BowtieJoinExec"), "{sql}");
            let mut stream = execute_stream(plan, ctx.task_ctx()).unwrap();
            let (mut rows, mut characters) = (0, 0);
            while let Some(batch) = stream.next().await {
                let batch = batch.unwrap();
                rows += batch.num_rows();
                let lengths = length(batch.column(0)).unwrap();
                characters += sum(lengths.as_primitive::<Int32Type>()).unwrap() as usize;
            }
            assert_eq!((rows, characters), (120_000, 12_000_000_000), "{sql}");
        }
    }
}

/// 100 values in each of four batches: their dictionaries together have more values than 8-bit keys can tell apart.
#[tokio::test]
async fn dictionaries_with_small_keys_are_not_copied_together() {
    let ctx = session();
    let batch = |from: i32| {
        let text: Vec<String> = (from..from + 100).map(|i| format!("v{i:03}")).collect();
        let dictionary: DictionaryArray<Int8Type> = text.iter().map(String::as_str).collect();
        let ids = Int32Array::from_iter_values(from..from + 100);
        let columns = [
            ("id", Arc::new(ids) as ArrayRef),
            ("d", Arc::new(dictionary) as ArrayRef),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    };
    for name in ["r", "s"] {
        let batches = [0, 100, 200, 300].map(batch).to_vec();
        register_batches(&ctx, name, batches);
    }
    for sql in [
        "SELECT r.d AS rd, s.d AS sd FROM r JOIN s ON r.id < s.id",
        "SELECT r.d AS rd, s.d AS sd FROM r JOIN s ON r.d < s.d AND r.id <> s.id",
        "SELECT r.d AS rd, s.d AS sd FROM r FULL JOIN s ON r.d > s.d AND r.id % 7 = 3",
        "SELECT r.id, COUNT(*), MIN(s.id) FROM r JOIN s ON r.d < s.d GROUP BY r.id",
    ] {
        let given = match forced(&ctx, sql, &Tuning::PLAIN).await {
            Ok(given) => given,
            Err(error) => panic!("{sql}\n{error}"),
        };
        // As text: DataFusion's own join concatenates the dictionaries, and fails.
        let plain = |name: &str| format!("(SELECT id, CAST(d AS VARCHAR) AS d FROM {name}) {name}");
        let text = sql
            .replace("FROM r", &format!("FROM {}", plain("r")))
            .replace("JOIN s", &format!("JOIN {}", plain("s")));
        let expected = stock(&ctx, &text).await.unwrap();
        let as_text = |answer: &Answer| {
            let schema = expected.schema.clone();
            let batches = answer.batches.iter().map(|batch| {
                let columns = batch.columns().iter().zip(schema.fields());
                let columns = columns.map(|(array, field)| cast(array, field.data_type()).unwrap());
                RecordBatch::try_new(schema.clone(), columns.collect()).unwrap()
            });
            Answer {
                plan: String::new(),
                schema: schema.clone(),
                batches: batches.collect(),
            }
        };
        assert_offloaded(sql, &given.plan, &["Bowtie"]);
        same_rows(&expected, &as_text(&given)).unwrap();
    }
}

/// Buffers that rows share, such as a dictionary's values, do not make batches short.
#[tokio::test]
async fn shared_values_do_not_shorten_batches() {
    let ctx = session();
    let text: Vec<String> = (0..30_000).map(|i| format!("value {i:030}")).collect();
    let dictionary: DictionaryArray<Int32Type> = text.iter().map(String::as_str).collect();
    let lists = (0..30_000).map(|i| Some([Some(i), None, Some(1)]));
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(lists);
    let a = Int32Array::from_iter_values((0..30_000).map(|i| i * 7919 % 30_000));
    let wide = RecordBatch::try_from_iter([
        ("a", Arc::new(a) as ArrayRef),
        ("d", Arc::new(dictionary) as ArrayRef),
        ("l", Arc::new(lists) as ArrayRef),
    ])
    .unwrap();
    register_whole(&ctx, "wide", wide);
    register_whole(&ctx, "many", permuted_table(30_000, 0));
    for condition in [
        "wide.a < many.a",
        "wide.a < many.a AND wide.a <> many.id",
        "wide.a < many.a AND (wide.a + many.id) % 5 = 3",
    ] {
        let sql = format!("SELECT wide.d, wide.l FROM wide JOIN many ON {condition} LIMIT 2000000");
        let answer = forced(&ctx, &sql, &Tuning::PLAIN).await.unwrap();
        let batches = answer.batches.len();
        assert!(batches < 2_000, "{batches} batches: {condition}");
    }
}
