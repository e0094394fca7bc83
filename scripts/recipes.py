#!/usr/bin/env python3
"""Runs the recipes of the book, docs/recipes/*.md: every block of code that has a title.

    scripts/recipes.py check [page …]       the results and plans of the pages are what bowtie gives; on fewer rows
                                            DataFusion, DuckDB and the other tools of the page give the same rows
    scripts/recipes.py update [page …]      writes the results, plans and outputs into the pages, to be read
    scripts/recipes.py measure [page …]     the times of a page's queries in all engines of the page, as a table
        --device auto|host|cuda:N           of bowtie (host)
        --limit SECONDS                     for the first run of a query in one engine, and for all of them (300)
        --only ENGINE,…                     leaves the other engines out

It needs the package datafusion_bowtie, duckdb and, for some pages, polars and polars-bio. What the
titles of blocks mean is in recipe_blocks.py.
"""

import argparse
import contextlib
import io
import json
import math
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

from recipe_blocks import ROOT, Failure, Page

PAGES = ROOT / "docs" / "recipes"
DATA = PAGES / "data"
# Plans have as many partitions on every machine.
PARTITIONS = 2
# Seconds in which an engine is loaded.
START = 5
# Fewer rows than this are no size but part of what the data mean.
SIZE = 10_000
# Characters of a line of a plan that `update` writes.
PLAN_WIDTH = 130


# The engines. Each takes the text of a query and gives a function that runs it and returns a list of tuples.


def bowtie(text, device="host", offload="auto"):
    import datafusion_bowtie

    connection = datafusion_bowtie.connect(device=device)
    connection.set("bowtie.offload", offload)
    return lambda: connection.sql(text).fetchall()


def forced(text):
    """bowtie wherever it can: few rows may be left to DataFusion otherwise."""
    return bowtie(text, offload="force")


def datafusion(text):
    return bowtie(text, offload="off")


def duckdb(text):
    import duckdb as engine

    connection = engine.connect()
    connection.sql("SET TimeZone = 'UTC'")
    return lambda: connection.sql(text).fetchall()


def package(text):
    code = compile(text, "block", "exec")

    def run():
        names = {}
        exec(code, names)
        return rows_of(names["result"])

    return run


def rows_of(result):
    """Of a frame of Polars, pandas or Arrow."""
    if hasattr(result, "collect"):
        result = result.collect()
    if hasattr(result, "rows"):
        return result.rows()
    if hasattr(result, "to_pylist"):
        return [tuple(row.values()) for row in result.to_pylist()]
    return list(result.itertuples(index=False, name=None))


def engine(name, text, device):
    if name == "bowtie":
        return bowtie(text, device)
    return {"bowtie by force": forced, "DataFusion": datafusion, "DuckDB": duckdb}.get(name, package)(text)


# What is compared.


def comparable(rows):
    """Rows in one order, their numbers and times in one form: engines differ in the types of sums and in units of time."""
    return sorted((tuple(map(plain, row)) for row in rows), key=repr)


def plain(value):
    if isinstance(value, (bool, type(None), str, bytes)):
        return str(value) if isinstance(value, bool) else value
    if isinstance(value, int) or (isinstance(value, Decimal) and value == value.to_integral_value()):
        return int(value)
    if isinstance(value, (float, Decimal)):
        # Sums of floats are added in another order.
        return "NaN" if math.isnan(value) else float(f"{float(value):.9g}")
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=timezone.utc)).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, (list, tuple)):
        return tuple(map(plain, value))
    return str(value)


def without_numbers(line):
    """A line of a plan without what depends on a machine or an estimate, and without the frame of the tree."""
    return re.sub(r"\d[\d.,]*", "0", " ".join(line.split()))


def make_data(page, shrink):
    """Links to the data of the repository, and runs data.sql in the current folder, on as many rows as it says or by `shrink` fewer."""
    import datafusion_bowtie

    for file in DATA.glob("*.parquet"):
        if not Path(file.name).exists():
            Path(file.name).symlink_to(file)
    if page.data is None:
        return
    statements = page.data
    if shrink:
        statements = re.sub(r"range\(0, (\d+)\)", lambda found: f"range(0, {shrunk(int(found[1]), shrink)})", statements)
    connection = datafusion_bowtie.connect(device="host")
    for statement in re.split(r";\s*$", statements, flags=re.MULTILINE):
        if statement.strip():
            connection.sql(statement)


