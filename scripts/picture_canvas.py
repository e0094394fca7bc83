"""The canvas of scripts/pictures.py: boxes, arrows and labels become one SVG file that is readable on light and on dark pages.

Each picture is a card with a background of its own, since a page may be dark while the reader's system is light. It is 720 units wide, so
sizes are pixels where a page shows it at that width. There are four colours, with the same meaning in all pictures:

    cpu     the CPU, its memory, DataFusion's nodes
    gpu     the device: a GPU and its memory
    mark    what the picture is about: matches, transfers, a step
    plain   everything else

Texts that would overlap, be crossed by a line, or leave their box or the card are an error. Their widths are estimated, as a reader's
font is unknown.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from xml.sax.saxutils import escape

WIDTH = 720
MOST_BYTES = 12_000
# Widths of a character, in sizes of the font, and the height of a line.
CHARACTER, BOLD_CHARACTER, LINE = 0.58, 0.62, 1.35
LEAST_SIZE = 12

KINDS = ("cpu", "gpu", "mark", "plain")
LIGHT = {
    "card": ("#ffffff", "#d0d7de"),
    "cpu": ("#dbeafe", "#2563eb"),
    "gpu": ("#d3f4df", "#15803d"),
    "mark": ("#ffe8cc", "#c2410c"),
    "plain": ("#f3f4f6", "#7d8590"),
    "text": ("#1f2328", "#57606a"),
}
DARK = {
    "card": ("#1c2128", "#444c56"),
    "cpu": ("#1d3a63", "#6cb0ff"),
    "gpu": ("#14422b", "#4cc38a"),
    "mark": ("#5c3214", "#f5944a"),
    "plain": ("#2d333b", "#8b949e"),
    "text": ("#f0f6fc", "#b1bac4"),
}


class UnreadableError(Exception):
    """A text that others, lines or edges hide, or a file that is too long."""


def require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise UnreadableError(otherwise)


def rules(colours: dict[str, tuple[str, str]]) -> str:
    """Style rules: an area, its outline, and for each kind the stroke of a line and the fill of its head."""
    lines = [f".card{{fill:{colours['card'][0]};stroke:{colours['card'][1]}}}"]
    for kind in KINDS:
        fill, stroke = colours[kind]
        lines.append(f".{kind}{{fill:{fill};stroke:{stroke}}}.l-{kind}{{stroke:{stroke}}}.h-{kind}{{fill:{stroke}}}")
    text, faint = colours["text"]
    lines.append(f"text{{fill:{text}}}.faint{{fill:{faint}}}")
    return "\n".join(lines)


def short(number: float) -> str:
    return f"{number:.1f}".rstrip("0").rstrip(".")


@dataclass
class Area:
    """A rectangle, and what it shows."""

    left: float
    top: float
    right: float
    bottom: float
    what: str

    def overlaps(self, other: "Area") -> bool:
        return self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom

    def holds(self, other: "Area") -> bool:
        return self.left <= other.left and other.right <= self.right and self.top <= other.top and other.bottom <= self.bottom

    def is_crossed_by(self, start: tuple[float, float], end: tuple[float, float]) -> bool:
        """Whether a part of the line from `start` to `end` is inside (Liang and Barsky)."""
        first, last = 0.0, 1.0
        for origin, to, low, high in ((start[0], end[0], self.left, self.right), (start[1], end[1], self.top, self.bottom)):
            step = to - origin
            if step == 0:
                if not low < origin < high:
                    return False
                continue
            near, far = sorted(((low - origin) / step, (high - origin) / step))
            first, last = max(first, near), min(last, far)
        return first < last


class Picture:
    """A picture that grows by calls of its methods. All coordinates are units of the card, from its upper left corner."""

    def __init__(self, title: str, description: str, height: int):
        """`title` is shown at the top, and both are read out."""
        self.title, self.description, self.height = title, description, height
        self.parts: list[str] = []
        self.texts: list[Area] = []
        self.lines: list[tuple[tuple[float, float], tuple[float, float]]] = []
        self.text(24, 34, title, size=16, bold=True)

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        size: float = 13,
        bold: bool = False,
        faint: bool = False,
        anchor: str = "start",
        inside: Area | None = None,
    ) -> None:
        """Words whose baseline is at `y`. `inside`: the box that must hold them."""
        require(size >= LEAST_SIZE, f"{words!r} is smaller than {LEAST_SIZE}")
        width = len(words) * size * (BOLD_CHARACTER if bold else CHARACTER)
        left = x - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
        area = Area(left, y - 0.78 * size, left + width, y + 0.22 * size, words)
        room = inside or Area(12, 8, WIDTH - 12, self.height - 8, "the card")
        ends = f"({left:.0f} to {left + width:.0f}), which ends at {room.left:.0f} and {room.right:.0f}"
        require(room.holds(area), f"{words!r} leaves {room.what} {ends}")
        for other in self.texts:
            require(not area.overlaps(other), f"{words!r} overlaps {other.what!r}")
        self.texts.append(area)
        more = "" if size == 13 else f' font-size="{short(size)}"'
        more += ' font-weight="700"' if bold else ""
        more += ' class="faint"' if faint else ""
        more += "" if anchor == "start" else f' text-anchor="{anchor}"'
        self.parts.append(f'<text x="{short(x)}" y="{short(y)}"{more}>{escape(words)}</text>')

    def lines_of_text(self, x: float, y: float, *lines: str, size: float = 13, anchor: str = "start", faint: bool = False) -> None:
        """Lines below one another; the first one's baseline is at `y`."""
        for number, words in enumerate(lines):
            self.text(x, y + number * size * LINE, words, size=size, anchor=anchor, faint=faint)

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        kind: str,
        *lines: str,
        size: float = 13,
        bold: bool | None = None,
        top: bool = False,
        dashed: bool = False,
        radius: float = 5,
    ) -> Area:
        """A box with centred lines, of which the first one of several is bold. `top`: they begin at its top, above other boxes."""
        box = Area(x, y, x + width, y + height, lines[0] if lines else "a box")
        corners = [(box.left, box.top), (box.right, box.top), (box.right, box.bottom), (box.left, box.bottom)]
        self.lines += list(zip(corners, corners[1:] + corners[:1], strict=True))
        more = f' rx="{short(radius)}"' if radius else ""
        more += ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(f'<rect x="{short(x)}" y="{short(y)}" width="{short(width)}" height="{short(height)}"{more} class="{kind}"/>')
        first = y + 20 if top else y + height / 2 + 0.35 * size - (len(lines) - 1) * size * LINE / 2
        room = Area(x + 3, y, box.right - 3, box.bottom, f"the box of {box.what}")
        for number, words in enumerate(lines):
            is_bold = (number == 0 and len(lines) > 1) if bold is None else bold
            at = first + number * size * LINE
            self.text(x + width / 2, at, words, size=size, bold=is_bold, anchor="middle", inside=room)
        return box

    def cells(
        self, x: float, y: float, width: float, height: float, values: Sequence[object], marked: range = range(0), kind: str = "mark"
    ) -> None:
        """Neighbouring boxes with a value each."""
        for number, value in enumerate(values):
            of = kind if number in marked else "plain"
            self.box(x + number * width, y, width, height, of, *([str(value)] if value != "" else []), radius=0)

    def line(self, *points: tuple[float, float], kind: str = "plain", dashed: bool = False, width: float = 1.5) -> None:
        """A line through points."""
        self.lines += pairwise(points)
        path = " ".join(f"{short(x)},{short(y)}" for x, y in points)
        more = ' stroke-dasharray="5 4"' if dashed else ""
        more += "" if width == 1.5 else f' stroke-width="{short(width)}"'
        self.parts.append(f'<polyline points="{path}" class="l l-{kind}"{more}/>')

    def arrow(self, *points: tuple[float, float], kind: str = "plain", both: bool = False, dashed: bool = False) -> None:
        """A line with a head at its end, or at `both` ends."""
        path = list(points)
        for end, before in [(-1, -2)] + ([(0, 1)] if both else []):
            (x, y), (from_x, from_y) = points[end], points[before]
            angle = math.atan2(y - from_y, x - from_x)
            back = [(x - 9 * math.cos(angle + turn), y - 9 * math.sin(angle + turn)) for turn in (-0.42, 0.42)]
            head = " ".join(f"{short(px)},{short(py)}" for px, py in [(x, y), *back])
            self.parts.append(f'<polygon points="{head}" class="h-{kind}"/>')
            path[end] = (x - 7 * math.cos(angle), y - 7 * math.sin(angle))
        self.line(*path, kind=kind, dashed=dashed)

    def span(self, left: float, right: float, y: float, depth: float = 6, kind: str = "plain") -> None:
        """A bracket from `left` to `right` that opens to where `depth` points."""
        self.line((left, y + depth), (left, y), (right, y), (right, y + depth), kind=kind)

    def step(self, x: float, y: float, number: int) -> None:
        """A number in a circle, for texts that refer to it."""
        self.parts.append(f'<circle cx="{short(x)}" cy="{short(y)}" r="10" class="mark"/>')
        self.text(x, y + 4.5, str(number), bold=True, anchor="middle")

    def legend(self, *entries: tuple[str, str], y: float = 34) -> None:
        """Kinds and their meanings, at the right end of a line."""
        x: float = WIDTH - 24
        for kind, words in reversed(entries):
            x -= len(words) * 13 * CHARACTER
            self.text(x, y, words)
            self.parts.append(f'<rect x="{short(x - 20)}" y="{short(y - 11)}" width="14" height="14" rx="3" class="{kind}"/>')
            x -= 36

    def svg(self) -> str:
        """The file's text."""
        for text in self.texts:
            for start, end in self.lines:
                require(not text.is_crossed_by(start, end), f"{text.what!r} is crossed by the line from {start} to {end}")
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" width="{WIDTH}" height="{self.height}" '
            'role="img" aria-labelledby="title desc" font-family="sans-serif" font-size="13">'
        )
        style = f"{rules(LIGHT)}\n.l{{fill:none;stroke-width:1.5}}\n@media (prefers-color-scheme:dark){{\n{rules(DARK)}\n}}"
        lines = [
            head,
            f'<title id="title">{escape(self.title)}</title>',
            f'<desc id="desc">{escape(self.description)}</desc>',
            f"<style>\n{style}\n</style>",
            f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{self.height - 1}" rx="8" class="card"/>',
            *self.parts,
            "</svg>",
            "",
        ]
        file = "\n".join(lines)
        require(len(file.encode()) <= MOST_BYTES, f"{len(file.encode())} bytes are more than {MOST_BYTES}")
        return file
