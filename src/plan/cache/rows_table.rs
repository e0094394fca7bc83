//! [`RowsTable`]: the table of a table function whose rows are made when it is scanned.

use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{MemTable, Session, TableFunctionArgs, TableProvider};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

/// Rows that a table function returns.
#[async_trait]
pub(crate) trait Rows: Debug + Send + Sync + 'static {
    /// The function's name.
    fn function(&self) -> &'static str;

    fn schema(&self) -> SchemaRef;

    /// All rows, in one batch of [`Rows::schema`].
    async fn rows(&self, session: &dyn Session) -> Result<RecordBatch>;
}

/// The table of these rows.
#[derive(Debug)]
pub(crate) struct RowsTable<R>(R);

impl<R: Rows> RowsTable<R> {
    pub(crate) fn of(rows: R) -> Arc<dyn TableProvider> {
        Arc::new(Self(rows))
    }

    /// The table of a function that takes no argument.
    ///
    /// # Errors
    /// If it is given one.
    pub(crate) fn without_arguments(
        rows: R,
        args: &TableFunctionArgs,
    ) -> Result<Arc<dyn TableProvider>> {
        let name = rows.function();
        match args.exprs() {
            [] => Ok(Self::of(rows)),
            _ => Err(DataFusionError::Plan(format!(
                "{name} takes no argument: SELECT * FROM {name}()"
            ))),
        }
    }
}

#[async_trait]
impl<R: Rows> TableProvider for RowsTable<R> {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let rows = self.0.rows(session).await?;
        MemTable::try_new(self.0.schema(), vec![vec![rows]])?
            .scan(session, projection, filters, limit)
            .await
    }
}
