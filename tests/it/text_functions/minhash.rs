//! `minhash`.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, ListArray, RecordBatch};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::support::answer::answer;
use crate::support::key_types::{is_dictionary_of_floats, orderable_types};
use crate::support::lists::{Shape, typed_table, with_lists};
use crate::support::session::{session, set};
use crate::support::tables::register;
use crate::text_functions::{error, ids, value};

/// Sets of numbers with overlaps of many sizes; the estimate is compared with the exact similarity.
#[tokio::test]
async fn estimates_are_within_four_standard_deviations() {
    let rng = &mut StdRng::seed_from_u64(4);
    let (rows, k) = (60, 256);
    let mut set = || -> BTreeSet<i64> {
        let size = rng.random_range(40..200);
        (0..size).map(|_| rng.random_range(0..300)).collect()
    };
    let sets: [Vec<BTreeSet<i64>>; 2] = [(); 2].map(|()| (0..rows).map(|_| set()).collect());
    let column = |sets: &[BTreeSet<i64>]| -> ArrayRef {
        let lists = sets.iter().map(|set| Some(set.iter().map(|v| Some(*v))));
        Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists))
    };
    let columns = [
        ("id", ids(rows)),
        ("a", column(&sets[0])),
        ("b", column(&sets[1])),
    ];
    let ctx = session();
    register(&ctx, "r", &RecordBatch::try_from_iter(columns).unwrap());
    let sql = format!(
        "SELECT id, array_overlap(minhash(a, {k}), minhash(b, {k})) / {k}.0 AS e, array_jaccard(a, b) AS j FROM r"
    );
    let answer = answer(&ctx, &sql).await.unwrap();
    let given = concat_batches(&answer.schema, &answer.batches).unwrap();
    let column = |i: usize| given.column(i).as_primitive::<Float64Type>();
    let mut squares = 0.0;
    for row in 0..rows {
        let (estimate, exact) = (column(1).value(row), column(2).value(row));
        let deviation = (exact * (1.0 - exact) / f64::from(k)).sqrt();
        let error = (estimate - exact) / deviation;
        assert!(error.abs() <= 4.0, "{exact} is estimated at {estimate}");
        squares += error * error;
    }
    // The mean square error is the variance, so positions are independent.
    let mean = squares / rows as f64;
    assert!((0.4..2.0).contains(&mean), "{mean}");
}

#[tokio::test]
async fn signatures_are_of_sets() {
    let ctx = session();
    let same = |a: &str, b: &str| format!("SELECT minhash({a}, 64) = minhash({b}, 64)");
    for (a, b, expected) in [
        ("[3, 1, 2, 3, 1]", "[1, 2, 3]", "true"),
        ("['b', 'a', 'b']", "['a', 'b']", "true"),
        ("[1, NULL, NULL]", "[NULL, 1]", "true"),
        ("[1]", "[NULL, 1]", "false"),
        ("[1, 2]", "[1, 3]", "false"),
        ("['1']", "[1]", "false"),
        ("[0.0]", "[-0.0]", "true"),
        ("[1.5]", "[arrow_cast(1.5, 'Float32')]", "true"),
        ("[1.50]", "[arrow_cast(1.5, 'Float16')]", "true"),
        ("[TRUE, FALSE]", "[FALSE, TRUE]", "true"),
        ("make_array()", "[]", "true"),
    ] {
        assert_eq!(value(&ctx, &same(a, b)).await, expected, "{a} {b}");
    }
    for (sql, expected) in [
        ("SELECT cardinality(minhash([1, 2], 65536))", "65536"),
        (
            "SELECT array_overlap(minhash([1], 65536), minhash([1], 65536))",
            "65536",
        ),
        (
            "SELECT array_overlap(minhash([1], 65536), minhash([2], 65536))",
            "0",
        ),
        (
            "SELECT minhash(range(0, 50), 16) = array_slice(minhash(range(0, 50), 64), 1, 16)",
            "true",
        ),
        ("SELECT minhash([], 8)", "[]"),
        ("SELECT minhash(NULL, 8)", "NULL"),
        ("SELECT minhash([1], NULL)", "NULL"),
        ("SELECT arrow_typeof(minhash([1], 8))", "List(UInt64)"),
        (
            "SELECT sum(cardinality(minhash(['a'], 3))) FROM generate_series(1, 100)",
            "300",
        ),
        (
            "SELECT string_agg(CAST(cardinality(minhash([1], k)) AS VARCHAR), ' ' ORDER BY k) FROM (VALUES (1), (17), (NULL)) r(k)",
            "1 17",
        ),
    ] {
        assert_eq!(value(&ctx, sql).await, expected, "{sql}");
    }
}

