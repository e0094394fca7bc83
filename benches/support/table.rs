//! Seeded columns as tables: in memory for the sessions, widened for the oracle, as Parquet for other systems.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int32Array, Int64Array, ListArray, RecordBatch, StringArray,
};
use arrow::datatypes::{Field, Int32Type, Schema};
use datafusion::catalog::TableProvider;
use datafusion::dataframe::DataFrameWriteOptions;
use datafusion::datasource::MemTable;
use datafusion::prelude::{SessionConfig, SessionContext};
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::{Result, machine};

/// The rows of a batch: DataFusion's own default, so that no side gets unusual batches.
const BATCH_ROWS: usize = 8192;

/// A generator whose sequence depends on the seed alone.
pub fn seeded(seed: u64) -> StdRng {
    StdRng::seed_from_u64(seed)
}

/// One column's values; never NULL.
#[derive(Clone, Debug)]
pub enum Values {
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Text(StringArray),
    Lists(ListArray),
}

impl Values {
    fn len(&self) -> usize {
        match self {
            Self::Int32(values) => values.len(),
            Self::Int64(values) => values.len(),
            Self::Text(texts) => texts.len(),
            Self::Lists(lists) => lists.len(),
        }
    }

    fn array(&self) -> ArrayRef {
        match self {
            Self::Int32(values) => Arc::new(Int32Array::from(values.clone())),
            Self::Int64(values) => Arc::new(Int64Array::from(values.clone())),
            Self::Text(texts) => Arc::new(texts.clone()),
            Self::Lists(lists) => Arc::new(lists.clone()),
        }
    }
}

/// A named table of columns of equal length.
#[derive(Clone, Debug)]
pub struct Table {
    pub name: &'static str,
    columns: Vec<(&'static str, Values)>,
}

impl Table {
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            columns: Vec::new(),
        }
    }

    /// Adds a column.
    ///
    /// # Panics
    /// If its length differs from that of the present columns.
    pub fn with(mut self, column: &'static str, values: Values) -> Self {
        assert!(
            self.columns.is_empty() || self.rows() == values.len(),
            "column {column} of table {} has {} rows, not {}",
            self.name,
            values.len(),
            self.rows()
        );
        self.columns.push((column, values));
        self
    }

    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |(_, values)| values.len())
    }

    /// A column's values, widened.
    ///
    /// # Panics
    /// If the table has no such column, or no numbers in it.
    pub fn column(&self, name: &str) -> Vec<i64> {
        match self.values(name) {
            Values::Int32(values) => values.iter().map(|&value| i64::from(value)).collect(),
            Values::Int64(values) => values.clone(),
            Values::Text(_) | Values::Lists(_) => {
                panic!("column {name} of table {} holds no numbers", self.name)
            }
        }
    }

    /// A column's texts.
    ///
    /// # Panics
    /// If the table has no such column, or no text in it.
    pub fn texts(&self, name: &str) -> &StringArray {
        let Values::Text(texts) = self.values(name) else {
            panic!("column {name} of table {} holds no text", self.name);
        };
        texts
    }

    /// A column's lists of integers.
    ///
    /// # Panics
    /// If the table has no such column, or no lists of 32-bit integers in it.
    pub fn lists(&self, name: &str) -> impl Iterator<Item = Vec<i32>> {
        let Values::Lists(lists) = self.values(name) else {
            panic!("column {name} of table {} holds no lists", self.name);
        };
        let elements = lists.values().as_primitive::<Int32Type>().values();
        let bounds = lists.value_offsets().windows(2);
        bounds.map(|bound| elements[bound[0] as usize..bound[1] as usize].to_vec())
    }

    fn values(&self, name: &str) -> &Values {
        let mut columns = self.columns.iter();
        let (_, values) = columns
            .find(|(column, _)| *column == name)
            .unwrap_or_else(|| panic!("table {} has no column {name}", self.name));
        values
    }

    /// The table in memory, its batches distributed to as many partitions as there are cores.
    pub fn provider(&self) -> Result<Arc<dyn TableProvider>> {
        let arrays: Vec<ArrayRef> = self.columns.iter().map(|(_, v)| v.array()).collect();
        let fields: Vec<Field> = std::iter::zip(&self.columns, &arrays)
            .map(|((name, _), array)| Field::new(*name, array.data_type().clone(), false))
            .collect();
        let schema = Arc::new(Schema::new(fields));
        let whole = RecordBatch::try_new(Arc::clone(&schema), arrays)?;

        let batches = whole.num_rows().div_ceil(BATCH_ROWS);
        let mut partitions = vec![Vec::new(); machine::cores().min(batches).max(1)];
        let dealt = partitions.len();
        for batch in 0..batches {
            let start = batch * BATCH_ROWS;
            let rows = BATCH_ROWS.min(whole.num_rows() - start);
            partitions[batch % dealt].push(whole.slice(start, rows));
        }
        Ok(Arc::new(MemTable::try_new(schema, partitions)?))
    }
}

/// Writes each table to `<dir>/<prefix>-<table>.parquet`.
pub async fn export(tables: &[Table], prefix: &str, dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir)?;
    let ctx = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
    for table in tables {
        let path = dir.join(format!("{prefix}-{}.parquet", table.name));
        let path = path
            .to_str()
            .ok_or_else(|| format!("{}: not a path that SQL can name", path.display()))?;
        ctx.register_table(table.name, table.provider()?)?;
        ctx.table(table.name)
            .await?
            .write_parquet(
                path,
                DataFrameWriteOptions::new().with_single_file_output(true),
                None,
            )
            .await?;
        println!("{path}: {} rows", table.rows());
    }
    Ok(())
}
