"""Tables of rows for terminals and notebooks."""

from __future__ import annotations

import html
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datafusion_bowtie._lib import Head

__all__ = ["html_table", "preformatted", "text_table"]

_NULL = "NULL"


def text_table(head: Head) -> str:
    """Column names, types and the first rows, in a frame."""
    header = [[_line(name) for name in head.names], head.types]
    body = [[_NULL if cell is None else _line(cell) for cell in row] for row in head.rows]
    widths = [max(map(_width, column)) for column in zip(*header, *body, strict=True)]

    def row(cells: list[str], right: list[bool]) -> str:
        padded = [
            " " * (width - _width(cell)) + cell if at_right else cell + " " * (width - _width(cell))
            for cell, width, at_right in zip(cells, widths, right, strict=True)
        ]
        return f"│ {' │ '.join(padded)} │"

    def rule(left: str, middle: str, end: str) -> str:
        return left + middle.join("─" * (width + 2) for width in widths) + end

    left = [False] * len(widths)
    lines = [rule("┌", "┬", "┐"), *(row(cells, left) for cells in header), rule("├", "┼", "┤")]
    lines += [row(cells, head.numeric) for cells in body]
    lines.append(rule("└", "┴", "┘"))
    lines.append(_count(head))
    return "\n".join(lines)


def html_table(head: Head) -> str:
    """The same as an HTML table, with all text escaped."""
    names = "".join(
        f'<th style="text-align:left">{html.escape(name)}<br>'
        f'<span style="font-weight:normal;opacity:.6">{html.escape(data_type)}</span></th>'
        for name, data_type in zip(head.names, head.types, strict=True)
    )

    def cell(text: str | None, numeric: bool) -> str:
        style = f"text-align:{'right' if numeric else 'left'};white-space:pre"
        if text is None:
            return f'<td style="{style};opacity:.5">{_NULL}</td>'
        return f'<td style="{style}">{html.escape(text)}</td>'

    rows = "".join(f"<tr>{''.join(cell(text, numeric) for text, numeric in zip(row, head.numeric, strict=True))}</tr>" for row in head.rows)
    return (
        f'<div style="overflow-x:auto"><table><thead><tr>{names}</tr></thead><tbody>{rows}</tbody></table>'
        f'<div style="opacity:.6">{html.escape(_count(head))}</div></div>'
    )


def preformatted(text: str) -> str:
    """Text for a notebook, as it is."""
    return f'<pre style="white-space:pre;overflow-x:auto">{html.escape(text)}</pre>'


def _count(head: Head) -> str:
    shown = len(head.rows)
    rows = f"{shown} row{'' if shown == 1 else 's'}"
    return f"{rows}, … more rows" if head.more else rows


def _line(text: str) -> str:
    """The text on one line, without characters that move the cursor."""
    if text.isprintable():
        return text
    named = {"\n": "⏎", "\t": "→", "\r": "␍"}
    return "".join(named.get(c, c if c.isprintable() else "\ufffd") for c in text)


def _width(text: str) -> int:
    """Columns of a terminal that the text takes."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) != 0 for c in text)
