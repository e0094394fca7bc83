"""Profiles of queries."""

from __future__ import annotations

import html
import json
import webbrowser
from pathlib import Path

import pytest

import datafusion_bowtie as bt

QUERY = "SELECT count(*) FROM range(0, 10000) a JOIN range(0, 10000) b ON a.value < b.value"


def test_profiles(forced: bt.Connection, tmp_path: Path) -> None:
    profile = forced.sql(QUERY).profile("page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == profile.html
    assert "BowtieJoinAggregateExec" in profile.html
    assert json.loads(profile.json)
    assert "BowtieJoinAggregateExec" in str(profile)
    assert json.loads(profile.save("figures.json").read_text(encoding="utf-8")) == json.loads(profile.json)


def test_profiles_leave_the_connection_as_it_is(con: bt.Connection) -> None:
    con.sql("CREATE TABLE t AS SELECT 1 AS a")
    con.table("t").profile()
    con.table("t").explain()
    assert con.tables() == ["t"]
    assert con.sql("SELECT * FROM t").fetchall() == [(1,)]


def test_profiles_in_notebooks(con: bt.Connection) -> None:
    profile = con.sql(QUERY).profile()
    frame = profile._repr_html_()
    assert frame.startswith("<iframe srcdoc=")
    page = frame.removeprefix('<iframe srcdoc="').partition('" sandbox=')[0]
    assert '"' not in page
    assert html.unescape(page) == profile.html


def test_profiles_in_a_browser(con: bt.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    profile = con.sql(QUERY).profile()
    path = profile.open()
    assert opened == [path.as_uri()]
    assert path.read_text(encoding="utf-8") == profile.html
    path.unlink()
