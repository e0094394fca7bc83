"""How a query ran."""

from __future__ import annotations

import html
import tempfile
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os

__all__ = ["Profile"]


class Profile:
    """Where the time of a query went: a page to look at, figures as JSON, or text.

    >>> import datafusion_bowtie as bt
    >>> profile = bt.connect(device="host").sql("SELECT count(*) FROM range(1, 1000)").profile()
    >>> profile.html.lstrip()[:9].lower()
    '<!doctype'
    """

    __slots__ = ("html", "json", "text")

    def __init__(self, html: str, json: str, text: str) -> None:
        #: One self-contained page.
        self.html = html
        #: The same figures as JSON.
        self.json = json
        #: The plan with its times.
        self.text = text

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        page = html.escape(self.html, quote=True)
        return (
            f'<iframe srcdoc="{page}" sandbox="allow-scripts" title="Profile of a query" style="width:100%;height:40rem;border:0"></iframe>'
        )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the page, or with a path that ends in ``.json`` the figures, and returns the path.

        >>> import datafusion_bowtie as bt, json, tempfile
        >>> profile = bt.connect(device="host").sql("SELECT count(*) FROM range(0, 3)").profile()
        >>> path = profile.save(f"{tempfile.mkdtemp()}/profile.json")
        >>> path.read_text() == profile.json
        True
        """
        target = Path(path).expanduser()
        target.write_text(self.json if target.suffix == ".json" else self.html, encoding="utf-8")
        return target

    def open(self) -> Path:
        """Shows the page in the web browser, from a temporary file whose path it returns."""
        with tempfile.NamedTemporaryFile("w", suffix=".html", prefix="bowtie-", encoding="utf-8", delete=False) as file:
            file.write(self.html)
        webbrowser.open(Path(file.name).as_uri())
        return Path(file.name)
