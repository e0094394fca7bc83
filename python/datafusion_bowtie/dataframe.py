"""A query that runs when its rows are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from datafusion_bowtie._locations import absolute, location, option
from datafusion_bowtie._optional import pandas, polars, pyarrow
from datafusion_bowtie.explanation import PlanExplanation
from datafusion_bowtie.profile import Profile
from datafusion_bowtie.rendering import html_table, text_table

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from datafusion_bowtie._lib import Batches, Frame

__all__ = ["BatchIterator", "DataFrame"]

#: Rows that a table in a notebook or a terminal shows.
_SHOWN = 10


class DataFrame:
    """A query of a :class:`~datafusion_bowtie.Connection`. Nothing runs before rows are asked for, and each time they are, it runs again.

    Any library that reads the Arrow PyCapsule interface takes a DataFrame as it is, since it has ``__arrow_c_stream__``.

    >>> import datafusion_bowtie as bt
    >>> df = bt.connect().sql("SELECT value AS a, value * value AS b FROM range(1, 4)")
    >>> df
    ┌───────┬───────┐
    │ a     │ b     │
    │ Int64 │ Int64 │
    ├───────┼───────┤
    │     1 │     1 │
    │     2 │     4 │
    │     3 │     9 │
    └───────┴───────┘
    3 rows
    """

    __slots__ = ("__weakref__", "_frame")

    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    # What it is.

    @property
    def columns(self) -> list[str]:
        """The names of the columns.

        >>> import datafusion_bowtie as bt
        >>> bt.connect().sql("SELECT 1 AS a, 'x' AS b").columns
        ['a', 'b']
        """
        return [name for name, _ in self._frame.columns]

    @property
    def dtypes(self) -> list[str]:
        """The types of the columns, by Arrow's names.

        >>> import datafusion_bowtie as bt
        >>> bt.connect().sql("SELECT 1 AS a, 'x' AS b").dtypes
        ['Int64', 'Utf8']
        """
        return [data_type for _, data_type in self._frame.columns]

    @property
    def schema(self) -> pa.Schema:
        """Names and types as a ``pyarrow.Schema``.

        >>> import datafusion_bowtie as bt
        >>> bt.connect().sql("SELECT 1 AS a").schema.names
        ['a']
        """
        return pyarrow("schema").schema(self._frame.schema)

    def __arrow_c_schema__(self) -> object:
        return self._frame.schema.__arrow_c_schema__()

    # Rows.

    def to_arrow(self) -> pa.Table:
        """All rows as a ``pyarrow.Table``, whose memory is that of the result.

        >>> import datafusion_bowtie as bt
        >>> bt.connect().sql("SELECT 1 AS a").to_arrow().to_pylist()
        [{'a': 1}]
        """
        return pyarrow("to_arrow").table(self._frame.collect())

    def to_polars(self) -> pl.DataFrame:
        """All rows as a ``polars.DataFrame``.

        >>> import datafusion_bowtie as bt
        >>> bt.connect().sql("SELECT 1 AS a").to_polars().shape
        (1, 1)
        """
        frame: pl.DataFrame = polars("to_polars").DataFrame(self._frame.collect())
        return frame

    def to_pandas(self, **options: Any) -> pd.DataFrame:
        """All rows as a ``pandas.DataFrame``. The options are those of ``pyarrow.Table.to_pandas``.

        >>> import datafusion_bowtie as bt
        >>> bt.connect().sql("SELECT 1 AS a").to_pandas().shape
        (1, 1)
        """
        pandas("to_pandas")
        return pyarrow("to_pandas").table(self._frame.collect()).to_pandas(**options)

    def to_batches(self) -> BatchIterator:
        """The rows as an iterator of ``pyarrow.RecordBatch``. The query runs as far as batches are asked for, and ends with the iterator.

        >>> import datafusion_bowtie as bt
        >>> sum(batch.num_rows for batch in bt.connect().sql("SELECT * FROM range(0, 100000)").to_batches())
        100000
        """
        return BatchIterator(self._frame.batches())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows for a library that reads Arrow streams. Each call runs the query, as far as the stream is read."""
        return self._frame.stream(requested_schema)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows as tuples of Python's own types. It needs no other package.

        Times finer than microseconds are cut, as ``datetime`` has no more.

        >>> import datafusion_bowtie as bt
        >>> bt.connect().sql("SELECT 1 AS a, [1.5, NULL] AS b, DATE '2026-01-31' AS c").fetchall()
        [(1, [1.5, None], datetime.date(2026, 1, 31))]
        """
        return self._frame.rows()

    def count(self) -> int:
        """How many rows there are.

        >>> import datafusion_bowtie as bt
        >>> bt.connect().sql("SELECT * FROM range(0, 1000)").count()
        1000
        """
        return self._frame.count()

    def show(self, n: int = 20) -> None:
        """Prints the first ``n`` rows.

        >>> import datafusion_bowtie as bt
        >>> bt.connect().sql("SELECT * FROM range(0, 1000)").show(2)
        ┌───────┐
        │ value │
        │ Int64 │
        ├───────┤
        │     0 │
        │     1 │
        └───────┘
        2 rows, … more rows
        """
        print(text_table(self._frame.head(n)))

    def __repr__(self) -> str:
        return text_table(self._frame.head(_SHOWN))

    def _repr_html_(self) -> str:
        return html_table(self._frame.head(_SHOWN))

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """What notebooks show: both forms of one run."""
        head = self._frame.head(_SHOWN)
        return {"text/plain": text_table(head), "text/html": html_table(head)}

    # Other queries from this one.

    def filter(self, predicate: str) -> DataFrame:
        """The rows for which a predicate in SQL is true.

        >>> import datafusion_bowtie as bt
        >>> bt.connect().sql("SELECT * FROM range(0, 10)").filter("value % 4 = 1").fetchall()
        [(1,), (5,), (9,)]
        """
        return DataFrame(self._frame.filter(predicate))

    def select(self, *expressions: str) -> DataFrame:
        """Columns, or expressions in SQL. ``*`` is all columns.

        >>> import datafusion_bowtie as bt
        >>> bt.connect().sql("SELECT 2 AS a").select("*", "a * 10 AS b").fetchall()
        [(2, 20)]
        """
        return DataFrame(self._frame.select(list(expressions)))

    def sort(self, *keys: str) -> DataFrame:
        """The rows in an order. A key is an expression in SQL, which ``DESC`` and ``NULLS FIRST`` or ``NULLS LAST`` may follow.

        >>> import datafusion_bowtie as bt
        >>> bt.connect().sql("SELECT * FROM range(0, 3)").sort("value DESC").fetchall()
        [(2,), (1,), (0,)]
        """
        return DataFrame(self._frame.sort(list(keys)))

    def limit(self, n: int, offset: int = 0) -> DataFrame:
        """At most ``n`` rows, without the first ``offset``.

        >>> import datafusion_bowtie as bt
        >>> bt.connect().sql("SELECT * FROM range(0, 10)").sort("value").limit(2, offset=5).fetchall()
        [(5,), (6,)]
        """
        return DataFrame(self._frame.limit(n, offset))

    # How it runs.

    def explain(self, analyze: bool = False) -> PlanExplanation:
        """The plan: for each node where it runs, and why. Nothing runs, unless ``analyze`` asks for each node's metrics.

        >>> import datafusion_bowtie as bt
        >>> con = bt.connect(device="host")
        >>> print(str(con.sql("SELECT * FROM range(0, 3)").explain()).splitlines()[0])
        none of 1 operator runs on a device
        """
        if not analyze:
            return PlanExplanation(*self._frame.explain())
        return PlanExplanation(*self._frame.analyze())

    def profile(self, path: str | os.PathLike[str] | None = None) -> Profile:
        """Runs the query and returns where its time went. With a path the page is written there, too.

        >>> import datafusion_bowtie as bt, tempfile
        >>> path = f"{tempfile.mkdtemp()}/profile.html"
        >>> profile = bt.connect(device="host").sql("SELECT count(*) FROM range(0, 3)").profile(path)
        >>> open(path).read() == profile.html
        True
        """
        profile = Profile(*self._frame.profile())
        if path is not None:
            profile.save(path)
        return profile

    # Files.

    def write_parquet(
        self,
        path: str | os.PathLike[str],
        *,
        partition_by: Sequence[str] = (),
        single_file: bool | None = None,
        **options: Any,
    ) -> int:
        """Writes the rows as Parquet and returns their number.

        A path or URL with an extension is a file, another one a directory of files. The options are DataFusion's for Parquet, such as
        ``compression="zstd(3)"``.

        >>> import datafusion_bowtie as bt, tempfile
        >>> rows = bt.connect().sql("SELECT * FROM range(0, 1000)")
        >>> rows.write_parquet(f"{tempfile.mkdtemp()}/range.parquet", compression="zstd(3)")
        1000
        """
        return self._write(path, "parquet", options, partition_by, single_file)

    def write_csv(
        self,
        path: str | os.PathLike[str],
        *,
        partition_by: Sequence[str] = (),
        single_file: bool | None = None,
        **options: Any,
    ) -> int:
        r"""Writes the rows as CSV and returns their number.

        The options are DataFusion's for CSV, such as ``has_header`` and ``delimiter``.

        >>> import datafusion_bowtie as bt, tempfile
        >>> path = f"{tempfile.mkdtemp()}/one.csv"
        >>> bt.connect().sql("SELECT 1 AS a, 'x' AS b").write_csv(path, delimiter=";")
        1
        >>> open(path).read()
        'a;b\n1;x\n'
        """
        return self._write(path, "csv", options, partition_by, single_file)

    def write_json(
        self,
        path: str | os.PathLike[str],
        *,
        partition_by: Sequence[str] = (),
        single_file: bool | None = None,
        **options: Any,
    ) -> int:
        r"""Writes the rows as JSON, one a line, and returns their number. The options are DataFusion's for JSON, such as ``compression``.

        >>> import datafusion_bowtie as bt, tempfile
        >>> path = f"{tempfile.mkdtemp()}/one.json"
        >>> bt.connect().sql("SELECT 1 AS a, 'x' AS b").write_json(path)
        1
        >>> open(path).read()
        '{"a":1,"b":"x"}\n'
        """
        return self._write(path, "json", options, partition_by, single_file)

    def _write(
        self,
        path: str | os.PathLike[str],
        data_format: str,
        options: dict[str, Any],
        partition_by: Sequence[str],
        single_file: bool | None,
    ) -> int:
        given = {name: option(value) for name, value in options.items() if value is not None}
        # Executors of a cluster work in other directories.
        return self._frame.write(absolute(location(path)), data_format, given, list(partition_by), single_file)

    def __reduce__(self) -> NoReturn:
        message = "a DataFrame is a query of this process's connection and cannot be pickled: send its rows, such as df.to_arrow()"
        raise TypeError(message)


class BatchIterator:
    """The batches of a running query. It ends when it is dropped or closed."""

    __slots__ = ("__weakref__", "_batches", "_pyarrow")

    def __init__(self, batches: Batches) -> None:
        self._batches = batches
        self._pyarrow = pyarrow("to_batches")

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the batches.

        >>> import datafusion_bowtie as bt
        >>> bt.connect().sql("SELECT 1 AS a").to_batches().schema.names
        ['a']
        """
        return self._pyarrow.schema(self._batches.schema)

    def __iter__(self) -> BatchIterator:
        return self

    def __next__(self) -> pa.RecordBatch:
        return self._pyarrow.record_batch(next(self._batches))

    def close(self) -> None:
        """Ends the query, as the end of a ``with`` does.

        >>> import datafusion_bowtie as bt
        >>> with bt.connect().sql("SELECT * FROM range(0, 1000000000)").to_batches() as batches:
        ...     next(batches).num_rows > 0
        True
        """
        self._batches.close()

    def __enter__(self) -> BatchIterator:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        message = "a running query cannot be pickled: send its batches"
        raise TypeError(message)
