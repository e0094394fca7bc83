#!/usr/bin/env python3
"""Runs the tests of executables in shards: processes beside each other, each with a few tests of one module, one after the other.

    scripts/test_shards.py [options] executable…

A process that ends early, or hangs, fails the test that it was in; its other tests run in a process of their own. Prints each test that
fails with its output, the slowest tests, and counts. Writes `times.csv` and a log for each executable into the results directory. Fails
when a test fails, or when there is none. Needs Python 3.8 or newer, and nothing else.
"""

import argparse
import csv
import heapq
import os
import re
import subprocess
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path

# Tests of a shard, at most: opening a GPU takes a process up to a second.
MOST_TESTS = 4
# Seconds that the tests of a shard are expected to take, at most, but for a single one that takes longer.
MOST_SECONDS = 10.0
# Seconds that a test is expected to take of which no time is known.
UNKNOWN_SECONDS = 2.0
SLOWEST = 20

STARTED = re.compile(r"^test (\S+)(?: - should panic)? \.\.\. ?(.*)$")
RESULT = re.compile(r"(?:^|\W)(ok|FAILED|ignored)(?:, .*)?$")
SECTION = re.compile(r"^---- (\S+) stdout ----$")


class Test:
    def __init__(self, executable, name):
        self.executable, self.name = executable, name
        self.result, self.seconds, self.output = None, 0.0, []

    @property
    def key(self):
        return f"{Path(self.executable).name} {self.name}"

    @property
    def module(self):
        return self.executable, self.name.rpartition("::")[0]

    def skipped(self):
        """Why it did nothing, if it says so."""
        if self.result == "ignored":
            return "ignored"
        if self.result == "ok":
            reasons = (line[len("skipped: ") :] for line in self.output if line.startswith("skipped: "))
            return next(reasons, None)
        return None


