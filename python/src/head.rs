//! The first rows of a query as text, for tables in terminals and notebooks.

use arrow::array::Array;
use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::DataFrame;
use pyo3::prelude::*;

/// Characters of a cell that are shown: longer text is cut.
const LONGEST: usize = 120;

/// The first rows, and whether there are more.
#[pyclass(frozen, get_all, module = "datafusion_bowtie._lib")]
pub struct Head {
    names: Vec<String>,
    types: Vec<String>,
    /// Columns whose values stand at the right.
    numeric: Vec<bool>,
    /// None is NULL.
    rows: Vec<Vec<Option<String>>>,
    more: bool,
}

impl Head {
    pub async fn of(frame: DataFrame, rows: usize) -> Result<Self> {
        let fields = frame.schema().fields().clone();
        let shown = match frame.logical_plan() {
            // They have to be the roots of their plans, and have few rows.
            LogicalPlan::Explain(_) | LogicalPlan::Analyze(_) => frame,
            // One more than shown says whether there are more.
            _ => frame.limit(0, Some(rows.saturating_add(1)))?,
        };
        let batches = shown.collect().await?;
        let options = FormatOptions::new().with_display_error(true);
        let mut cells = vec![];
        for batch in &batches {
            let columns: Vec<_> = batch
                .columns()
                .iter()
                .map(|column| {
                    Ok((
                        column.logical_nulls(),
                        ArrayFormatter::try_new(column, &options)?,
                    ))
                })
                .collect::<Result<_>>()?;
            for row in 0..batch
                .num_rows()
                .min(rows.saturating_add(1).saturating_sub(cells.len()))
            {
                let values = columns.iter().map(|(nulls, text)| {
                    let is_null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
                    (!is_null).then(|| cut(text.value(row).to_string()))
                });
                cells.push(values.collect());
            }
        }
        let more = cells.len() > rows;
        cells.truncate(rows);
        Ok(Self {
            names: fields.iter().map(|field| field.name().clone()).collect(),
            types: fields
                .iter()
                .map(|field| field.data_type().to_string())
                .collect(),
            numeric: fields
                .iter()
                .map(|field| is_number(field.data_type()))
                .collect(),
            rows: cells,
            more,
        })
    }
}

fn is_number(data_type: &DataType) -> bool {
    data_type.is_numeric() || data_type.is_temporal()
}

fn cut(text: String) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
