//! [`ScanFilter`]: a predicate that a scan of DataFusion applies, where the filter above it was removed.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::physical_expr::PhysicalExpr;

/// A filter that the scan of DataFusion applies itself, to be applied to the rows of the table's pieces.
#[derive(Debug, Clone)]
pub(crate) struct ScanFilter {
    /// Over the columns of the table's schema.
    pub predicate: Arc<dyn PhysicalExpr>,
    /// Those that the scan has; the others are there for the predicate.
    pub columns: Vec<usize>,
    /// The schema of these.
    pub schema: SchemaRef,
}
