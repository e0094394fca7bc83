//! Connected components of the pairs of ids that a node has for rows.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::error::Result;

/// The columns of the clusters of ids of a type: an id, and the least id of its component.
pub(crate) fn clusters_schema(data_type: &DataType) -> Schema {
    let column = |name: &str| Field::new(name, data_type.clone(), false);
    Schema::new(vec![column("id"), column("cluster")])
}

/// The clusters of pairs.
#[derive(Debug, Clone)]
pub(crate) struct ClustersSpec {
    /// The type of both columns of pairs.
    pub data_type: DataType,
    /// Of the columns of [`clusters_schema`], those that come out.
    pub columns: Vec<usize>,
    /// The most rows that come out.
    pub fetch: Option<usize>,
}

impl ClustersSpec {
    /// The output.
    pub(crate) fn schema(&self) -> Result<SchemaRef> {
        Ok(Arc::new(
            clusters_schema(&self.data_type).project(&self.columns)?,
        ))
    }

    /// The same with another limit.
    pub(crate) fn with_fetch(&self, fetch: Option<usize>) -> Self {
        Self {
            fetch,
            ..self.clone()
        }
    }
}
