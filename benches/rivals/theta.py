#!/usr/bin/env python3
"""Theta joins by DuckDB and Polars, beside `cargo bench --bench theta`: same tables, same queries, same cores.

    cargo bench --bench theta -- --export target/bench/tables     # the tables, as Parquet files
    pip install duckdb==2.0.0 polars==2.1.0 pyarrow==26.0.1       # requirements; the crate depends on none of them
    python3 benches/rivals/theta.py --tables target/bench/tables

`--generate` makes the tables by the bench's recipes first (needs numpy==2.4.6; other rows than the bench's own). `--large` adds sizes of
ten million rows of `employees`, `genome`, `as-of` and `nearest`. The bench exports them with `--large --filter genome` and so on; without a filter it
writes tables of hundreds of millions of rows, too.

What is timed is what the bench times: from the query's text, or its expression, to the last row of the result, with the
tables in memory already; loading is left out. How it is timed: rivals.py. Engines must agree on rows and sums, or the script fails.

Prints a table and writes <out>/rivals_theta.csv, with the columns of the bench's theta.csv.
"""

import rivals

KEYS = 100
CONTIGS = 24
ROWS_OF_KEY = 1_000


class Case:
    """One query at one size. `keys`: an equality key leaves one pair in so many. `total`: a result column to add up."""

    def __init__(self, name, size, left, right, data, sql, polars, selectivity="", keys=1, total=None, bio=None):
        self.name, self.size, self.selectivity = name, size, selectivity
        self.bio = bio
        prefix = "-".join(part for part in (data, size, selectivity) if part)
        self.tables = {table: f"{prefix}-{table}.parquet" for table in TABLES[data]}
        self.sql, self.polars, self.total = sql, polars, total
        self.pairs = left * right // keys
        self.input_rows = left if len(self.tables) == 1 else left + right


TABLES = {
    "relations": ["r", "s"],
    "employees": ["employees"],
    "band": ["readings", "events"],
    "overlap": ["a", "b"],
    "overlap-key": ["a", "b"],
    "genome": ["a", "b"],
    "trades": ["trades", "quotes"],
    "weighted": ["r", "s"],
}

GENOME = [("12Kx100K", 12_000, 100_000), ("120Kx1M", 120_000, 1_000_000)]
TRADES = [("100K", 100_000), ("1M", 1_000_000)]
LARGE_GENOME = [("1.2Mx10M", 1_200_000, 10_000_000), ("2Mx50M", 2_000_000, 50_000_000)]
LARGE_TRADES = [("10M", 10_000_000)]


def cases(large):
    listed = [
        Case(
            "sum", "50Kx45K", 50_000, 45_000, "relations",
            "SELECT SUM(s.x) FROM r JOIN s ON r.a > s.a",
            polars_sum, selectivity="0.5", total=0,
        )
    ]
    for size, rows in TRADES + (LARGE_TRADES if large else []):
        listed.append(
            Case(
                "employees", size, rows, rows, "employees",
                "SELECT r.id, s.id FROM employees r JOIN employees s ON r.salary < s.salary AND r.tax > s.tax",
                polars_employees,
            )
        )
    for size, rows in (("100K", 100_000), ("1M", 1_000_000)):
        listed += [
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
                polars_overlap_key, keys=KEYS,
            ),
        ]
    for size, left, right in GENOME + (LARGE_GENOME if large else []):
        listed += genome_cases(size, left, right)
    for size, rows in TRADES + (LARGE_TRADES if large else []):
        listed += [
            # What the bench asks for by LATERAL.
            Case(
                "as-of", size, rows, rows, "trades",
                "SELECT t.id, q.price FROM trades t ASOF JOIN quotes q ON q.k = t.k AND q.t <= t.t",
                polars_as_of, keys=rows // ROWS_OF_KEY, total=1,
            ),
            # The last event and the next one, of which the nearer one is within 50.
            Case(
                "nearest", size, rows, rows, "band",
                "SELECT id, distance FROM (SELECT r.id, least(coalesce(r.t - b.t, 51), coalesce(a.t - r.t, 51)) AS distance FROM readings r "
                "ASOF LEFT JOIN events b ON r.t >= b.t ASOF LEFT JOIN events a ON r.t <= a.t) WHERE distance <= 50",
                polars_nearest, total=1,
            ),
        ]
    for size, rows in (("10K", 10_000), ("100K", 100_000)):
        listed.append(
            Case(
                "dominance-sums", size, rows, rows, "weighted",
                "SELECT r.id, SUM(s.x) FROM r JOIN s ON r.a < s.a AND r.b > s.b GROUP BY r.id",
                polars_dominance_sums, total=1,
            )
        )
    return listed


