"""Tests of the page of src/report/page in Chromium, with the profiles of sample.py.

    python -m venv ../page-tests && ../page-tests/bin/pip install pytest playwright
    ../page-tests/bin/python -m pytest tests/page

All tests in this folder drive the `chromium` that is in PATH; Playwright's own browsers are not needed. Every
page must do without requests, messages on the console and errors: the fixture `opened` checks that for all pages that
a test opens.
"""

import re

import pytest
from playwright.sync_api import expect

import sample
from browsing import SPACE, THIN, focused, frame, press, row
from sample_gpu import Q5
from sample_parts import OPTIONS, node, profile

MOST_PAGE_BYTES, MOST_SAMPLE_BYTES = 62_000, 2_000_000


# ---------------------------------------------------------------- The template


def test_the_template_has_one_place_for_the_profile():
    template = sample.template()
    assert template.count(sample.MARK) == 1
    assert '\n<script type="application/json" id="profile">PROFILE_JSON</script>\n' in template


def test_the_template_is_small_and_needs_no_other_file():
    template = sample.template()
    assert len(template.encode()) < MOST_PAGE_BYTES
    assert not re.search(r"https?:|\bsrc=|@import|url\(|<link(?! rel=\"icon\" href=\"data:,\")", template)


def test_the_template_makes_no_markup_of_strings():
    template = sample.template()
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|srcdoc|DOMParser", template
    )


def test_a_page_with_20000_spans_is_at_most_2_mb(profiles):
    large = profiles["large"]
    assert (len(large["timeline"]["spans"]), len(large["nodes"])) == (20_000, 150)
    assert len(sample.page(large).encode()) <= MOST_SAMPLE_BYTES


def test_a_page_without_a_profile_says_so(opened):
    tab = opened("raw", html=sample.template())
    expect(tab.locator("#summary")).to_contain_text("no profile that can be read")
    expect(tab.locator("#plan")).to_be_hidden()


# ---------------------------------------------------------------- Header


def test_header(opened):
    tab = opened("gpu")
    assert tab.title() == "TPC-H Q5, scale factor 10: profile"
    expect(tab.locator("h1")).to_have_text("TPC-H Q5, scale factor 10")
    expect(tab.locator("#versions")).to_have_text("bowtie 0.1.0 · DataFusion 55.2.0 · 2026-11-26 20:00:00 UTC")
    expect(tab.locator("#summary")).to_contain_text("8 of 13 operators run on cuda:0")
    assert (
        tab.locator("#device").text_content()
        == f"cuda:0 · NVIDIA H100 80GB HBM3 · 80.0{SPACE}GB of memory · at most 72.0{SPACE}GB reserved"
    )
    figures = tab.locator("#figures").text_content()
    for text in (
        "Execution42.6",
        f"Planning1.20{SPACE}ms",
        f"Result rows5512{SPACE}B",
        "Offloaded8 of 13",
        f"Uploads31.2{SPACE}GB",
        f"Downloads1480{SPACE}B",
    ):
        assert text in figures
    assert tab.locator("#comparison b").all_text_contents()[1:] == [f"31.0{SPACE}ms", f"486{SPACE}ms"]
    expect(tab.locator("#notes li")).to_have_count(1)


def test_sql_and_options_are_collapsed_and_complete(opened):
    tab = opened("gpu")
    expect(tab.locator("#sql")).to_be_hidden()
    tab.locator("summary", has_text="SQL").click()
    assert tab.locator("#sql").text_content() == Q5
    tab.locator("summary", has_text="Options").click()
    assert tab.locator("#options code").all_text_contents() == [text for option in OPTIONS for text in option]


# ---------------------------------------------------------------- Tree of operators


@pytest.mark.parametrize("name", ["gpu", "host", "declined", "large", "hostile"])
def test_every_node_is_in_the_tree(opened, profiles, name):
    tab = opened(name)
    found = tab.evaluate("""() => [...document.querySelectorAll('[role=tree] > [role=treeitem]')].map(row => ({
        id: row.id, level: Number(row.getAttribute('aria-level')), name: row.querySelector('b').textContent,
        detail: row.querySelector('.detail').textContent, place: row.querySelector('.badge').textContent,
        reason: document.getElementById(row.getAttribute('aria-describedby')).textContent,
        shown: row.checkVisibility() }))""")
    places = {"datafusion": "DataFusion", "host": "CPU backend"}
    assert [(one["id"], one["level"], one["name"], one["detail"], one["place"]) for one in found] == [
        (f"node-{n['id']}", n["depth"] + 1, n["name"], n["detail"], places.get(n["runs_on"], n["runs_on"]))
        for n in profiles[name]["nodes"]
    ]
    for one, n in zip(found, profiles[name]["nodes"], strict=True):
        assert one["reason"].startswith(n["reason"]) and one["shown"]


