"""Every type that Arrow and DataFusion share comes back as it went in."""

from __future__ import annotations

import datetime as dt
import decimal
from decimal import Decimal
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import datafusion_bowtie as bt

UTC = dt.timezone.utc
BERLIN = "Europe/Berlin"

COLUMNS: dict[str, pa.Array] = {
    **{str(t): pa.array([1, None, 3], t) for t in [pa.int8(), pa.int16(), pa.int32(), pa.int64()]},
    **{str(t): pa.array([1, None, 3], t) for t in [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]},
    "halffloat": pa.array([1.5, None, -2.0], pa.float16()),
    "float": pa.array([1.5, None, float("inf")], pa.float32()),
    "double": pa.array([1.5, None, -0.0], pa.float64()),
    "bool": pa.array([True, None, False]),
    "decimal128": pa.array([Decimal("1.23"), None, Decimal("-99999.99")], pa.decimal128(20, 2)),
    "decimal256": pa.array([Decimal("1.23"), None, Decimal("-99999.99")], pa.decimal256(50, 2)),
    "string": pa.array(["a", None, "žluťoučký ⋈"]),
    "large_string": pa.array(["a", None, ""], pa.large_string()),
    "string_view": pa.array(["short", None, "longer than twelve bytes"], pa.string_view()),
    "binary": pa.array([b"\x00\xff", None, b""]),
    "large_binary": pa.array([b"\x00", None, b""], pa.large_binary()),
    "binary_view": pa.array([b"short", None, b"longer than twelve bytes"], pa.binary_view()),
    "fixed_binary": pa.array([b"abc", None, b"def"], pa.binary(3)),
    "date32": pa.array([dt.date(1970, 1, 1), None, dt.date(2026, 2, 28)]),
    "date64": pa.array([dt.date(1970, 1, 1), None, dt.date(2026, 2, 28)], pa.date64()),
    "time32": pa.array([dt.time(1, 2, 3), None, dt.time(23, 59, 59)], pa.time32("s")),
    "time64": pa.array([dt.time(1, 2, 3, 4), None, dt.time(23, 59, 59, 999999)], pa.time64("us")),
    **{
        f"timestamp_{u}": pa.array([dt.datetime(2026, 1, 2, 3, 4, 5), None, dt.datetime(1900, 1, 1)], pa.timestamp(u))
        for u in ["s", "ms", "us", "ns"]
    },
    "timestamp_utc": pa.array(
        [dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), None, dt.datetime(1900, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC")
    ),
    "timestamp_zone": pa.array(
        [dt.datetime(2026, 7, 2, 3, 4, 5, tzinfo=UTC), None, dt.datetime(2026, 1, 1, tzinfo=UTC)], pa.timestamp("ms", BERLIN)
    ),
    "timestamp_offset": pa.array([dt.datetime(2026, 7, 2, 3, 4, 5, tzinfo=UTC), None, None], pa.timestamp("us", "+02:30")),
    "duration": pa.array([dt.timedelta(days=1, microseconds=5), None, dt.timedelta(seconds=-1)], pa.duration("us")),
    "interval": pa.array([pa.MonthDayNano([1, 2, 3]), None, pa.MonthDayNano([0, -1, 0])]),
    "list": pa.array([[1, None, 3], None, []], pa.list_(pa.int64())),
    "large_list": pa.array([["a"], None, []], pa.large_list(pa.string())),
    "fixed_list": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int32(), 2)),
    "struct": pa.array([{"x": 1, "y": "a"}, None, {"x": None, "y": "b"}]),
    "nested": pa.array([[{"x": [1.5]}], None, []], pa.list_(pa.struct([("x", pa.list_(pa.float64()))]))),
    "map": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64())),
    "dictionary": pa.array(["a", None, "b"]).dictionary_encode(),
    "null": pa.nulls(3),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_come_back(con: bt.Connection, name: str) -> None:
    table = pa.table({"c": COLUMNS[name], "n": pa.array([1, 2, 3])})
    con.register("t", table)
    assert con.sql("SELECT c FROM t ORDER BY n").to_arrow().combine_chunks().equals(table.select(["c"]))


@pytest.mark.parametrize("name", COLUMNS)
def test_values_of_python(con: bt.Connection, name: str) -> None:
    column = COLUMNS[name]
    con.register("t", pa.table({"c": column, "n": pa.array([1, 2, 3])}))
    values = [value for (value,) in con.sql("SELECT c FROM t ORDER BY n").fetchall()]
    expected: list[Any] = column.to_pylist(maps_as_pydicts="strict")
    if name == "interval":
        expected = [None if value is None else bt.Interval(*value) for value in expected]
    if name == "timestamp_ns":
        # PyArrow gives what pandas has for it.
        expected = [None if value is None else value.to_pydatetime() for value in expected]
    assert values == expected
    assert [type(value) for value in values] == [type(value) for value in expected]


def test_zones_of_python(con: bt.Connection) -> None:
    con.register("t", pa.table({"berlin": COLUMNS["timestamp_zone"], "offset": COLUMNS["timestamp_offset"]}))
    (berlin, offset), *_ = con.sql("SELECT * FROM t LIMIT 1").fetchall()
    assert berlin.isoformat() == "2026-07-02T05:04:05+02:00"
    assert str(berlin.tzinfo) == BERLIN
    assert offset.isoformat() == "2026-07-02T05:34:05+02:30"


