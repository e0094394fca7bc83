"""Paths, and options of formats, as the engine takes them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["absolute", "location", "locations", "option"]


def location(path: str | os.PathLike[str]) -> str:
    """A path or URL as text. ``~`` is the home directory."""
    text = os.fspath(path)
    if not isinstance(text, str):
        message = f"a path is a str or an os.PathLike of str, not {type(text).__name__}"
        raise TypeError(message)
    return os.path.expanduser(text) if text.startswith("~") else text


def absolute(location: str) -> str:
    """A path that does not depend on the working directory; URLs as they are. A slash at the end stays: it means a directory."""
    if "://" in location:
        return location
    return os.path.join(os.path.abspath(location), "") if location.endswith(("/", os.sep)) else os.path.abspath(location)


def locations(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[str]:
    """One path or several."""
    if isinstance(paths, (str, os.PathLike)):
        return [location(paths)]
    return [location(path) for path in paths]


def option(value: Any) -> str:
    """The value of an option as SQL writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
