"""Tables of other libraries, imported without a copy."""

from __future__ import annotations

import contextlib
import weakref
from typing import Any

from datafusion_bowtie._lib import ImportedTable

__all__ = ["imported", "is_arrow"]

#: Libraries that never write to memory that they have handed over. pandas does: NumPy arrays are changed in place.
_IMMUTABLE = {"arro3", "polars", "pyarrow"}

#: Classes of these libraries that own their columns, unlike readers.
_OWNERS = {"DataFrame", "RecordBatch", "Table"}

#: What was imported of objects that still exist, by their identity. When one is registered again, in this connection or another one,
#: its columns are known, and those that are resident on a device are not sent again.
_alive: dict[int, tuple[weakref.ref[Any], ImportedTable]] = {}


def is_arrow(source: object) -> bool:
    """Whether an object has the Arrow PyCapsule interface."""
    return hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__")


def imported(source: Any) -> ImportedTable:
    """The table of an object with the Arrow PyCapsule interface. A reader is read to its end."""
    if not is_arrow(source):
        raise TypeError(_refusal(source))
    kind = type(source)
    immutable = kind.__module__.partition(".")[0] in _IMMUTABLE
    table = ImportedTable(source, immutable)
    if immutable and kind.__name__ in _OWNERS:
        key = id(source)
        # The object's end removes it, unless its identity has another owner by then. Some classes cannot be referred to.
        with contextlib.suppress(TypeError):
            _alive[key] = (weakref.ref(source, lambda end: _forget(key, end)), table)
    return table


def _forget(key: int, end: weakref.ref[Any]) -> None:
    kept = _alive.get(key)
    if kept is not None and kept[0] is end:
        del _alive[key]


def _refusal(source: object) -> str:
    kind = type(source)
    name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
    if kind.__name__ == "LazyFrame":
        return f"{name} has no rows yet: register its collect()"
    if name.startswith("pandas."):
        return f"{name} cannot be read: use a DataFrame of pandas 2.2 or newer"
    return f"{name} cannot be read as a table: use a table of PyArrow, Polars, pandas or DuckDB (__arrow_c_stream__), or a path or URL"
