#!/usr/bin/env python3
"""Times queries on workers of datafusion-distributed and executors of Ballista, with bowtie and without, all on this machine.

    scripts/cluster_bench.py --bin DIRECTORY --data DIRECTORY [options]

`--bin` has `bowtie-cluster` and `bowtie-sql`, which makes the data that is not there. Each worker is pinned to cores of its own, and has a GPU of its
own where there are as many; workers that share a GPU share its memory. Every query runs `--repeat` times after a first time, in one session.
Writes a line for each query to `--out`: scale factor, engine, workers, offload, query, rows, seconds of the first run and of the fastest later one, and whether
the rows are those of the first engine that ran it, with numbers of six digits. DataFusion alone tests every pair of the theta and set joins: leave these
out of runs with offload `off`. Needs Python 3.8 or newer, Linux, and nothing else.
"""

import argparse
import csv
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

TABLES = ["nation", "region", "part", "supplier", "partsupp", "customer", "orders", "lineitem"]

# Numbers without a pattern, from row numbers.
POINTS = "SELECT value AS id, value % 16 AS k, (value * 7919 + {salt}) % {extent} AS at, (value * 104729 % 1000) / 8.0 AS w FROM range({begin}, {end})"
# The rows of half of the files have a hundredth of the values.
CROWDED = """SELECT value AS id, CASE WHEN value < {half} THEN value * 198 ELSE {half} * 198 + (value - {half}) * 2 END AS at, (value * 104729 % 1000) / 8.0 AS w
FROM range({begin}, {end})"""
SETS = """SELECT value AS id, array_distinct(make_array({elements})) AS t FROM range({begin}, {end})"""

