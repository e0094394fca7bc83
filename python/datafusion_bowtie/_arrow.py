"""The Arrow PyCapsule interface: how tables come in and results go out."""

from __future__ import annotations

from typing import Protocol, TypeAlias

__all__ = ["ArrowArray", "ArrowSchema", "ArrowSource", "ArrowStream"]


class ArrowStream(Protocol):
    """A table or a reader: of PyArrow, Polars, pandas, DuckDB and others."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class ArrowArray(Protocol):
    """A batch of rows."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...


class ArrowSchema(Protocol):
    """Names and types of columns."""

    def __arrow_c_schema__(self) -> object: ...


ArrowSource: TypeAlias = ArrowStream | ArrowArray
