#!/usr/bin/env python3
"""Runs random queries on three workers of datafusion-distributed or three executors of Ballista, all on this machine and its cores, and compares their rows
with those of DataFusion in one process.

    scripts/cluster_fuzz.py --bin DIRECTORY --data DIRECTORY --engine distributed|ballista [--seed N] [--count N] [--only N ...] [--offload O] [--set S ...]

`--bin` has `bowtie-cluster` and `bowtie-sql`, which makes TPC-H at scale factor 0.01 in `--data`, one file a table with row groups of 1,000 rows, so that every
file is divided among tasks. The queries join unions, aggregations, windows, limits and joins of these tables. Prints each query whose rows differ, and
the number of those; exits with 1 if there are any. Needs Python 3.8 or newer, and `cluster_bench.py` beside it.
"""

import argparse
import os
import random
import subprocess
import sys
import time
from pathlib import Path

from cluster_bench import free_port

KEYS = {
    "orders": ("o_orderkey", "o_custkey"),
    "customer": ("c_custkey", "c_nationkey"),
    "part": ("p_partkey", "p_size"),
    "supplier": ("s_suppkey", "s_nationkey"),
    "nation": ("n_nationkey", "n_regionkey"),
    "partsupp": ("ps_partkey", "ps_availqty"),
    "lineitem": ("l_orderkey", "l_suppkey"),
}

CONDITIONS = [
    "a.k = b.k",
    "a.v = b.v AND a.k % 7 = 1",
    "a.k BETWEEN b.k - 2 AND b.k + 2",
    "a.k < b.v AND a.k % 13 = 1",
    "a.k = b.k AND a.v < b.v",
    "a.v = b.k AND a.k BETWEEN b.v - 90 AND b.v + 90",
    "abs(a.k - b.k) <= 1",
]

