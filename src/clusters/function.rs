//! `SELECT * FROM bowtie_clusters('<query>')`: the connected components of a query's pairs, an id and its cluster in each row.

use std::sync::Arc;

use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::Expr;

use crate::clusters::pairs_query::PairsQuery;
use crate::plan::cache::state_of::state_of;
use crate::plan::clusters_table::ClustersTable;

/// The table function. Its one argument is a query of two columns, or the name of a table that has them, as a string.
#[derive(Debug)]
pub(crate) struct ClustersFunction;

impl ClustersFunction {
    pub(crate) const NAME: &'static str = ClustersTable::FUNCTION;
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
        Ok(Arc::new(ClustersTable::new(pairs.plan, pairs.data_type)))
    }
}
