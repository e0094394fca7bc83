#!/usr/bin/env python3
"""Theta joins by DuckDB and Polars, beside `cargo bench --bench theta`: same tables, same queries, same cores.

    cargo bench --bench theta -- --export target/bench/tables     # the tables, as Parquet files
    pip install duckdb==2.0.0 polars==2.1.0 pyarrow==26.0.1       # requirements; the crate depends on none of them
    python3 scripts/rivals_theta.py --tables target/bench/tables

`--generate` makes the tables by the bench's recipes first (needs numpy==2.4.6; other rows than the bench's own).

What is timed is what the bench times: from the query's text, or its expression, to the last row of the result, with the
tables in memory already; loading is left out. How it is timed: rivals.py. Engines must agree on rows and sums, or the script fails.

Prints a table and writes <out>/rivals_theta.csv, with the columns of the bench's theta.csv.
"""

import rivals

KEYS = 100


class Case:
    """One query at one size. `keyed`: an equality key leaves one pair in KEYS. `total`: a result column to add up."""

    def __init__(self, name, size, left, right, data, sql, polars, selectivity="", keyed=False, total=None):
        self.name, self.size, self.selectivity = name, size, selectivity
        prefix = "-".join(part for part in (data, size, selectivity) if part)
        self.tables = {table: f"{prefix}-{table}.parquet" for table in TABLES[data]}
        self.sql, self.polars, self.total = sql, polars, total
        self.pairs = left * right // (KEYS if keyed else 1)
        self.input_rows = left if len(self.tables) == 1 else left + right


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


def duckdb(case, directory, threads):
    return rivals.duckdb_engine(case, directory, threads, case.sql)


def polars(case, directory, engine):
    import polars as pl

    frames = {table: pl.read_parquet(directory / file).rechunk() for table, file in case.tables.items()}

    def run():
        lazy = {table: frame.lazy() for table, frame in frames.items()}
        result = case.polars(pl, lazy).collect(engine=engine)
        total = None if case.total is None else int(result.to_series(case.total).sum())
        return result.height, total

    return run


def polars_in_memory(case, directory, _threads):
    return polars(case, directory, "in-memory")


def polars_streaming(case, directory, _threads):
    return polars(case, directory, "streaming")


ENGINES = {"duckdb": duckdb, "polars": polars_in_memory, "polars-streaming": polars_streaming}


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


def main():
    parser = rivals.arguments(__doc__.split("\n", 1)[0], ENGINES)
    parser.add_argument("--generate", action="store_true", help="make the tables first")
    options = parser.parse_args()
    if options.generate:
        generate(options.tables)
    hint = "export them with the bench or use --generate"
    rivals.compete("theta", cases(), ENGINES, ("duckdb", "polars"), options, hint)


if __name__ == "__main__":
    main()
