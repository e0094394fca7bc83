//! [`SnapshotTable`]: a table in memory during the planning of one query. In: its snapshot. Out: scans that share it.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::datasource::TableType;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;

use crate::exec::scan::snapshot_source::SnapshotSource;
use crate::store::table_snapshot::TableSnapshot;

#[derive(Debug)]
pub(crate) struct SnapshotTable(pub(crate) Arc<TableSnapshot>);

#[async_trait]
impl TableProvider for SnapshotTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.0.schema())
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let show_sizes = session.config_options().explain.show_sizes;
        let source = SnapshotSource::try_new(Arc::clone(&self.0), projection.cloned(), show_sizes)?;
        Ok(DataSourceExec::from_data_source(source))
    }
}
