"""Chromium, the samples, and the fixture `opened` that opens one of them."""

import shutil

import pytest
from playwright.sync_api import sync_playwright

import sample


@pytest.fixture(scope="session")
def browser():
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("there is no chromium in PATH")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def profiles():
    return {name: make() for name, make in sample.SAMPLES.items()}


@pytest.fixture(scope="session")
def pages(tmp_path_factory, profiles):
    folder = tmp_path_factory.mktemp("pages")
    for name, profile in profiles.items():
        (folder / f"{name}.html").write_text(sample.page(profile), encoding="utf-8")
    return folder


@pytest.fixture
def opened(browser, pages, tmp_path):
    """Opens samples by name, or the page of an HTML text, from files; at the end, checks that the pages were silent and asked for nothing."""
    complaints, contexts = [], []

    def open(name, width=1440, height=900, scheme="light", html=None):
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        contexts.append(context)
        tab = context.new_page()
        file = (tmp_path if html else pages) / f"{name}.html"
        if html:
            file.write_text(html, encoding="utf-8")
        address = file.as_uri()
        tab.on("console", lambda message: complaints.append(f"{name}: {message.type}: {message.text}"))
        tab.on("pageerror", lambda error: complaints.append(f"{name}: {error}"))
        tab.on("dialog", lambda dialog: (complaints.append(f"{name}: dialog {dialog.message}"), dialog.dismiss()))
        tab.on(
            "request",
            lambda request: (
                request.url in (address, "data:,") or complaints.append(f"{name}: request of {request.url}")
            ),
        )
        tab.goto(address)
        return tab

    yield open
    for context in contexts:
        context.close()
    assert complaints == []
