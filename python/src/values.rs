//! Arrow columns as Python objects, for `DataFrame.fetchall`.

use arrow::array::{
    Array, ArrayRef, AsArray, Decimal32Array, Decimal64Array, Decimal128Array, Decimal256Array,
    FixedSizeListArray, GenericListArray, GenericListViewArray, MapArray, OffsetSizeTrait,
    PrimitiveArray, StructArray, UnionArray,
};
use arrow::compute::cast;
use arrow::datatypes::{
    ArrowPrimitiveType, ArrowTimestampType, DataType, DurationMicrosecondType,
    DurationMillisecondType, DurationNanosecondType, DurationSecondType, Float16Type, Float32Type,
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, IntervalDayTimeType,
    IntervalMonthDayNanoType, IntervalUnit, IntervalYearMonthType, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow::error::ArrowError;
use arrow::temporal_conversions::as_datetime;
use chrono::{NaiveDateTime, TimeDelta};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple, PyType, PyTzInfo};

use crate::error::{ExecutionError, NotSupportedError};

type Values = PyResult<Vec<Py<PyAny>>>;

/// The rows of columns of one length.
pub fn rows<'py>(py: Python<'py>, columns: &[ArrayRef], into: &Bound<'py, PyList>) -> PyResult<()> {
    let columns: Vec<Vec<Py<PyAny>>> = columns
        .iter()
        .map(|column| values(py, column))
        .collect::<PyResult<_>>()?;
    let rows = columns.first().map_or(0, Vec::len);
    for row in 0..rows {
        into.append(PyTuple::new(py, columns.iter().map(|column| &column[row]))?)?;
    }
    Ok(())
}

/// The values of a column: what Python's standard library has for its type. Times finer than microseconds are cut.
fn values(py: Python<'_>, array: &ArrayRef) -> Values {
    macro_rules! numbers {
        ($type:ty) => {
            primitive::<$type, _>(py, array, |value| value.into_py_any(py))
        };
    }
    macro_rules! timestamps {
        ($type:ty, $zone:expr) => {
            timestamps::<$type>(py, array, $zone.as_deref())
        };
    }
    macro_rules! durations {
        ($type:ty, $per_second:expr) => {
            primitive::<$type, _>(py, array, |value| duration(py, value, $per_second))
        };
    }
    match array.data_type() {
        DataType::Null => Ok((0..array.len()).map(|_| py.None()).collect()),
        DataType::Boolean => each(py, array, |row| {
            array.as_boolean().value(row).into_py_any(py)
        }),
        DataType::Int8 => numbers!(Int8Type),
        DataType::Int16 => numbers!(Int16Type),
        DataType::Int32 => numbers!(Int32Type),
        DataType::Int64 => numbers!(Int64Type),
        DataType::UInt8 => numbers!(UInt8Type),
        DataType::UInt16 => numbers!(UInt16Type),
        DataType::UInt32 => numbers!(UInt32Type),
        DataType::UInt64 => numbers!(UInt64Type),
        DataType::Float16 => {
            primitive::<Float16Type, _>(py, array, |value| value.to_f64().into_py_any(py))
        }
        DataType::Float32 => numbers!(Float32Type),
        DataType::Float64 => numbers!(Float64Type),
        DataType::Decimal32(..) => decimals(py, array, |row| {
            array
                .as_any()
                .downcast_ref()
                .map(|a: &Decimal32Array| a.value_as_string(row))
        }),
        DataType::Decimal64(..) => decimals(py, array, |row| {
            array
                .as_any()
                .downcast_ref()
                .map(|a: &Decimal64Array| a.value_as_string(row))
        }),
        DataType::Decimal128(..) => decimals(py, array, |row| {
            array
                .as_any()
                .downcast_ref()
                .map(|a: &Decimal128Array| a.value_as_string(row))
        }),
        DataType::Decimal256(..) => decimals(py, array, |row| {
            array
                .as_any()
                .downcast_ref()
                .map(|a: &Decimal256Array| a.value_as_string(row))
        }),
        DataType::Utf8 => each(py, array, |row| {
            array.as_string::<i32>().value(row).into_py_any(py)
        }),
        DataType::LargeUtf8 => each(py, array, |row| {
            array.as_string::<i64>().value(row).into_py_any(py)
        }),
        DataType::Utf8View => each(py, array, |row| {
            array.as_string_view().value(row).into_py_any(py)
        }),
        DataType::Binary => each(py, array, |row| {
            bytes(py, array.as_binary::<i32>().value(row))
        }),
        DataType::LargeBinary => each(py, array, |row| {
            bytes(py, array.as_binary::<i64>().value(row))
        }),
        DataType::BinaryView => each(py, array, |row| {
            bytes(py, array.as_binary_view().value(row))
        }),
        DataType::FixedSizeBinary(_) => each(py, array, |row| {
            bytes(py, array.as_fixed_size_binary().value(row))
        }),
        DataType::Date32 => {
            let days = array.as_primitive::<arrow::datatypes::Date32Type>();
            each(py, array, |row| days.value_as_date(row).into_py_any(py))
        }
        DataType::Date64 => {
            let milliseconds = array.as_primitive::<arrow::datatypes::Date64Type>();
            each(py, array, |row| {
                milliseconds.value_as_date(row).into_py_any(py)
            })
        }
        DataType::Time32(_) | DataType::Time64(_) => {
            let nanoseconds = converted(array, &DataType::Time64(TimeUnit::Nanosecond))?;
            let nanoseconds = nanoseconds.as_primitive::<arrow::datatypes::Time64NanosecondType>();
            each(py, array, |row| {
                nanoseconds.value_as_time(row).into_py_any(py)
            })
        }
        DataType::Timestamp(TimeUnit::Second, zone) => timestamps!(TimestampSecondType, zone),
        DataType::Timestamp(TimeUnit::Millisecond, zone) => {
            timestamps!(TimestampMillisecondType, zone)
        }
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            timestamps!(TimestampMicrosecondType, zone)
        }
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
            timestamps!(TimestampNanosecondType, zone)
        }
        DataType::Duration(TimeUnit::Second) => durations!(DurationSecondType, 1),
        DataType::Duration(TimeUnit::Millisecond) => durations!(DurationMillisecondType, 1_000),
        DataType::Duration(TimeUnit::Microsecond) => durations!(DurationMicrosecondType, 1_000_000),
        DataType::Duration(TimeUnit::Nanosecond) => {
            durations!(DurationNanosecondType, 1_000_000_000)
        }
        DataType::Interval(IntervalUnit::YearMonth) => {
            primitive::<IntervalYearMonthType, _>(py, array, |months| interval(py, months, 0, 0))
        }
        DataType::Interval(IntervalUnit::DayTime) => {
            primitive::<IntervalDayTimeType, _>(py, array, |value| {
                interval(py, 0, value.days, i64::from(value.milliseconds) * 1_000_000)
            })
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            primitive::<IntervalMonthDayNanoType, _>(py, array, |value| {
                interval(py, value.months, value.days, value.nanoseconds)
            })
        }
        DataType::List(_) => lists(py, array.as_list::<i32>()),
        DataType::LargeList(_) => lists(py, array.as_list::<i64>()),
        DataType::ListView(_) => list_views(py, array.as_list_view::<i32>()),
        DataType::LargeListView(_) => list_views(py, array.as_list_view::<i64>()),
        DataType::FixedSizeList(..) => fixed_lists(py, array.as_fixed_size_list()),
        DataType::Struct(_) => structs(py, array.as_struct()),
        DataType::Map(..) => maps(py, array.as_map()),
        DataType::Dictionary(_, value) => values(py, &converted(array, value)?),
        DataType::RunEndEncoded(_, value) => values(py, &converted(array, value.data_type())?),
        DataType::Union(..) => unions(py, array.as_union()),
    }
}