def shrunk(rows, shrink):
    return rows if rows < SIZE else max(rows // shrink, 1)


@contextlib.contextmanager
def folder(page, shrink=None):
    """The folder of a page's data as the current one."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix=f"recipe-{page.name}-") as path:
        os.chdir(path)
        try:
            make_data(page, shrink)
            yield
        finally:
            os.chdir(before)


def check(page):
    for title, block in page.quotes:
        if block not in (ROOT / title).read_text(encoding="utf-8"):
            raise Failure(f"{page.name}: these lines do not stand in {title}:\n{block}")
    if page.queries or page.programs:
        with folder(page):
            for query in page.queries.values():
                check_shown(page, query)
            check_programs(page)
    if page.shrink:
        with folder(page, page.shrink):
            for query in page.queries.values():
                check_engines(page, query)


def planner():
    """A connection whose plans are those of the pages."""
    import datafusion_bowtie

    connection = datafusion_bowtie.connect(device="host")
    connection.set("datafusion.execution.target_partitions", PARTITIONS)
    return connection


def check_shown(page, query):
    frame = planner().sql(query.sql)
    if query.result is not None:
        same(f"{page.name}: result of {query.name}", query.result, printed(frame.show))
    if query.plan is not None:
        if not query.plan.strip():
            raise Failure(f"{page.name}: the plan of {query.name} is empty")
        lines = iter(map(without_numbers, str(frame.explain()).splitlines()))
        for line in map(without_numbers, query.plan.splitlines()):
            # Each line is looked for behind the one before it: a plan on a page may leave lines out.
            line = line.removesuffix("…").rstrip()
            if line and not any(line in other for other in lines):
                raise Failure(f"{page.name}: the plan of {query.name} has no line\n{line}\nin its place:\n{frame.explain()}")


def check_programs(page):
    names = {"__name__": page.name}
    for title, block, shown in page.programs:
        text = printed(lambda block=block, title=title: exec(compile(block, f"{page.name}: {title}", "exec"), names))
        if shown is not None:
            same(f"{page.name}: output of {title}", shown, text)


def update(page):
    """Puts what happens in place of the blocks of results, plans and outputs."""
    text = page.path.read_text(encoding="utf-8")
    with folder(page):
        connection = planner()
        for query in page.queries.values():
            frame = connection.sql(query.sql)
            if query.result is not None:
                text = replaced(text, f"{query.name}, result", printed(frame.show))
            if query.plan is not None:
                lines = str(frame.explain()).splitlines()
                text = replaced(text, f"{query.name}, plan", "".join(map(short, lines)))
        names = {"__name__": page.name}
        for title, block, shown in page.programs:
            output = printed(lambda block=block, title=title: exec(compile(block, title, "exec"), names))
            if shown is not None:
                text = text.replace(f'title="{title}"\n{block}```\n\n```text\n{shown}```', f'title="{title}"\n{block}```\n\n```text\n{output}```')
    page.path.write_text(text, encoding="utf-8")


def short(line):
    """A line of a plan. Of DataFusion's operators the name is enough: what they do follows from the query."""
    line = re.sub(r"(  datafusion)  .*", r"\1", line)
    return (line if len(line) <= PLAN_WIDTH else f"{line[:PLAN_WIDTH].rsplit(' ', 1)[0]} …").rstrip() + "\n"


def replaced(text, title, block):
    return re.sub(rf'(```text title="{re.escape(title)}"\n).*?(^```$)', lambda found: found[1] + block + found[2], text, flags=re.MULTILINE | re.DOTALL)


def check_engines(page, query):
    expected = comparable(engine("bowtie", query.sql, "host")())
    plan = printed_plan(query)
    if query.plan is not None and "Bowtie" not in plan:
        raise Failure(f"{page.name}: {query.name} runs in DataFusion alone at 1/{page.shrink} of the size:\n{plan}")
    if not expected:
        raise Failure(f"{page.name}: {query.name} has no rows at 1/{page.shrink} of the size")
    for name in ["bowtie by force", *query.engines()[1:]]:
        rows = comparable(engine(name, query.text(name), "host")())
        if rows != expected:
            raise Failure(f"{page.name}: {name} has other rows of {query.name}:\n{rows[:10]}\nbowtie:\n{expected[:10]}")


def printed_plan(query):
    """By force, as of what is compared."""
    connection = planner()
    connection.set("bowtie.offload", "force")
    return str(connection.sql(query.sql).explain())


def printed(function):
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        function()
    return output.getvalue()


def same(what, shown, actual):
    if shown.rstrip() != actual.rstrip():
        raise Failure(f"{what}: the page shows\n{shown}\nand it is\n{actual}")


# Times.


def measure(page, device, limit, only):
    """A table of the median times. Each engine runs in a process of its own, which ends at the limit."""
    with folder(page):
        rows = []
        for query in page.queries.values():
            names = [name for name in query.engines() if not only or name in only]
            rows.append((query.name, {name: time_of(query, name, device, limit) for name in names}))
    engines = list(dict.fromkeys(name for _, times in rows for name in times))
    print(f"\n{page.name}: bowtie on {device}, {os.cpu_count()} cores ({processor()}), {date.today()}\n")
    print("| query | " + " | ".join(engines) + " |")
    print("|---|" + "---|" * len(engines))
    for name, times in rows:
        print(f"| {name} | " + " | ".join(times.get(engine, "") for engine in engines) + " |", flush=True)


def time_of(query, name, device, limit):
    task = json.dumps({"name": name, "text": query.text(name), "device": device, "limit": limit})
    try:
        done = subprocess.run([sys.executable, __file__, "time"], input=task, text=True, stdout=subprocess.PIPE, timeout=limit + START, check=True)
    except subprocess.TimeoutExpired:
        return f"over {limit} s"
    except subprocess.CalledProcessError:
        # Its message is above.
        return "failed"
    return shown_time(json.loads(done.stdout))


def run_task():
    """Runs one query of the standard input: once, and up to five more times within the limit, of which the median counts."""
    task = json.load(sys.stdin)
    run = engine(task["name"], task["text"], task["device"])
    times = []
    for _ in range(6):
        begun = time.perf_counter()
        run()
        times.append(time.perf_counter() - begun)
        if sum(times) + times[-1] > task["limit"]:
            break
    print(statistics.median(times[1:] or times))


def shown_time(seconds):
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s"


def processor():
    try:
        return re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())[1]
    except (OSError, TypeError):
        return platform.machine()


