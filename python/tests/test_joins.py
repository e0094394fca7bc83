"""Joins and aggregations are the same with bowtie and without."""

from __future__ import annotations

import random

import polars as pl
import pyarrow as pa
import pytest

import datafusion_bowtie as bt

QUERIES = {
    "range": "SELECT l.k AS lk, r.k AS rk FROM l JOIN r ON l.v >= r.lo AND l.v < r.hi",
    "range beside an equality": "SELECT l.k AS lk, r.k AS rk FROM l JOIN r ON l.g = r.g AND l.v BETWEEN r.lo AND r.hi",
    "left": "SELECT l.k AS lk, r.k AS rk FROM l LEFT JOIN r ON l.v > r.lo + 990",
    "equality": "SELECT l.k AS lk, r.k AS rk, l.name AS name FROM l JOIN r ON l.name = r.name AND l.g = r.g",
    "sets": "SELECT l.k AS lk, r.k AS rk FROM l JOIN r ON array_has_all(l.tags, r.tags)",
    "similarity": "SELECT l.k AS lk, r.k AS rk FROM l JOIN r ON array_jaccard(l.tags, r.tags) >= 0.6",
    "count above a range": "SELECT l.g AS g, count(*) AS n, sum(r.k) AS s FROM l JOIN r ON l.v < r.lo GROUP BY l.g",
    "aggregation": "SELECT g, count(*) AS n, sum(v) AS s, min(name) AS m FROM l GROUP BY g",
}


def tables(rows: int) -> dict[str, pl.DataFrame]:
    make = random.Random(7)

    def side(rows: int) -> pl.DataFrame:
        lo = [make.randrange(1000) for _ in range(rows)]
        return pl.DataFrame(
            {
                "k": range(rows),
                "g": [make.randrange(5) for _ in range(rows)],
                "v": [make.randrange(1000) if make.random() > 0.05 else None for _ in range(rows)],
                "lo": lo,
                "hi": [low + make.randrange(10) for low in lo],
                "name": [f"name {make.randrange(50)}" for _ in range(rows)],
                "tags": [sorted({make.randrange(12) for _ in range(make.randrange(1, 6))}) for _ in range(rows)],
            }
        )

    return {"l": side(rows), "r": side(rows // 2)}


TABLES = tables(2000)


def ordered(table: pa.Table) -> pl.DataFrame:
    frame = pl.DataFrame(table)
    return frame.sort(frame.columns, nulls_last=True)


@pytest.mark.parametrize("name", QUERIES)
def test_results_are_the_same(con: bt.Connection, name: str) -> None:
    for table, frame in TABLES.items():
        con.register(table, frame)
    query = con.sql(QUERIES[name])
    con.set("offload", "off")
    assert "Bowtie" not in str(query.explain(analyze=True))
    expected = ordered(query.to_arrow())
    con.set("offload", "force")
    assert "Bowtie" in str(query.explain(analyze=True))
    assert ordered(query.to_arrow()).equals(expected)
    assert len(expected) > 0


def test_the_same_as_polars() -> None:
    con = bt.connect(device="host")
    for table, frame in TABLES.items():
        con.register(table, frame)
    [(count,)] = con.sql("SELECT count(*) FROM l JOIN r ON l.v >= r.lo AND l.v < r.hi").fetchall()
    left, right = TABLES["l"], TABLES["r"].rename(lambda name: f"r_{name}")
    expected = left.join_where(right, pl.col("v") >= pl.col("r_lo"), pl.col("v") < pl.col("r_hi"))
    assert count == len(expected)
