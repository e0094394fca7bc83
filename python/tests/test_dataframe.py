"""What a DataFrame is and shows."""

from __future__ import annotations

import copy
import pickle

import pyarrow as pa
import pytest

import datafusion_bowtie as bt


def test_versions() -> None:
    assert bt.__version__ == "0.1.0"
    assert bt.datafusion_version.startswith("55.")


def test_queries_are_lazy(con: bt.Connection) -> None:
    frame = con.sql("SELECT 1 / value AS x FROM range(0, 3)")
    assert frame.columns == ["x"]
    assert frame.dtypes == ["Int64"]
    assert frame.schema == pa.schema([pa.field("x", pa.int64(), nullable=False)])
    assert pa.schema(frame) == frame.schema
    with pytest.raises(bt.ExecutionError, match="Divide by zero"):
        frame.to_arrow()


def test_statements_run_at_once(con: bt.Connection) -> None:
    con.sql("CREATE TABLE t AS SELECT 1 AS a")
    assert con.sql("INSERT INTO t VALUES (2), (3)").fetchall() == [(2,)]
    assert con.sql("SELECT sum(a) FROM t").fetchall() == [(6,)]
    assert con.sql("COPY t TO 'out.parquet'").fetchall() == [(3,)]
    con.sql("DROP TABLE t")
    assert con.tables() == []


def test_options_hold_from_the_next_run_on(forced: bt.Connection) -> None:
    frame = forced.sql("SELECT count(*) FROM range(0, 1000) a JOIN range(0, 1000) b ON a.value < b.value")
    assert "Bowtie" in str(frame.explain())
    forced.set("offload", "off")
    assert "Bowtie" not in str(frame.explain(analyze=True))


def test_methods_make_other_frames(con: bt.Connection) -> None:
    frame = con.sql("SELECT value AS a, value % 3 AS b FROM range(0, 10)")
    assert frame.filter("b = 0").sort("a DESC").select("a", "a + b AS c").limit(2, offset=1).fetchall() == [(6, 6), (3, 3)]
    assert frame.select("*", "b * 2 AS d").columns == ["a", "b", "d"]
    assert frame.count() == 10


def test_order_of_nulls(con: bt.Connection) -> None:
    frame = con.sql("SELECT * FROM (VALUES (1), (NULL), (2)) v(a)")
    assert frame.sort("a").fetchall() == [(1,), (2,), (None,)]
    assert frame.sort("a DESC").fetchall() == [(None,), (2,), (1,)]
    assert frame.sort("a NULLS FIRST").fetchall() == [(None,), (1,), (2,)]
    assert frame.sort("a DESC NULLS LAST").fetchall() == [(2,), (1,), (None,)]
    with pytest.raises(bt.PlanError):
        frame.sort("a SIDEWAYS")


def test_text(con: bt.Connection) -> None:
    frame = con.sql("SELECT * FROM (VALUES (1, 'x'), (-20, NULL), (3, '日本\n語')) v(a, \"long name\")")
    assert repr(frame) == "\n".join(
        [
            "┌───────┬───────────┐",
            "│ a     │ long name │",
            "│ Int64 │ Utf8      │",
            "├───────┼───────────┤",
            "│     1 │ x         │",
            "│   -20 │ NULL      │",
            "│     3 │ 日本⏎語   │",
            "└───────┴───────────┘",
            "3 rows",
        ]
    )


def test_show_of_a_plan(con: bt.Connection, capsys: pytest.CaptureFixture[str]) -> None:
    for statement in ("EXPLAIN", "EXPLAIN ANALYZE"):
        con.sql(f"{statement} SELECT 1 AS x").show()
        assert "plan_type" in capsys.readouterr().out


