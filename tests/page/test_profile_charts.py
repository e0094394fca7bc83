"""Tests of the page's charts and of the tables below them."""

import re

from playwright.sync_api import expect

from browsing import SPACE, THIN, focused, frame, picture, press, row

MOST_MS = 2_000  # of a page with 20,000 spans


def span_place(tab, span, duration):
    """Where the middle of a span of the first row of its lane is, while the whole query is shown."""
    canvas, label = (
        tab.locator("#timeline canvas").bounding_box(),
        tab.locator(f"[data-lane={span['lane']}]").bounding_box(),
    )
    return canvas["x"] + (span["start_ms"] + span["ms"] / 2) / duration * canvas["width"], label["y"] + 12


def colour(tab, span, duration):
    """The colour of a span in the picture, near its lower edge, below its name."""
    frame(tab)
    canvas, (x, y) = tab.locator("#timeline canvas").bounding_box(), span_place(tab, span, duration)
    return tab.evaluate(
        """([x, y]) => {
          const copy = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
          copy.drawImage(document.querySelector('#timeline canvas'), -x * devicePixelRatio, -y * devicePixelRatio);
          return [...copy.getImageData(0, 0, 1, 1).data];
        }""",
        [round(x - canvas["x"]), round(y - canvas["y"] + 5)],
    )


def test_selecting_a_node_highlights_its_spans(opened, profiles):
    tab = opened("gpu")
    timeline, before = profiles["gpu"]["timeline"], picture(tab)
    own = [span for span in timeline["spans"] if span["node"] == 9]
    lit = next(span for span in own if span["name"] == "radix_partition" and span["ms"] > 0.15)
    dimmed = next(span for span in timeline["spans"] if span["name"] == "join supplier")
    colours = [colour(tab, span, timeline["duration_ms"]) for span in (lit, dimmed)]
    row(tab, 9).click()
    expect(tab.locator("#status")).to_contain_text(f"Highlighted: {len(own)} spans of #9 BowtieJoinExec")
    assert colour(tab, lit, timeline["duration_ms"]) == colours[0]
    assert colour(tab, dimmed, timeline["duration_ms"]) != colours[1]
    row(tab, 9).click()
    tab.mouse.move(3, 3)
    assert picture(tab) == before


def test_a_click_on_a_span_selects_its_node_and_shows_it_in_the_tree(opened, profiles):
    tab = opened("gpu")
    timeline = profiles["gpu"]["timeline"]
    span = next(span for span in timeline["spans"] if span["name"] == "join supplier")
    tab.locator("#collapse").click()
    tab.locator("#timeline").scroll_into_view_if_needed()
    tab.mouse.move(*span_place(tab, span, timeline["duration_ms"]))
    for text in ("join supplier", f"1.90{SPACE}ms", "from", "of #5 HashJoinExec"):
        expect(tab.locator("#tip")).to_contain_text(text)
    tab.mouse.click(*span_place(tab, span, timeline["duration_ms"]))
    assert row(tab, 5).get_attribute("aria-selected") == "true"
    expect(row(tab, 5)).to_be_visible()
    tab.mouse.click(*span_place(tab, span, timeline["duration_ms"]))
    assert row(tab, 5).get_attribute("aria-selected") == "false"


def test_the_tooltip_of_a_copy_has_bytes_and_rate(opened, profiles):
    tab = opened("gpu")
    timeline = profiles["gpu"]["timeline"]
    span = next(span for span in timeline["spans"] if span["lane"] == "to_device" and span["node"] == 14)
    tab.locator("#timeline").scroll_into_view_if_needed()
    tab.mouse.move(*span_place(tab, span, timeline["duration_ms"]))
    expect(tab.locator("#tip")).to_contain_text(f"17.9{SPACE}MB, ")
    expect(tab.locator("#tip")).to_contain_text("GB/s")


