"""What the tests do with an open page."""

THIN, SPACE = "\u202f", "\u00a0"


def row(tab, id):
    return tab.locator(f"#node-{id}")


def focused(tab):
    return tab.evaluate("document.activeElement.id")


def frame(tab):
    """Waits until what was asked for is drawn."""
    tab.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def picture(tab, chart="timeline"):
    frame(tab)
    return tab.evaluate(f"document.querySelector('#{chart} canvas').toDataURL()")


def press(tab, *keys):
    for key in keys:
        tab.keyboard.press(key)


def background(tab):
    return tab.evaluate("getComputedStyle(document.body).backgroundColor")
