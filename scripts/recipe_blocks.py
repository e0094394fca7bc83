"""What a recipe of the book, docs/recipes/*.md, shows: its titled blocks of code, for recipes.py. In: a page. Out: a Page.

Titles of blocks:

    data.sql                      statements that make the files, in a folder of their own
    NAME.sql                      a query over them, in every SQL engine
    NAME.sql, result              what it prints
    NAME.sql, plan                lines of its explanation, in their order, with numbers left out
    NAME.sql, DuckDB              the query in the words of DuckDB
    NAME.sql, Polars              Python that leaves a frame in `result`; a package of another name likewise
    file of the repository        lines that stand in this file
    *.py                          a program; the block of text behind it is what it prints

Blocks of SQL, Python and Rust without a title are an error, except on pages of PROSE. A page with queries says by
`<!-- recipe: shrink 50 -->` by how much the rows of `range(0, …)` are divided for the comparison of engines.
"""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
SHRINK = re.compile(r"<!-- recipe: shrink (\d+) -->")
COMMENT = re.compile(r"<!-- (?!recipe: ).*?-->")
CODE = {"sql", "python", "rust"}
# Pages without queries of their own.
PROSE = {"index", "tpch"}


class Failure(Exception):
    """What a page says is not what happens."""


class Query:
    """A query of a page in the words of each engine, with what the page shows of it."""

    def __init__(self, name, sql):
        self.name = name
        self.sql = sql
        self.result = None
        self.plan = None
        self.texts = {}

    def engines(self):
        """Their names, ours first; each is a function of this module, or a package of Python that the block imports."""
        return ["bowtie", "DataFusion", "DuckDB", *(name for name in self.texts if name != "DuckDB")]

    def text(self, engine):
        return self.texts.get(engine, self.sql)


class Page:
    """The titled blocks of a page."""

    def __init__(self, path):
        self.path = path
        self.name = path.stem
        self.data = None
        self.queries = {}
        self.programs = []
        self.quotes = []
        text = path.read_text(encoding="utf-8")
        shrink = SHRINK.search(text)
        self.shrink = int(shrink[1]) if shrink else None
        if unfinished := COMMENT.search(text):
            raise Failure(f"{self.name}: something is missing in place of {unfinished[0]}")
        for language, title, block in BLOCK.findall(text):
            self._add(language, title, block)
        if self.name not in PROSE and not (self.queries or self.programs or self.quotes):
            raise Failure(f"{self.name}: nothing of this page is checked")
        if self.queries and not self.shrink:
            raise Failure(f"{self.name}: by how much do its rows shrink?")

    def _add(self, language, title, block):
        last_program = self.programs[-1] if self.programs else None
        if not title:
            if language == "text" and last_program and last_program[2] is None:
                last_program[2] = block
            elif language in CODE and self.name not in PROSE:
                raise Failure(f"{self.name}: a block of {language} without a title:\n{block}")
            return
        name, _, role = title.partition(", ")
        if title == "data.sql":
            self.data = block
        elif language == "sql" and not role:
            self.queries[name] = Query(name, block)
        elif role == "result":
            self.queries[name].result = block
        elif role == "plan":
            self.queries[name].plan = block
        elif role:
            self.queries[name].texts[role] = block
        elif language == "python" and "/" not in title:
            self.programs.append([title, block, None])
        elif (ROOT / title).is_file():
            self.quotes.append((title, block))
        else:
            raise Failure(f"{self.name}: what is the block '{title}'?")
