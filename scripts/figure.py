#!/usr/bin/env python3
"""Writes docs/assets/overview-light.svg and overview-dark.svg, the figure of README.md; with --check fails when they are not up to date.

The numbers are those of docs/performance/results.md, measured as it says there. Each group is one query, of which every bar is a measured
time. The axis is logarithmic.
"""

import math
import sys
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

ASSETS = Path(__file__).resolve().parent.parent / "docs" / "assets"

# A query, the machine, and milliseconds of each engine.
GROUPS = [
    (
        "Band join of 30,000 and 30,000 rows, 303,000 rows out",
        "2 CPU cores",
        [("DataFusion", 4061), ("bowtie", 7.05)],
    ),
    (
        "The same of 1 million and 1 million rows, 10.1 million rows out",
        "2 CPU cores",
        [("DuckDB", 901), ("Polars, streaming", 885), ("bowtie", 189)],
    ),
    (
        "TPC-H, scale factor 10, all 22 queries, tables in memory",
        "16 CPU cores; bowtie with one H200",
        [("DataFusion", 15051), ("bowtie, sent each time", 5939), ("DuckDB", 3055), ("bowtie, on the GPU", 558)],
    ),
    (
        "The same from Parquet files",
        "16 CPU cores; bowtie with one H200",
        [("DataFusion", 15447), ("DuckDB", 8281), ("bowtie, first run", 6578), ("bowtie, on the GPU", 758)],
    ),
]

# Milliseconds at both ends of the axis, and its marks.
LEAST, MOST = 1, 100_000
MARKS = [(1, "1 ms"), (10, "10 ms"), (100, "100 ms"), (1_000, "1 s"), (10_000, "10 s"), (100_000, "100 s")]

WIDTH, LEFT, RIGHT = 870, 180, 70
TITLE, BAR, GAP, TOP, BOTTOM = 26, 22, 14, 34, 30


@dataclass
class Theme:
    name: str
    text: str
    faint: str
    grid: str
    bar: str
    accent: str


THEMES = [
    Theme("light", text="#1f2328", faint="#59636e", grid="#d1d9e0", bar="#a8b1bb", accent="#4338ca"),
    Theme("dark", text="#f0f6fc", faint="#9198a1", grid="#3d444d", bar="#656c76", accent="#8f88ff"),
]


def place(milliseconds: float) -> float:
    """Where a time stands on the axis, in pixels."""
    share = math.log(milliseconds / LEAST) / math.log(MOST / LEAST)
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def shown(milliseconds: float) -> str:
    if milliseconds >= 1000:
        return f"{milliseconds / 1000:.1f} s"
    return f"{milliseconds:.1f} ms" if milliseconds < 100 else f"{milliseconds:.0f} ms"


def text(x: float, y: float, words: str, colour: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}"{more}>{escape(words)}</text>'


def figure(theme: Theme) -> str:
    bars = sum(len(times) for _, _, times in GROUPS)
    height = TOP + len(GROUPS) * (TITLE + GAP) + bars * BAR + BOTTOM
    foot = height - BOTTOM
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" '
        'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif" font-size="13">',
        "<title>Time of four queries by DataFusion, DuckDB, Polars and bowtie, on a logarithmic axis</title>",
        text(LEFT, 18, "Time of a query, logarithmic: shorter is better", theme.faint),
    ]
    for milliseconds, label in MARKS:
        lines.append(text(place(milliseconds), foot + 14, label, theme.faint, ' text-anchor="middle"'))
    y = TOP
    for title, machine, times in GROUPS:
        y += TITLE
        lines.append(text(LEFT, y - 8, title, theme.text, ' font-weight="600"'))
        lines.append(text(WIDTH - 8, y - 8, machine, theme.faint, ' text-anchor="end"'))
        for milliseconds, _ in MARKS:
            x = place(milliseconds)
            lines.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y}" y2="{y + BAR * len(times)}" stroke="{theme.grid}"/>')
        for engine, milliseconds in times:
            ours = engine.startswith("bowtie")
            weight = ' font-weight="600"' if ours else ""
            end = place(milliseconds)
            lines.append(text(LEFT - 8, y + 15, engine, theme.text, f' text-anchor="end"{weight}'))
            lines.append(
                f'<rect x="{LEFT}" y="{y + 3}" width="{end - LEFT:.1f}" height="{BAR - 6}" rx="2" fill="{theme.accent if ours else theme.bar}"/>'
            )
            lines.append(text(end + 6, y + 15, shown(milliseconds), theme.text, weight))
            y += BAR
        y += GAP
    return "\n".join(lines + ["</svg>", ""])


def main() -> int:
    check = sys.argv[1:] == ["--check"]
    for theme in THEMES:
        path = ASSETS / f"overview-{theme.name}.svg"
        wanted = figure(theme)
        if not check:
            path.write_text(wanted, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != wanted:
            print(f"{path}:1: not what scripts/figure.py makes: run it", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