def test_numbers_of_a_row(opened):
    tab = opened("gpu")
    text = row(tab, 12).inner_text()
    for part in (
        f"2{THIN}275{THIN}919",
        f"est. 2{THIN}310{THIN}000",
        f"26.0{SPACE}MB",
        "4 batches",
        "3%",
        f"1.21{SPACE}ms",
        f"970{SPACE}µs",
        "4%",
        f"57.0{SPACE}MB",
        f"114.0{SPACE}MB",
    ):
        assert part in text
    shares = tab.evaluate("[...document.querySelectorAll('.row')].map(row => row.children[6].lastChild.textContent).filter(Boolean)")
    assert shares == ["<1%", "24%", "43%", "10%", "4%", "12%", "8%"]
    assert row(tab, 12).locator(".traffic .muted").all_text_contents() == ["sent", "resident"]
    share = (
        row(tab, 9).locator(".meter i").bounding_box()["width"] / row(tab, 9).locator(".meter").bounding_box()["width"]
    )
    assert 0.29 < share < 0.33


def test_numbers_have_units_and_three_digits(opened):
    given = [  # rows, bytes, ms, and how they are shown
        (0, 0, 0, "0", "0 B", "0 ms"),
        (999, 1023, 0.00042, "999", "1|023 B", "0.42 µs"),
        (1_000, 1024, 0.4021, "1|000", "1.0 KB", "402 µs"),
        (12_345_678, 1_048_560, 0.9996, "12|345|678", "1.0 MB", "1.00 ms"),
        (1, 1_288_490_189, 9.996, "1", "1.2 GB", "10.0 ms"),
        (2, 80 << 30, 999.6, "2", "80.0 GB", "1.00 s"),
        (3, 5 << 40, 12_345.0, "3", "5.0 TB", "12.3 s"),
        (None, None, None, "–", "–", "–"),
    ]
    nodes = [
        node(id, None if id == 0 else 0, "Exec", "", size=(rows, None, bytes, None), compute_ms=ms)
        for id, (rows, bytes, ms, *_) in enumerate(given)
    ]
    tab = opened("numbers", html=sample.page(profile("Numbers", None, nodes)))
    found = tab.evaluate("""() => [...document.querySelectorAll('.row')].map(row => [row.children[3].querySelector('.pair').lastChild, row.children[4].firstChild,
        row.children[5].querySelector('.pair').lastChild].map(node => node.textContent))""")
    assert found == [
        [text.replace("|", THIN).replace(" ", SPACE) for text in shown]
        for *_, a, b, c in given
        for shown in [(a, b, c)]
    ]


def test_rows_far_from_the_estimate_are_marked(opened, profiles):
    tab = opened("large")
    expected = [
        f"node-{n['id']}"
        for n in profiles["large"]["nodes"]
        if not 0.1 <= max(n["rows"], 1) / max(n["estimated_rows"], 1) <= 10
    ]
    assert tab.evaluate("[...document.querySelectorAll('.off')].map(mark => mark.closest('.row').id)") == expected
    tab = opened("gpu")
    assert tab.locator(".off").all_text_contents() == [f"▲{THIN}49×", f"▲{THIN}4{THIN}999×"]


def test_places_differ_without_colour(opened):
    tab = opened("hostile")
    styles = [
        row(tab, id)
        .locator(".badge")
        .evaluate(
            "badge => [getComputedStyle(badge).borderStyle, getComputedStyle(badge).backgroundColor !== 'rgba(0, 0, 0, 0)']"
        )
        for id in range(3)
    ]
    assert styles == [["solid", True], ["dashed", False], ["solid", False]]


def test_keyboard_in_the_tree(opened):
    tab = opened("gpu")
    press(tab, "Tab")
    assert tab.evaluate("document.activeElement.className") == "skip"
    press(tab, "Enter", "Tab", "Tab", "Tab")  # to the plan, over its two buttons
    assert focused(tab) == "node-0"
    assert tab.evaluate("document.querySelectorAll('[role=treeitem][tabindex=\"0\"]').length") == 1
    assert tab.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    for key, expected in [
        ("ArrowDown", 1),
        ("ArrowDown", 2),
        ("ArrowUp", 1),
        ("End", 14),
        ("ArrowLeft", 13),
        ("ArrowLeft", 13),
        ("ArrowLeft", 9),
        ("Home", 0),
        ("ArrowRight", 1),
        ("ArrowUp", 0),
        ("ArrowUp", 0),
    ]:
        press(tab, key)
        assert focused(tab) == f"node-{expected}", key
    assert row(tab, 13).get_attribute("aria-expanded") == "false"
    press(tab, "Enter")
    assert row(tab, 0).get_attribute("aria-selected") == "true"
    press(tab, "Escape", "Escape")
    assert row(tab, 0).get_attribute("aria-selected") == "false"
    press(tab, "ArrowDown", "Tab", "Shift+Tab")
    assert focused(tab) == "node-1"


