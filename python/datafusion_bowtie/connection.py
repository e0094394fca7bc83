"""Connections: tables, options and queries."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, NoReturn

from datafusion_bowtie._lib import Context
from datafusion_bowtie._locations import locations, option
from datafusion_bowtie.dataframe import DataFrame
from datafusion_bowtie.errors import ConfigurationError
from datafusion_bowtie.imports import imported, is_arrow

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import TypeAlias

    from typing_extensions import TypeIs

    from datafusion_bowtie._arrow import ArrowSchema, ArrowSource

    Path: TypeAlias = str | os.PathLike[str]
    Paths: TypeAlias = Path | Iterable[Path]
    Value: TypeAlias = str | int | float | bool

__all__ = ["Connection", "connect", "devices"]

_OPTION = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")


def connect(
    device: str = "auto",
    *,
    offload: str | None = None,
    device_memory: str | int | None = None,
    cache: str | int | None = None,
    threads: int | None = None,
    memory_limit: str | int | None = None,
    storage_options: Mapping[str, str] | None = None,
    options: Mapping[str, Value] | None = None,
) -> Connection:
    """A connection, with tables and options of its own. Connections of a process share its devices and their memory.

    Args:
        device: ``auto``: the first GPU that can be used, otherwise the CPU. ``host``: the CPU. ``cuda`` or ``cuda:N``: that GPU.
            ``df://host:port``: the executors of that scheduler of Ballista, each with the device that it has. Queries of files run there.
            Those of tables in this process's memory, such as a DataFrame of Polars, run in this process, on ``auto``.
        offload: ``off``: plain DataFusion. ``auto``: where a gain is expected. ``force``: whatever is supported.
        device_memory: The most memory on the device, such as ``"8GB"``.
        cache: The columns that stay on the device between queries: ``off``, ``auto``, or their size.
        threads: How many parts of a query DataFusion runs at a time, and of the files that it reads. By default as many as this machine
            has cores, and 16 on a scheduler's executors.
        memory_limit: The most host memory of DataFusion's operators, such as ``"16GB"``. Beyond it they spill to disk.
        storage_options: Settings of object stores that precede the environment's, such as ``{"aws_region": "eu-central-1"}``. A scheduler
            and its executors have those of their own environments.
        options: Other options, as by :meth:`Connection.set`.

    >>> import datafusion_bowtie as bt
    >>> con = bt.connect(device="host", offload="force", options={"datafusion.execution.batch_size": 4096})
    >>> con.get("offload"), con.get("datafusion.execution.batch_size")
    ('force', '4096')
    """
    limit = None if memory_limit is None else str(memory_limit)
    scheduler = device if (device or "").startswith("df://") else None
    connection = Connection(Context(scheduler, threads, limit, dict(storage_options or {})))
    named = {"device": None if scheduler else device, "offload": offload, "device_memory": device_memory, "cache": cache, **(options or {})}
    for name, value in named.items():
        if value is not None:
            connection.set(name, value)
    return connection


def devices() -> DataFrame:
    """The devices of this machine: the CPU and each GPU, or why there is none.

    >>> import datafusion_bowtie as bt
    >>> bt.devices().select("device").limit(1).fetchall()
    [('host',)]
    """
    return Connection(Context(None, None, None, {})).devices()


class Connection:
    """Tables, options and queries. :func:`connect` makes one. Threads may share it."""

    __slots__ = ("__weakref__", "_context")

    def __init__(self, context: Context) -> None:
        self._context = context

    # Queries.

    def sql(self, query: str, /, *positional: Any, **named: Any) -> DataFrame:
        """A query in SQL. It runs when its rows are asked for.

        A statement such as ``INSERT``, ``COPY`` or ``CREATE TABLE`` runs immediately. Values for ``$1``, ``$2``, … follow the
        query, and values for ``$name`` are given by name. ``FROM`` takes registered tables, and paths and URLs of files in quotes.
        Variables of Python are not looked up.

        >>> import datafusion_bowtie as bt
        >>> con = bt.connect()
        >>> con.sql("SELECT $1 + 1 AS a", 41).fetchall()
        [(42,)]
        >>> con.sql("SELECT value FROM range(0, 10) WHERE value > $least", least=7).fetchall()
        [(8,), (9,)]
        """
        return DataFrame(self._context.sql(query, positional, named))

    def table(self, name: str) -> DataFrame:
        """A registered table.

        >>> import datafusion_bowtie as bt
        >>> con = bt.connect()
        >>> _ = con.sql("CREATE TABLE t AS SELECT 1 AS a")
        >>> con.table("t").columns
        ['a']
        """
        return DataFrame(self._context.table(name))

    # Tables.

    def register(
        self,
        name: str,
        source: ArrowSource | DataFrame | Paths,
        *,
        format: str | None = None,
        schema: ArrowSchema | None = None,
        **options: Any,
    ) -> None:
        """Gives a table a name for SQL, in place of another one of that name.

        The source is one of

        - an object with ``__arrow_c_stream__`` or ``__arrow_c_array__``: a table, batch or reader of PyArrow, a DataFrame of Polars or of
          pandas 2.2 or newer, a relation of DuckDB. Its memory is used as it is, so it must not be changed in place; register it again
          after a change. A reader is read to its end.
        - a path or URL, or several: files of the formats Parquet, CSV, JSON, Avro and Arrow, compressed or not, a directory of them, or a
          pattern such as ``events/*.parquet``. Without ``format`` the extension tells it. ``options`` are those of the format, such as
          ``has_header=False`` and ``delimiter=";"`` of CSV, and ``schema`` is what the files have, if it is not to be inferred.
        - a :class:`DataFrame` of this connection: the name stands for the query.

        >>> import datafusion_bowtie as bt, pyarrow as pa
        >>> con = bt.connect()
        >>> con.register("numbers", pa.table({"a": [1, 2, 3]}))
        >>> con.sql("SELECT sum(a) FROM numbers").fetchall()
        [(6,)]
        """
        if isinstance(source, DataFrame) and self._context.owns(source._frame):
            _no_options(source, format, schema, options)
            self._context.register_frame(name, source._frame)
        elif _is_path(source):
            self._context.register_files(name, locations(source), format, _format_options(options), schema)
        else:
            _no_options(source, format, schema, options)
            self._context.register_imported(name, imported(source))

    def deregister(self, name: str) -> None:
        """Forgets a table.

        >>> import datafusion_bowtie as bt
        >>> con = bt.connect()
        >>> _ = con.sql("CREATE TABLE t AS SELECT 1 AS a")
        >>> con.deregister("t")
        >>> con.tables()
        []
        """
        self._context.deregister(name)

    def tables(self) -> list[str]:
        """The names of the tables.

        >>> import datafusion_bowtie as bt
        >>> con = bt.connect()
        >>> con.register("numbers", con.sql("SELECT * FROM range(0, 3)"))
        >>> con.tables()
        ['numbers']
        """
        return self._context.tables()

    def from_arrow(self, source: ArrowSource) -> DataFrame:
        """The rows of an object with ``__arrow_c_stream__`` or ``__arrow_c_array__``, as :meth:`register` takes it, without a name.

        >>> import datafusion_bowtie as bt, pyarrow as pa
        >>> bt.connect().from_arrow(pa.table({"a": [1, 2, 3]})).filter("a > 1").fetchall()
        [(2,), (3,)]
        """
        return DataFrame(self._context.read_imported(imported(source)))

    def read_parquet(self, path: Paths, *, schema: ArrowSchema | None = None, **options: Any) -> DataFrame:
        """The rows of Parquet files. The options are DataFusion's for Parquet, such as ``pushdown_filters``.

        >>> import datafusion_bowtie as bt, tempfile
        >>> con, folder = bt.connect(), tempfile.mkdtemp()
        >>> con.sql("SELECT 1 AS a").write_parquet(f"{folder}/one.parquet")
        1
        >>> con.read_parquet(f"{folder}/one.parquet").fetchall()
        [(1,)]
        """
        return self._read(path, "parquet", schema, options)

    def read_csv(
        self,
        path: Paths,
        *,
        has_header: bool = True,
        delimiter: str | None = None,
        quote: str | None = None,
        escape: str | None = None,
        comment: str | None = None,
        compression: str | None = None,
        newlines_in_values: bool | None = None,
        truncated_rows: bool | None = None,
        schema_infer_max_rec: int | None = None,
        schema: ArrowSchema | None = None,
        **options: Any,
    ) -> DataFrame:
        r"""The rows of CSV files.

        Args:
            path: A path or URL, or several; a directory, or a pattern.
            has_header: Whether the first line has the columns' names.
            delimiter: Between values; by default a comma, and in ``.tsv`` a tab.
            quote: Around values; by default ``"``.
            escape: Before a quote within a value; by default quotes are doubled.
            comment: A character with which lines begin that are left out.
            compression: ``gzip``, ``bzip2``, ``xz`` or ``zstd``; by default by the extension.
            newlines_in_values: Whether quoted values may have several lines.
            truncated_rows: Whether values that are missing at the end of a line are NULL.
            schema_infer_max_rec: How many rows tell the types; by default 1000.
            schema: The columns' names and types, if they are not to be inferred.
            **options: Others of DataFusion's for CSV.

        >>> import datafusion_bowtie as bt, tempfile
        >>> from pathlib import Path
        >>> path = Path(tempfile.mkdtemp()) / "prices.csv"
        >>> _ = path.write_text("sku;price\n7;1.5\n")
        >>> bt.connect().read_csv(path, delimiter=";").fetchall()
        [(7, 1.5)]
        """
        named = {
            "has_header": has_header,
            "delimiter": delimiter,
            "quote": quote,
            "escape": escape,
            "comment": comment,
            "compression": compression,
            "newlines_in_values": newlines_in_values,
            "truncated_rows": truncated_rows,
            "schema_infer_max_rec": schema_infer_max_rec,
        }
        return self._read(path, "csv", schema, {**named, **options})

    def read_json(
        self,
        path: Paths,
        *,
        newline_delimited: bool = True,
        compression: str | None = None,
        schema: ArrowSchema | None = None,
        **options: Any,
    ) -> DataFrame:
        """The rows of JSON files: an object on each line, or with ``newline_delimited=False`` one array of objects.

        >>> import datafusion_bowtie as bt, tempfile
        >>> con, folder = bt.connect(), tempfile.mkdtemp()
        >>> con.sql("SELECT 1 AS a").write_json(f"{folder}/one.json")
        1
        >>> con.read_json(f"{folder}/one.json").fetchall()
        [(1,)]
        """
        named = {"newline_delimited": newline_delimited, "compression": compression}
        return self._read(path, "json", schema, {**named, **options})

    def _read(self, path: Paths, data_format: str, schema: ArrowSchema | None, options: dict[str, Any]) -> DataFrame:
        return DataFrame(self._context.read_files(locations(path), data_format, _format_options(options), schema))

    # Options and devices.

    def set(self, name: str, value: Value) -> None:
        """Sets an option of bowtie, without ``bowtie.`` or with it, or of DataFusion by its whole name.

        It holds from the next run of a query on.

        >>> import datafusion_bowtie as bt
        >>> con = bt.connect()
        >>> con.set("offload", "off")
        >>> con.set("datafusion.execution.collect_statistics", False)
        >>> con.get("offload"), con.get("datafusion.execution.collect_statistics")
        ('off', 'false')
        """
        self._context.set(_option_name(name), option(value))

    def get(self, name: str) -> str | None:
        """The value of an option, or None if it has none.

        >>> import datafusion_bowtie as bt
        >>> bt.connect().get("bowtie.offload")
        'auto'
        """
        return self._context.get(_option_name(name).lower())

    def devices(self) -> DataFrame:
        """The devices of this machine: the CPU and each GPU, or why there is none.

        >>> import datafusion_bowtie as bt
        >>> bt.connect().devices().filter("device = 'host'").select("device", "usable").fetchall()
        [('host', True)]
        """
        return self.sql("SELECT * FROM bowtie_devices()")

    def cached(self) -> DataFrame:
        """The columns that stay on devices between queries.

        >>> import datafusion_bowtie as bt
        >>> bt.connect().cached().columns[:3]
        ['device', 'table', 'column']
        """
        return self.sql("SELECT * FROM bowtie_cache()")

    def stats(self) -> DataFrame:
        """Counters of this process since it began: queries, transfers, evictions and others.

        >>> import datafusion_bowtie as bt
        >>> bt.connect().stats().filter("counter = 'retries'").select("counter", "unit").fetchall()
        [('retries', 'count')]
        """
        return self.sql("SELECT * FROM bowtie_stats()")

    def __repr__(self) -> str:
        tables = len(self.tables())
        return f"<Connection: device {self.get('device')}, offload {self.get('offload')}, {tables} table{'' if tables == 1 else 's'}>"

    def __reduce__(self) -> NoReturn:
        message = "a connection belongs to its process and cannot be pickled: connect in each process"
        raise TypeError(message)


def _option_name(name: str) -> str:
    if not _OPTION.fullmatch(name):
        message = f"there is no option {name!r}: the name of an option has letters, digits, underscores and dots"
        raise ConfigurationError(message)
    return name if name.lower().startswith(("bowtie.", "datafusion.")) else f"bowtie.{name}"


def _format_options(options: dict[str, Any]) -> dict[str, str]:
    return {name: option(value) for name, value in options.items() if value is not None}


def _is_path(source: object) -> TypeIs[Paths]:
    if isinstance(source, (list, tuple)):
        return all(isinstance(item, (str, os.PathLike)) for item in source)
    return isinstance(source, (str, os.PathLike)) and not is_arrow(source)


def _no_options(source: object, data_format: str | None, schema: object, options: dict[str, Any]) -> None:
    given = [*options, *(["format"] if data_format is not None else []), *(["schema"] if schema is not None else [])]
    if given:
        message = f"{', '.join(given)}: options are for files, and the source is a {type(source).__name__}"
        raise TypeError(message)
