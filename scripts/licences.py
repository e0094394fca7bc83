#!/usr/bin/env python3
"""Checks the licences and the sources of all dependencies, and that none of them is banned, against deny.toml.

    scripts/licences.py

It reads what `cargo metadata` says about dependencies on this platform, with all features, and compiles nothing. cargo-deny checks more, such as
advisories and the texts of licences, but takes minutes to build: .ci/nightly calls it. Needs Python 3.11 or newer.
"""

import json
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

TOKEN = re.compile(r"\(|\)|/|[\w.+-]+(?: WITH [\w.+-]+)?")


def packages():
    """All packages that a build for this platform may need."""
    version = subprocess.run(["rustc", "-vV"], check=True, stdout=subprocess.PIPE, text=True).stdout
    host = re.search(r"^host: (\S+)$", version, re.MULTILINE)[1]
    command = ["cargo", "metadata", "--format-version=1", "--locked", "--all-features", "--filter-platform", host]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=ROOT).stdout)["packages"]


def is_allowed(expression, allowed):
    """Whether the licences suffice for an SPDX expression; `/` is an old form of OR. AND binds more tightly."""
    tokens = TOKEN.findall(expression)

    def alternatives():
        result = both()
        while tokens and tokens[0] in ("OR", "/"):
            tokens.pop(0)
            # Both sides are read.
            result = both() or result
        return result

    def both():
        result = one()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            result = one() and result
        return result

    def one():
        token = tokens.pop(0)
        if token != "(":
            return token in allowed
        result = alternatives()
        if tokens.pop(0) != ")":
            raise ValueError(expression)
        return result

    try:
        result = alternatives()
    except IndexError:
        raise ValueError(expression) from None
    if tokens:
        raise ValueError(expression)
    return result


def faults(package, rules, registry):
    """What is wrong with a package."""
    licences, name, source = rules["licenses"], package["name"], package["source"]
    is_private = source is None and package["publish"] == []
    if not (is_private and licences["private"]["ignore"]):
        allowed = set(licences["allow"])
        for exception in licences["exceptions"]:
            if exception["crate"] == name:
                allowed.update(exception["allow"])
        if not package["license"]:
            yield "says no licence in its manifest"
        elif not is_allowed(package["license"], allowed):
            yield f"has the licence {package['license']}, which deny.toml does not allow"
    # Members of the workspace have no source.
    if source not in (None, registry):
        yield f"comes from {source}, not from {registry}"
    if any(name == banned["crate"] for banned in rules["bans"]["deny"]):
        yield "is banned by deny.toml"


def main():
    rules = tomllib.loads((ROOT / "deny.toml").read_text(encoding="utf-8"))
    all_packages = packages()
    # Where nearly all come from.
    registry, _ = Counter(package["source"] for package in all_packages).most_common(1)[0]
    wrong = [f"{package['name']} {package['version']} {fault}" for package in all_packages for fault in faults(package, rules, registry)]
    if not registry.startswith("registry+"):
        wrong.append(f"{registry} is not a registry")
    # An exception that nobody needs would hide the next one.
    names = {package["name"] for package in all_packages}
    wrong += [f"deny.toml has an exception for {e['crate']}, which is not used" for e in rules["licenses"]["exceptions"] if e["crate"] not in names]
    print("\n".join([*wrong, f"{len(all_packages)} packages, {len(wrong)} faults"]))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
