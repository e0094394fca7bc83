//! [`TableSnapshot`]: the batches of a table in memory at one moment, shared by the queries that read it.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::SchemaRef;

/// The batches of a table in memory. Plans of DataFusion copy the list of batches for each scan, twice; a snapshot is made once.
#[derive(Debug)]
pub(crate) struct TableSnapshot {
    schema: SchemaRef,
    partitions: Vec<Vec<RecordBatch>>,
    identity: Identity,
    /// Of each partition's columns, one partition after the other.
    columns: Box<[OnceLock<ColumnSummary>]>,
}

#[derive(Debug)]
struct Identity {
    /// Batches of each partition.
    batches: Vec<usize>,
    /// Rows of each batch.
    rows: Vec<usize>,
    /// Where each column's arrays are, in the order of the batches.
    arrays: Vec<Vec<usize>>,
}

/// What DataFusion's statistics say of a column in one partition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ColumnSummary {
    /// Bytes of its arrays.
    pub bytes: usize,
    pub nulls: usize,
}

fn address(array: &Arc<dyn Array>) -> usize {
    Arc::as_ptr(array).cast::<()>().addr()
}

impl TableSnapshot {
    pub(crate) fn new(schema: SchemaRef, partitions: Vec<Vec<RecordBatch>>) -> Self {
        let all = || partitions.iter().flatten();
        let of_column = |column: usize| all().map(|batch| address(batch.column(column))).collect();
        let identity = Identity {
            batches: partitions.iter().map(Vec::len).collect(),
            rows: all().map(RecordBatch::num_rows).collect(),
            arrays: (0..schema.fields().len()).map(of_column).collect(),
        };
        let columns = partitions.len() * schema.fields().len();
        Self {
            columns: (0..columns).map(|_| OnceLock::new()).collect(),
            schema,
            partitions,
            identity,
        }
    }

