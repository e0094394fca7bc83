#!/usr/bin/env python3
"""Theta joins by DuckDB and Polars, beside `cargo bench --bench theta`: same tables, same queries, same cores.

    cargo bench --bench theta -- --export target/bench/tables     # the tables, as Parquet files
    pip install duckdb==2.0.0 polars==2.1.0 pyarrow==26.0.1       # requirements; the crate depends on none of them
    python3 scripts/rivals_theta.py --tables target/bench/tables

`--generate` makes the tables by the bench's recipes first (needs numpy==2.4.6; other rows than the bench's own).

What is timed is what the bench times: from the query's text, or its expression, to the last row of the result, with the
tables in memory already; loading is left out. One untimed run, then the median of k; a first run of three seconds or more
counts by itself. Each engine runs each case in a process of its own, with a time limit, so that neither a quadratic
plan nor a lack of memory ends the others. Engines must agree on rows and sums, or the script fails.

Prints a table and writes <out>/rivals_theta.csv, with the columns of the bench's theta.csv.
"""

import argparse
import csv
import datetime
import multiprocessing
import os
import pathlib
import resource
import statistics
import sys
import time

LONG_SECONDS = 3.0
KEYS = 100
ENGINES = ["duckdb", "polars", "polars-streaming"]


class Case:
    """One query at one size. `keyed`: an equality key leaves one pair in KEYS. `total`: a result column to add up."""

    def __init__(self, name, size, left, right, data, sql, polars, selectivity="", keyed=False, total=None):
        self.name, self.size, self.selectivity = name, size, selectivity
        prefix = "-".join(part for part in (data, size, selectivity) if part)
        self.tables = {table: f"{prefix}-{table}.parquet" for table in TABLES[data]}
        self.sql, self.polars, self.total = sql, polars, total
        self.pairs = left * right // (KEYS if keyed else 1)
        self.input_rows = left if len(self.tables) == 1 else left + right

    def label(self):
        return "/".join(part for part in (self.name, self.size, self.selectivity) if part)


TABLES = {
    "relations": ["r", "s"],
    "employees": ["employees"],
    "band": ["readings", "events"],
    "overlap": ["a", "b"],
    "overlap-key": ["a", "b"],
}


def cases():
    listed = [
        Case(
            "sum", "50Kx45K", 50_000, 45_000, "relations",
            "SELECT SUM(s.x) FROM r JOIN s ON r.a > s.a",
            polars_sum, selectivity="0.5", total=0,
        )
    ]
    for size, rows in (("100K", 100_000), ("1M", 1_000_000)):
        listed += [
            Case(
                "employees", size, rows, rows, "employees",
                "SELECT r.id, s.id FROM employees r JOIN employees s ON r.salary < s.salary AND r.tax > s.tax",
                polars_employees,
            ),
            Case(
                "band-count", size, rows, rows, "band",
                "SELECT r.id, COUNT(*) FROM readings r JOIN events e ON e.t BETWEEN r.t - 50 AND r.t + 50 GROUP BY r.id",
                polars_band_count, total=1,
            ),
            Case(
                "band-rows", size, rows, rows, "band",
                "SELECT r.id, e.id FROM readings r JOIN events e ON e.t BETWEEN r.t - 50 AND r.t + 50",
                polars_band_rows,
            ),
            Case(
                "overlap", size, rows, rows, "overlap",
                "SELECT a.id, b.id FROM a JOIN b ON a.lo <= b.hi AND b.lo <= a.hi",
                polars_overlap,
            ),
            Case(
                "overlap-key", size, rows, rows, "overlap-key",
                "SELECT a.id, b.id FROM a JOIN b ON a.k = b.k AND a.lo <= b.hi AND b.lo <= a.hi",
                polars_overlap_key, keyed=True,
            ),
        ]
    return listed


# The queries as Polars says them. `t` maps a table's name to its lazy frame.

def polars_sum(pl, t):
    # Polars adds 32-bit integers up in 32 bits, and wraps around; SQL's SUM does not.
    joined = t["r"].join_where(t["s"], pl.col("a") > pl.col("a_right"))
    return joined.select(pl.col("x_right").cast(pl.Int64).sum())


def polars_employees(pl, t):
    r, s = t["employees"], t["employees"]
    condition = (pl.col("salary") < pl.col("salary_right")) & (pl.col("tax") > pl.col("tax_right"))
    return r.join_where(s, condition).select("id", "id_right")


