"""Tables whose offsets, keys or views lead outside of their buffers are refused. PyArrow makes them as long as the last offset fits."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pytest

import datafusion_bowtie as bt


def offsets(*values: int, width: str = "i") -> pa.Buffer:
    return pa.py_buffer(struct.pack(f"<{len(values)}{width}", *values))


def text(kind: pa.DataType, *ends: int, width: str = "i") -> pa.Array:
    return pa.Array.from_buffers(kind, len(ends) - 1, [None, offsets(*ends, width=width), pa.py_buffer(b"abcdefgh")])


def lists(kind: pa.DataType, *ends: int, width: str = "i") -> pa.Array:
    return pa.Array.from_buffers(kind, len(ends) - 1, [None, offsets(*ends, width=width)], children=[pa.array([1, 2, 3])])


def keys(*values: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(values, pa.int32()), pa.array(["a", "b"]), safe=False)


def view(length: int, prefix: bytes, buffer: int, offset: int) -> pa.Array:
    views = pa.py_buffer(struct.pack("<i4sii", length, prefix, buffer, offset))
    return pa.Array.from_buffers(pa.string_view(), 1, [None, views, pa.py_buffer(b"a text of twenty-four B.")])


INVALID: dict[str, pa.Array] = {
    "decreasing": text(pa.string(), 0, 6, 2, 8),
    "negative": text(pa.string(), 0, -3, 2, 8),
    "behind the end": text(pa.binary(), 0, 2_000_000_000, 8),
    "large": text(pa.large_string(), 0, 6, 2, 8, width="q"),
    "large binary": text(pa.large_binary(), 0, -(2**62), 8, width="q"),
    "list": lists(pa.list_(pa.int64()), 0, 2, 1, 3),
    "list behind the end": lists(pa.list_(pa.int64()), 0, 9, 3),
    "large list": lists(pa.large_list(pa.int64()), 0, 9, 3, width="q"),
    "key behind the end": keys(0, 1, 7),
    "negative key": keys(0, -1),
    "view of no buffer": view(20, b"a te", 3, 0),
    "view behind the end": view(20, b"a te", 0, 9),
    "in a struct": pa.StructArray.from_arrays([text(pa.string(), 0, 6, 2, 8)], names=["s"]),
    "in a list": pa.ListArray.from_arrays(pa.array([0, 1, 3], pa.int32()), text(pa.string(), 0, 6, 2, 8)),
    "in a dictionary": pa.DictionaryArray.from_arrays(pa.array([0, 2], pa.int8()), text(pa.string(), 0, 6, 2, 8)),
}

VALID: dict[str, pa.Array] = {
    "text": text(pa.string(), 0, 2, 2, 8),
    "a part": text(pa.string(), 0, 2, 2, 8).slice(1, 1),
    "list": lists(pa.list_(pa.int64()), 0, 2, 2, 3),
    "no element": pa.ListArray.from_arrays(pa.array([0, 0], pa.int32()), pa.array(["abc", "d"]).slice(1, 0)),
    "key of a NULL": pa.DictionaryArray.from_arrays(pa.array([0, None, 1], pa.int32()), pa.array(["a", "b"])),
    "view": view(20, b"a te", 0, 0),
    "short view": pa.array(["a", None, ""], pa.string_view()),
    "not UTF-8": text(pa.binary(), 0, 1, 8),
}


class Stream:
    """A table of an unknown library."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("name", INVALID)
def test_invalid(con: bt.Connection, name: str) -> None:
    table = pa.table({"x": INVALID[name]})
    for source in (table, Stream(table)):
        with pytest.raises(bt.ExecutionError, match="the column 'x' is not valid Arrow data"):
            con.register("t", source)
    assert con.tables() == []


@pytest.mark.parametrize("name", VALID)
def test_valid(con: bt.Connection, name: str) -> None:
    table = pa.table({"x": VALID[name]})
    for source in (table, Stream(table)):
        con.register("t", source)
        assert con.sql("SELECT x FROM t").to_arrow()["x"].to_pylist() == table["x"].to_pylist()
