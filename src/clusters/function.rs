//! `SELECT * FROM bowtie_clusters('<query>')`: the connected components of a query's pairs, an id and its cluster in each row.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

use crate::clusters::pairs_query::PairsQuery;
use crate::exec::clusters::exec::ClustersExec;
use crate::plan::cache::state_of::state_of;
use crate::spec::clusters::{ClustersSpec, clusters_schema};

/// The table function. Its one argument is a query of two columns, or the name of a table that has them, as a string.
#[derive(Debug)]
pub(crate) struct ClustersFunction;

impl ClustersFunction {
    pub(crate) const NAME: &'static str = "bowtie_clusters";
}

impl TableFunctionImpl for ClustersFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let text = match args.exprs() {
            [
                Expr::Literal(
                    ScalarValue::Utf8(Some(text))
                    | ScalarValue::LargeUtf8(Some(text))
                    | ScalarValue::Utf8View(Some(text)),
                    _,
                ),
            ] => text,
            _ => {
                return Err(DataFusionError::Plan(
                    "bowtie_clusters takes one argument, a query of two columns or the name of a table as a string: bowtie_clusters($$ SELECT … $$)".into(),
                ));
            }
        };
        let state = state_of(args.session(), Self::NAME)?;
        let pairs = PairsQuery::of(state, text)?;
        Ok(Arc::new(ClustersTable {
            schema: Arc::new(clusters_schema(&pairs.data_type)),
            pairs,
        }))
    }
}

/// The clusters of a query's pairs. Its tables and types are those of the time when the function was called, as a view's are; the
/// optimizers see it when the table is scanned.
#[derive(Debug)]
struct ClustersTable {
    pairs: PairsQuery,
    schema: SchemaRef,
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
        let state = state_of(session, ClustersFunction::NAME)?;
        let input = state.create_physical_plan(&self.pairs.plan).await?;
        let columns = match projection {
            Some(columns) => columns.clone(),
            None => vec![0, 1],
        };
        let spec = ClustersSpec {
            data_type: self.pairs.data_type.clone(),
            columns,
            fetch: limit,
        };
        Ok(Arc::new(ClustersExec::try_new(input, spec)?))
    }
}