def test_collapse_and_expand(opened):
    tab = opened("gpu")

    def shown():
        return tab.locator(".row:visible").count()

    row(tab, 9).locator(".twisty").click()
    assert shown() == 10 and row(tab, 9).get_attribute("aria-expanded") == "false"
    expect(row(tab, 9).locator(".inside")).to_have_text("+5")
    assert row(tab, 9).get_attribute("aria-selected") == "false"
    row(tab, 9).locator(".twisty").click()
    assert shown() == 15
    row(tab, 14).focus()
    tab.locator("#collapse").click()
    assert shown() == 1
    assert tab.locator("[role=treeitem][tabindex='0']").get_attribute("id") == "node-0"
    row(tab, 0).focus()
    press(tab, "ArrowRight", "ArrowRight")
    assert focused(tab) == "node-1" and shown() == 2
    tab.locator("#expand").click()
    assert shown() == 15
    row(tab, 3).focus()
    press(tab, "ArrowLeft")
    assert shown() == 4


@pytest.mark.parametrize("name", ["gpu", "large"])
def test_the_reason_is_shown_on_focus_and_on_hover(opened, profiles, name):
    tab = opened(name)
    tip = tab.locator("#tip")
    row(tab, 0).focus()
    press(tab, *["ArrowDown"] * 5)
    expect(tip).to_be_visible()
    expect(tip).to_contain_text(profiles[name]["nodes"][5]["reason"])
    press(tab, "End")  # which scrolls
    expect(tip).to_contain_text(profiles[name]["nodes"][-1]["reason"])
    press(tab, "Escape")
    expect(tip).to_be_hidden()
    press(tab, "Home")
    row(tab, 3).locator(".name").hover()
    expect(tip).to_contain_text(profiles[name]["nodes"][3]["reason"])
    tip.hover()
    tab.wait_for_timeout(400)
    expect(tip).to_be_visible()
    tab.mouse.move(3, 3)
    expect(tip).to_be_hidden()


def test_the_panel_shows_everything_about_a_node(opened, profiles):
    tab = opened("gpu")
    expect(tab.locator("#panel h3")).to_have_text("Where the time went")
    assert tab.locator("#panel .link").first.text_content() == "#9 BowtieJoinExec"
    row(tab, 9).click()
    n, text = profiles["gpu"]["nodes"][9], tab.locator("#panel").inner_text()
    for part in [
        n["name"],
        n["detail"],
        n["reason"],
        n["strategy"],
        n["replaces"],
        "offloaded",
        f"8{THIN}550{THIN}000",
        f"2.4{SPACE}GB",
        *[text for metric in n["metrics"] for text in metric],
    ]:
        assert part in text
    tab.locator("#panel button", has_text="Close").click()
    assert focused(tab) == "node-9" and row(tab, 9).get_attribute("aria-selected") == "false"
    tab.locator("#panel .link").first.click()
    assert focused(tab) == "node-9" and row(tab, 9).get_attribute("aria-selected") == "true"


# ---------------------------------------------------------------- Parts that are missing


@pytest.mark.parametrize("name", ["declined", "empty"])
def test_without_a_device_there_are_no_charts_but_a_sentence(opened, name):
    tab = opened(name)
    expect(tab.locator("#no-charts")).to_contain_text("no operator was offloaded")
    for part in ("#timeline", "#memory", "#sums", "#zoom"):
        expect(tab.locator(part)).to_be_hidden()
    expect(tab.locator("#device")).to_have_text("No device: nothing was offloaded.")


def test_a_profile_of_nothing(opened):
    tab = opened("empty")
    expect(tab.locator("#tree-card")).to_have_text("The profile has no operators.")
    expect(tab.locator("#folds")).to_be_empty()
    expect(tab.locator("#panel")).to_be_hidden()


@pytest.mark.parametrize("missing", ["timeline", "memory"])
def test_one_chart_without_the_other(opened, profiles, missing):
    tab = opened("part", html=sample.page({**profiles["gpu"], missing: None}))
    expect(tab.locator(f"#{missing}")).to_have_count(0)
    expect(tab.locator("#memory" if missing == "timeline" else "#timeline")).to_be_visible()
    expect(tab.locator("#sums")).to_be_visible(visible=missing == "memory")
    row(tab, 9).click()
    tab.locator("#zoom-in").click()
    frame(tab)


def test_hostile_strings_are_inert(opened, profiles):
    tab = opened("hostile")
    for id in range(3):
        row(tab, id).click()
    for fold in tab.locator("summary:visible").all():
        fold.click()
    tab.locator("#timeline .plot").hover()
    frame(tab)
    assert tab.evaluate("window.attacked") is None
    assert tab.evaluate("document.querySelectorAll('#injected, img, svg, iframe, object').length") == 0
    assert tab.evaluate("document.scripts.length") == 2
    assert tab.evaluate("document.querySelectorAll('[onload], [onerror], [onclick]').length") == 0
    shown = tab.locator("body").inner_text()
    given = profiles["hostile"]
    for text in (
        given["title"],
        given["nodes"][0]["name"],
        given["notes"][0],
        given["device"]["card"],
        given["nodes"][2]["metrics"][0][1],
    ):
        assert text in shown
    assert tab.locator("#sql").text_content() == given["sql"]