/// They never change: these are of another implementation.
#[tokio::test]
async fn golden_values() {
    let ctx = session();
    for (elements, expected) in [
        (
            "['a', 'b', 'c']",
            "[2184859964933347525, 695067913088020963, 8472820649592535768, 8041133048611629826]",
        ),
        (
            "['wörter', '', 'a text of more than sixteen bytes, and of less than three hundred']",
            "[7091015917219206140, 17090505087064979129, 8317112011630221655, 3844146101397770995]",
        ),
        (
            "[1, -2, 9223372036854775807]",
            "[16811620542201547812, 13001652061023349798, 17756778762762819259, 6725507452964694485]",
        ),
        (
            "[NULL, 1]",
            "[3828558959255401573, 13001652061023349798, 5183038444901642980, 7279493446542569479]",
        ),
        (
            "[1.5, -0.25]",
            "[4799881056317152336, 10466578198113461926, 127420484349690430, 16911849895014301020]",
        ),
        (
            "[TRUE]",
            "[3099113705153093767, 17897110924744423772, 3576195398896471315, 11150672174164647944]",
        ),
        (
            "range(0, 1000)",
            "[13352635023049945935, 14073595596269069859, 613821200140833665, 3604107579596229420]",
        ),
        (
            "[repeat('ab', 1000)]",
            "[2262396584994180815, 11838345272518769507, 12732120026855066206, 3904392174687296068]",
        ),
        (
            "[arrow_cast(2.5, 'Decimal128(10, 3)')]",
            "[7518874220026423685, 842537820888899139, 7180900102513614770, 8949732918393574358]",
        ),
    ] {
        let sql = format!("SELECT minhash({elements}, 4)");
        assert_eq!(value(&ctx, &sql).await, expected, "{elements}");
    }
}

/// Numbers of other widths and kinds of lists, and text of other types.
#[tokio::test]
async fn types_of_one_value_have_one_signature() {
    let numbers: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>([
        Some(vec![Some(1), Some(20), None]),
        None,
        Some(vec![Some(100), Some(0), Some(0)]),
        Some(vec![Some(7), Some(8), Some(9)]),
    ]));
    let text = cast(&numbers, &DataType::new_list(DataType::Utf8, true)).unwrap();
    let dictionary = DataType::Dictionary(Box::new(DataType::Int16), Box::new(DataType::Utf8));
    let of_numbers = [
        DataType::Int8,
        DataType::UInt16,
        DataType::Int32,
        DataType::UInt64,
        DataType::Decimal32(9, 2),
        DataType::Decimal128(20, 3),
        DataType::Decimal256(50, 10),
    ];
    let of_text = [
        DataType::LargeUtf8,
        DataType::Utf8View,
        DataType::Binary,
        dictionary,
    ];
    for (lists, elements) in [(&numbers, &of_numbers[..]), (&text, &of_text[..])] {
        let own = lists.as_list::<i32>().value_type();
        let field = |element: &DataType| Arc::new(Field::new_list_field(element.clone(), true));
        let mut types: Vec<DataType> = elements
            .iter()
            .map(|element| DataType::List(field(element)))
            .collect();
        types.extend([
            DataType::LargeList(field(&own)),
            DataType::ListView(field(&own)),
            DataType::LargeListView(field(&own)),
            DataType::FixedSizeList(field(&own), 3),
        ]);
        for data_type in types {
            let ctx = session();
            let columns = [
                ("id", ids(4)),
                ("a", Arc::clone(lists)),
                ("b", cast(lists, &data_type).unwrap()),
            ];
            register(&ctx, "r", &RecordBatch::try_from_iter(columns).unwrap());
            let sql = "SELECT count(*) FROM r WHERE minhash(a, 20) = minhash(b, 20) AND cardinality(minhash(b, id + 1)) = id + 1";
            assert_eq!(value(&ctx, sql).await, "3", "{data_type}");
            let sql = "SELECT count(*) FROM r WHERE minhash(b, 20) IS NULL";
            assert_eq!(value(&ctx, sql).await, "1", "{data_type}");
        }
    }
}

