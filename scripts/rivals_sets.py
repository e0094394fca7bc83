#!/usr/bin/env python3
"""Set joins by DuckDB, beside `cargo bench --features measure --bench sets`: same tables, same answers, same cores.

    cargo bench --features measure --bench sets -- --export target/bench/tables      # the tables, as Parquet files
    pip install duckdb==2.0.0 pyarrow==26.0.1                     # requirements; the crate depends on none of them
    python3 scripts/rivals_sets.py --tables target/bench/tables

`--large` adds a million titles, which the bench exports with `--large`, too.

DuckDB joins lists in two ways. `duckdb` is the rewrite that a user can make: unnest both sides, join on the element, group by pair and
keep what has enough. It relies on lists that are not empty, of distinct elements, as the bench's are. `duckdb-list` asks its list functions
about every pair. Titles are made lists of shingles by a list comprehension first, as a part of the query, and pairs are made clusters by
a recursion.

What is timed is what the bench times: from the query's text to the last row of the result, with the tables in memory already; loading is
left out. How it is timed: rivals.py. The two must agree on rows and sums, or the script fails.

Prints a table and writes <out>/rivals_sets.csv, with the columns of the bench's sets.csv.
"""

import rivals

KEYS = 100
SIZES = {"1K": 1_000, "10K": 10_000, "50K": 50_000, "100K": 100_000, "1M": 1_000_000}
SHINGLES = "(SELECT id, list_distinct([substring(title, i, 5) FOR i IN range(1, length(title) - 3)]) AS tags FROM titles)"


class Case:
    """One query of one clone, or of the titles, at one size. `having`: the rewrite's condition on a group, in which `o` is the overlap and
    `m` and `n` are the sizes; `test`: the list functions' on a pair; `joined`: what is asked of the pair's other columns; `select`: what
    comes out."""

    selectivity = ""

    def __init__(self, name, data_set, size, having, test, joined="", select="rows"):
        self.name, self.size = name, size
        if data_set == "titles":
            self.sets, self.columns = SHINGLES, "id"
            self.tables = {"titles": f"titles-{size}-titles.parquet"}
        else:
            self.sets, self.columns = "sets", "id, k"
            self.tables = {"sets": f"{data_set}-{size}-sets.parquet"}
        self.having, self.test, self.joined, self.select = having, test, joined, select
        self.total = 0 if select == "count" else 1
        self.input_rows = SIZES[size]
        self.pairs = SIZES[size] ** 2 // (KEYS if "a.k" in joined else 1)


ASCENDING = " AND a.id < b.id"


def cases(large):
    listed = []

    def add(name, data_set, sizes, *rest, **more):
        listed.extend(Case(name, data_set, size, *rest, **more) for size in sizes)

    contained = ("o = m", "list_has_all(b.tags, a.tags)")
    small, wide = ("1K", "10K", "50K", "100K"), ("1K", "10K", "50K")
    add("containment-count", "BMS-POS", small, *contained, select="count")
    add("containment-rows", "BMS-POS", small, *contained)
    add("containment-enron", "ENRON", wide, *contained, select="count")
    add("any-count", "BMS-POS", small, "true", "list_has_any(a.tags, b.tags)", ASCENDING, "count")
    add("overlap-4", "BMS-POS", small, "o >= 4", "len(list_intersect(a.tags, b.tags)) >= 4", ASCENDING)
    for tenths in (9, 7, 5):
        add(f"jaccard-0.{tenths}", "BMS-POS", small, *jaccard(tenths), ASCENDING)
    add("jaccard-counts", "BMS-POS", small, *jaccard(7), select="counts")
    add("jaccard-key", "BMS-POS", small, *jaccard(7), ASCENDING + " AND a.k = b.k")
    add("jaccard-enron", "ENRON", wide, *jaccard(7), ASCENDING)
    of_titles = ("1K", "10K", "100K", "1M") if large else ("1K", "10K", "100K")
    add("near-duplicates", "titles", of_titles, *jaccard(8), ASCENDING)
    add("duplicate-clusters", "titles", of_titles, *jaccard(8), ASCENDING, "clusters")
    return listed


def jaccard(tenths):
    """At least so many tenths, in whole numbers: o / (m + n - o) >= t / 10."""
    test = f"{10 + tenths} * len(list_intersect(a.tags, b.tags)) >= {tenths} * (len(a.tags) + len(b.tags))"
    return f"{10 + tenths} * o >= {tenths} * (m + n)", test


def selected(case, pairs):
    match case.select:
        case "count":
            return f"SELECT COUNT(*) FROM ({pairs})"
        case "counts":
            return f"SELECT first, COUNT(*) FROM ({pairs}) GROUP BY first"
        case "clusters":
            return (
                f"WITH RECURSIVE pairs AS MATERIALIZED ({pairs}), "
                "edges AS MATERIALIZED (SELECT first, second FROM pairs UNION ALL SELECT second, first FROM pairs), "
                "reached AS (SELECT first, second FROM edges "
                "UNION SELECT r.first, e.second FROM reached r JOIN edges e ON e.first = r.second) "
                "SELECT first, min(second) FROM reached GROUP BY first"
            )
        case _:
            return pairs


def unnested(case, directory, threads):
    grouped = (
        "SELECT a.id AS first, b.id AS second, COUNT(*) AS o, any_value(a.n) AS m, any_value(b.n) AS n "
        f"FROM e a JOIN e b ON a.element = b.element{case.joined} GROUP BY a.id, b.id"
    )
    elements = f"SELECT {case.columns}, len(tags) AS n, unnest(tags) AS element FROM {case.sets}"
    pairs = f"WITH e AS ({elements}) SELECT first, second FROM ({grouped}) WHERE {case.having}"
    return rivals.duckdb_engine(case, directory, threads, selected(case, pairs))


def every_pair(case, directory, threads):
    pairs = f"SELECT a.id AS first, b.id AS second FROM {case.sets} a JOIN {case.sets} b ON {case.test}{case.joined}"
    return rivals.duckdb_engine(case, directory, threads, selected(case, pairs))


ENGINES = {"duckdb": unnested, "duckdb-list": every_pair}


def main():
    parser = rivals.arguments(__doc__.split("\n", 1)[0], ENGINES)
    parser.add_argument("--large", action="store_true", help="also a million titles")
    options = parser.parse_args()
    rivals.compete("sets", cases(options.large), ENGINES, ("duckdb",), options, "export them with the bench")


if __name__ == "__main__":
    main()