def polars_band(pl, t):
    readings = t["readings"].with_columns(low=pl.col("t") - 50, high=pl.col("t") + 50)
    return readings.join_where(t["events"], pl.col("t_right") >= pl.col("low"), pl.col("t_right") <= pl.col("high"))


def polars_band_rows(pl, t):
    return polars_band(pl, t).select("id", "id_right")


def polars_band_count(pl, t):
    return polars_band(pl, t).group_by("id").agg(pl.len().cast(pl.Int64))


def polars_overlap(pl, t):
    met = [pl.col("lo") <= pl.col("hi_right"), pl.col("lo_right") <= pl.col("hi")]
    return t["a"].join_where(t["b"], *met).select("id", "id_right")


def polars_overlap_key(pl, t):
    met = [pl.col("lo") <= pl.col("hi_right"), pl.col("lo_right") <= pl.col("hi")]
    return t["a"].join_where(t["b"], pl.col("k") == pl.col("k_right"), *met).select("id", "id_right")


# Engines: each returns a function that runs the query once and gives (rows, sum or None).

def open_duckdb(case, directory, threads):
    import duckdb
    from pyarrow import compute

    connection = duckdb.connect(config={"threads": threads})
    for table, file in case.tables.items():
        connection.execute(f"CREATE TABLE {table} AS SELECT * FROM read_parquet('{directory / file}')")

    def run():
        rows, total = 0, None
        # Streamed as Arrow batches and dropped, as the bench does.
        for batch in connection.sql(case.sql).to_arrow_reader(1_000_000):
            rows += batch.num_rows
            if case.total is not None:
                total = (total or 0) + int(compute.sum(batch.column(case.total)).as_py())
        return rows, total

    return run


def open_polars(case, directory, engine):
    import polars as pl

    frames = {table: pl.read_parquet(directory / file).rechunk() for table, file in case.tables.items()}

    def run():
        lazy = {table: frame.lazy() for table, frame in frames.items()}
        result = case.polars(pl, lazy).collect(engine=engine)
        total = None if case.total is None else int(result.to_series(case.total).sum())
        return result.height, total

    return run


def measure(case, engine, directory, threads, repeat):
    if engine == "duckdb":
        run = open_duckdb(case, directory, threads)
    else:
        run = open_polars(case, directory, "streaming" if engine == "polars-streaming" else "in-memory")

    def timed():
        start = time.perf_counter()
        answer = run()
        return time.perf_counter() - start, answer

    first, answer = timed()
    if first >= LONG_SECONDS:
        return first * 1e3, 1, answer
    times = []
    for _ in range(repeat):
        seconds, again = timed()
        if again != answer:
            raise RuntimeError(f"two runs differ: {answer}, then {again}")
        times.append(seconds * 1e3)
    return statistics.median(times), repeat, answer


