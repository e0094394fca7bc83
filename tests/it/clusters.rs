//! `bowtie_clusters` against a plain union-find.

mod limits;
mod on_device;
mod queries;
mod refusals;
mod types;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, SortField};
use datafusion::prelude::SessionContext;

use crate::support::answer::answer;

/// A value in Arrow's row format, whose order is that of its type.
type Value = Vec<u8>;

/// The values of a column, of a dictionary those of its type of values; `None` for a NULL.
fn values(column: &ArrayRef) -> Vec<Option<Value>> {
    let column = match column.data_type() {
        DataType::Dictionary(_, values) => cast(column, values).unwrap(),
        _ => Arc::clone(column),
    };
    let field = SortField::new(column.data_type().clone());
    let converter = RowConverter::new(vec![field]).unwrap();
    let nulls = column.logical_nulls();
    // −0.0 is 0.0.
    let column = datafusion::common::utils::normalize_float_zero(&column);
    let rows = converter.convert_columns(&[column]).unwrap();
    let rows = rows.iter().enumerate().map(|(at, row)| {
        let is_valid = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(at));
        is_valid.then(|| row.data().to_vec())
    });
    rows.collect()
}

/// Each id with the least of its cluster, sorted.
fn expected(left: &ArrayRef, right: &ArrayRef) -> Vec<(Value, Value)> {
    let (left, right) = (values(left), values(right));
    let mut ids: Vec<&Value> = left.iter().chain(&right).flatten().collect();
    ids.sort();
    ids.dedup();
    let mut parents: Vec<usize> = (0..ids.len()).collect();
    let root = |parents: &[usize], mut at: usize| {
        while parents[at] != at {
            at = parents[at];
        }
        at
    };
    for pair in left.iter().zip(&right) {
        let (Some(left), Some(right)) = pair else {
            continue;
        };
        let [a, b] = [left, right].map(|id| root(&parents, ids.binary_search(&id).unwrap()));
        parents[a.max(b)] = a.min(b);
    }
    let pairs = (0..ids.len()).map(|at| (ids[at].clone(), ids[root(&parents, at)].clone()));
    pairs.collect()
}

/// The rows of an answer whose two columns are ids and clusters, sorted.
async fn clusters(ctx: &SessionContext, sql: &str) -> (RecordBatch, Vec<(Value, Value)>) {
    let answer = answer(ctx, sql)
        .await
        .unwrap_or_else(|error| panic!("{sql}\n{error}"));
    let batch = concat_batches(&answer.schema, &answer.batches).unwrap();
    let [ids, clusters] = [0, 1].map(|column| values(batch.column(column)));
    let rows = ids.into_iter().zip(clusters);
    let mut rows: Vec<_> = rows
        .map(|(id, cluster)| (id.unwrap(), cluster.unwrap()))
        .collect();
    rows.sort();
    (batch, rows)
}
