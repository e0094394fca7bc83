//! Which row groups of a file have no row for a predicate, as their statistics say.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::datasource::physical_plan::parquet::{
    ParquetAccessPlan, ParquetFileMetrics, RowGroupAccessPlanFilter,
    apply_file_schema_type_coercions,
};
use datafusion::error::{DataFusionError, Result};
use datafusion::parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use datafusion::parquet::basic::Type;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::simplifier::PhysicalExprSimplifier;
use datafusion::physical_expr_adapter::{
    DefaultPhysicalExprAdapterFactory, PhysicalExprAdapterFactory, replace_columns_with_literals,
};
use datafusion::physical_optimizer::pruning::PruningPredicateBuilder;
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet};

use crate::exec::scan::parquet::file::ParquetFile;
use crate::exec::scan::parquet::source::Source;

/// For each row group of a file whether it may have a row that `predicate` lets through.
pub(crate) fn may_match(
    source: &Source,
    file: &ParquetFile,
    predicate: &Arc<dyn PhysicalExpr>,
) -> Vec<bool> {
    let groups = file.metadata.num_row_groups();
    let all = || vec![true; groups];
    // Their statistics compare as other types do.
    let schema = file.metadata.file_metadata().schema_descr();
    let mut columns = schema.columns().iter();
    if !source.prunes() || columns.any(|column| column.physical_type() == Type::INT96) {
        return all();
    }
    match kept(source, file, predicate) {
        Ok(Some(plan)) => {
            let mut kept = vec![false; groups];
            for group in plan.row_group_indexes() {
                kept[group] = true;
            }
            kept
        }
        // Pruning only saves work.
        Ok(None) | Err(_) => all(),
    }
}

/// As DataFusion's own scan of the file does it.
fn kept(
    source: &Source,
    file: &ParquetFile,
    predicate: &Arc<dyn PhysicalExpr>,
) -> Result<Option<ParquetAccessPlan>> {
    let table = source.table();
    let options = ArrowReaderOptions::new();
    let reader = ArrowReaderMetadata::try_new(Arc::clone(&file.metadata), options)
        .map_err(|error| DataFusionError::ParquetError(Box::new(error)))?;
    let physical = reader.schema();
    let physical = match apply_file_schema_type_coercions(table.file_schema(), physical) {
        Some(coerced) => Arc::new(coerced),
        None => Arc::clone(physical),
    };
    let columns = table.table_partition_cols().iter();
    let values = columns.zip(&file.file.partition_values);
    let values: HashMap<String, ScalarValue> = values
        .map(|(column, value)| (column.name().clone(), value.clone()))
        .collect();
    let predicate = replace_columns_with_literals(Arc::clone(predicate), &values)?;
    let logical = Arc::clone(table.file_schema());
    let adapter = DefaultPhysicalExprAdapterFactory.create(logical, Arc::clone(&physical))?;
    let predicate = PhysicalExprSimplifier::new(&physical).simplify(adapter.rewrite(predicate)?)?;
    let errors = Count::new();
    let predicate = PruningPredicateBuilder::new()
        .with_file_schema(Arc::clone(&physical))
        .with_error_counter(&errors)
        .with_max_in_list_size(source.max_in_list_size())
        .build(predicate);
    let Some(predicate) = predicate else {
        return Ok(None);
    };
    let groups = file.metadata.row_groups();
    let mut filter = RowGroupAccessPlanFilter::new(ParquetAccessPlan::new_all(groups.len()));
    let metrics = ExecutionPlanMetricsSet::new();
    let metrics = ParquetFileMetrics::new(0, file.file.path().as_ref(), &metrics);
    filter.prune_by_statistics(
        &physical,
        reader.parquet_schema(),
        groups,
        &predicate,
        &metrics,
    );
    Ok(Some(filter.build()))
}
