"""Options of connections."""

from __future__ import annotations

import pytest

import datafusion_bowtie as bt


def test_arguments() -> None:
    con = bt.connect(
        device="CPU",
        offload="force",
        device_memory="512MB",
        cache="off",
        threads=3,
        memory_limit="1.5GiB",
        options={"chunk_rows": 1000, "datafusion.execution.collect_statistics": False, "bowtie.set_strategy": "prefix"},
    )
    assert repr(con) == "<Connection: device host, offload force, 0 tables>"
    assert con.get("device") == "host"
    assert con.get("offload") == "force"
    assert con.get("device_memory") == "512MB"
    assert con.get("cache") == "off"
    assert con.get("chunk_rows") == "1000"
    assert con.get("set_strategy") == "prefix"
    assert con.get("datafusion.execution.target_partitions") == "3"
    assert con.get("datafusion.execution.collect_statistics") == "false"
    assert con.get("datafusion.runtime.memory_limit") is not None
    assert con.sql("SHOW bowtie.offload").fetchall()[0][1] == "force"


def test_sizes_are_numbers_too() -> None:
    con = bt.connect(device="host", device_memory=8 << 30, memory_limit=1 << 30, cache=1 << 30)
    assert con.get("device_memory") == "8GB"
    assert con.get("cache") == "1GB"


def test_names_with_a_prefix_or_without(con: bt.Connection) -> None:
    con.set("BOWTIE.offload", "off")
    assert con.get("Offload") == "off"
    con.set("datafusion.execution.time_zone", "it's")
    assert con.get("datafusion.execution.time_zone") == "it's"


def test_options_are_reset(con: bt.Connection) -> None:
    con.set("offload", "off")
    assert con.sql("RESET bowtie.offload").fetchall() == []
    assert con.get("offload") == "auto"
    with pytest.raises(bt.ConfigurationError, match=r"there is no option bowtie\.ofload"):
        con.sql("RESET bowtie.ofload")


def test_connections_have_options_and_tables_of_their_own(con: bt.Connection) -> None:
    other = bt.connect(device="host", offload="off")
    con.sql("CREATE TABLE t AS SELECT 1 AS a")
    assert other.tables() == []
    assert con.get("offload") == "auto"
    assert other.get("offload") == "off"


@pytest.mark.parametrize("limit", ["", "-1GB", "nan", "1XB", "0"])
def test_limits_that_are_none(limit: str) -> None:
    with pytest.raises(bt.ConfigurationError, match="use a size such as 512MB"):
        bt.connect(memory_limit=limit)


def test_queries_spill_within_a_limit() -> None:
    con = bt.connect(device="host", offload="off", memory_limit="32MB", threads=2)
    frame = con.sql("SELECT value % 1000000 AS k, count(*) AS n FROM range(0, 3000000) GROUP BY 1 ORDER BY 1")
    assert frame.count() == 1_000_000