JOINS = {
    "band": "SELECT count(*), sum(a.w), max(b.w) FROM points a JOIN points b ON abs(a.at - b.at) <= 2",
    "band by key": "SELECT count(*), sum(a.w), max(b.w) FROM points a JOIN points b ON a.k = b.k AND abs(a.at - b.at) <= 20",
    "crowded band": "SELECT count(*), sum(a.w), max(b.w) FROM crowded a JOIN crowded b ON abs(a.at - b.at) <= 2",
    "inequality": "SELECT count(*), sum(a.w), max(b.w) FROM points a JOIN points b ON a.at < b.at",
    "similarity": "SELECT count(*), max(array_jaccard(a.t, b.t)) FROM sets a JOIN sets b ON array_jaccard(a.t, b.t) >= 0.7 AND a.id < b.id",
    "containment": "SELECT count(*) FROM sets a JOIN sets b ON array_has_all(a.t, b.t) AND a.id <> b.id",
    # What an exchange costs: all rows go to another worker, and few come back.
    "exchange": "SELECT count(*), max(n) FROM (SELECT l_orderkey, count(*) AS n FROM lineitem GROUP BY l_orderkey)",
}


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class Bench:
    def __init__(self, arguments):
        self.arguments = arguments
        self.cluster = Path(arguments.bin) / "bowtie-cluster"
        self.sql = Path(arguments.bin) / "bowtie-sql"
        self.data = Path(arguments.data)
        self.answers = {}
        self.processes = []
        self.writer = None

    # Data.

    def make(self):
        scale = self.arguments.scale
        self.tpch = self.data / f"tpch-{scale:g}"
        if not (self.tpch / "region").is_dir():
            subprocess.run([self.sql, "bench", "tpch", "--scale", f"{scale:g}", "--data", self.data, "--repeat", "1", "--queries", "6"], check=True, stdout=sys.stderr)
        rows, files = self.arguments.points, 16
        self.rows("points", rows, files, lambda begin, end: POINTS.format(salt=13, extent=rows, begin=begin, end=end))
        self.rows("crowded", rows, files, lambda begin, end: CROWDED.format(half=rows // 2, begin=begin, end=end))
        # Nine elements that four rows share, and one of its own: pairs of those rows have a Jaccard similarity of 9 in 11.
        shared = [f"({7919 + 2 * i} * (value / 4) + {104729 * i}) % {50021 + 1000 * i}" for i in range(9)]
        elements = ", ".join([*shared, "value % 100003"])
        self.rows("sets", self.arguments.sets, files, lambda begin, end: SETS.format(elements=elements, begin=begin, end=end))

    def rows(self, table, rows, files, query):
        folder = self.data / f"{table}-{rows}"
        setattr(self, table, folder)
        if folder.is_dir():
            return
        unfinished = folder.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        statements = []
        for i in range(files):
            begin, end = rows * i // files, rows * (i + 1) // files
            statements += ["-c", f"COPY ({query(begin, end)}) TO '{unfinished}/{i:02}.parquet' STORED AS PARQUET"]
        subprocess.run([self.sql, "--device", "host", *statements], check=True, stdout=subprocess.DEVNULL)
        unfinished.rename(folder)

    def queries(self):
        found = {}
        for file in sorted(Path(self.arguments.tpch_queries).glob("*/q*.sql")):
            found[file.stem] = file.read_text().strip().rstrip(";")
        found = dict(sorted(found.items()))
        found.update(JOINS)
        wanted = self.arguments.queries
        return {name: text for name, text in found.items() if not wanted or name in wanted}

    def tables(self):
        folders = {table: self.tpch / table for table in TABLES}
        folders.update(points=self.points, crowded=self.crowded, sets=self.sets)
        return [f"CREATE EXTERNAL TABLE {name} STORED AS PARQUET LOCATION '{folder}/'" for name, folder in folders.items()]

    # Processes.

    def cores(self, worker, workers):
        """The cores of a worker: those of this machine in equal parts, up to --cores each."""
        own = sorted(os.sched_getaffinity(0))
        each = min(len(own) // workers, self.arguments.cores)
        return own[worker * each : (worker + 1) * each]

    def environment(self, worker, workers):
        gpus = self.arguments.gpus
        environment = dict(os.environ, BOWTIE_DEVICE=f"cuda:{worker % gpus}" if gpus else "host")
        sharing = -(-workers // gpus) if gpus else 1
        if sharing > 1:
            environment["BOWTIE_DEVICE_MEMORY"] = f"{self.arguments.gpu_memory // sharing}GB"
        return environment

    def start(self, arguments, cores, environment=None, listens=True):
        command = ["taskset", "-c", ",".join(map(str, cores)), self.cluster, *map(str, arguments)]
        process = subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE if listens else subprocess.DEVNULL)
        self.processes.append(process)
        return process.stdout.readline().split()[-1] if listens else None

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()
        self.processes = []

    # Engines: the arguments of what runs SQL on them, and statements that come first.

    def single(self, workers):
        environment = self.environment(0, 1)
        command = [self.sql, "--device", environment["BOWTIE_DEVICE"], "--maxrows", "inf"]
        return command, [], self.cores(0, 1), environment

    def distributed(self, workers):
        urls = [
            self.start(["worker", "--listen", "127.0.0.1:0"], self.cores(i, workers), self.environment(i, workers)) for i in range(workers)
        ]
        command = [self.cluster, "coordinator", "--workers", ",".join(urls)]
        # Alone, a worker is not asked: the coordinator runs the query.
        environment = self.environment(0, 1) if workers == 1 else dict(os.environ, BOWTIE_DEVICE="host")
        return command, [], self.cores(0, workers), environment

    def ballista(self, workers):
        scheduler = ["scheduler", "--listen", "127.0.0.1:0", "--host", "127.0.0.1"]
        url = self.start(scheduler, self.cores(0, workers))
        port = url.rsplit(":", 1)[1]
        folder = self.data / "executors"
        shutil.rmtree(folder, ignore_errors=True)
        for i in range(workers):
            cores = self.cores(i, workers)
            arguments = ["executor", "--scheduler-host", "127.0.0.1", "--scheduler-port", port, "--port", free_port(), "--task-port", free_port()]
            arguments += ["--work-dir", folder / str(i), "--slots", len(cores)]
            self.start(arguments, cores, self.environment(i, workers), listens=False)
        time.sleep(2)
        each = len(self.cores(0, workers))
        settings = [
            f"SET datafusion.execution.target_partitions = {each * workers}",
            f"SET ballista.scheduler.max_partitions_per_task = {each}",
        ]
        command = [self.cluster, "client", "--scheduler", url]
        return command, settings, self.cores(0, workers), dict(os.environ)

    # Runs.

    def run(self, engine, workers, offload):
        command, settings, cores, environment = getattr(self, engine)(workers)
        try:
            for name, text in self.queries().items():
                self.time(engine, workers, offload, name, text, (command, settings, cores, environment))
        finally:
            self.stop()

    def time(self, engine, workers, offload, name, text, session):
        command, settings, cores, environment = session
        first = [f"SET bowtie.offload = '{offload}'", *settings, *self.arguments.set, *self.tables()]
        statements = [argument for statement in first + [text] * (1 + self.arguments.repeat) for argument in ("-c", statement)]
        pinned = ["taskset", "-c", ",".join(map(str, cores)), *command, *statements]
        if engine != "single":
            pinned.append("--timing")
        try:
            done = subprocess.run(pinned, env=environment, text=True, capture_output=True, timeout=self.arguments.limit)
            output, error = done.stdout, done.stderr if done.returncode else ""
        except subprocess.TimeoutExpired:
            output, error = "", f"more than {self.arguments.limit} s"
        seconds = [float(found) for found in re.findall(r"^(?:Elapsed )?([\d.]+) s(?:econds)?\.?$", output, re.M)][-(1 + self.arguments.repeat) :]
        if error or len(seconds) < 1 + self.arguments.repeat:
            self.write(engine, workers, offload, name, "", "", "", error.strip().replace("\n", " ")[:300] or "no times")
            return
        # A result without rows may have no header either.
        rows = sorted(rounded(line) for line in output.splitlines() if line.startswith("| "))
        count = max(len(rows) // (1 + self.arguments.repeat) - 1, 0)
        rows = rows if count else []
        known = self.answers.setdefault(name, (engine, rows))
        same = "same" if known[1] == rows else f"DIFFERS from {known[0]}"
        self.write(engine, workers, offload, name, count, f"{seconds[0]:.3f}", f"{min(seconds[1:]):.3f}", same)

    def write(self, *row):
        row = (f"{self.arguments.scale:g}", *row)
        self.writer.writerow(row)
        self.out.flush()
        print(*row, sep=",", flush=True)

    def main(self):
        self.make()
        with open(self.arguments.out, "a", newline="") as self.out:
            self.writer = csv.writer(self.out)
            for run in self.arguments.runs:
                engine, workers, offload = run.split(":")
                self.run(engine, int(workers), offload)


def rounded(line):
    """A line whose numbers have six digits: sums of floating-point numbers depend on their order."""
    line = line.replace("NULL", "")
    return re.sub(r"-?\d+\.\d+(?:e-?\d+)?", lambda number: f"{float(number.group()):.6g}", re.sub(r" +", " ", line))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", default="cluster.csv")
    parser.add_argument("--tpch-queries", default=Path(__file__).parent.parent / "tests/it/tpch")
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--points", type=int, default=10_000_000)
    parser.add_argument("--sets", type=int, default=300_000)
    parser.add_argument("--gpus", type=int, default=0)
    parser.add_argument("--gpu-memory", type=int, default=64, help="GB of each GPU, for workers that share it")
    parser.add_argument("--cores", type=int, default=16, help="the most of a worker")
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--limit", type=int, default=120, help="seconds for all runs of a query")
    parser.add_argument("--queries", nargs="*", help="q01 to q22, " + ", ".join(JOINS))
    parser.add_argument("--set", nargs="*", default=[], help="statements that come first")
    parser.add_argument("--runs", nargs="+", default=["single:1:off", "single:1:auto", "distributed:2:off", "distributed:2:auto"],
                        help="engine:workers:offload, engine one of single, distributed, ballista")
    Bench(parser.parse_args()).main()


if __name__ == "__main__":
    main()
