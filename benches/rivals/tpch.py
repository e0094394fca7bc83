#!/usr/bin/env python3
"""The 22 queries of TPC-H by DuckDB, beside `cargo bench --bench tpch`: same files, same queries, same cores.

    cargo bench --bench tpch -- --large --parquet target/tpch      # writes the tables, as folders of Parquet files, and measures
    pip install duckdb==2.0.0                                      # a requirement of this script; the crate depends on none
    python3 benches/rivals/tpch.py --tables target/tpch

Two ways, as in the bench: the tables loaded before (`memory`), and read from the files by each query (`parquet`). For both, `first_ms`
is the first run of a query, and `ms` the median of the others. What is timed is the query from its text to the last row.

Prints a table and writes <out>/rivals_tpch.csv: query, tables, engine, ms, runs, first_ms, rows.
"""

import argparse
import csv
import importlib.metadata
import os
import pathlib
import statistics
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLES = ["nation", "region", "part", "supplier", "partsupp", "customer", "orders", "lineitem"]


def queries(directory):
    """Name and text of each query, as the tests have them."""
    files = sorted(directory.glob("*/q??.sql"), key=lambda file: file.stem)
    return [(file.stem, file.read_text()) for file in files]


def connect(tables, from_files, threads):
    import duckdb

    connection = duckdb.connect(config={"threads": threads})
    for table in TABLES:
        kind = "VIEW" if from_files else "TABLE"
        files = tables / table / "*.parquet"
        connection.execute(f"CREATE {kind} {table} AS SELECT * FROM read_parquet('{files}')")
    return connection


def run(connection, sql):
    start = time.perf_counter()
    rows = len(connection.execute(sql).fetchall())
    return (time.perf_counter() - start) * 1e3, rows


def measure(connection, sql, repeat):
    first, rows = run(connection, sql)
    times = []
    for _ in range(repeat):
        ms, again = run(connection, sql)
        if again != rows:
            raise SystemExit(f"two runs differ: {rows} and {again} rows\n{sql}")
        times.append(ms)
    return first, statistics.median(times), rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=pathlib.Path, required=True, help="a folder of Parquet files for each table")
    parser.add_argument("--queries", type=pathlib.Path, default=ROOT / "tests" / "it" / "tpch")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("target/bench"))
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()

    engine = f"duckdb {importlib.metadata.version('duckdb')}"
    lines = []
    for tables in ("memory", "parquet"):
        connection = connect(arguments.tables, tables == "parquet", arguments.threads)
        sums = [0.0, 0.0]
        print(f"{engine}, {arguments.threads} threads, tables: {tables}\n  query    first ms       ms   rows")
        for name, sql in queries(arguments.queries):
            first, ms, rows = measure(connection, sql, arguments.repeat)
            sums = [sums[0] + first, sums[1] + ms]
            print(f"  {name}    {first:10.1f} {ms:8.1f} {rows:6}", flush=True)
            lines.append([name, tables, engine, f"{ms:.3f}", arguments.repeat, f"{first:.3f}", rows])
        print(f"  all    {sums[0]:10.1f} {sums[1]:8.1f}")
        connection.close()
    arguments.out.mkdir(parents=True, exist_ok=True)
    with open(arguments.out / "rivals_tpch.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["query", "tables", "engine", "ms", "runs", "first_ms", "rows"])
        writer.writerows(lines)


if __name__ == "__main__":
    main()
