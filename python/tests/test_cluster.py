"""Connections to a scheduler of Ballista: processes of `bowtie-cluster` on this machine."""

from __future__ import annotations

import os
import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

import datafusion_bowtie as bt

PROGRAM = os.environ.get("BOWTIE_CLUSTER")
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="BOWTIE_CLUSTER names no bowtie-cluster")

OVERLAPS = "SELECT a.id AS a, b.id AS b FROM 'spans/*.parquet' a JOIN 'spans/*.parquet' b ON a.start <= b.stop AND b.start <= a.stop"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory, device: str) -> Iterator[str]:
    """The address of a scheduler with two executors."""
    assert PROGRAM is not None
    folder = tmp_path_factory.mktemp("executors")
    environment = {**os.environ, "BOWTIE_DEVICE": device}
    listening = [PROGRAM, "scheduler", "--listen", "127.0.0.1:0", "--host", "127.0.0.1"]
    processes = [subprocess.Popen(listening, env=environment, stdout=subprocess.PIPE, text=True)]
    try:
        assert processes[0].stdout is not None
        address = processes[0].stdout.readline().split()[-1]
        port = address.rsplit(":", 1)[1]
        for name in ("one", "two"):
            ports = ["--port", str(free_port()), "--task-port", str(free_port())]
            executor = [PROGRAM, "executor", "--scheduler-host", "127.0.0.1", "--scheduler-port", port, "--slots", "2", *ports]
            command = [*executor, "--work-dir", str(folder / name)]
            processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, text=True))
        yield address
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.fixture
def spans(con: bt.Connection) -> Path:
    """A folder of two files."""
    for part in range(2):
        query = "SELECT $1 * 1000 + value AS id, value * 7 % 1000 AS start, value * 7 % 1000 + value % 5 AS stop FROM range(0, 1000)"
        con.sql(query, part).write_parquet(f"spans/{part}.parquet")
    return Path("spans").absolute()


def test_files(scheduler: str, spans: Path, con: bt.Connection, device: str) -> None:
    remote = bt.connect(scheduler, offload="force")
    assert sorted(remote.sql(OVERLAPS).fetchall()) == sorted(con.sql(OVERLAPS).fetchall())
    remote.register("spans", spans)
    query = "SELECT stop - start AS length, count(*) AS n FROM spans WHERE id >= $1 GROUP BY 1 ORDER BY 1"
    assert remote.sql(query, 1000).fetchall() == [(length, 200) for length in range(5)]
    analyzed = "\n".join(str(row) for row in remote.sql(f"EXPLAIN ANALYZE SELECT count(*) FROM ({OVERLAPS}) o").fetchall())
    # Names the executor and its device: on_<host>:<port>_host.
    name = "cuda_0" if device == "cuda" else device.replace(":", "_")
    assert re.search(rf"on_\S+:\d+_{name}=", analyzed)


def test_tables_of_this_process(scheduler: str, spans: Path) -> None:
    remote = bt.connect(scheduler)
    remote.register("spans", spans)
    remote.register("wanted", pl.DataFrame({"id": [3, 1003, 5000]}))
    assert remote.sql("SELECT count(*) FROM spans JOIN wanted USING (id)").fetchall() == [(2,)]
    remote.sql("CREATE TABLE long AS SELECT id FROM spans WHERE stop - start = 4")
    assert remote.sql("SELECT count(*) FROM long").fetchall() == [(400,)]
    assert remote.tables() == ["long", "spans", "wanted"]


def test_results(scheduler: str, spans: Path) -> None:
    remote = bt.connect(scheduler, threads=4)
    remote.register("spans", spans)
    with remote.table("spans").select("id", "start").to_batches() as batches:
        assert sum(batch.num_rows for batch in batches) == 2000
    assert remote.table("spans").filter("id < 10").sort("id").to_polars()["id"].to_list() == list(range(10))
    assert remote.table("spans").write_parquet("copy.parquet") == 2000
    assert remote.sql("SELECT count(*) FROM 'copy.parquet'").fetchall() == [(2000,)]


def test_options(scheduler: str, spans: Path) -> None:
    remote = bt.connect(scheduler, options={"strict": True, "offload": "force"})
    assert remote.get("strict") == "true"
    remote.register("spans", spans)
    remote.set("device", "cuda:63")
    with pytest.raises(bt.Error, match="cuda:63"):
        remote.sql("SELECT count(*) FROM spans a JOIN spans b ON a.id < b.id").fetchall()
    remote.set("device", "auto")
    assert remote.sql("SELECT count(*) FROM spans a JOIN spans b ON a.id < b.id").fetchall() == [(1_999_000,)]


def test_errors(scheduler: str) -> None:
    remote = bt.connect(scheduler)
    with pytest.raises(bt.FileError, match=r"nowhere\.parquet"):
        remote.sql("SELECT * FROM 'nowhere.parquet'").fetchall()
    with pytest.raises(bt.PlanError, match="nowhere"):
        remote.sql("SELECT * FROM nowhere").fetchall()
    with pytest.raises(bt.ConfigurationError, match="df://localhost:50050"):
        bt.connect("df://")


def test_nobody_listens(spans: Path) -> None:
    remote = bt.connect(f"df://127.0.0.1:{free_port()}")
    with pytest.raises(bt.Error, match=r"127\.0\.0\.1"):
        remote.sql("SELECT count(*) FROM 'spans/*.parquet'").fetchall()
