//! The generated tables as record batches in a session.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Date32Array, Decimal128Array, Int32Array, RecordBatch, StringViewArray,
};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::prelude::SessionContext;

use crate::support::session::session;
use crate::support::tables::register_partitions;
use crate::tpcds::data::generate;
use crate::tpcds::data::rows::Cell;
use crate::tpcds::data::schema::Type;

const PARTITIONS: usize = 4;
const BATCH_ROWS: usize = 1000;

/// A session with all tables.
pub(crate) fn tables() -> SessionContext {
    let ctx = session();
    for (table, rows) in generate() {
        let types = table
            .columns
            .iter()
            .map(|(name, data_type)| Field::new(*name, data_type_of(*data_type), true));
        let schema = Arc::new(Schema::new(types.collect::<Vec<_>>()));
        let mut partitions = vec![vec![]; PARTITIONS];
        for (at, rows) in rows.chunks(BATCH_ROWS).enumerate() {
            let columns = table.columns.iter().enumerate();
            let columns = columns.map(|(column, (_, data_type))| {
                let cells: Vec<&Cell> = rows.iter().map(|row| &row[column]).collect();
                array(*data_type, &cells)
            });
            let batch = RecordBatch::try_new(Arc::clone(&schema), columns.collect());
            partitions[at % PARTITIONS].push(batch.unwrap());
        }
        register_partitions(&ctx, table.name, schema, partitions);
    }
    ctx
}

fn data_type_of(data_type: Type) -> DataType {
    match data_type {
        Type::Int => DataType::Int32,
        Type::Text => DataType::Utf8View,
        Type::Date => DataType::Date32,
        Type::Decimal(precision, scale) => DataType::Decimal128(precision, scale),
    }
}

fn array(data_type: Type, cells: &[&Cell]) -> ArrayRef {
    let numbers = cells.iter().map(|cell| match cell {
        Cell::Number(number) => Some(*number),
        _ => None,
    });
    let texts = cells.iter().map(|cell| match cell {
        Cell::Text(text) => Some(text),
        _ => None,
    });
    match data_type {
        Type::Int => Arc::new(numbers.map(|n| n.map(|n| n as i32)).collect::<Int32Array>()),
        Type::Date => Arc::new(
            numbers
                .map(|n| n.map(|n| n as i32))
                .collect::<Date32Array>(),
        ),
        Type::Text => Arc::new(texts.collect::<StringViewArray>()),
        Type::Decimal(precision, scale) => {
            let decimals: Decimal128Array = numbers.map(|n| n.map(i128::from)).collect();
            Arc::new(decimals.with_precision_and_scale(precision, scale).unwrap())
        }
    }
}
