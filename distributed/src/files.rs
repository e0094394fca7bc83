//! Files that cannot be read where a plan is sent.

use datafusion::catalog::memory::DataSourceExec;
use datafusion::common::not_impl_err;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;

/// Whether a node scans compressed files, of which DataFusion's message does not say that they are.
pub(crate) fn is_compressed(node: &dyn ExecutionPlan) -> bool {
    let scan = node.downcast_ref::<DataSourceExec>();
    let files = scan.and_then(|scan| scan.data_source().downcast_ref::<FileScanConfig>());
    files.is_some_and(|files| files.file_compression_type.is_compressed())
}

/// That such a node would be sent.
pub(crate) fn refused<T>() -> Result<T> {
    not_impl_err!(
        "bowtie: compressed CSV and JSON files cannot be read on other machines: DataFusion's message of a scan does not say that they are compressed; copy them to Parquet files"
    )
}
