#!/usr/bin/env python3
"""Runs the tests of executables, one executable after the other, each in one process with many threads.

    scripts/run_tests.py [options] executable…

Processes that share a GPU take turns on it, threads of a process do not. If a process ends early or makes no progress, the tests that it
left run again, each in a process of its own. Prints each test that fails with its output, the slowest tests, and counts. Writes
`times.csv`, `counts.csv` and a log for each executable into the results directory. Fails when a test fails, when there is none, or when fewer
tests of an executable passed than `--minimum` says: tests that were skipped do not count. Needs Python 3.8 or newer, and nothing else.
"""

import argparse
import csv
import os
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SLOWEST = 20

RESULT = re.compile(r"^test (\S+)(?: - should panic)? \.\.\. (ok|FAILED|ignored)(?:, [^<]*)?(?: <([\d.]+)s>)?$")
SECTION = re.compile(r"^---- (\S+) stdout ----$")


class Test:
    def __init__(self, executable, name):
        self.executable, self.name = executable, name
        self.result, self.seconds, self.output = None, 0.0, []

    @property
    def key(self):
        return f"{Path(self.executable).name} {self.name}"

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


def run(tests, threads, patience, log):
    """Runs tests of an executable in one process; returns why it ended before all of them had, if it did."""
    by_name = {test.name: test for test in tests}
    # Times of tests need an unstable option of the test harness.
    options = ["--exact", "--test-threads", str(threads), "--show-output", "-Z", "unstable-options", "--report-time"]
    command = [tests[0].executable, *options, *by_name]
    # Plans do not depend on the rates of the machine.
    environment = {"BOWTIE_RATES": "off", **os.environ, "RUSTC_BOOTSTRAP": "1"}
    last, hangs, ended = time.monotonic(), threading.Event(), threading.Event()
    lines, section = [], None
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=environment
    ) as process:

        def watch():
            while not ended.wait(1.0):
                if time.monotonic() - last > patience:
                    hangs.set()
                    process.kill()
                    return

        watcher = threading.Thread(target=watch)
        watcher.start()
        for line in process.stdout:
            line = line.rstrip("\n")
            lines.append(line)
            result = RESULT.match(line)
            if result and result.group(1) in by_name:
                test = by_name[result.group(1)]
                test.result, test.seconds = result.group(2), float(result.group(3) or 0.0)
                last = time.monotonic()
            elif SECTION.match(line):
                section = by_name.get(SECTION.match(line).group(1))
            elif line in ("failures:", "successes:") or line.startswith("test result:"):
                section = None
            elif section:
                section.output.append(line)
        process.wait()
        ended.set()
        watcher.join()
    with log.lock:
        log.file.write("\n".join([" ".join(command[: len(options) + 1]), *lines, ""]))
        log.file.flush()
    if all(test.result for test in tests):
        return None
    why = f"no test ended in {patience:.0f} s" if hangs.is_set() else f"the process ended with {process.returncode}"
    return "\n".join([*lines[-40:], why])


