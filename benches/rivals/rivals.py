"""What the scripts of rivals share: each engine runs each case in a process of its own, with a time limit, so that neither a
quadratic plan nor a lack of memory ends the others; engines must agree, and what was measured is a table and a CSV file.

A case has a `name`, a `size` and a `selectivity` (text), `tables` (names and files), `pairs`, `input_rows`, and `total`, a result column to
add up, or None. An engine is a function of a case, the tables' directory and a number of threads; it loads the tables and returns a
function that runs the query once and gives (rows, sum or None). Both are pickled: functions stand at the top of a module.
"""

import argparse
import csv
import datetime
import importlib.metadata
import multiprocessing
import os
import pathlib
import resource
import statistics
import sys
import time

LONG_SECONDS = 3.0


def label(case):
    return "/".join(part for part in (case.name, case.size, case.selectivity) if part)


def duckdb_engine(case, directory, threads, sql):
    import duckdb
    from pyarrow import compute

    connection = duckdb.connect(config={"threads": threads})
    for table, file in case.tables.items():
        connection.execute(f"CREATE TABLE {table} AS SELECT * FROM read_parquet('{directory / file}')")

    def run():
        rows, total = 0, None
        # Streamed as Arrow batches and dropped, as the bench does.
        for batch in connection.sql(sql).to_arrow_reader(1_000_000):
            rows += batch.num_rows
            if case.total is not None:
                total = (total or 0) + int(compute.sum(batch.column(case.total)).as_py() or 0)
        return rows, total

    return run


def measure(run, repeat):
    """One untimed run, then the median of k; a first run of three seconds or more counts by itself."""

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


def child(pipe, case, engine, options):
    # Before polars is imported, which reads them once. Without memory it aborts, and its backtrace would drown the table.
    os.environ["POLARS_MAX_THREADS"] = str(options.threads)
    os.environ["RUST_BACKTRACE"] = "0"
    # A join that holds all its pairs ends for lack of memory, and ends alone: the rest of the machine keeps a fifth.
    available = memory_available()
    if available is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (available * 4 // 5, available * 4 // 5))
    try:
        run = engine(case, options.tables, options.threads)
        pipe.send(("measured", measure(run, options.repeat)))
    except Exception as error:  # Reported in the table: one engine's failure is no reason to stop.
        pipe.send(("failed", f"{type(error).__name__}: {error}".splitlines()[0]))


def enter(case, engine, options):
    """Runs one engine in a process of its own: ("measured", (ms, runs, answer)) or (status, why not)."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=child, args=(theirs, case, engine, options))
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


def machine(threads, packages):
    model = os.uname().machine
    try:
        for line in open("/proc/cpuinfo", encoding="utf-8"):
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    installed = {of.metadata["Name"]: of.version for of in importlib.metadata.distributions()}
    versions = ", ".join(f"{name} {installed[name]}" for name in packages if name in installed)
    return f"{threads} threads, {model}, {versions}, {datetime.date.today()}"


def arguments(description, engines):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--tables", type=pathlib.Path, default=pathlib.Path("target/bench/tables"))
    parser.add_argument("--filter", default="", help="only cases whose name (case/size/selectivity) contains the text")
    parser.add_argument("--engines", default=",".join(engines), help="comma-separated: %(default)s")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("target/bench"))
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--repeat", type=int, default=5, help="timed runs, of which the median is taken")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds an engine may take for a case, loading included")
    return parser


def compete(bench, cases, engines, packages, options, hint):
    """Runs the cases by the engines, a dictionary, of which options name some; `hint` says where missing tables come from."""
    chosen = [case for case in cases if options.filter in label(case)]
    missing = {file for case in chosen for file in case.tables.values() if not (options.tables / file).exists()}
    if missing:
        sys.exit(f"{options.tables}: no {', '.join(sorted(missing))}; {hint}")

    wide = max(len(case.name) for case in cases)
    print(f"{bench} rivals: {machine(options.threads, packages)}")
    print(f"  {'case':<{wide}} {'size':<9} {'engine':<17} {'ms':>10} {'rows':>10}  note")
    lines = []
    for case in chosen:
        answers = {}
        for engine in options.engines.split(","):
            status, outcome = enter(case, engines[engine], options)
            ms, rows, runs, note = "", "", 0, ""
            if status == "measured":
                ms, runs, answers[engine] = outcome
                rows, ms = answers[engine][0], f"{ms:.3f}"
                note = "one run" if runs == 1 else ""
            else:
                status, note = "missing", outcome
            line = f"  {case.name:<{wide}} {case.size:<9} {engine:<17} {ms or '-':>10} {rows:>10}  {note}"
            print(line.rstrip(), flush=True)
            lines.append(
                [case.name, case.size, case.selectivity, engine, ms, rows, case.pairs, case.input_rows, status, runs]
            )
        if len(set(answers.values())) > 1:
            sys.exit(f"WRONG RESULT, {label(case)}: {answers}")

    options.out.mkdir(parents=True, exist_ok=True)
    target = options.out / f"rivals_{bench}.csv"
    with open(target, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow("case,size,selectivity,engine,ms,rows,pairs,input_rows,status,runs".split(","))
        writer.writerows(lines)
    print(f"written to {target}")
