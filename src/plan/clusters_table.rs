//! [`ClustersTable`]: what `bowtie_clusters` is in a query.

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, TableType};
use datafusion::physical_plan::ExecutionPlan;

use crate::exec::clusters::exec::ClustersExec;
use crate::plan::cache::state_of::state_of;
use crate::spec::clusters::{ClustersSpec, clusters_schema};

/// The clusters of a query's pairs. Its tables and types are those of the time when the function was called, as a view's are; the
/// optimizers see it when the table is scanned.
#[derive(Debug)]
pub(crate) struct ClustersTable {
    pairs: LogicalPlan,
    data_type: DataType,
    schema: SchemaRef,
}

impl ClustersTable {
    /// The table function.
    pub(crate) const FUNCTION: &'static str = "bowtie_clusters";

    /// The clusters of the pairs of a plan, whose two columns have the type `data_type`.
    pub(crate) fn new(pairs: LogicalPlan, data_type: DataType) -> Self {
        Self {
            schema: Arc::new(clusters_schema(&data_type)),
            pairs,
            data_type,
        }
    }

    pub(crate) fn pairs(&self) -> &LogicalPlan {
        &self.pairs
    }
}

#[async_trait]
impl TableProvider for ClustersTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let state = state_of(session, Self::FUNCTION)?;
        let input = state.create_physical_plan(&self.pairs).await?;
        let columns = match projection {
            Some(columns) => columns.clone(),
            None => vec![0, 1],
        };
        let spec = ClustersSpec {
            data_type: self.data_type.clone(),
            columns,
            fetch: limit,
        };
        Ok(Arc::new(ClustersExec::try_new(input, spec)?))
    }
}