def run_all(tests, threads, patience, log):
    """Runs all tests of an executable; those that a process left, and those that failed in it, in a process each. Returns the number of
    processes, and why the first one ended early, if it did: tests that pass alone do not make that good."""
    why = run(tests, threads, patience, log)
    if why is None:
        return 1, None
    reason = why.splitlines()[-1]
    print(f"{Path(tests[0].executable).name}: {reason}; its other tests run alone", flush=True)
    # The output of a test that failed is printed at the end of a process.
    again = [test for test in tests if test.result not in ("ok", "ignored")]

    def alone(test):
        test.result = None
        begun = time.monotonic()
        why = run([test], 1, patience, log)
        if why is not None:
            test.result, test.seconds, test.output = "FAILED", time.monotonic() - begun, why.splitlines()

    # Few at once: they take turns on a GPU.
    with ThreadPoolExecutor(max(1, threads // 4)) as pool:
        list(pool.map(alone, again))
    return 1 + len(again), reason


class Log:
    """A file that processes write into, one at a time."""

    def __init__(self, path):
        self.file, self.lock = open(path, "w", encoding="utf-8"), threading.Lock()


def main():
    arguments = argparse.ArgumentParser(description="Runs the tests of executables.")
    arguments.add_argument("executables", nargs="+", metavar="executable")
    arguments.add_argument("--threads", type=int, default=os.cpu_count(), help="tests at once; as many as cores by default")
    arguments.add_argument("--results", type=Path, default=Path("results"), help="where times.csv and logs go")
    arguments.add_argument("--filter", action="append", default=[], metavar="PART", help="only tests with this in their name")
    arguments.add_argument("--skip", action="append", default=[], metavar="PART", help="no tests with this in their name")
    arguments.add_argument(
        "--minimum", action="append", default=[], type=minimum, metavar="NAME=N", help="at least N tests of the executable NAME must pass"
    )
    arguments.add_argument("--patience", type=float, default=200.0, help="seconds without the end of a test after which one hangs")
    given = arguments.parse_args()

    given.results.mkdir(parents=True, exist_ok=True)
    # Names of links are kept.
    executables = [os.path.abspath(executable) for executable in given.executables]
    minimums = dict(given.minimum)
    names = [Path(executable).name for executable in executables]
    for name in minimums:
        if names.count(name) != 1:
            arguments.error(f"--minimum {name}: executables are {', '.join(names)}")
    tests, processes, begun, early = [], 0, time.monotonic(), []
    for executable in executables:
        of_it = listed(executable, given.filter, given.skip)
        tests += of_it
        if of_it:
            log = Log(given.results / f"{Path(executable).name}.log")
            since = time.monotonic()
            count, reason = run_all(of_it, max(1, given.threads), given.patience, log)
            processes += count
            if reason:
                early.append(f"{Path(executable).name}: {reason} while tests ran beside each other")
            print(f"{Path(executable).name}: {counts(of_it)}; {time.monotonic() - since:.0f} s", flush=True)
    took = time.monotonic() - begun

    with open(given.results / "times.csv", "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["test", "result", "seconds"])
        rows.writerows([test.key, test.result, f"{test.seconds:.3f}"] for test in sorted(tests, key=lambda test: -test.seconds))

    missing = early + write_counts(given.results / "counts.csv", names, tests, minimums)

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
    for line in missing:
        print(f"failed: {line}")
    print(f"{counts(tests)}; {took:.0f} s, {processes} processes, {given.threads} tests at once, {sum(test.seconds for test in tests):.0f} s of tests")
    sys.exit(1 if failed or missing or not tests else 0)


def minimum(text):
    """The name of an executable and a number of tests, of `NAME=N`."""
    name, _, number = text.rpartition("=")
    if not name:
        raise ValueError(text)
    return name, int(number)


def write_counts(path, names, tests, minimums):
    """Writes how many tests of each executable passed; returns a line for each that has fewer than its minimum."""
    missing = []
    with open(path, "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["executable", "passed", "failed", "skipped", "minimum"])
        for name in names:
            passed, failed, skipped = counted([test for test in tests if Path(test.executable).name == name])
            rows.writerow([name, passed, failed, skipped, minimums.get(name, "")])
            if passed < minimums.get(name, 0):
                missing.append(f"{name}: {passed} tests passed, of which the minimum is {minimums[name]}")
    return missing


def counted(tests):
    """How many passed, failed, and were skipped."""
    failed = sum(test.result == "FAILED" for test in tests)
    skipped = sum(test.skipped() is not None for test in tests)
    return len(tests) - failed - skipped, failed, skipped


def counts(tests):
    passed, failed, skipped = counted(tests)
    return f"{passed} passed, {failed} failed, {skipped} skipped"


if __name__ == "__main__":
    main()
