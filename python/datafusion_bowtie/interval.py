"""Intervals of SQL as Python objects."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Interval"]


class Interval(NamedTuple):
    """An interval of SQL, whose months and days have no fixed length.

    >>> import datafusion_bowtie as bt
    >>> bt.connect().sql("SELECT INTERVAL '1 month 2 days 3 seconds' AS i").fetchall()
    [(Interval(months=1, days=2, nanoseconds=3000000000),)]
    """

    months: int
    days: int
    nanoseconds: int
