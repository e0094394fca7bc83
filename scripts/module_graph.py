#!/usr/bin/env python3
"""The graph of imports between the files of src/: no circle of files, no circle of rooms, no arrow upwards.

An arrow goes from the file that names something to the file that defines it: re-exports are followed to the definition. Tests
are left out, and so are `mod` declarations. LAYERS has the layers, from the top to the ground. A room is what stands at the first
level below a layer: a folder with all that is in it, or a file; `x.rs` and the folder `x/` are one room, and the file of a layer is one, too.
Files import files of their own layer and of lower ones. Neither files nor the rooms of a layer import each other in a circle.

It sees names, in paths and imports, and those in the arguments of macros. It does not see
- calls of methods, which name no file: a method of a trait object, or one that a file adds to a type of a lower folder;
- the order of files in one room: a room is as coarse as its folder, and a layer as LAYERS;
- files that take the place of others by `#[path]`, such as `no_faults.rs`.

    scripts/module_graph.py                              checks this repository's library, prints a summary
    scripts/module_graph.py --arrows                     prints all arrows between layers, too
    scripts/module_graph.py FOLDER --layers top,ground   checks the crate in another folder, whose layers are `crate::top` and `crate::ground`

scripts/module_graph_test.py tests it.
"""

import argparse
import re
import sys
from collections import defaultdict
from pathlib import Path

# From the top to the ground: a name, and the module.
LAYERS = [
    ("crate", "crate"),
    ("rates", "crate::rates"),
    ("session", "crate::session"),
    ("report", "crate::report"),
    ("clusters", "crate::clusters"),
    ("plan", "crate::plan"),
    ("functions", "crate::functions"),
    ("exec", "crate::exec"),
    ("ops", "crate::ops"),
    ("runtime", "crate::runtime"),
    ("store", "crate::store"),
    ("device::cuda", "crate::device::cuda"),
    ("device::host", "crate::device::host"),
    ("device", "crate::device"),
    ("spec", "crate::spec"),
    ("list_sets", "crate::list_sets"),
    ("options", "crate::options"),
    ("compat", "crate::compat"),
    ("ir", "crate::ir"),
    ("error", "crate::error"),
]

TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*)
    |(?P<string>b?r(?P<hashes>\#*)"|[bc]?")
    |(?P<char>b?'(?:\\(?:x[0-9a-fA-F]{2}|u\{[0-9a-fA-F_]+\}|.)|[^\\'])')
    |(?P<lifetime>'[A-Za-z_]\w*)
    |(?P<ident>(?:r\#)?[A-Za-z_]\w*)
    |(?P<number>\d[\w]*(?:\.\d[\w]*)?)
    |(?P<punct>::|=>|->|\S)""",
    re.X | re.S,
)


def tokens(text):
    """(kind, text, start, end) of each token; comments are left out."""
    found, at = [], 0
    while match := TOKEN.search(text, at):
        kind, start, end = match.lastgroup, match.start(), match.end()
        kind = "string" if match.group("string") else kind
        if match.group("comment"):
            kind = "comment"
            if text.startswith("/*", start):
                depth = 0
                for edge in re.compile(r"/\*|\*/").finditer(text, start):
                    depth += 1 if edge.group() == "/*" else -1
                    end = edge.end()
                    if depth == 0:
                        break
        elif kind == "string":
            if "r" in match.group("string").split('"')[0]:
                end = text.index('"' + match.group("hashes"), end) + 1 + len(match.group("hashes"))
            else:
                end = re.compile(r'(?:[^"\\]|\\.)*"', re.S).match(text, end).end()
        if kind != "comment":
            found.append((kind, text[start:end], start, end))
        at = end
    return found


class Module:
    """A module: a file, or one that stands inside of a file."""

    def __init__(self, path, file, parent, is_test):
        self.path, self.file, self.parent, self.is_test = path, file, parent, is_test
        self.children = {}  # name -> Module
        self.items = {}  # name -> (start of the item, its visibility)
        self.uses = []  # (alias, segments, is_test, statement)
        self.mentions = []  # (segments, [(start, end)], is_test)
        self.statements = []  # use statements: (start, end, visibility, attributes, tree)
        self.declared = {}  # `mod x;`: name -> (start, end, attributes)
        self.enum = {}

    def __repr__(self):
        return self.path


ITEMS = {"struct", "enum", "union", "trait", "type", "const", "static", "fn"}


class Crate:
    def __init__(self, root):
        self.root = Path(root)
        self.modules = {}
        self.texts = {}
        self.top = self.read("crate", self.root / "lib.rs", None, False)

    def read(self, path, file, parent, is_test):
        module = Module(path, file, parent, is_test)
        self.modules[path] = module
        self.texts[file] = file.read_text()
        self.parse(module, tokens(self.texts[file]), 0)
        return module

    def child_file(self, module, name):
        folder = module.file.parent
        inline = module
        names = []
        while inline.parent and inline.parent.file == inline.file:
            names.insert(0, inline.path.rsplit("::", 1)[1])
            inline = inline.parent
        if module.file.name not in ("mod.rs", "lib.rs"):
            folder = folder / module.file.stem
        folder = folder.joinpath(*names)
        flat = folder / f"{name}.rs"
        return flat if flat.exists() else folder / name / "mod.rs"

    def parse(self, module, tok, i, stop=None):
        """Reads the items of a module from token `i` on, until the brace that ends it."""
        is_test, attributes, attr_start = module.is_test, [], None
        visibility = ""
        item_start = None
        while i < len(tok):
            kind, value, start, end = tok[i]
            if value == "}" and stop:
                return i
            if value == "#" and tok[i + 1][1] in "[!":
                j = i + 1 + (tok[i + 1][1] == "!")
                close = self.matching(tok, j)
                if tok[i + 1][1] == "[":
                    attributes.append("".join(t[1] for t in tok[j + 1 : close]))
                    attr_start = start if attr_start is None else attr_start
                i = close + 1
                continue
            if item_start is None:
                item_start = start
            test = module.is_test or any("cfg(test" in a or a == "test" for a in attributes)
            if value == "pub":
                if tok[i + 1][1] == "(":
                    close = self.matching(tok, i + 1)
                    visibility = self.texts[module.file][start : tok[close][3]]
                    i = close + 1
                else:
                    visibility, i = "pub", i + 1
                continue
            if value == "use":
                tree, j = self.use_tree(tok, i + 1)
                assert tok[j][1] == ";", (module.file, tok[j])
                statement = dict(
                    start=attr_start if attr_start is not None else item_start, end=tok[j][3], visibility=visibility,
                    attributes=list(attributes), leaves=tree, is_test=test,
                )
                module.statements.append(statement)
                for segments, alias in tree:
                    module.uses.append((alias, segments, test, statement))
                i = j + 1
            elif value == "mod" and tok[i + 1][0] == "ident":
                name = tok[i + 1][1]
                child = f"{module.path}::{name}"
                if tok[i + 2][1] == ";":
                    module.declared[name] = (attr_start if attr_start is not None else item_start, tok[i + 2][3], list(attributes), visibility)
                    module.children[name] = self.read(child, self.child_file(module, name), module, test)
                    i += 3
                else:
                    inline = Module(child, module.file, module, test)
                    inline.attributes = list(attributes)
                    self.modules[child] = module.children[name] = inline
                    i = self.parse(inline, tok, i + 3, stop=True) + 1
            elif value == "macro_rules":
                name = tok[i + 2][1]
                module.items[name] = (item_start, "macro")
                i = self.skip_item(module, tok, i + 3, test)
            elif value in ITEMS or value in ("unsafe", "async", "extern", "impl", "default"):
                j = i
                # Qualifiers: `const unsafe extern "C" fn name`, `const NAME`, `unsafe impl`.
                while tok[j][1] in ("unsafe", "async", "extern", "default") or tok[j][0] == "string" or (
                    tok[j][1] == "const" and tok[j + 1][1] in ("fn", "unsafe", "async", "extern")
                ):
                    j += 1
                keyword = tok[j][1]
                if keyword in ITEMS and tok[j + 1][0] == "ident":
                    module.items[tok[j + 1][1]] = (item_start, visibility)
                i = self.skip_item(module, tok, j, test)
            else:
                # A macro call as an item, such as `thread_local! { … }`.
                i = self.skip_item(module, tok, i, test)
            attributes, attr_start, visibility, item_start = [], None, "", None
        return i

    @staticmethod
    def matching(tok, i):
        """The token that closes what token `i` opens."""
        pairs = {"(": ")", "[": "]", "{": "}"}
        depth = 0
        while True:
            if tok[i][1] in pairs:
                depth += 1
            elif tok[i][1] in pairs.values():
                depth -= 1
                if depth == 0:
                    return i
            i += 1

    def skip_item(self, module, tok, i, test):
        """Notes the paths that an item mentions; the token behind it."""
        depth = 0
        while i < len(tok):
            kind, value, start, end = tok[i]
            if value == "use" and depth and tok[i - 1][1] in "{};":
                tree, j = self.use_tree(tok, i + 1)
                statement = dict(start=start, end=tok[j][3], visibility="", attributes=[], leaves=tree, is_test=test, local=True)
                module.statements.append(statement)
                for segments, alias in tree:
                    module.uses.append((alias, segments, test, statement))
                i = j + 1
                continue
            if value in "([{" and len(value) == 1:
                depth += 1
            elif value in ")]}" and len(value) == 1:
                depth -= 1
                if depth == 0 and value == "}":
                    # A brace ends an item, but not a default of a const generic or an initialiser followed by `;`.
                    return i + 2 if i + 1 < len(tok) and tok[i + 1][1] == ";" else i + 1
                if depth < 0:
                    return i
            elif value == ";" and depth == 0:
                return i + 1
            elif kind == "ident" and tok[i - 1][1] not in (".", "::") or (kind == "ident" and tok[i - 1][1] == "::" and tok[i - 2][1] in "<>(,=&|[{;!" ):
                segments, spans, j = [value], [(start, end)], i
                while j + 2 < len(tok) and tok[j + 1][1] == "::" and tok[j + 2][0] == "ident":
                    j += 2
                    segments.append(tok[j][1])
                    spans.append(tok[j][2:])
                module.mentions.append((segments, spans, test))
                i = j
            i += 1
        return i

    def use_tree(self, tok, i, prefix=()):
        """[(segments, alias)] of a use tree that begins at token `i`, and the token behind it. `*` is a segment."""
        leaves, segments = [], list(prefix)
        if tok[i][1] == "::":
            i += 1
        while True:
            kind, value = tok[i][:2]
            if value == "{":
                i += 1
                while tok[i][1] != "}":
                    inner, i = self.use_tree(tok, i, segments)
                    leaves += inner
                    if tok[i][1] == ",":
                        i += 1
                return leaves, i + 1
            segments.append(value)
            i += 1
            if tok[i][1] == "::":
                i += 1
                continue
            alias = segments[-1]
            if alias == "self" and len(segments) > 1:
                segments.pop()
                alias = segments[-1]
            if tok[i][1] == "as":
                alias = tok[i + 1][1]
                i += 2
            return [(segments, alias)], i

    # ---- names ---------------------------------------------------------------------------------------------------------

    def resolve(self, module, segments, seen=()):
        """What a path means in a module: (defining module, item or None, what follows), or None where it is of another crate."""
        first, rest = segments[0], list(segments[1:])
        if first == "crate":
            return self.walk(self.top, rest, seen)
        if first == "self":
            return self.walk(module, rest, seen)
        if first == "super":
            return self.walk_up(module, segments, seen)
        return self.lookup(module, first, rest, seen)

    def walk_up(self, module, segments, seen):
        segments = list(segments)
        while segments and segments[0] == "super":
            module = module.parent
            segments.pop(0)
        return self.walk(module, segments, seen)

    def walk(self, module, segments, seen):
        if not segments:
            return module, None, []
        if segments[0] == "super":
            return self.walk_up(module, segments, seen)
        return self.lookup(module, segments[0], segments[1:], seen)

    def lookup(self, module, name, rest, seen):
        if name in module.children:
            return self.walk(module.children[name], rest, seen)
        if name in module.items:
            return module, name, list(rest)
        key = (module.path, name)
        if key in seen:
            return None
        seen = (*seen, key)
        for alias, segments, _, statement in module.uses:
            if alias == name and segments[-1] != "*" and segments != [name]:
                found = self.resolve(module, segments, seen)
                if found:
                    target, item, more = found
                    return (target, item, more + list(rest)) if item else self.walk(target, rest, seen)
                return None
        for alias, segments, _, _ in module.uses:
            if segments[-1] == "*":
                found = self.resolve(module, segments[:-1], seen)
                if found and found[1] is None:
                    inner = self.lookup(found[0], name, rest, seen)
                    if inner:
                        return inner
        return None


def layer_of(path, layers):
    """The number of a module's layer: the longest prefix decides."""
    return max((i for i, (_, prefix) in enumerate(layers) if path == prefix or path.startswith(prefix + "::")),
               key=lambda i: len(layers[i][1]))


def room_of(path, layers):
    """A module's room: the folder or file at the first level below its layer, or the file of the layer."""
    _, prefix = layers[layer_of(path, layers)]
    return "::".join(path.split("::")[: len(prefix.split("::")) + 1])


def name_of(file, root):
    return str(file.relative_to(root))


def arrows(crate):
    """(from, to) -> names, between files; tests are left out."""
    found = defaultdict(set)
    owner = {}
    for module in crate.modules.values():
        top = module
        while top.parent and top.parent.file == top.file:
            top = top.parent
        owner[module.path] = top
    for module in crate.modules.values():
        if module.is_test:
            continue
        named = [(segments, test) for segments, _, test in module.mentions]
        named += [(segments, test) for alias, segments, test, statement in module.uses
                  if not statement["visibility"] or module.path == "crate"]
        for segments, test in named:
            if test:
                continue
            target = crate.resolve(module, [s for s in segments if s != "*"])
            if not target or (target[1] is None and segments[-1] != "*"):
                continue
            if target[0].is_test:
                continue
            a, b = owner[module.path], owner[target[0].path]
            if a is not b:
                found[a, b].add(target[1] or "*")
    return found


def circles(graph):
    """Strongly connected parts of more than one node (Tarjan, without recursion)."""
    index, low, on, stack, parts = {}, {}, set(), [], []
    for root in graph:
        if root in index:
            continue
        work = [(root, iter(graph[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on.add(root)
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    on.add(target)
                    work.append((target, iter(graph.get(target, ()))))
                    break
                if target in on:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    part = []
                    while True:
                        part.append(stack.pop())
                        on.discard(part[-1])
                        if part[-1] is node:
                            break
                    if len(part) > 1:
                        parts.append(part)
    return parts


def graph_of(pairs):
    """node -> nodes that it names."""
    graph = defaultdict(set)
    for a, b in pairs:
        graph[a].add(b)
        graph[b]
    return dict(graph)


def folder_of(room):
    """`crate::exec::join` as `exec/join`."""
    return "/".join(room.split("::")[1:]) or "lib"


def check(folder, layers, print_arrows):
    """Prints the graph and what is wrong with it; the number of faults."""
    root = Path(folder) / "src"
    crate = Crate(root)
    found = arrows(crate)
    failures = 0

    def line(a, b):
        return f"{name_of(a.file, root)} -> {name_of(b.file, root)}  ({', '.join(sorted(found[a, b]))})"

    def by_path(pair):
        return pair[0].path, pair[1].path

    parts = circles(graph_of(found))
    for part in sorted(parts, key=len, reverse=True):
        failures += 1
        print(f"circle of {len(part)} files:")
        for a, b in sorted((p for p in found if set(p) <= set(part)), key=by_path):
            print(f"    {line(a, b)}")

    room = {module: room_of(module.path, layers) for pair in found for module in pair}
    rooms = circles(graph_of({(room[a], room[b]) for a, b in found if room[a] != room[b]}))
    for part in sorted(rooms, key=len, reverse=True):
        failures += 1
        print(f"circle of {len(part)} rooms: {' '.join(sorted(map(folder_of, part)))}")
        ties = defaultdict(list)
        for a, b in found:
            if room[a] != room[b] and room[a] in part and room[b] in part:
                ties[room[a], room[b]].append((a, b))
        # What is easily cut comes first.
        for (a, b), pairs in sorted(ties.items(), key=lambda tie: (len(tie[1]), tie[0])):
            print(f"  {folder_of(a)} -> {folder_of(b)}")
            for pair in sorted(pairs, key=by_path):
                print(f"    {line(*pair)}")

    between = defaultdict(list)
    for a, b in found:
        between[layer_of(a.path, layers), layer_of(b.path, layers)].append((a, b))
    upwards = [pair for (a, b), pairs in between.items() if a > b for pair in pairs]
    for a, b in sorted(upwards, key=by_path):
        failures += 1
        print(f"upwards, from {layers[layer_of(a.path, layers)][0]} to {layers[layer_of(b.path, layers)][0]}: {line(a, b)}")

    counted, rooms_in = defaultdict(set), defaultdict(set)
    for module in crate.modules.values():
        if not module.is_test and not (module.parent and module.parent.file == module.file):
            layer = layer_of(module.path, layers)
            counted[layer].add(module.path)
            rooms_in[layer].add(room_of(module.path, layers))
    print("layer           files  rooms  imports from")
    for number, (name, _) in enumerate(layers):
        below = [f"{layers[b][0]} {len(pairs)}" for (a, b), pairs in sorted(between.items()) if a == number and b != number]
        print(f"{name:<15} {len(counted[number]):>5}  {len(rooms_in[number]):>5}  {', '.join(below)}".rstrip())
    print(f"{sum(map(len, counted.values()))} files, {len(found)} arrows, {len(parts)} circles of files, {len(rooms)} circles of rooms, "
          f"{len(upwards)} arrows upwards")
    if print_arrows:
        for (upper, lower), pairs in sorted(between.items()):
            if upper != lower:
                for a, b in sorted(pairs, key=by_path):
                    print(line(a, b))
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("crate", nargs="?", default=Path(__file__).resolve().parent.parent, help="the folder of the crate; this repository's by default")
    parser.add_argument("--layers", help="modules of the crate from the top to the ground, such as top,device::cuda,device; this crate's by default")
    parser.add_argument("--arrows", action="store_true", help="prints all arrows between layers, too")
    given = parser.parse_args()
    layers = LAYERS
    if given.layers:
        layers = [("crate", "crate")] + [(name, f"crate::{name}") for name in given.layers.split(",")]
    sys.exit(1 if check(given.crate, layers, given.arrows) else 0)


if __name__ == "__main__":
    main()
