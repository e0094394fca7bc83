"""Packages that only some methods need."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["pandas", "polars", "pyarrow"]


def _imported(module: str, method: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        message = f"{method}() needs {module}: pip install 'datafusion-bowtie[{module}]'"
        raise ModuleNotFoundError(message, name=module) from None


def pyarrow(method: str) -> Any:
    return _imported("pyarrow", method)


def polars(method: str) -> Any:
    return _imported("polars", method)


def pandas(method: str) -> Any:
    return _imported("pandas", method)
