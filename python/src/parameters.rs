//! Python objects as values of a query's parameters.

use std::collections::HashMap;

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType};
use chrono::{DateTime, FixedOffset, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Timelike};
use datafusion::common::{ParamValues, ScalarValue};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyBytes, PyDate, PyDateTime, PyDelta, PyDict, PyFloat, PyInt, PyList, PyString, PyTime,
    PyTuple,
};

/// `$1`, `$2`, … by position, or `$name` by name; None without parameters.
///
/// # Errors
/// If there are both, or a value that no type of SQL fits.
pub fn parameters(
    positional: &Bound<'_, PyTuple>,
    named: Option<&Bound<'_, PyDict>>,
) -> PyResult<Option<ParamValues>> {
    let named: HashMap<String, ScalarValue> = named
        .into_iter()
        .flatten()
        .map(|(name, value)| Ok((name.extract()?, scalar(&value)?)))
        .collect::<PyResult<_>>()?;
    match (positional.is_empty(), named.is_empty()) {
        (true, true) => Ok(None),
        (true, false) => Ok(Some(named.into())),
        (false, true) => Ok(Some(
            positional
                .iter()
                .map(|value| scalar(&value))
                .collect::<PyResult<Vec<_>>>()?
                .into(),
        )),
        (false, false) => Err(PyTypeError::new_err(
            "a query takes parameters by position ($1) or by name ($name), not both",
        )),
    }
}

fn scalar(value: &Bound<'_, PyAny>) -> PyResult<ScalarValue> {
    if value.is_none() {
        return Ok(ScalarValue::Null);
    }
    if value.is_instance_of::<PyBool>() {
        return Ok(ScalarValue::Boolean(Some(value.extract()?)));
    }
    if value.is_instance_of::<PyInt>() {
        return integer(value);
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(ScalarValue::Float64(Some(value.extract()?)));
    }
    if value.is_instance_of::<PyString>() {
        return Ok(ScalarValue::Utf8(Some(value.extract()?)));
    }
    if value.is_instance_of::<PyBytes>() {
        return Ok(ScalarValue::Binary(Some(value.extract()?)));
    }
    if value.is_instance_of::<PyDateTime>() {
        return timestamp(value);
    }
    if value.is_instance_of::<PyDate>() {
        let days = value
            .extract::<NaiveDate>()?
            .signed_duration_since(NaiveDate::default())
            .num_days();
        return Ok(ScalarValue::Date32(i32::try_from(days).ok()));
    }
    if value.is_instance_of::<PyTime>() {
        let time: NaiveTime = value.extract()?;
        let nanoseconds = i64::from(time.num_seconds_from_midnight()) * 1_000_000_000
            + i64::from(time.nanosecond());
        return Ok(ScalarValue::Time64Nanosecond(Some(nanoseconds)));
    }
    if value.is_instance_of::<PyDelta>() {
        let microseconds = value.extract::<TimeDelta>()?.num_microseconds();
        return Ok(ScalarValue::DurationMicrosecond(Some(
            microseconds.ok_or_else(|| too_large(value))?,
        )));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        return list(value);
    }
    if value.get_type().fully_qualified_name()? == "decimal.Decimal" {
        return decimal(value);
    }
    // Scalars of NumPy and PyArrow.
    for method in ["item", "as_py"] {
        if value.hasattr(method)? {
            let converted = value.call_method0(method)?;
            if !converted.get_type().is(value.get_type()) {
                return scalar(&converted);
            }
        }
    }
    Err(PyTypeError::new_err(format!(
        "a parameter cannot be of type {}: use None, bool, int, float, str, bytes, decimal.Decimal, date, time, datetime, timedelta, or a list \
         of these",
        value.get_type().fully_qualified_name()?
    )))
}

fn too_large(value: &Bound<'_, PyAny>) -> PyErr {
    PyOverflowError::new_err(format!("the parameter {value} is too large for SQL"))
}

