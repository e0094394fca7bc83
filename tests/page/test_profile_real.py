"""The page of a query that really ran, by the shell that BOWTIE_SQL names."""

import json
import os
import subprocess

import pytest

SHELL = os.environ.get("BOWTIE_SQL")

QUERY = """
SELECT a.k, count(*) AS n, sum(b.v) AS total
FROM (SELECT value AS v, value % 7 AS k FROM generate_series(1, 20000)) a
JOIN (SELECT value AS v, value % 5 AS k FROM generate_series(1, 30000)) b
ON b.v BETWEEN a.v - 10 AND a.v + 10 AND a.k <> b.k
GROUP BY a.k ORDER BY total DESC
"""


@pytest.mark.skipif(not SHELL, reason="BOWTIE_SQL names no shell")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_query_that_ran(opened, tmp_path, scheme):
    page, figures = tmp_path / "page.html", tmp_path / "figures.json"
    subprocess.run(
        [SHELL, "profile", QUERY, "--offload", "force", "--device", "host", "-o", page, "--json", figures],
        check=True,
        capture_output=True,
    )
    assert page.stat().st_size < 2 << 20
    profile = json.loads(figures.read_text(encoding="utf-8"))
    assert profile["rows"] == 7
    tab = opened("real", scheme=scheme, html=page.read_text(encoding="utf-8"))
    items = tab.get_by_role("treeitem")
    assert items.count() == len(profile["nodes"])
    shown = items.all_inner_texts()
    for node, text in zip(profile["nodes"], shown, strict=True):
        assert node["name"] in text
    text = tab.locator("body").inner_text()
    assert profile["summary"]["text"] in text
    assert "BowtieJoinAggregateExec" in text or "BowtieJoinExec" in text
    # Its steps are drawn, and listed by the node that did them.
    assert any(span["lane"] == "host" for span in profile["timeline"]["spans"])
    if folder := os.environ.get("BOWTIE_SCREENSHOTS"):
        tab.screenshot(path=f"{folder}/profile-{scheme}.png", full_page=True)