def test_show(con: bt.Connection, capsys: pytest.CaptureFixture[str]) -> None:
    frame = con.sql("SELECT value FROM range(0, 100) ORDER BY value")
    frame.show()
    shown = capsys.readouterr().out
    assert "│    19 │" in shown
    assert "│    20 │" not in shown
    assert shown.endswith("20 rows, … more rows\n")
    frame.show(0)
    assert capsys.readouterr().out.endswith("0 rows, … more rows\n")
    con.sql("SELECT 1 WHERE false").show()
    assert capsys.readouterr().out.endswith("0 rows\n")


def test_long_text_is_cut(con: bt.Connection) -> None:
    assert f"│ {'ž' * 120}… │" in repr(con.sql("SELECT repeat('ž', 1000) AS a"))


def test_tables_of_notebooks(con: bt.Connection) -> None:
    frame = con.sql('SELECT value AS "<b>n</b>", \'<script>alert("&")</script>\' AS s, NULL AS e FROM range(0, 100) ORDER BY value')
    html = frame._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;alert(&quot;&amp;&quot;)&lt;/script&gt;" in html
    assert "&lt;b&gt;n&lt;/b&gt;<br>" in html
    assert ">Int64</span>" in html
    assert html.count("<tr>") == 11
    assert html.count(">NULL</td>") == 10
    assert "10 rows, … more rows" in html


def test_notebooks_run_a_query_once(con: bt.Connection) -> None:
    bundle = con.sql("SELECT random() AS r")._repr_mimebundle_()
    number = bundle["text/plain"].splitlines()[4].strip("│ ")
    assert number in bundle["text/html"]


def test_explanations(forced: bt.Connection) -> None:
    frame = forced.sql("SELECT count(*) FROM range(0, 1000) a JOIN range(0, 1000) b ON a.value < b.value")
    plan = frame.explain()
    assert "BowtieJoinAggregateExec" in str(plan)
    assert str(plan) == repr(plan)
    assert plan._repr_html_().startswith("<pre")
    rows = plan.to_arrow()
    assert "reason" in rows.column_names
    assert rows.num_rows > 1
    analyzed = frame.explain(analyze=True)
    assert "output_rows=1" in str(analyzed)
    assert analyzed.to_arrow().column_names == ["plan_type", "plan"]


def test_devices(con: bt.Connection) -> None:
    host, *gpus = bt.devices().to_arrow().to_pylist()
    assert (
        list(host)
        == con.devices().columns
        == [
            *("device", "name", "usable", "is_default", "memory_bytes", "free_bytes", "budget_bytes", "reserved_bytes"),
            *("compute_capability", "driver", "kernels", "reason"),
        ]
    )
    assert (host["device"], host["usable"], host["kernels"], host["reason"]) == ("host", True, "Rust", None)
    assert 0 < host["free_bytes"] <= host["memory_bytes"]
    # A row that says why there is no GPU, or one for each.
    assert gpus
    assert all(gpu["usable"] == (gpu["reason"] is None) for gpu in gpus)
    assert [gpu["is_default"] for gpu in [host, *gpus]].count(True) == 1
    assert con.stats().count() > 0
    assert con.cached().columns[:3] == ["device", "table", "column"]


def test_pickles_are_refused(con: bt.Connection) -> None:
    frame = con.sql("SELECT 1 AS a")
    for refused, message in [(con, "connect in each process"), (frame, r"df\.to_arrow\(\)"), (frame.to_batches(), "send its batches")]:
        with pytest.raises(TypeError, match=message):
            pickle.dumps(refused)
        with pytest.raises(TypeError, match=message):
            copy.copy(refused)


def test_missing_packages(con: bt.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    frame = con.sql("SELECT 1 AS a")
    for package, method in [("polars", frame.to_polars), ("pandas", frame.to_pandas), ("pyarrow", frame.to_arrow)]:
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(ModuleNotFoundError, match=rf"to_\w+\(\) needs {package}: pip install 'datafusion-bowtie\[{package}\]'"):
            method()
    assert frame.fetchall() == [(1,)]