def main():
    parser = argparse.ArgumentParser(description="Runs the recipes of the book.")
    parser.add_argument("what", choices=["check", "update", "measure", "time"])
    parser.add_argument("pages", nargs="*")
    parser.add_argument("--device", default="host")
    parser.add_argument("--limit", type=int, default=300)
    parser.add_argument("--only", type=lambda names: names.split(","))
    arguments = parser.parse_args()
    if arguments.what == "time":
        return run_task()
    paths = [PAGES / f"{page}.md" for page in arguments.pages] or sorted(PAGES.glob("*.md"))
    failed = 0
    for path in paths:
        begun = time.perf_counter()
        try:
            page = Page(path)
            if arguments.what == "check":
                check(page)
                print(f"{page.name}: {len(page.queries)} queries, {len(page.programs)} programs, {len(page.quotes)} quotes: "
                      f"as the page says, {time.perf_counter() - begun:.0f} s", flush=True)
            elif arguments.what == "update":
                update(page)
            else:
                measure(page, arguments.device, arguments.limit, arguments.only)
        except Failure as failure:
            failed += 1
            print(f"FAILED: {failure}", flush=True)
        except Exception:
            # Of an engine or a program of the page: the other pages go on.
            failed += 1
            print(f"FAILED: {path.stem}", flush=True)
            traceback.print_exc()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