def test_zoom_and_pan(opened):
    tab = opened("gpu")
    plot, status = tab.locator("#timeline .plot"), tab.locator("#status")
    whole, both = status.text_content(), (picture(tab), picture(tab, "memory"))
    assert whole.startswith("Shown: all 42.6")
    plot.focus()
    press(tab, "+")
    zoomed = status.text_content()
    assert zoomed != whole and (picture(tab), picture(tab, "memory")) != both
    press(tab, "ArrowLeft")
    panned = status.text_content()
    assert panned not in (whole, zoomed)
    press(tab, "ArrowRight")
    assert status.text_content() == zoomed
    press(tab, "-")
    assert status.text_content() == whole
    press(tab, "+", "+", "Home")
    assert status.text_content().startswith(f"Shown: 0{SPACE}ms to")
    press(tab, "0")
    assert status.text_content() == whole

    tab.locator("#zoom-in").click()
    assert status.text_content() != whole
    tab.locator("#zoom-out").click()
    assert status.text_content() == whole

    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    tab.mouse.move(box["x"] + 300, box["y"] + 100)
    tab.mouse.wheel(0, -1)  # scrolls the page
    assert status.text_content() == whole
    tab.keyboard.down("Control")
    tab.mouse.wheel(0, -300)
    tab.keyboard.up("Control")
    frame(tab)
    expect(status).not_to_have_text(whole)
    box, before = plot.bounding_box(), status.text_content()
    tab.mouse.move(box["x"] + 300, box["y"] + 100)
    tab.mouse.down()
    tab.mouse.move(box["x"] + 200, box["y"] + 100, steps=4)
    tab.mouse.up()
    assert status.text_content() != before and tab.locator("[aria-selected=true]").count() == 0
    tab.locator("#zoom-all").click()
    assert status.text_content() == whole
    expect(tab.locator("#zoom-node")).to_be_disabled()
    row(tab, 1).click()
    tab.locator("#zoom-node").click()
    assert re.match(r"Shown: 4\d\.\d", status.text_content())


def test_memory(opened, profiles):
    tab = opened("gpu")
    expect(tab.locator("#memory-note")).to_contain_text(f"3% of the limit of 72.0{SPACE}GB")
    tab = opened("host")
    expect(tab.locator("#charts h3")).to_have_text("Memory of the CPU backend")
    assert (
        tab.locator("#memory-note").text_content()
        == f"Peak 61.0{SPACE}MB at 70.0{SPACE}ms: 95% of the limit of 64.0{SPACE}MB."
    )
    box = tab.locator("#memory canvas").bounding_box()
    tab.locator("#memory").scroll_into_view_if_needed()
    box = tab.locator("#memory canvas").bounding_box()
    tab.mouse.move(box["x"] + box["width"] * 80 / 105.3, box["y"] + 50)
    expect(tab.locator("#tip")).to_contain_text(f"61.0{SPACE}MB reserved at")
    # The time axis is that of the timeline.
    timeline = tab.locator("#timeline canvas").bounding_box()
    assert (timeline["x"], timeline["width"]) == (box["x"], box["width"])


def test_sums_of_lanes_and_names(opened, profiles):
    tab = opened("gpu")
    spans = profiles["gpu"]["timeline"]["spans"]
    table = {
        cells[0]: cells[1:3]
        for cells in tab.evaluate(
            "[...document.querySelectorAll('#sums tbody tr')].map(row => [...row.children].map(cell => cell.textContent))"
        )
    }
    copies = [span["ms"] for span in spans if span["lane"] == "to_device"]
    probes = [span["ms"] for span in spans if span["name"] == "hash_probe"]
    assert table["Copies to cuda:0"] == [str(len(copies)), f"{sum(copies):.1f}{SPACE}ms"]
    assert table["hash_probe"] == [str(len(probes)), f"{sum(probes):.2f}{SPACE}ms"]


def test_spans_as_a_table(opened):
    tab = opened("large")
    tab.locator("#spans summary").click()
    lines = tab.locator("#spans tbody tr")
    expect(lines).to_have_count(200)
    expect(tab.locator(".pager")).to_contain_text(f"20{THIN}000 spans, page 1 of 100")
    first = lines.first.text_content()
    tab.locator("button", has_text="Later").click()
    assert lines.first.text_content() != first
    link = tab.locator("#spans .link").first
    name = link.text_content()
    link.click()
    assert tab.locator("[aria-selected=true]").get_attribute("id") == focused(tab) == f"node-{name.split()[0][1:]}"
    expect(tab.locator(".pager")).to_contain_text(f"of {name}, page 1 of")


def test_spans_that_were_not_kept_are_counted(opened):
    expect(opened("large").locator("#charts-note")).to_have_text(
        f"20{THIN}000 spans; 4{THIN}312 more were not kept, for want of room."
    )


def test_20000_spans_are_drawn_in_time(opened):
    tab = opened("large")
    assert tab.evaluate("performance.getEntriesByName('profile-drawn')[0].startTime") < MOST_MS
    tab.locator("#timeline .plot").focus()
    took = tab.evaluate("""async () => {
      const start = performance.now();
      for (const key of ['+', '+', '-', '-', '0']) {
        document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
        await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
      }
      return performance.now() - start;
    }""")
    assert took < MOST_MS
