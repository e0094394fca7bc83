"""Tests of contrast, themes, widths and print."""

import re

import pytest
from playwright.sync_api import expect

from browsing import background, frame, picture, row

# Contrast of all shown text with what is painted behind it: [ratio, size in px, text] of each element with text of its own.
CONTRASTS = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = css => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = css; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255];
  };
  const over = (top, below) => top.slice(0, 3).map((value, at) => value * top[3] + below[at] * (1 - top[3]));
  const luminance = colour => colour.map(value => value / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = element => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.push(rgba(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
  };
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].filter(node => node.nodeType === 3).map(node => node.data.trim()).join("");
    if (!own || element.closest("button:disabled, script, noscript, .skip") || !element.checkVisibility({ visibilityProperty: true })) continue;
    const style = getComputedStyle(element), ground = behind(element), text = over(rgba(style.color), ground);
    const [high, low] = [luminance(text), luminance(ground)].sort((a, b) => b - a);
    found.push([(high + 0.05) / (low + 0.05), parseFloat(style.fontSize), own.slice(0, 40)]);
  }
  return found;
}"""

# Contrast of the text on spans with the fills of their lanes, both shades.
FILLS = """() => {
  const probe = document.body.appendChild(document.createElement("i"));
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const luminance = css => {
    probe.style.color = css; canvas.fillStyle = getComputedStyle(probe).color; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
      .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
  };
  const contrast = (a, b) => { const [high, low] = [luminance(a), luminance(b)].sort((a, b) => b - a); return (high + 0.05) / (low + 0.05); };
  return ["host", "to-device", "kernels", "to-host", "wait", "other"].flatMap(lane => [
    [lane, contrast("var(--on-fill)", `var(--${lane})`)],
    [`${lane} shaded`, contrast("var(--on-fill)", `color-mix(in srgb, var(--${lane}), var(--shade) 17%)`)],
    [`${lane} on the page`, contrast("var(--surface)", `var(--${lane})`)]]);
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["gpu", "host", "declined"])
def test_contrast_and_size_of_text(opened, name, scheme):
    tab = opened(name, scheme=scheme)
    for fold in tab.locator("summary:visible").all():
        fold.click()
    for id in (0, 1):  # the panel of all, then of a node; a selected row
        if id:
            row(tab, id).click()
        texts = tab.evaluate(CONTRASTS)
        assert len(texts) > 60
        assert [text for text in texts if text[0] < 4.5] == []
        assert [text for text in texts if text[1] < 12] == []
    row(tab, 1).press("ArrowDown")
    expect(tab.locator("#tip")).to_be_visible()
    assert [text for text in tab.evaluate(CONTRASTS) if text[0] < 4.5] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_of_spans(opened, scheme):
    fills = opened("gpu", scheme=scheme).evaluate(FILLS)
    assert [fill for fill in fills if fill[1] < (3 if fill[0].endswith("page") else 4.5)] == []


def test_light_and_dark(opened):
    light, dark = opened("gpu"), opened("gpu", scheme="dark")
    assert background(light) == "rgb(245, 246, 248)"
    assert background(dark) == "rgb(14, 17, 22)"
    assert picture(light) != picture(dark)
    before = picture(light)
    light.emulate_media(color_scheme="dark")
    assert background(light) == background(dark) and picture(light) != before


def test_the_button_changes_the_theme_and_the_choice_is_kept(opened):
    tab = opened("gpu")
    expect(tab.locator("#theme")).to_have_text("Dark theme")
    before = picture(tab)
    tab.locator("#theme").click()
    expect(tab.locator("#theme")).to_have_text("Light theme")
    assert background(tab) == "rgb(14, 17, 22)" and picture(tab) != before
    tab.reload()
    assert background(tab) == "rgb(14, 17, 22)"
    tab.locator("#theme").click()
    assert background(tab) == "rgb(245, 246, 248)"


@pytest.mark.parametrize("width", [800, 980, 1100, 1280, 1399, 1400, 1920])
@pytest.mark.parametrize("name", ["gpu", "large", "hostile"])
def test_no_width_scrolls_sideways(opened, name, width):
    tab = opened(name, width=width)
    row(tab, 1).click()
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    # No number is cut: rows, bytes and times have room in their columns.
    assert (
        tab.evaluate(
            "[...document.querySelectorAll('.row > .number, .row > .number .pair')].filter(cell => cell.scrollWidth > cell.clientWidth + 1).map(cell => cell.textContent)"
        )
        == []
    )


def test_print_shows_everything_and_no_controls(opened, profiles):
    tab = opened("gpu", scheme="dark", width=1047)
    tab.locator("#collapse").click()
    expect(tab.locator(".row:visible")).to_have_count(1)
    tab.emulate_media(media="print")
    frame(tab)
    expect(tab.locator(".row:visible")).to_have_count(15)
    for n in profiles["gpu"]["nodes"]:
        expect(row(tab, n["id"])).to_contain_text(n["reason"])
        expect(row(tab, n["id"]).locator(".print-only")).to_be_visible()
    for text in ("#sql", "#options", "#notes", "#timeline canvas", "#memory canvas", "#sums table"):
        expect(tab.locator(text)).to_be_visible()
    for control in ("#theme", "#expand", "#collapse", "#zoom", "#panel", "#spans", ".skip", "#plan-help"):
        expect(tab.locator(control)).to_be_hidden()
    expect(tab.locator("button:visible")).to_have_count(0)
    assert background(tab) == "rgb(255, 255, 255)"
    assert [text for text in tab.evaluate(CONTRASTS) if text[0] < 4.5 or text[1] < 12] == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= 1047  # A4 landscape without its margins
    tab.emulate_media(media="screen")
    expect(tab.locator(".row:visible")).to_have_count(1)
    expect(tab.locator("#sql")).to_be_hidden()
    assert background(tab) == "rgb(14, 17, 22)"


def test_pdf_is_a4_landscape_and_light(opened):
    tab = opened("gpu", scheme="dark")
    pdf = tab.pdf(prefer_css_page_size=True, print_background=True)
    boxes = {
        tuple(round(float(number)) for number in box.split()[2:])
        for box in re.findall(rb"/MediaBox\s*\[([\d. ]+)\]", pdf)
    }
    assert boxes == {(842, 595)}
    expect(tab.locator("#sql")).to_be_hidden()  # closed again
    assert background(tab) == "rgb(14, 17, 22)"