def listed(executable, filters, skips):
    lines = subprocess.run([executable, "--list", "--format", "terse"], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    names = [line[: -len(": test")] for line in lines if line.endswith(": test")]
    wanted = [name for name in names if not filters or any(part in name for part in filters)]
    return [Test(executable, name) for name in wanted if not any(part in name for part in skips)]


def shards(tests, expected, first):
    """Lists of tests, in the order in which they are started: the longest first."""
    modules = defaultdict(list)
    for test in tests:
        modules[test.module].append(test)
    made = []
    for members in modules.values():
        members.sort(key=lambda test: -expected(test))
        shard, seconds = [], 0.0
        for test in members:
            if shard and (len(shard) == MOST_TESTS or seconds + expected(test) > MOST_SECONDS):
                made.append(shard)
                shard, seconds = [], 0.0
            shard.append(test)
            seconds += expected(test)
        made.append(shard)

    def rank(shard):
        is_first = any(part in test.name for test in shard for part in first)
        return not is_first, -sum(expected(test) for test in shard)

    return sorted(made, key=rank)


def run(shard, patience, log):
    """Runs a shard; returns the tests that it did not come to."""
    by_name = {test.name: test for test in shard}
    command = [shard[0].executable, *by_name, "--exact", "--test-threads", "1", "--show-output"]
    lines, current, since = [], None, time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as process:
        hangs = threading.Event()

        def end():
            hangs.set()
            process.kill()

        timer = threading.Timer(patience, end)
        timer.start()
        section = None
        for line in process.stdout:
            line = line.rstrip("\n")
            lines.append(line)
            started = STARTED.match(line)
            if started and started.group(1) in by_name:
                current, line = by_name[started.group(1)], started.group(2)
            # What other threads print stands between a test's name and its result.
            result = RESULT.search(line)
            if current and result:
                now = time.monotonic()
                current.result, current.seconds = result.group(1), now - since
                since, current = now, None
                timer.cancel()
                timer = threading.Timer(patience, end)
                timer.start()
            elif SECTION.match(line):
                section = by_name.get(SECTION.match(line).group(1))
            elif line in ("failures:", "successes:") or line.startswith("test result:"):
                section = None
            elif section:
                section.output.append(line)
        process.wait()
        timer.cancel()
    left = [test for test in shard if test.result is None]
    if left:
        # The name of a test is printed before it begins.
        met = current or left[0]
        met.result, met.seconds = "FAILED", time.monotonic() - since
        why = f"killed after {patience} s" if hangs.is_set() else f"its process ended with {process.returncode}"
        met.output = [*lines[-40:], why]
        left.remove(met)
    with log:
        log.file.write("\n".join([" ".join(command), *lines, ""]))
        log.file.flush()
    return left


class Log:
    """A file that shards write into, one at a time."""

    def __init__(self, path):
        self.file, self.lock = open(path, "w", encoding="utf-8"), threading.Lock()

    def __enter__(self):
        self.lock.acquire()

    def __exit__(self, *_):
        self.lock.release()


def main():
    arguments = argparse.ArgumentParser(description="Runs the tests of executables in shards.")
    arguments.add_argument("executables", nargs="+", metavar="executable")
    arguments.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes at once; as many as cores by default")
    arguments.add_argument("--results", type=Path, default=Path("results"), help="where times.csv and logs go")
    arguments.add_argument("--times", type=Path, help="a times.csv of an earlier run: the longest tests start first")
    arguments.add_argument("--first", action="append", default=[], metavar="PART", help="start tests with this in their name first")
    arguments.add_argument("--filter", action="append", default=[], metavar="PART", help="only tests with this in their name")
    arguments.add_argument("--skip", action="append", default=[], metavar="PART", help="no tests with this in their name")
    arguments.add_argument("--patience", type=float, default=300.0, help="seconds after which a test hangs")
    given = arguments.parse_args()

    given.results.mkdir(parents=True, exist_ok=True)
    known = {}
    if given.times:
        with open(given.times, newline="", encoding="utf-8") as file:
            known = {row["test"]: float(row["seconds"]) for row in csv.DictReader(file)}
    executables = [str(Path(executable).resolve()) for executable in given.executables]
    tests = [test for executable in executables for test in listed(executable, given.filter, given.skip)]
    logs = {executable: Log(given.results / f"{Path(executable).name}.log") for executable in executables}
    queue = list(enumerate(shards(tests, lambda test: known.get(test.key, UNKNOWN_SECONDS), given.first)))
    processes, begun, lock = len(queue), time.monotonic(), threading.Lock()

    def work():
        nonlocal processes
        while True:
            with lock:
                if not queue:
                    return
                order, shard = heapq.heappop(queue)
            left = run(shard, given.patience, logs[shard[0].executable])
            with lock:
                for test in shard:
                    if test.result == "FAILED":
                        print(f"FAILED after {test.seconds:.1f} s: {test.key}", flush=True)
                if left:
                    processes += 1
                    heapq.heappush(queue, (order, left))

    workers = [threading.Thread(target=work) for _ in range(max(1, given.jobs))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    took = time.monotonic() - begun

    with open(given.results / "times.csv", "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["test", "result", "seconds"])
        rows.writerows([test.key, test.result, f"{test.seconds:.3f}"] for test in sorted(tests, key=lambda test: -test.seconds))

    failed = [test for test in tests if test.result == "FAILED"]
    skipped = [test for test in tests if test.skipped()]
    for test in failed:
        print(f"\n---- {test.key}\n" + "\n".join(test.output).strip())
    slowest = sorted(tests, key=lambda test: -test.seconds)[:SLOWEST]
    print(f"\nThe slowest {len(slowest)} of {len(tests)} tests:")
    for test in slowest:
        print(f"{test.seconds:8.1f} s  {test.key}")
    for test in skipped:
        print(f"skipped: {test.key}: {test.skipped()}")
    for test in failed:
        print(f"failed: {test.key}")
    for executable in executables:
        of_it = [test for test in tests if test.executable == executable]
        print(f"{Path(executable).name}: {counts(of_it)}")
    print(f"{counts(tests)}; {took:.0f} s, {processes} processes, {given.jobs} at once, {sum(test.seconds for test in tests):.0f} s of tests")
    sys.exit(1 if failed or not tests else 0)


def counts(tests):
    failed = sum(test.result == "FAILED" for test in tests)
    skipped = sum(test.skipped() is not None for test in tests)
    return f"{len(tests) - failed - skipped} passed, {failed} failed, {skipped} skipped"


if __name__ == "__main__":
    main()
