"""Tables of other libraries, imported where they are."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import datafusion_bowtie as bt

TABLE = pa.table({"a": [1, 2, 3], "b": ["x", None, "z"]})
ROWS = [(1, "x"), (2, None), (3, "z")]


def rows(con: bt.Connection) -> list[tuple[object, ...]]:
    return con.sql("SELECT a, b FROM t ORDER BY a").fetchall()


def addresses(table: pa.Table, column: str) -> list[int]:
    return [buffer.address for chunk in table[column].chunks for buffer in chunk.buffers() if buffer is not None]


@pytest.mark.parametrize(
    "source",
    [
        TABLE,
        pa.concat_tables([TABLE.slice(0, 1), TABLE.slice(1)]),
        TABLE.to_batches()[0],
        TABLE.combine_chunks().to_struct_array().combine_chunks(),
        pl.from_arrow(TABLE),
        TABLE.to_pandas(),
        TABLE.to_pandas(types_mapper=pd.ArrowDtype),
    ],
    ids=["table", "chunks", "batch", "struct", "polars", "pandas", "pandas-arrow"],
)
def test_sources(con: bt.Connection, source: pa.Table) -> None:
    con.register("t", source)
    assert rows(con) == ROWS
    assert con.from_arrow(source).count() == 3


def test_duckdb_relations(con: bt.Connection) -> None:
    duck = duckdb.connect()
    con.register("t", duck.sql("SELECT * FROM (VALUES (1, 'x'), (2, NULL), (3, 'z')) v(a, b)"))
    assert rows(con) == ROWS
    # And back: DuckDB reads a DataFrame by the name of its variable.
    frame = con.sql("SELECT a * 10 AS a FROM t")
    assert duck.sql("SELECT sum(a) FROM frame").fetchall() == [(60,)]
    assert frame.count() == 3


def test_readers_are_read_to_their_end(con: bt.Connection) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield from TABLE.to_batches(max_chunksize=1)

    con.register("t", pa.RecordBatchReader.from_batches(TABLE.schema, batches()))
    assert rows(con) == ROWS
    assert rows(con) == ROWS


def test_readers_that_fail(con: bt.Connection) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield TABLE.to_batches()[0]
        raise RuntimeError("the disk is on fire")

    with pytest.raises(bt.ExecutionError, match="the disk is on fire"):
        con.register("t", pa.RecordBatchReader.from_batches(TABLE.schema, batches()))


def test_results_are_sources(con: bt.Connection) -> None:
    other = bt.connect(device="host")
    con.register("t", other.sql("SELECT * FROM (VALUES (1, 'x'), (2, NULL), (3, 'z')) v(a, b)"))
    assert rows(con) == ROWS
    con.register("view", con.sql("SELECT a + 1 AS a FROM t"))
    assert con.sql("SELECT max(a) FROM view").fetchall() == [(4,)]
    assert pl.DataFrame(con.table("t")).shape == (3, 2)
    assert pa.table(con.table("t")).num_rows == 3
    assert pd.DataFrame.from_arrow(con.table("t")).shape == (3, 2)


def test_empty_tables(con: bt.Connection) -> None:
    con.register("t", TABLE.slice(0, 0))
    assert rows(con) == []
    assert con.sql("SELECT * FROM t").to_arrow().schema == TABLE.schema
    assert con.sql("SELECT * FROM t").to_polars().shape == (0, 2)


def test_names_are_those_of_sql(con: bt.Connection) -> None:
    con.register("Orders", TABLE)
    assert con.sql("SELECT count(*) FROM ORDERS").fetchall() == [(3,)]
    con.register('"Orders"', TABLE.slice(1))
    assert con.sql('SELECT count(*) FROM "Orders"').fetchall() == [(2,)]
    assert con.tables() == ["Orders", "orders"]
    con.register("orders", TABLE.slice(2))
    assert con.sql("SELECT count(*) FROM orders").fetchall() == [(1,)]
    con.deregister("orders")
    with pytest.raises(bt.PlanError, match="there is no table 'orders'"):
        con.deregister("orders")


@pytest.mark.parametrize("source", [TABLE, pl.from_arrow(TABLE)], ids=["pyarrow", "polars"])
def test_buffers_are_used_as_they_are(con: bt.Connection, source: pa.Table) -> None:
    con.register("t", source)
    result = con.sql("SELECT a FROM t").to_arrow()
    assert addresses(result, "a") == addresses(pa.table(source), "a")


def test_a_frame_that_changed_has_its_new_values(con: bt.Connection) -> None:
    frame = pl.DataFrame({"a": [1, 2, 3]})
    con.register("t", frame)
    frame[0, "a"] = 10
    assert con.sql("SELECT a FROM t").fetchall() == [(1,), (2,), (3,)]
    con.register("t", frame)
    assert con.sql("SELECT a FROM t").fetchall() == [(10,), (2,), (3,)]

    pandas = pd.DataFrame({"a": [1, 2, 3]})
    con.register("t", pandas)
    pandas.loc[0, "a"] = 10
    con.register("t", pandas)
    assert con.sql("SELECT a FROM t").fetchall() == [(10,), (2,), (3,)]


def test_imports_end_with_their_frames(con: bt.Connection) -> None:
    from datafusion_bowtie import imports

    before = len(imports._alive)
    frame = pl.DataFrame({"a": [1, 2, 3]})
    con.register("t", frame)
    con.register("u", frame)
    assert len(imports._alive) == before + 1
    del frame
    gc.collect()
    assert len(imports._alive) == before
    assert con.sql("SELECT sum(a) FROM t").fetchall() == [(6,)]


def test_memory_is_given_back(con: bt.Connection) -> None:
    pool = pa.total_allocated_bytes()
    table = pa.table({"a": pa.array(range(1_000_000), pa.int64())})
    con.register("t", table)
    con.deregister("t")
    del table
    gc.collect()
    assert pa.total_allocated_bytes() < pool + 1_000_000


class NotATable:
    pass


class BrokenStream:
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        raise RuntimeError("no stream today")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (NotATable(), "NotATable cannot be read as a table"),
        ({"a": [1]}, "dict cannot be read as a table"),
        (pl.LazyFrame({"a": [1]}), r"LazyFrame has no rows yet: register its collect\(\)"),
        (pa.array([1, 2]), "is not a table of Arrow columns"),
        (pl.Series([1, 2]), "is not a table of Arrow columns"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_objects_that_are_no_tables(con: bt.Connection, source: pa.Table, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        con.register("t", source)


def test_errors_of_a_source_are_its_own(con: bt.Connection) -> None:
    with pytest.raises(RuntimeError, match="no stream today"):
        con.register("t", BrokenStream())


def test_options_are_for_files(con: bt.Connection) -> None:
    with pytest.raises(TypeError, match="has_header, format: options are for files, and the source is a Table"):
        con.register("t", TABLE, format="csv", has_header=True)


def test_variables_are_not_looked_up(con: bt.Connection) -> None:
    t = TABLE
    assert t.num_rows == 3
    with pytest.raises(bt.PlanError, match=r"table 'datafusion\.public\.t' not found"):
        con.sql("SELECT * FROM t")