fn integer(value: &Bound<'_, PyAny>) -> PyResult<ScalarValue> {
    if let Ok(value) = value.extract::<i64>() {
        return Ok(ScalarValue::Int64(Some(value)));
    }
    match value.extract::<u64>() {
        Ok(value) => Ok(ScalarValue::UInt64(Some(value))),
        Err(_) => Err(too_large(value)),
    }
}

/// Naive, or of the zone UTC.
fn timestamp(value: &Bound<'_, PyAny>) -> PyResult<ScalarValue> {
    if value.getattr("tzinfo")?.is_none() {
        let time: NaiveDateTime = value.extract()?;
        return Ok(ScalarValue::TimestampMicrosecond(
            Some(time.and_utc().timestamp_micros()),
            None,
        ));
    }
    let utc = value
        .py()
        .import("datetime")?
        .getattr("timezone")?
        .getattr("utc")?;
    let time: DateTime<FixedOffset> = value.call_method1("astimezone", (utc,))?.extract()?;
    Ok(ScalarValue::TimestampMicrosecond(
        Some(time.timestamp_micros()),
        Some("UTC".into()),
    ))
}

fn decimal(value: &Bound<'_, PyAny>) -> PyResult<ScalarValue> {
    let text: String = value.call_method1("__format__", ("f",))?.extract()?;
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let unscaled: i128 = format!("{whole}{fraction}")
        .parse()
        .map_err(|_| too_large(value))?;
    let digits = unscaled
        .unsigned_abs()
        .to_string()
        .len()
        .max(fraction.len())
        .max(1);
    match (u8::try_from(digits), i8::try_from(fraction.len())) {
        (Ok(precision), Ok(scale)) if precision <= DECIMAL128_MAX_PRECISION => {
            Ok(ScalarValue::Decimal128(Some(unscaled), precision, scale))
        }
        _ => Err(too_large(value)),
    }
}

/// Of the one type of its items that are not None; numbers of several types become the one that holds all of them.
fn list(value: &Bound<'_, PyAny>) -> PyResult<ScalarValue> {
    let items: Vec<ScalarValue> = value
        .try_iter()?
        .map(|item| scalar(&item?))
        .collect::<PyResult<_>>()?;
    let mut item_type = DataType::Null;
    for item in &items {
        item_type = common_type(&item_type, &item.data_type())?;
    }
    let items: Vec<ScalarValue> = items
        .iter()
        .map(|item| item.cast_to(&item_type))
        .collect::<Result<_, _>>()
        .map_err(|error| {
            PyTypeError::new_err(format!("the items of a list do not fit: {error}"))
        })?;
    Ok(ScalarValue::List(ScalarValue::new_list_nullable(
        &items, &item_type,
    )))
}

/// The type that holds the values of both without a loss.
fn common_type(one: &DataType, other: &DataType) -> PyResult<DataType> {
    use DataType::{Decimal128, Float64, Int64, Null};
    match (one, other) {
        (one, other) if one == other => Ok(one.clone()),
        (Null, other) => Ok(other.clone()),
        (one, Null) => Ok(one.clone()),
        (Int64, Float64) | (Float64, Int64) => Ok(Float64),
        (Decimal128(p, s), Decimal128(q, t)) => {
            // Digits before the point, and behind it.
            let whole = (i16::from(*p) - i16::from(*s)).max(i16::from(*q) - i16::from(*t));
            let scale = (*s).max(*t);
            match u8::try_from(whole + i16::from(scale)) {
                Ok(precision) if precision <= DECIMAL128_MAX_PRECISION => {
                    Ok(Decimal128(precision, scale))
                }
                _ => Err(PyTypeError::new_err(
                    "the decimals of a list have more digits together than a Decimal128 has",
                )),
            }
        }
        (one, other) => Err(PyTypeError::new_err(format!(
            "the items of a list have several types: {one} and {other}"
        ))),
    }
}
