"""Exceptions have the class of what went wrong, and the engine's message."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import datafusion_bowtie as bt

Failing = Callable[[bt.Connection], object]

CASES: list[tuple[type[Exception], str, Failing]] = [
    (bt.PlanError, "Expected", lambda con: con.sql("SELEC 1")),
    (bt.PlanError, "table 'datafusion.public.nothing' not found", lambda con: con.sql("SELECT * FROM nothing")),
    (bt.PlanError, "No field named nothing", lambda con: con.sql("SELECT nothing FROM range(0, 1)")),
    (bt.PlanError, "Invalid function 'nothing'", lambda con: con.sql("SELECT nothing(1)")),
    (bt.PlanError, "No field named nothing", lambda con: con.sql("SELECT 1 AS a").filter("nothing > 1")),
    (bt.ExecutionError, "Divide by zero", lambda con: con.sql("SELECT 1 / v FROM (VALUES (0)) t(v)").fetchall()),
    (bt.ExecutionError, "Cannot cast string 'x'", lambda con: con.sql("SELECT CAST(v AS INT) FROM (VALUES ('x')) t(v)").to_arrow()),
    (bt.NotSupportedError, "Unsupported SQL statement: VACUUM", lambda con: con.sql("VACUUM")),
    (bt.ConfigurationError, "bowtie.offload", lambda con: con.set("offload", "sometimes")),
    (bt.ConfigurationError, "bowtie.nothing", lambda con: con.set("nothing", 1)),
    (bt.ConfigurationError, "datafusion.nothing", lambda con: con.set("datafusion.nothing", 1)),
    (bt.ConfigurationError, "bowtie.nothing", lambda con: con.get("nothing")),
    (bt.ConfigurationError, "letters, digits", lambda con: con.set("offload = 'off'; --", 1)),
    (bt.ConfigurationError, "bowtie.device_memory cannot be 'much'", lambda con: bt.connect(device_memory="much")),
    (bt.ConfigurationError, "memory_limit cannot be 'much'", lambda con: bt.connect(memory_limit="much")),
    (bt.FileError, "there is no file at missing.parquet", lambda con: con.register("t", "missing.parquet")),
    (bt.FileError, "there is no file at missing/", lambda con: con.read_csv("missing/")),
    (bt.FileError, r"there is no file at missing/\*.csv", lambda con: con.read_csv("missing/*.csv")),
    (bt.FileError, "there is no file at missing.parquet", lambda con: con.sql("SELECT * FROM 'missing.parquet'")),
    (bt.NotSupportedError, "URLs that begin with ftp://", lambda con: con.register("t", "ftp://example/x.parquet")),
]


@pytest.mark.parametrize(("kind", "message", "fails"), CASES)
def test_classes(con: bt.Connection, kind: type[Exception], message: str, fails: Failing) -> None:
    with pytest.raises(bt.Error, match=message) as raised:
        fails(con)
    assert type(raised.value) is kind


def test_file_errors_are_errors_of_the_system(con: bt.Connection) -> None:
    with pytest.raises(OSError, match="there is no file"):
        con.read_parquet("missing.parquet")


def test_memory_that_is_exhausted() -> None:
    con = bt.connect(device="host", offload="off", memory_limit="1MB")
    with pytest.raises(bt.ResourcesError, match="memory"):
        con.sql("SELECT array_agg(value) FROM range(0, 10000000)").fetchall()


def test_errors_within_a_stream(con: bt.Connection) -> None:
    import pyarrow as pa

    frame = con.sql("SELECT 1 / value AS x FROM range(0, 3)")
    with pytest.raises(pa.ArrowInvalid, match="Divide by zero"):
        pa.table(frame)
    batches = frame.to_batches()
    with pytest.raises(bt.ExecutionError, match="Divide by zero"):
        list(batches)
    assert list(batches) == []


def test_a_gpu_that_is_not_there() -> None:
    gpus = [device for (device,) in bt.devices().filter("device LIKE 'cuda:%'").select("device").fetchall()]
    if gpus:
        pytest.skip("there is a GPU")
    con = bt.connect(device="cuda:0", offload="force")
    with pytest.raises(bt.Error, match="cuda"):
        con.sql("SELECT count(*) FROM range(0, 1000) a JOIN range(0, 1000) b ON a.value < b.value").fetchall()