JOINS = ["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "EXISTS", "NOT EXISTS"]


def rows_of(draw, depth=0):
    """A query with the columns k and v."""
    table = draw.choice(list(KEYS))
    k, v = KEYS[table]
    plain = f"SELECT {k} AS k, {v} AS v FROM {table}"
    distinct = f"(SELECT DISTINCT {k} AS k, {v} AS v FROM {table}) w"
    below = lambda: rows_of(draw, depth + 1)
    # Without a limit DataFusion leaves out an order whose columns are not read above the offset.
    forms = [
        lambda: plain,
        lambda: plain,
        lambda: f"{plain} WHERE {k} % {draw.choice([2, 5, 50])} = 1",
        lambda: f"SELECT {v} AS k, count(*) AS v FROM {table} GROUP BY {v}",
        lambda: f"SELECT DISTINCT {v} AS k, {v} + 1 AS v FROM {table}",
        lambda: f"SELECT max({k}) AS k, min({v}) AS v FROM {table}",
        lambda: f"SELECT k, v FROM ({plain}) x ORDER BY k, v LIMIT {draw.choice([1, 7, 50, 300])}",
        lambda: f"SELECT k, v FROM ({plain}) x ORDER BY k, v LIMIT {draw.choice([90, 1000000])} OFFSET {draw.choice([3, 40, 250])}",
        lambda: f"SELECT k, row_number() OVER (PARTITION BY v ORDER BY k) AS v FROM {distinct}",
        lambda: f"SELECT k, sum(v) OVER (ORDER BY k, v ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) AS v FROM {distinct}",
    ]
    if depth < 2:
        forms += [
            lambda: f"SELECT k, v FROM ({below()} UNION ALL {below()}) u WHERE k % 3 <> 1",
            lambda: f"SELECT p.k, q.v FROM ({below()}) p {draw.choice(['JOIN', 'LEFT JOIN'])} ({below()}) q ON p.k = q.k AND p.v % 5 = 1",
        ]
    # A limit may not stand in a union without parentheses.
    return f"SELECT k, v FROM ({draw.choice(forms)()}) f"


def query(draw):
    """An aggregation of a join of two of these. Sums are of whole numbers."""
    a, b = rows_of(draw), rows_of(draw)
    condition, join = draw.choice(CONDITIONS), draw.choice(JOINS)
    left = f"(SELECT * FROM ({a}) x WHERE x.k % {draw.choice([1, 3, 11])} = 0) a"
    right = f"({b}) b"
    if join.endswith("EXISTS"):
        source = f"{left} WHERE {join} (SELECT 1 FROM {right} WHERE {condition})"
        columns, group = "count(*) AS n, sum(a.k) AS x, max(a.v) AS y", "a.v % 3"
    else:
        source = f"{left} {join} {right} ON {condition}"
        columns, group = "count(*) AS n, sum(a.k) AS x, sum(b.v) AS y", "coalesce(a.v % 3, b.v % 3)"
    if draw.random() < 0.6:
        return f"SELECT {columns} FROM {source}"
    return f"SELECT {group} AS g, {columns} FROM {source} GROUP BY {group}"


class Cluster:
    def __init__(self, binary, folder):
        self.binary, self.folder, self.processes = binary, folder, []

    def start(self, *arguments, listens=True):
        process = subprocess.Popen(
            [self.binary, *map(str, arguments)],
            env=dict(os.environ, BOWTIE_DEVICE=os.environ.get("BOWTIE_DEVICE", "host")),
            stdout=subprocess.PIPE if listens else subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.processes.append(process)
        return process.stdout.readline().split()[-1] if listens else None

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()

    def distributed(self):
        urls = [self.start("worker", "--listen", "127.0.0.1:0") for _ in range(3)]
        return ["coordinator", "--workers", ",".join(urls)], ["SET distributed.file_scan_config_bytes_per_partition = 1"]

    def ballista(self):
        url = self.start("scheduler", "--listen", "127.0.0.1:0", "--host", "127.0.0.1")
        for i in range(3):
            ports = ["--port", free_port(), "--task-port", free_port()]
            where = ["--scheduler-host", "127.0.0.1", "--scheduler-port", url.rsplit(":", 1)[1]]
            self.start("executor", *where, *ports, "--work-dir", self.folder / f"executor-{i}", "--slots", 2, listens=False)
        time.sleep(2)
        return ["client", "--scheduler", url], [
            "SET datafusion.execution.target_partitions = 6",
            "SET datafusion.optimizer.repartition_file_min_size = 0",
            "SET datafusion.execution.batch_size = 500",
            "SET ballista.scheduler.max_partitions_per_task = 2",
        ]


def make(shell, data):
    """The tables' folders."""
    scale = data / "tpch-0.01"
    if not (scale / "region").is_dir():
        subprocess.run([shell, "bench", "tpch", "--scale", "0.01", "--data", data, "--repeat", "1", "--queries", "6", "--device", "host"], check=True, stdout=subprocess.DEVNULL)
    folders = {table: data / "tpch-0.01-pieces" / table for table in KEYS}
    for table, folder in folders.items():
        if folder.is_dir():
            continue
        folder.mkdir(parents=True)
        statements = [
            "SET datafusion.execution.parquet.max_row_group_size = 1000",
            f"COPY (SELECT * FROM '{scale / table}/') TO '{folder}/a.parquet' STORED AS PARQUET",
        ]
        subprocess.run([shell, "--device", "host", *commands(statements)], check=True, stdout=subprocess.DEVNULL)
    return folders


def commands(statements):
    return [argument for statement in statements for argument in ("-c", statement)]


def rows(text):
    """The rows of a table that was printed, without its names. NULL is nothing."""
    lines = [line.replace(" ", "").replace("NULL", "") for line in text.splitlines() if line.startswith("|")]
    return sorted(line for line in lines if not line.startswith(("|g|", "|n|")))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", required=True, type=Path)
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--engine", choices=["distributed", "ballista"], default="distributed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--only", type=int, nargs="*", help="numbers of queries")
    parser.add_argument("--offload", choices=["off", "auto", "force"], default="force")
    parser.add_argument("--set", nargs="*", default=[], help="statements that come first")
    arguments = parser.parse_args()
    draw = random.Random(arguments.seed)
    queries = [query(draw) for _ in range(arguments.count)]
    shell, data = arguments.bin.resolve() / "bowtie-sql", arguments.data.resolve()
    tables = [f"CREATE EXTERNAL TABLE {name} STORED AS PARQUET LOCATION '{folder}/'" for name, folder in make(shell, data).items()]
    cluster = Cluster(arguments.bin.resolve() / "bowtie-cluster", data)
    different = 0
    try:
        client, settings = getattr(cluster, arguments.engine)()
        settings += [*arguments.set, f"SET bowtie.offload = '{arguments.offload}'"]
        for number, text in enumerate(queries):
            if arguments.only and number not in arguments.only:
                continue
            alone = [shell, "--device", "host", *commands(["SET bowtie.offload = 'off'", *tables, text])]
            alone = subprocess.run(alone, capture_output=True, text=True)
            try:
                together = [cluster.binary, *client, *commands([*settings, *tables, text])]
                together = subprocess.run(together, capture_output=True, text=True, timeout=60)
            except subprocess.TimeoutExpired:
                together = None
            # A query that DataFusion itself does not answer tells nothing.
            if alone.returncode == 0 and (together is None or rows(alone.stdout) != rows(together.stdout)):
                different += 1
                given = rows(together.stdout) or together.stderr.strip()[-300:] if together else "nothing in a minute"
                print(f"{number}: {text}\n  {rows(alone.stdout)}\n  {given}", flush=True)
    finally:
        cluster.stop()
    print(f"{different} of {len(arguments.only or queries)} queries give other rows")
    sys.exit(different > 0)


if __name__ == "__main__":
    main()
