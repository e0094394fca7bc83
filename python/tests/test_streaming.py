"""Results batch by batch, interrupts, threads and forks."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import polars as pl
import pyarrow as pa
import pytest

import datafusion_bowtie as bt

LONG = {
    "datafusion": "SELECT count(*) AS n FROM range(0, 3000000) a JOIN range(0, 3000000) b ON (a.value * 7919 + b.value) % 1000003 = 5",
    "bowtie": "SELECT sum(a.value * b.value % 7) AS n FROM range(0, 3000000) a JOIN range(0, 3000000) b ON a.value < b.value",
}
ENDLESS = "SELECT a.value AS a, b.value AS b FROM range(0, 1000000) a JOIN range(0, 1000000) b ON a.value <= b.value"


def test_batches(con: bt.Connection) -> None:
    frame = con.sql("SELECT value FROM range(0, 100000)")
    batches = frame.to_batches()
    assert batches.schema == frame.schema
    first = next(batches)
    assert isinstance(first, pa.RecordBatch)
    rest = list(batches)
    assert len(rest) > 1
    assert first.num_rows + sum(batch.num_rows for batch in rest) == 100_000
    assert list(batches) == []


def test_a_stream_is_pulled(con: bt.Connection) -> None:
    """The first rows of a result that could not be had as a whole are there at once, and the rest is not computed."""
    begun = time.monotonic()
    with con.sql(ENDLESS).to_batches() as batches:
        assert next(batches).num_rows > 0
        assert next(batches).num_rows > 0
    assert list(batches) == []
    stream = pa.RecordBatchReader.from_stream(con.sql(ENDLESS))
    assert stream.read_next_batch().num_rows > 0
    stream.close()
    del stream
    gc.collect()
    assert time.monotonic() - begun < 30


def test_every_stream_runs_the_query(con: bt.Connection) -> None:
    frame = con.sql("SELECT value FROM range(0, 10)")
    assert pa.table(frame).num_rows == 10
    assert pl.DataFrame(frame).shape == (10, 1)


def test_a_schema_that_is_asked_for(con: bt.Connection) -> None:
    frame = con.sql("SELECT value FROM range(0, 10)")
    reader = pa.RecordBatchReader.from_stream(frame, schema=pa.schema([("value", pa.int32())]))
    assert reader.read_all().schema == pa.schema([("value", pa.int32())])


@pytest.mark.slow
def test_big_results(con: bt.Connection) -> None:
    frame = con.sql("SELECT value, value * 2 AS b, CAST(value AS VARCHAR) AS s FROM range(0, 5000000)")
    table = frame.to_arrow()
    assert table.num_rows == 5_000_000
    assert table["value"].to_numpy().sum() == sum(range(5_000_000))


INTERRUPTED = """
    import os, signal, sys, threading, time
    import datafusion_bowtie as bt, pyarrow as pa

    con = bt.connect(device="host")
    frame = con.sql({query!r})
    sent = []

    def interrupt():
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    threading.Timer(1.0, interrupt).start()
    try:
        {call}
    except KeyboardInterrupt:
        pass
    except pa.ArrowInvalid as error:
        # A library that reads the stream raises its own exception.
        assert "KeyboardInterrupt" in str(error)
    else:
        sys.exit("it was not interrupted")
    print(time.monotonic() - sent[0])
    # The connection works on.
    assert con.sql("SELECT 1 AS a").fetchall() == [(1,)]
"""

CALLS = {
    "to_arrow": "frame.to_arrow()",
    "fetchall": "frame.fetchall()",
    "to_batches": "list(frame.to_batches())",
    "show": "frame.show()",
    "explain": "frame.explain(analyze=True)",
    "stream": "pa.table(frame)",
    "write": "frame.write_parquet('out.parquet')",
    "profile": "frame.profile()",
    "register": "batch = pa.record_batch({'a': [1]}); "
    "con.register('t', pa.RecordBatchReader.from_batches(batch.schema, iter(lambda: batch, None)))",
}


@pytest.mark.parametrize("query", LONG)
@pytest.mark.parametrize("call", CALLS)
def test_interrupts(query: str, call: str) -> None:
    program = textwrap.dedent(INTERRUPTED.format(query=LONG[query], call=CALLS[call]))
    begun = time.monotonic()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    ended = time.monotonic()
    assert (done.returncode, done.stderr) == (0, "")
    assert float(done.stdout) < 3
    # With the second before the signal, the start and the end of the interpreter, on a busy machine. The query itself takes minutes.
    assert ended - begun < 1 + 15, done.stdout


def test_other_threads_run_meanwhile(con: bt.Connection) -> None:
    """The GIL is released: Python counts while a query runs."""
    steps = 0
    done = threading.Event()

    def count() -> None:
        nonlocal steps
        while not done.is_set():
            steps += 1
            time.sleep(0.001)

    counter = threading.Thread(target=count)
    counter.start()
    begun = time.monotonic()
    con.sql("SELECT count(DISTINCT value % 1000003) FROM range(0, 5000000)").fetchall()
    took = time.monotonic() - begun
    done.set()
    counter.join()
    assert steps > took * 100


def test_threads(con: bt.Connection) -> None:
    con.register("t", pl.DataFrame({"a": range(10_000)}))
    con.set("offload", "force")

    def work(thread: int) -> list[object]:
        results: list[object] = []
        for step in range(5):
            name = f"t{thread}_{step}"
            con.register(name, pl.DataFrame({"a": [thread, step]}))
            results += con.sql(f"SELECT count(*) FROM t JOIN {name} n ON t.a < n.a").fetchall()
            con.deregister(name)
        return results

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(work, range(8)))
    assert results == [[(thread + step,) for step in range(5)] for thread in range(8)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_forked_processes() -> None:
    program = """
    import os, sys
    import datafusion_bowtie as bt

    con = bt.connect(device="host")
    frame = con.sql("SELECT 1 AS a")
    child = os.fork()
    if child == 0:
        for call in [frame.fetchall, lambda: con.sql("SELECT 1"), bt.connect]:
            try:
                call()
            except bt.Error as error:
                assert "forked" in str(error), error
            else:
                os._exit(1)
        # And its end does not hang.
        sys.exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert frame.fetchall() == [(1,)]
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_child_that_is_first() -> None:
    """A process that has not used the package may fork."""
    program = """
    import os
    import datafusion_bowtie as bt

    child = os.fork()
    assert bt.connect(device="host").sql("SELECT 1 AS a").fetchall() == [(1,)]
    if child:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_end_of_the_interpreter() -> None:
    """Queries that run then, and frames that outlive their connection, are no trouble."""
    program = f"""
    import threading
    import datafusion_bowtie as bt, pyarrow as pa

    con = bt.connect(device="host")
    con.register("t", pa.table({{"a": range(1000)}}))
    batches = con.sql({ENDLESS!r}).to_batches()
    next(batches)
    kept = con.table("t")
    threading.Thread(target=lambda: con.sql({LONG["datafusion"]!r}).fetchall(), daemon=True).start()
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    # What the thread says, whose query was ended, and no more.
    assert done.stderr.count("Error") == done.stderr.count("the interpreter ends")
    assert "panicked" not in done.stderr
