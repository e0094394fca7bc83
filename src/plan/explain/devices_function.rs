//! `SELECT * FROM bowtie_devices()`: the devices that `bowtie.device` can name.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::{MemTable, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::error::{DataFusionError, Result};

use crate::runtime::list::{DeviceInfo, list};

/// The table function. It takes no argument.
#[derive(Debug)]
pub(crate) struct DevicesFunction;

impl DevicesFunction {
    pub(crate) const NAME: &'static str = "bowtie_devices";
}

impl TableFunctionImpl for DevicesFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        if !args.exprs().is_empty() {
            return Err(DataFusionError::Plan(
                "bowtie_devices takes no argument: SELECT * FROM bowtie_devices()".into(),
            ));
        }
        let devices = list();
        let text = |name: &str, nullable: bool| Field::new(name, DataType::Utf8, nullable);
        let schema = Arc::new(Schema::new(vec![
            text("device", false),
            text("name", false),
            Field::new("memory_bytes", DataType::UInt64, true),
            text("compute_capability", true),
            text("driver", true),
            text("kernels", false),
        ]));
        let strings = |of: fn(&DeviceInfo) -> Option<&str>| -> ArrayRef {
            Arc::new(devices.iter().map(of).collect::<StringArray>())
        };
        let memory: UInt64Array = devices.iter().map(|device| device.memory_bytes).collect();
        let columns = vec![
            strings(|d| Some(&d.device)),
            strings(|d| Some(&d.name)),
            Arc::new(memory),
            strings(|d| d.compute_capability.as_deref()),
            strings(|d| d.driver.as_deref()),
            strings(|d| Some(&d.kernels)),
        ];
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns)?;
        Ok(Arc::new(MemTable::try_new(schema, vec![vec![batch]])?))
    }
}