/// `make` for each row that is not null.
fn each(py: Python<'_>, array: &dyn Array, make: impl Fn(usize) -> PyResult<Py<PyAny>>) -> Values {
    (0..array.len())
        .map(|row| match array.is_null(row) {
            true => Ok(py.None()),
            false => make(row),
        })
        .collect()
}

fn primitive<T: ArrowPrimitiveType, F: Fn(T::Native) -> PyResult<Py<PyAny>>>(
    py: Python<'_>,
    array: &ArrayRef,
    make: F,
) -> Values {
    let values: &PrimitiveArray<T> = array.as_primitive();
    each(py, array, |row| make(values.value(row)))
}

fn converted(array: &ArrayRef, to: &DataType) -> PyResult<ArrayRef> {
    cast(array, to).map_err(|error: ArrowError| NotSupportedError::new_err(error.to_string()))
}

fn bytes(py: Python<'_>, value: &[u8]) -> PyResult<Py<PyAny>> {
    PyBytes::new(py, value).into_py_any(py)
}

fn decimals(py: Python<'_>, array: &dyn Array, text: impl Fn(usize) -> Option<String>) -> Values {
    static DECIMAL: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let decimal = DECIMAL.import(py, "decimal", "Decimal")?;
    each(py, array, |row| Ok(decimal.call1((text(row),))?.unbind()))
}

fn duration(py: Python<'_>, value: i64, per_second: i64) -> PyResult<Py<PyAny>> {
    let microseconds = value.rem_euclid(per_second) * (1_000_000_000 / per_second) / 1_000;
    let duration = TimeDelta::try_seconds(value.div_euclid(per_second));
    let duration =
        duration.and_then(|whole| whole.checked_add(&TimeDelta::microseconds(microseconds)));
    duration
        .ok_or_else(|| out_of_range("duration", value, "timedelta"))?
        .into_py_any(py)
}

fn out_of_range(what: &str, value: i64, class: &str) -> PyErr {
    ExecutionError::new_err(format!(
        "the {what} {value} is out of the range of Python's {class}: use to_arrow()"
    ))
}