def genome_cases(size, left, right):
    def case(name, select, polars, rest="", total=None, condition="a.lo <= b.hi AND b.lo <= a.hi", bio=None):
        sql = f"SELECT {select} FROM a JOIN b ON a.chrom = b.chrom AND {condition}{rest}"
        return Case(name, size, left, right, "genome", sql, polars, keys=CONTIGS, total=total, bio=bio)

    grouped = " GROUP BY a.id"
    return [
        case("genome-overlaps", "SUM(CAST(a.id AS BIGINT) + b.id)", polars_genome_overlaps, total=0),
        case("genome-rows", "a.id, b.id", polars_genome_rows, bio=bio_rows),
        case("genome-counts", "a.id, COUNT(*)", polars_genome_counts, grouped, 1, bio=bio_counts),
        case("genome-sums", "a.id, SUM(b.score)", polars_genome_sums, grouped, 1),
        case("genome-contained", "COUNT(*)", polars_genome_contained, total=0, condition="a.lo <= b.lo AND b.hi <= a.hi"),
    ]


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


def polars_genome(pl, t):
    met = [pl.col("lo") <= pl.col("hi_right"), pl.col("lo_right") <= pl.col("hi")]
    return t["a"].join_where(t["b"], pl.col("chrom") == pl.col("chrom_right"), *met)


def polars_genome_overlaps(pl, t):
    return polars_genome(pl, t).select((pl.col("id").cast(pl.Int64) + pl.col("id_right")).sum())


def polars_genome_rows(pl, t):
    return polars_genome(pl, t).select("id", "id_right")


def polars_genome_counts(pl, t):
    return polars_genome(pl, t).group_by("id").agg(pl.len().cast(pl.Int64))


def polars_genome_sums(pl, t):
    return polars_genome(pl, t).group_by("id").agg(pl.col("score").sum())


def polars_genome_contained(pl, t):
    inside = [pl.col("lo") <= pl.col("lo_right"), pl.col("hi_right") <= pl.col("hi")]
    joined = t["a"].join_where(t["b"], pl.col("chrom") == pl.col("chrom_right"), *inside)
    return joined.select(pl.len().cast(pl.Int64))


def polars_as_of(pl, t):
    trades, quotes = t["trades"].sort("t"), t["quotes"].sort("t")
    # Sorted as they are, so they are within each key.
    joined = trades.join_asof(quotes, on="t", by="k", check_sortedness=False)
    return joined.select("id", "price").drop_nulls()


def polars_nearest(pl, t):
    readings, events = t["readings"].sort("t"), t["events"].sort("t").select("t", near="t")
    joined = readings.join_asof(events, on="t", strategy="nearest", tolerance=50)
    return joined.select("id", distance=(pl.col("near") - pl.col("t")).abs()).drop_nulls()


def polars_dominance_sums(pl, t):
    joined = t["r"].join_where(t["s"], pl.col("a") < pl.col("a_right"), pl.col("b") > pl.col("b_right"))
    return joined.group_by("id").agg(pl.col("x_right").cast(pl.Int64).sum())


# polars-bio takes and gives frames of Polars; intervals are closed, as in the bench.

def bio_rows(pl, pb, t, columns):
    return pb.overlap(t["a"], t["b"], cols1=columns, cols2=columns, suffixes=("_a", "_b"), output_type="polars.LazyFrame").select("id_a", "id_b")


def bio_counts(pl, pb, t, columns):
    counted = pb.count_overlaps(t["a"], t["b"], cols1=columns, cols2=columns, output_type="polars.LazyFrame")
    return counted.filter(pl.col("count") > 0).select("id", pl.col("count").cast(pl.Int64))


