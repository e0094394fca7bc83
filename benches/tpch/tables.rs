//! The tables of TPC-H in memory, made by the `tpchgen` crate: a part of the rows by each core.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;
use rayon::prelude::*;
use tpchgen::generators::*;
use tpchgen_arrow::*;

use super::support::Result;

const BATCH_ROWS: usize = 8192;

fn table(
    scale: f64,
    part: &(dyn Fn(i32, i32) -> Box<dyn RecordBatchReader> + Sync),
) -> Result<Arc<dyn TableProvider>> {
    // Small tables are one part.
    let parts = match scale >= 1.0 {
        true => std::thread::available_parallelism().map_or(1, |cores| cores.get() as i32),
        false => 1,
    };
    let made: Vec<(SchemaRef, Vec<RecordBatch>)> = (1..=parts)
        .into_par_iter()
        .map(|number| {
            let rows = part(number, parts);
            let schema = rows.schema();
            Ok((schema, rows.collect::<std::result::Result<_, _>>()?))
        })
        .collect::<std::result::Result<_, arrow::error::ArrowError>>()?;
    let schema = Arc::clone(&made[0].0);
    let partitions = made.into_iter().map(|(_, batches)| batches).collect();
    Ok(Arc::new(MemTable::try_new(schema, partitions)?))
}

/// All eight.
pub fn all(scale: f64) -> Result<Vec<(&'static str, Arc<dyn TableProvider>)>> {
    macro_rules! large {
        ($arrow:ident, $generator:ident) => {
            table(scale, &|part, parts| {
                Box::new(
                    $arrow::new($generator::new(scale, part, parts)).with_batch_size(BATCH_ROWS),
                )
            })?
        };
    }
    macro_rules! small {
        ($arrow:ident, $generator:ident) => {
            table(0.0, &|_, _| {
                Box::new($arrow::new($generator::new(scale, 1, 1)).with_batch_size(BATCH_ROWS))
            })?
        };
    }
    Ok(vec![
        ("nation", small!(NationArrow, NationGenerator)),
        ("region", small!(RegionArrow, RegionGenerator)),
        ("part", large!(PartArrow, PartGenerator)),
        ("supplier", small!(SupplierArrow, SupplierGenerator)),
        ("partsupp", large!(PartSuppArrow, PartSuppGenerator)),
        ("customer", large!(CustomerArrow, CustomerGenerator)),
        ("orders", large!(OrderArrow, OrderGenerator)),
        ("lineitem", large!(LineItemArrow, LineItemGenerator)),
    ])
}