    /// Whether the snapshot has these columns of these batches: the same arrays. It holds its arrays, so no other one has the address of
    /// one of them.
    pub(crate) fn has(&self, partitions: &[&[RecordBatch]], columns: &BTreeSet<usize>) -> bool {
        let known = &self.identity;
        let lengths = partitions.iter().map(|batches| batches.len());
        if !lengths.eq(known.batches.iter().copied()) {
            return false;
        }
        let arrays = columns.iter().map(|column| known.arrays.get(*column));
        let Some(arrays) = arrays.collect::<Option<Vec<_>>>() else {
            return false;
        };
        let batches = partitions.iter().copied().flatten();
        let mut batches = batches.zip(&known.rows).enumerate();
        batches.all(|(i, (batch, rows))| {
            let mut columns = columns.iter().zip(&arrays);
            let same = |(column, known): (&usize, &&Vec<usize>)| {
                let array = batch.columns().get(*column);
                array.map(address) == known.get(i).copied()
            };
            batch.num_rows() == *rows && columns.all(same)
        })
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(crate) fn all_columns(&self) -> BTreeSet<usize> {
        (0..self.schema.fields().len()).collect()
    }

    pub(crate) fn partitions(&self) -> &[Vec<RecordBatch>] {
        &self.partitions
    }

    /// The rows of one partition, or of all.
    pub(crate) fn rows(&self, partition: Option<usize>) -> usize {
        match partition {
            None => self.identity.rows.iter().sum(),
            Some(partition) => {
                let batches = self.partitions.get(partition).into_iter().flatten();
                batches.map(RecordBatch::num_rows).sum()
            }
        }
    }

    /// A column of one partition, or of all. Computed once.
    pub(crate) fn summary(&self, partition: Option<usize>, column: usize) -> ColumnSummary {
        let partitions = match partition {
            Some(partition) => partition..partition + 1,
            None => 0..self.partitions.len(),
        };
        let width = self.schema.fields().len();
        let of = partitions.filter_map(|partition| {
            let batches = self.partitions.get(partition)?;
            let known = self.columns.get(partition * width + column)?;
            Some(*known.get_or_init(|| ColumnSummary::of(batches, column)))
        });
        of.fold(ColumnSummary::default(), |sum, part| ColumnSummary {
            bytes: sum.bytes + part.bytes,
            nulls: sum.nulls + part.nulls,
        })
    }
}

impl ColumnSummary {
    /// As DataFusion's `compute_record_batch_statistics` counts.
    fn of(batches: &[RecordBatch], column: usize) -> Self {
        let arrays = batches.iter().map(|batch| batch.column(column));
        arrays.fold(Self::default(), |sum, array| {
            let nulls = array.logical_nulls();
            Self {
                bytes: sum.bytes + array.get_array_memory_size(),
                nulls: sum.nulls + nulls.map_or(0, |nulls| nulls.null_count()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int32Array};
    use arrow::datatypes::{DataType, Field, Schema};

    use super::*;

    fn batch(values: Vec<Option<i32>>) -> RecordBatch {
        let column: ArrayRef = Arc::new(Int32Array::from(values));
        let fields = ["a", "b"].map(|name| Field::new(name, DataType::Int32, true));
        let schema = Arc::new(Schema::new(Vec::from(fields)));
        RecordBatch::try_new(schema, vec![Arc::clone(&column), column]).unwrap()
    }

    fn has(snapshot: &TableSnapshot, partitions: &[Vec<RecordBatch>], columns: &[usize]) -> bool {
        let partitions: Vec<&[RecordBatch]> = partitions.iter().map(Vec::as_slice).collect();
        snapshot.has(&partitions, &columns.iter().copied().collect())
    }

    #[test]
    fn it_has_the_same_arrays_alone() {
        let (one, two) = (batch(vec![Some(1)]), batch(vec![Some(1)]));
        let table = vec![vec![one.clone(), two.clone()], vec![]];
        let snapshot = TableSnapshot::new(one.schema(), table.clone());
        assert!(has(&snapshot, &table, &[0, 1]) && has(&snapshot, &table, &[]));
        let mut other_column = one.columns().to_vec();
        other_column[1] = Arc::clone(two.column(1));
        let replaced = RecordBatch::try_new(one.schema(), other_column).unwrap();
        let others = [
            vec![vec![one.clone(), one.clone()], vec![]],
            vec![vec![two.clone(), one.clone()], vec![]],
            vec![vec![one.clone()], vec![two.clone()]],
            vec![vec![one.clone(), two.clone()]],
            vec![vec![one.clone(), two.clone(), two.clone()], vec![]],
            vec![vec![one.clone()], vec![]],
            vec![vec![replaced.clone(), two.clone()], vec![]],
            vec![vec![one.project(&[0]).unwrap(), two.clone()], vec![]],
            vec![],
        ];
        for (i, other) in others.iter().enumerate() {
            assert!(!has(&snapshot, other, &[0, 1]), "{i}");
        }
        // Another array of column 1 alone.
        let other = [vec![replaced, two], vec![]];
        assert!(has(&snapshot, &other, &[0]) && !has(&snapshot, &other, &[1]));
        assert!(!has(&snapshot, &table, &[2]));
    }

    #[test]
    fn summaries_are_datafusions_statistics() {
        use datafusion::physical_plan::common::compute_record_batch_statistics;

        let table = vec![
            vec![batch(vec![Some(1), None]), batch(vec![None])],
            vec![batch(vec![Some(4)])],
        ];
        let schema = table[0][0].schema();
        let snapshot = TableSnapshot::new(Arc::clone(&schema), table.clone());
        for partition in [None, Some(0), Some(1)] {
            let batches = match partition {
                Some(partition) => &table[partition..=partition],
                None => &table[..],
            };
            let expected = compute_record_batch_statistics(batches, &schema, Some(vec![1]));
            let summary = snapshot.summary(partition, 1);
            assert_eq!(
                expected.num_rows.get_value(),
                Some(&snapshot.rows(partition))
            );
            assert_eq!(expected.total_byte_size.get_value(), Some(&summary.bytes));
            let nulls = expected.column_statistics[0].null_count;
            assert_eq!(nulls.get_value(), Some(&summary.nulls));
        }
    }
}