def test_times_finer_than_microseconds_are_cut(con: bt.Connection) -> None:
    con.register("t", pa.table({"t": pa.array([1_999, -1], pa.timestamp("ns")), "d": pa.array([1_999, -1], pa.duration("ns"))}))
    epoch, microsecond = dt.datetime(1970, 1, 1), dt.timedelta(microseconds=1)
    assert con.sql("SELECT * FROM t").fetchall() == [(epoch + microsecond, microsecond), (epoch - microsecond, -microsecond)]


def test_timestamps_out_of_range(con: bt.Connection) -> None:
    con.register("t", pa.table({"t": pa.array([2**62], pa.timestamp("s"))}))
    message = r"the timestamp 4611686018427387904 is out of the range of Python's " r"datetime: use to_arrow\(\)"
    with pytest.raises(bt.ExecutionError, match=message):
        con.sql("SELECT t FROM t").fetchall()
    # Python itself has years up to 9999.
    con.register("t", pa.table({"t": pa.array([253_402_300_800], pa.timestamp("s"))}))
    with pytest.raises(ValueError, match="year"):
        con.sql("SELECT t FROM t").fetchall()


@pytest.mark.parametrize(
    "values",
    [
        pl.Series("c", [1, None, 3], pl.Int16),
        pl.Series("c", ["a", None, "longer than twelve bytes"]),
        pl.Series("c", ["a", None, "b"], pl.Categorical),
        pl.Series("c", ["a", None, "b"], pl.Enum(["a", "b"])),
        pl.Series("c", [[1], None, []], pl.List(pl.Int64)),
        pl.Series("c", [{"x": 1}, None, {"x": None}], pl.Struct({"x": pl.Int64})),
        pl.Series("c", [dt.datetime(2026, 1, 1), None, None], pl.Datetime("ns", BERLIN)),
        pl.Series("c", [dt.timedelta(1), None, None], pl.Duration("ms")),
        pl.Series("c", [Decimal("1.5"), None, Decimal(2)], pl.Decimal(10, 2)),
        pl.Series("c", [dt.time(1), None, None], pl.Time),
        pl.Series("c", [b"a", None, b""], pl.Binary),
        pl.Series("c", [True, None, False]),
    ],
    ids=lambda series: str(series.dtype),
)
def test_polars_comes_back(con: bt.Connection, values: pl.Series) -> None:
    frame = pl.DataFrame({"c": values, "n": [1, 2, 3]})
    con.register("t", frame)
    result = con.sql("SELECT c FROM t ORDER BY n").to_polars().to_series()
    assert result.cast(pl.String if values.dtype in (pl.Categorical, pl.Enum) else values.dtype).to_list() == values.to_list()


PARAMETERS: list[Any] = [
    None,
    True,
    -5,
    2**63,
    1.5,
    "it's",
    b"\x00\xff",
    Decimal("-12.340"),
    Decimal("1E+3"),
    dt.date(2026, 1, 31),
    dt.time(1, 2, 3, 4),
    dt.datetime(2026, 1, 31, 1, 2, 3, 4),
    dt.datetime(2026, 1, 31, 1, 2, 3, 4, tzinfo=UTC),
    dt.timedelta(days=-1, microseconds=7),
    [1, None, 3],
    ["a"],
]


@pytest.mark.parametrize("value", PARAMETERS, ids=repr)
def test_parameters(con: bt.Connection, value: Any) -> None:
    assert con.sql("SELECT $1 AS v", value).fetchall() == [(value,)]
    assert con.sql("SELECT $v AS v", v=value).fetchall() == [(value,)]


def test_parameters_of_numpy_and_pyarrow(con: bt.Connection) -> None:
    np = pytest.importorskip("numpy")
    assert con.sql("SELECT $1 AS a, $2 AS b", np.int32(5), pa.scalar("x")).fetchall() == [(5, "x")]


def test_parameters_with_a_zone_are_in_utc(con: bt.Connection) -> None:
    zone = dt.timezone(dt.timedelta(hours=2))
    value = dt.datetime(2026, 1, 31, 12, tzinfo=zone)
    [(result,)] = con.sql("SELECT $1 AS v", value).fetchall()
    assert result == value
    assert result.utcoffset() == dt.timedelta(0)


def test_parameters_that_do_not_fit(con: bt.Connection) -> None:
    with pytest.raises(TypeError, match="a parameter cannot be of type object"):
        con.sql("SELECT $1", object())
    with pytest.raises(TypeError, match=r"a query takes parameters by position \(\$1\) or by name \(\$name\), not both"):
        con.sql("SELECT $1, $a", 1, a=2)
    with pytest.raises(OverflowError, match="too large"):
        con.sql("SELECT $1", 2**64)
    with pytest.raises(TypeError, match="several types"):
        con.sql("SELECT $1", [1, b"x", dt.date(2026, 1, 1)])
    with pytest.raises(TypeError, match="several types"):
        con.sql("SELECT $1", [True, 2])


def test_lists_of_numbers_keep_their_values(con: bt.Connection) -> None:
    one, two = decimal.Decimal("1"), decimal.Decimal("2.55")
    for given, expected in [([1, 2.5], [1.0, 2.5]), ([one, two], [one, two]), ([None, two], [None, two])]:
        assert con.sql("SELECT $1 AS l", given).fetchall() == [(expected,)]
