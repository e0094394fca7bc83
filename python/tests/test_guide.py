"""The code of the guide and of the README runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1]
PAGES = [PACKAGE / "README.md", PACKAGE.parent / "docs" / "guide" / "python.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_of_a_page(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All blocks in their order, in one module. A block of text that follows one is what that one prints."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", text, re.MULTILINE | re.DOTALL)
    assert blocks
    names: dict[str, object] = {"__name__": "guide"}
    for block, shown in blocks:
        exec(compile(block, f"{page.name}: {block.splitlines()[0]}", "exec"), names)
        printed = capsys.readouterr().out
        if shown:
            assert printed == shown