fn interval(py: Python<'_>, months: i32, days: i32, nanoseconds: i64) -> PyResult<Py<PyAny>> {
    static INTERVAL: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let class = INTERVAL.import(py, "datafusion_bowtie.interval", "Interval")?;
    Ok(class.call1((months, days, nanoseconds))?.unbind())
}

/// Without a zone naive, otherwise in that zone.
fn timestamps<T: ArrowTimestampType>(
    py: Python<'_>,
    array: &ArrayRef,
    zone: Option<&str>,
) -> Values {
    let zone = zone.map(|zone| Zone::of(py, zone)).transpose()?;
    primitive::<T, _>(py, array, |value| {
        let time: NaiveDateTime =
            as_datetime::<T>(value).ok_or_else(|| out_of_range("timestamp", value, "datetime"))?;
        let time = time.into_pyobject(py)?;
        match &zone {
            None => Ok(time.into_any().unbind()),
            Some(zone) => zone.aware(&time),
        }
    })
}

struct Zone<'py> {
    utc: Bound<'py, PyTzInfo>,
    zone: Bound<'py, PyAny>,
}

impl<'py> Zone<'py> {
    /// A zone's name of the IANA database, or an offset such as `+02:00`.
    fn of(py: Python<'py>, name: &str) -> PyResult<Self> {
        let utc = PyTzInfo::utc(py)?.to_owned();
        let zone = match offset_seconds(name) {
            Some(0) => utc.clone().into_any(),
            Some(seconds) => py
                .import("datetime")?
                .getattr("timezone")?
                .call1((TimeDelta::seconds(seconds),))?,
            None if name.eq_ignore_ascii_case("utc") => utc.clone().into_any(),
            None => py.import("zoneinfo")?.getattr("ZoneInfo")?.call1((name,))?,
        };
        Ok(Self { utc, zone })
    }

    fn aware(&self, utc: &Bound<'py, PyAny>) -> PyResult<Py<PyAny>> {
        let fields = PyDict::new(utc.py());
        fields.set_item("tzinfo", &self.utc)?;
        let time = utc.call_method("replace", (), Some(&fields))?;
        Ok(time.call_method1("astimezone", (&self.zone,))?.unbind())
    }
}

/// Of `+02:00`, `-0330` or `+02`.
fn offset_seconds(name: &str) -> Option<i64> {
    let (sign, rest) = match name.as_bytes().first()? {
        b'+' => (1, &name[1..]),
        b'-' => (-1, &name[1..]),
        _ => return None,
    };
    let digits: String = rest.chars().filter(|c| *c != ':').collect();
    let number: i64 = digits.parse().ok()?;
    match digits.len() {
        2 => Some(sign * number * 3600),
        4 => Some(sign * (number / 100 * 3600 + number % 100 * 60)),
        _ => None,
    }
}

fn list<'py>(py: Python<'py>, values: &[Py<PyAny>]) -> PyResult<Py<PyAny>> {
    PyList::new(py, values)?.into_py_any(py)
}

fn lists<O: OffsetSizeTrait>(py: Python<'_>, array: &GenericListArray<O>) -> Values {
    let offsets = array.value_offsets();
    let (Some(first), Some(last)) = (offsets.first(), offsets.last()) else {
        return Ok(vec![]);
    };
    let first = first.as_usize();
    let items = values(py, &array.values().slice(first, last.as_usize() - first))?;
    each(py, array, |row| {
        list(
            py,
            &items[offsets[row].as_usize() - first..offsets[row + 1].as_usize() - first],
        )
    })
}

fn list_views<O: OffsetSizeTrait>(py: Python<'_>, array: &GenericListViewArray<O>) -> Values {
    each(py, array, |row| list(py, &values(py, &array.value(row))?))
}

fn fixed_lists(py: Python<'_>, array: &FixedSizeListArray) -> Values {
    each(py, array, |row| list(py, &values(py, &array.value(row))?))
}

fn structs(py: Python<'_>, array: &StructArray) -> Values {
    let columns: Vec<Vec<Py<PyAny>>> = array
        .columns()
        .iter()
        .map(|column| values(py, column))
        .collect::<PyResult<_>>()?;
    each(py, array, |row| {
        let fields = PyDict::new(py);
        for (name, column) in array.column_names().iter().zip(&columns) {
            fields.set_item(name, &column[row])?;
        }
        fields.into_py_any(py)
    })
}

/// A dict, since keys of a map are unique.
fn maps(py: Python<'_>, array: &MapArray) -> Values {
    let (keys, items) = (values(py, array.keys())?, values(py, array.values())?);
    let offsets = array.value_offsets();
    each(py, array, |row| {
        let entries = PyDict::new(py);
        for entry in offsets[row] as usize..offsets[row + 1] as usize {
            entries.set_item(&keys[entry], &items[entry])?;
        }
        entries.into_py_any(py)
    })
}

fn unions(py: Python<'_>, array: &UnionArray) -> Values {
    (0..array.len())
        .map(|row| {
            values(py, &array.value(row))?
                .pop()
                .ok_or_else(|| ExecutionError::new_err("a union without a value"))
        })
        .collect()
}
