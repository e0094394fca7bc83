//! Statistics of tables in memory, beside DataFusion's.

use arrow::array::{ArrayRef, DictionaryArray, Int64Array, StringArray};
use arrow::datatypes::Int32Type;
use datafusion::physical_plan::StatisticsContext;

use crate::plan::statistics::statistics_cache::*;

fn batch(rows: i64) -> RecordBatch {
    let numbers = (0..rows).map(|i| (i % 3 > 0).then_some(i));
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter(numbers));
    let words = (0..rows).map(|i| (i % 5 > 0).then_some("word"));
    let words = words.collect::<Vec<_>>();
    let text: ArrayRef = Arc::new(StringArray::from(words.clone()));
    let codes: ArrayRef = Arc::new(words.into_iter().collect::<DictionaryArray<Int32Type>>());
    RecordBatch::try_from_iter_with_nullable([
        ("number", numbers, true),
        ("text", text, true),
        ("code", codes, true),
    ])
    .unwrap()
}

fn scan(partitions: &[Vec<RecordBatch>], projection: Option<Vec<usize>>) -> Arc<dyn ExecutionPlan> {
    let schema = partitions[0][0].schema();
    MemorySourceConfig::try_new_exec(partitions, schema, projection).unwrap()
}

#[test]
fn few_batches_have_the_counts_of_datafusion() {
    let partitions = [vec![batch(10), batch(7)], vec![batch(0), batch(30)]];
    for projection in [None, Some(vec![1, 0]), Some(vec![])] {
        let plan = scan(&partitions, projection);
        for partition in [None, Some(0), Some(1)] {
            let args = StatisticsArgs::new().with_partition(partition);
            let expected = StatisticsContext::new().compute(plan.as_ref(), &args);
            let expected = expected.unwrap();
            let found = StatisticsCache::default();
            let found = found.compute(&plan, partition).unwrap();
            assert_eq!(found.num_rows, expected.num_rows);
            let columns = expected.column_statistics.iter();
            for ((expected, found), field) in columns
                .zip(&found.column_statistics)
                .zip(plan.schema().fields())
            {
                match field.name().as_str() {
                    // Its values would have to be read.
                    "code" => assert_eq!(found.null_count, Precision::Absent),
                    _ => assert_eq!(found.null_count, expected.null_count),
                }
            }
        }
    }
}

/// Of many batches no column is looked at.
#[test]
fn many_batches_have_a_row_count_alone() {
    let batches: Vec<_> = std::iter::repeat_n(batch(3), MOST_COUNTED).collect();
    let plan = scan(&[batches], None);
    let found = StatisticsCache::default().statistics(&plan);
    assert_eq!(found.num_rows, Precision::Exact(3 * MOST_COUNTED));
    let nulls = found.column_statistics.iter().map(|c| c.null_count);
    assert!(nulls.into_iter().all(|nulls| nulls == Precision::Absent));
}