/// Sets that the set functions take for equal have one signature; disjoint ones have no value in common.
#[tokio::test]
async fn elements_of_every_type() {
    let shape = Shape {
        rows: 40,
        longest: 3,
        nulls: 0.1,
        seed: 5,
    };
    for data_type in orderable_types() {
        let ctx = session();
        set(&ctx, "bowtie.offload", "off");
        let batch = typed_table(&data_type, shape);
        register(&ctx, "r", &batch);
        let pairs = "FROM r a CROSS JOIN r b WHERE cardinality(a.v) > 0 AND cardinality(b.v) > 0";
        let sql = format!(
            "SELECT count(*) {pairs} AND array_jaccard(a.v, b.v) = 1 AND array_overlap(minhash(a.v, 8), minhash(b.v, 8)) <> 8"
        );
        assert_eq!(value(&ctx, &sql).await, "0", "{data_type}");
        // To minhash, zeros of both signs are one.
        if !data_type.is_floating() && !is_dictionary_of_floats(&data_type) {
            let sql = format!(
                "SELECT count(*) {pairs} AND array_overlap(a.v, b.v) = 0 AND array_overlap(minhash(a.v, 8), minhash(b.v, 8)) <> 0"
            );
            assert_eq!(value(&ctx, &sql).await, "0", "{data_type}");
        }
        let kind = DataType::LargeList(Arc::new(Field::new_list_field(data_type.clone(), true)));
        register(&ctx, "l", &with_lists(&batch, &kind));
        let sql = "SELECT count(*) FROM r JOIN l ON r.id = l.id WHERE minhash(r.v, 5) IS DISTINCT FROM minhash(l.v, 5)";
        assert_eq!(value(&ctx, sql).await, "0", "{data_type}");
    }
}

#[tokio::test]
async fn wrong_arguments_are_errors() {
    let ctx = session();
    for (sql, expected) in [
        (
            "SELECT minhash([1], 0)",
            "minhash takes a k from 1 to 65536, not 0: k is how many values a signature has",
        ),
        (
            "SELECT minhash([1], -1)",
            "minhash takes a k from 1 to 65536, not -1",
        ),
        (
            "SELECT minhash(v, 65537) FROM (SELECT [1] AS v) r WHERE false",
            "minhash takes a k from 1 to 65536, not 65537",
        ),
        (
            "SELECT minhash([1], 2.5)",
            "minhash takes a whole number, not Float64: cast it to BIGINT",
        ),
        (
            "SELECT minhash(1, 8)",
            "minhash takes an array, not Int64: make one by make_array",
        ),
        (
            "SELECT minhash([[1]], 8)",
            "minhash takes an array with elements of a plain type, not List(Int64): cast them to one, such as VARCHAR",
        ),
        ("SELECT minhash([1])", "minhash"),
    ] {
        let error = error(&ctx, sql).await;
        assert!(
            error.contains("planning") && error.contains(expected),
            "{sql}: {error}"
        );
    }
    let batch: ArrayRef = Arc::new(Int64Array::from(vec![5, 0]));
    let batch = RecordBatch::try_from_iter([("k", batch)]).unwrap();
    register(&ctx, "r", &batch);
    let error = error(&ctx, "SELECT minhash(['a'], k) FROM r").await;
    assert!(
        error.contains("minhash takes a k from 1 to 65536, not 0"),
        "{error}"
    );
}
