"""The columns of a frame that is registered again are still on the device."""

from __future__ import annotations

import re

import polars as pl
import pyarrow as pa
import pytest

import datafusion_bowtie as bt

QUERY = "SELECT count(*), sum(b.a) FROM t a JOIN t b ON a.a = b.a"


def sent(con: bt.Connection, query: str = QUERY) -> tuple[int, int]:
    """Bytes that the scans of a query gave to the device, and bytes that were there before."""
    text = str(con.sql(query).explain(analyze=True))
    scans = [line for line in text.splitlines() if "BowtieScanExec" in line]
    assert scans, text

    def total(metric: str) -> int:
        values = [re.search(rf"{metric}=([\d.]+)(?:\s*([KMG]i?)?B)?", line) for line in scans]
        units = {None: 1, "K": 1 << 10, "Ki": 1 << 10, "M": 1 << 20, "Mi": 1 << 20, "G": 1 << 30, "Gi": 1 << 30}
        return sum(int(float(found[1]) * units[found[2]]) for found in values if found)

    return total("uploaded_bytes"), total("resident_bytes")


@pytest.mark.parametrize("library", [pa.table, pl.DataFrame])
def test_the_second_query_sends_nothing(forced: bt.Connection, library: type) -> None:
    frame = library({"a": list(range(100_000))})
    forced.register("t", frame)
    uploaded, _ = sent(forced)
    assert uploaded > 0
    again, resident = sent(forced)
    assert again == 0
    assert resident > 0
    assert forced.cached().filter("\"column\" = 'a'").count() > 0


@pytest.mark.parametrize("library", [pa.table, pl.DataFrame])
def test_registered_again(forced: bt.Connection, device: str, library: type) -> None:
    frame = library({"a": list(range(100_000)), "b": [1.5] * 100_000})
    forced.register("t", frame)
    assert sent(forced)[0] > 0
    # In place of itself.
    forced.register("t", frame)
    assert sent(forced)[0] == 0
    # After it was forgotten, and in another connection.
    forced.deregister("t")
    other = bt.connect(device=device, offload="force", cache="1GB")
    other.register("t", frame)
    assert sent(other)[0] == 0


def test_columns_are_known_in_other_frames(forced: bt.Connection) -> None:
    frame = pl.DataFrame({"a": list(range(100_000))})
    forced.register("t", frame)
    assert sent(forced)[0] > 0
    wider = frame.with_columns(c=pl.lit(7))
    forced.register("t", wider)
    assert sent(forced)[0] == 0


def test_other_values_are_sent(forced: bt.Connection) -> None:
    frame = pl.DataFrame({"a": list(range(100_000))})
    forced.register("t", frame)
    [(count, total)] = forced.sql(QUERY).fetchall()
    assert (count, total) == (100_000, sum(range(100_000)))
    frame[0, "a"] = 1_000_000
    forced.register("t", frame)
    assert forced.sql(QUERY).fetchall() == [(100_000, sum(range(100_000)) + 1_000_000)]