def polars_bio(case, directory, threads):
    import polars as pl
    import polars_bio as pb

    if case.bio is None:
        raise NotImplementedError("polars-bio does not join so")
    pb.set_option("datafusion.bio.coordinate_system_zero_based", False)
    pb.set_option("datafusion.bio.coordinate_system_check", False)
    pb.set_option("datafusion.execution.target_partitions", threads)
    frames = {table: pl.read_parquet(directory / file).rechunk() for table, file in case.tables.items()}

    def run():
        result = case.bio(pl, pb, frames, ["chrom", "lo", "hi"]).collect(engine="streaming")
        total = None if case.total is None else int(result.to_series(case.total).sum())
        return result.height, total

    return run


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


# polars-bio 0.36 needs a Polars before 2.0: run it in an environment of its own, with --engines polars-bio.
BY_DEFAULT = ("duckdb", "polars", "polars-streaming")
ENGINES = {"duckdb": duckdb, "polars": polars_in_memory, "polars-streaming": polars_streaming, "polars-bio": polars_bio}


def generate(directory, large):
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

    for size, rows in TRADES + (LARGE_TRADES if large else []):
        earned = random.integers(10_000, 100_010_000, rows)
        places = np.where(np.arange(rows) % 1_000 == 0, random.integers(1, 10, rows), 0)
        taxed = (earned + places * (100_000_000 // rows)) * 3 // 10
        write(
            f"employees-{size}-employees",
            id=ids(rows), salary=earned.astype(np.int32), tax=taxed.astype(np.int32),
        )
    for size, rows in TRADES:
        for data, keys in (("overlap", 1), ("overlap-key", KEYS)):
            for name in ("a", "b"):
                k = random.integers(0, keys, rows, dtype=np.int32)
                lo = random.integers(0, 10 * rows // keys, rows)
                hi = lo + random.integers(0, 101, rows)
                write(f"{data}-{size}-{name}", id=ids(rows), k=k, lo=lo, hi=hi)

    for size, left, right in GENOME + (LARGE_GENOME if large else []):
        contigs = np.array([f"chr{contig + 1}" for contig in range(CONTIGS)])
        for name, rows, mean in (("a", left, 30_000), ("b", right, 600)):
            lo = random.integers(0, 310 * right // CONTIGS, rows)
            hi = lo + random.exponential(mean, rows).astype(np.int64)
            score = {"score": random.integers(0, 1_000, rows)} if name == "b" else {}
            chrom = contigs[random.integers(0, CONTIGS, rows)]
            write(f"genome-{size}-{name}", id=ids(rows), chrom=chrom, lo=lo, hi=hi, **score)

    for size, rows in TRADES + (LARGE_TRADES if large else []):
        for name in ("readings", "events"):
            write(f"band-{size}-{name}", id=ids(rows), t=random.integers(0, 10 * rows, rows))
        k = random.integers(0, rows // ROWS_OF_KEY, (2, rows), dtype=np.int32)
        write(f"trades-{size}-trades", id=ids(rows), k=k[0], t=random.integers(0, 10 * rows, rows))
        t = 10 * random.permutation(rows) + random.integers(0, 10, rows)
        write(f"trades-{size}-quotes", k=k[1], t=t, price=random.integers(1, 100_000, rows))

    whole = np.iinfo(np.int32)
    for size, rows in (("10K", 10_000), ("100K", 100_000)):
        for name in ("r", "s"):
            a, b = random.integers(whole.min, whole.max, (2, rows), dtype=np.int32, endpoint=True)
            write(f"weighted-{size}-{name}", a=a, b=b, id=ids(rows), x=random.integers(0, 100, rows, dtype=np.int32))


def main():
    parser = rivals.arguments(__doc__.split("\n", 1)[0], BY_DEFAULT)
    parser.add_argument("--generate", action="store_true", help="make the tables first")
    parser.add_argument("--large", action="store_true", help="also sizes of ten million rows")
    options = parser.parse_args()
    if options.generate:
        generate(options.tables, options.large)
    hint = "export them with the bench or use --generate"
    rivals.compete("theta", cases(options.large), ENGINES, ("duckdb", "polars", "polars-bio"), options, hint)


if __name__ == "__main__":
    main()