def child(pipe, name, engine, directory, threads, repeat):
    # Before polars is imported, which reads them once. Without memory it aborts, and its backtrace would drown the table.
    os.environ["POLARS_MAX_THREADS"] = str(threads)
    os.environ["RUST_BACKTRACE"] = "0"
    # A join that holds all its pairs ends for lack of memory, and ends alone: the rest of the machine keeps a fifth.
    available = memory_available()
    if available is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (available * 4 // 5, available * 4 // 5))
    case = next(case for case in cases() if case.label() == name)
    try:
        pipe.send(("measured", measure(case, engine, directory, threads, repeat)))
    except Exception as error:  # Reported in the table: one engine's failure is no reason to stop.
        pipe.send(("failed", f"{type(error).__name__}: {error}".splitlines()[0]))


def enter(case, engine, options):
    """Runs one engine in a process of its own: ("measured", (ms, runs, answer)) or (status, why not)."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    work = (theirs, case.label(), engine, options.tables, options.threads, options.repeat)
    process = context.Process(target=child, args=work)
    process.start()
    # As long as we hold the sending end too, a child that died would look like one that still computes.
    theirs.close()
    try:
        if not ours.poll(options.limit):
            return "missing", f"not finished after {options.limit:g} s"
        return ours.recv()
    except EOFError:
        process.join()
        return "missing", f"ended with status {process.exitcode}, as it does without memory"
    finally:
        process.kill()
        process.join()


def memory_available():
    try:
        for line in open("/proc/meminfo", encoding="ascii"):
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def machine(threads):
    import importlib.metadata

    model = os.uname().machine
    try:
        for line in open("/proc/cpuinfo", encoding="utf-8"):
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("duckdb", "polars"))
    return f"{threads} threads, {model}, {versions}, {datetime.date.today()}"


def generate(directory):
    """The recipes of benches/theta/datasets.rs."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    directory.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(1)

    def write(name, **columns):
        arrays = {column: pa.array(values) for column, values in columns.items()}
        fields = [pa.field(column, array.type, nullable=False) for column, array in arrays.items()]
        pq.write_table(pa.table(list(arrays.values()), schema=pa.schema(fields)), directory / f"{name}.parquet")

    def ids(rows):
        return np.arange(rows, dtype=np.int32)

    for name, rows in (("r", 50_000), ("s", 45_000)):
        a = random.integers(0, 1_000_000, rows, dtype=np.int32)
        x = random.integers(0, 100, rows, dtype=np.int32)
        write(f"relations-50Kx45K-0.5-{name}", id=ids(rows), a=a, x=x)

    for size, rows in (("100K", 100_000), ("1M", 1_000_000)):
        earned = random.integers(10_000, 100_010_000, rows)
        places = np.where(np.arange(rows) % 1_000 == 0, random.integers(1, 10, rows), 0)
        taxed = (earned + places * (100_000_000 // rows)) * 3 // 10
        write(
            f"employees-{size}-employees",
            id=ids(rows), salary=earned.astype(np.int32), tax=taxed.astype(np.int32),
        )
        for name in ("readings", "events"):
            write(f"band-{size}-{name}", id=ids(rows), t=random.integers(0, 10 * rows, rows))
        for data, keys in (("overlap", 1), ("overlap-key", KEYS)):
            for name in ("a", "b"):
                k = random.integers(0, keys, rows, dtype=np.int32)
                lo = random.integers(0, 10 * rows // keys, rows)
                hi = lo + random.integers(0, 101, rows)
                write(f"{data}-{size}-{name}", id=ids(rows), k=k, lo=lo, hi=hi)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--tables", type=pathlib.Path, default=pathlib.Path("target/bench/tables"))
    parser.add_argument("--generate", action="store_true", help="make the tables first")
    parser.add_argument("--filter", default="", help="only cases whose name (case/size/selectivity) contains the text")
    parser.add_argument("--engines", default=",".join(ENGINES), help="comma-separated: %(default)s")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("target/bench"))
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--repeat", type=int, default=5, help="timed runs, of which the median is taken")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds an engine may take for a case, loading included")
    return parser.parse_args()


def main():
    options = arguments()
    if options.generate:
        generate(options.tables)
    chosen = [case for case in cases() if options.filter in case.label()]
    missing = {file for case in chosen for file in case.tables.values() if not (options.tables / file).exists()}
    if missing:
        sys.exit(f"{options.tables}: no {', '.join(sorted(missing))}; export them with the bench or use --generate")

    print(f"theta rivals: {machine(options.threads)}")
    print(f"  {'case':<12} {'size':<9} {'engine':<17} {'ms':>10} {'rows':>10}  note")
    lines = []
    for case in chosen:
        answers = {}
        for engine in options.engines.split(","):
            status, outcome = enter(case, engine, options)
            ms, rows, runs, note = "", "", 0, ""
            if status == "measured":
                ms, runs, answers[engine] = outcome
                rows, ms = answers[engine][0], f"{ms:.3f}"
                note = "one run" if runs == 1 else ""
            else:
                status, note = "missing", outcome
            print(f"  {case.name:<12} {case.size:<9} {engine:<17} {ms or '-':>10} {rows:>10}  {note}".rstrip(), flush=True)
            lines.append(
                [case.name, case.size, case.selectivity, engine, ms, rows, case.pairs, case.input_rows, status, runs]
            )
        if len(set(answers.values())) > 1:
            sys.exit(f"WRONG RESULT, {case.label()}: {answers}")

    options.out.mkdir(parents=True, exist_ok=True)
    target = options.out / "rivals_theta.csv"
    with open(target, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow("case,size,selectivity,engine,ms,rows,pairs,input_rows,status,runs".split(","))
        writer.writerows(lines)
    print(f"written to {target}")


if __name__ == "__main__":
    main()
