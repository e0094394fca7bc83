//! `SELECT * FROM bowtie_devices()`: the devices that `bowtie.device` can name.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::error::Result;

use crate::plan::cache::rows_table::{Rows, RowsTable};
use crate::runtime::list::{DeviceInfo, devices};

/// The table function. It takes no argument.
#[derive(Debug)]
pub(crate) struct DevicesFunction;

impl DevicesFunction {
    pub(crate) const NAME: &'static str = "bowtie_devices";
}

impl TableFunctionImpl for DevicesFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        RowsTable::without_arguments(Devices, &args)
    }
}

/// The devices at the time of the scan.
#[derive(Debug)]
struct Devices;

#[async_trait]
impl Rows for Devices {
    fn function(&self) -> &'static str {
        DevicesFunction::NAME
    }

    fn schema(&self) -> SchemaRef {
        let text = |name: &str, nullable: bool| Field::new(name, DataType::Utf8, nullable);
        let flag = |name: &str| Field::new(name, DataType::Boolean, false);
        let bytes = |name: &str| Field::new(name, DataType::UInt64, true);
        Arc::new(Schema::new(vec![
            text("device", false),
            text("name", false),
            flag("usable"),
            flag("is_default"),
            bytes("memory_bytes"),
            bytes("free_bytes"),
            bytes("budget_bytes"),
            bytes("reserved_bytes"),
            text("compute_capability", true),
            text("driver", true),
            text("kernels", false),
            text("reason", true),
        ]))
    }

    async fn rows(&self, _session: &dyn Session) -> Result<RecordBatch> {
        let devices = devices();
        let texts = |of: fn(&DeviceInfo) -> Option<&str>| -> ArrayRef {
            Arc::new(devices.iter().map(of).collect::<StringArray>())
        };
        let flags = |of: fn(&DeviceInfo) -> bool| -> ArrayRef {
            Arc::new(BooleanArray::from_iter(
                devices.iter().map(|device| Some(of(device))),
            ))
        };
        let sizes = |of: fn(&DeviceInfo) -> Option<u64>| -> ArrayRef {
            Arc::new(devices.iter().map(of).collect::<UInt64Array>())
        };
        let columns = vec![
            texts(|d| Some(&d.device)),
            texts(|d| Some(&d.name)),
            flags(|d| d.usable),
            flags(|d| d.is_default),
            sizes(|d| d.memory_bytes),
            sizes(|d| d.free_bytes),
            sizes(|d| d.budget_bytes),
            sizes(|d| d.reserved_bytes),
            texts(|d| d.compute_capability.as_deref()),
            texts(|d| d.driver.as_deref()),
            texts(|d| Some(&d.kernels)),
            texts(|d| d.reason.as_deref()),
        ];
        Ok(RecordBatch::try_new(self.schema(), columns)?)
    }
}
