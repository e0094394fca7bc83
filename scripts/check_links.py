#!/usr/bin/env python3
"""Checks relative links of Markdown files, and that a built book loads nothing from another host.

    check_links.py README.md CONTRIBUTING.md …     files and headings that links point at must exist
    check_links.py --book DIRECTORY                no script, style, font or image of another host in its pages

Prints `file:line: what is wrong` for each finding and fails when there is one. Links to other hosts are not followed. Links between the
pages of the book are checked by MkDocs.
"""

import re
import sys
from pathlib import Path
from urllib.parse import unquote

FENCE = re.compile(r"^\s*(```+|~~~+)")
CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
# [text](target), [text]: target, and the attributes of HTML that hold a link.
INLINE = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
DEFINITION = re.compile(r"^\s{0,3}\[[^\]]+\]:\s+<?(\S+?)>?(?:\s|$)")
ATTRIBUTE = re.compile(r"\b(?:href|src|srcset)\s*=\s*\"([^\"\s]+)[^\"]*\"")
ANCHOR = re.compile(r"<a\s[^>]*\b(?:id|name)\s*=\s*\"([^\"]+)\"")
HEADING = re.compile(r"^\s{0,3}#{1,6}\s+(.*?)\s*#*\s*$")
HOST = re.compile(r"^([a-z][a-z0-9+.-]*:|//)", re.IGNORECASE)
LOADED = re.compile(
    r"<(?:script|img|source|iframe|link)\b[^>]*?\b(?:src|srcset|href)\s*=\s*\"?((?:https?:)?//[^\s\">]+)"
)


def lines_of_text(path: Path):
    """The lines outside of fenced code, with their numbers."""
    fence = None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        mark = FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence):
                fence = None
        elif mark:
            fence = mark[1]
        else:
            yield number, line


def anchors(path: Path) -> set[str]:
    """The names that a link may have behind `#`, as GitHub makes them of headings."""
    names: set[str] = set()
    for _, line in lines_of_text(path):
        names.update(ANCHOR.findall(line))
        if heading := HEADING.match(line):
            text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).lower()
            slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
            name, again = slug, 0
            while name in names:
                again += 1
                name = f"{slug}-{again}"
            names.add(name)
    return names


def wrong_link(path: Path, target: str) -> str | None:
    """What is wrong with a link in `path`, if anything."""
    if HOST.match(target):
        return None
    file, _, anchor = unquote(target).partition("#")
    if file.startswith("/"):
        return f"{target} is an absolute path"
    other = path.parent / file if file else path
    if not other.exists():
        return f"{target}: there is no {other}"
    if anchor and other.suffix == ".md" and anchor not in anchors(other):
        return f"{target}: {other} has no heading with this anchor"
    return None


def check_markdown(path: Path) -> list[str]:
    findings = []
    for number, line in lines_of_text(path):
        plain = CODE.sub("", line)
        targets = INLINE.findall(plain) + DEFINITION.findall(plain) + ATTRIBUTE.findall(plain)
        wrong = (wrong_link(path, target) for target in targets)
        findings += [f"{path}:{number}: {what}" for what in wrong if what]
    return findings


def check_book(site: Path) -> list[str]:
    findings = []
    for page in sorted(site.rglob("*.html")):
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            # A canonical address loads nothing.
            loaded = [url for url in LOADED.findall(line) if "canonical" not in line]
            findings += [f"{page}:{number}: loads {url}" for url in loaded]
    return findings


def main(arguments: list[str]) -> int:
    if len(arguments) == 2 and arguments[0] == "--book":
        findings = check_book(Path(arguments[1]))
    elif arguments and not arguments[0].startswith("-"):
        findings = [finding for file in arguments for finding in check_markdown(Path(file))]
    else:
        print(__doc__, file=sys.stderr)
        return 2
    print("\n".join(findings), end="\n" if findings else "")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
