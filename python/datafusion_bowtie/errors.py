"""The exceptions of queries. Their messages are the engine's."""

from __future__ import annotations

__all__ = [
    "ConfigurationError",
    "Error",
    "ExecutionError",
    "FileError",
    "NotSupportedError",
    "PlanError",
    "ResourcesError",
]


class Error(Exception):
    """The base of all exceptions of this package.

    >>> import datafusion_bowtie as bt
    >>> try:
    ...     bt.connect().sql("SELECT no_such_column")
    ... except bt.Error as error:
    ...     print(type(error).__name__)
    PlanError
    """


class PlanError(Error):
    """A query cannot be parsed or planned: its syntax, a name or a type is wrong."""


class ConfigurationError(Error):
    """An option does not exist, or cannot have that value."""


class ExecutionError(Error):
    """A query failed while it ran, such as by a cast or a division by zero."""


class ResourcesError(Error):
    """Memory or disk space is exhausted, and the query could not spill."""


class NotSupportedError(Error):
    """The engine does not have that feature."""


class FileError(Error, OSError):
    """A file or an object store cannot be read or written."""
