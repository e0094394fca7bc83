#!/usr/bin/env python3
"""Chooses executables among what Cargo built, by package and target.

    cargo test --workspace --no-run --message-format=json-render-diagnostics | scripts/executables.py NAME=PACKAGE/KIND[/TARGET]…

KIND is `lib` (the unit tests of a library), `test`, `bench`, `bin` (the program, not its unit tests) or `cdylib`. Prints a line `NAME PATH` for each
NAME, in the order of the arguments. Fails if Cargo built no such target, or two: packages of a workspace may have targets of the same name.
Needs Python 3.8 or newer, and nothing else.
"""

import json
import sys


def package_of(package_id):
    """`path+file:///…/cli#bowtie-sql@0.1.0`, or `path+file:///…/bowtie-sql#0.1.0` where the folder has the name of the package."""
    source, _, fragment = package_id.partition("#")
    return fragment.split("@")[0] if "@" in fragment else source.rstrip("/").rsplit("/", 1)[-1]


def built(lines):
    """Package, kind, target and path of each artifact in Cargo's messages."""
    for line in lines:
        message = json.loads(line)
        if message.get("reason") != "compiler-artifact":
            continue
        package, kind, target = package_of(message["package_id"]), message["target"]["kind"][0], message["target"]["name"]
        if kind == "cdylib":
            # Cargo lists a debug file beside the library on some systems.
            paths = [path for path in message["filenames"] if path.endswith((".so", ".dylib", ".dll"))]
            # Built as a test, it is an executable.
            if paths and not message["executable"]:
                yield package, kind, target, paths[0]
        elif message["executable"] and not (kind == "bin" and message["profile"]["test"]):
            yield package, kind, target, message["executable"]


def chosen(wanted, artifacts):
    """The path of `PACKAGE/KIND[/TARGET]`."""
    package, kind, *target = wanted.split("/")
    paths = sorted({path for of, has, name, path in artifacts if (of, has) == (package, kind) and target in ([], [name])})
    if len(paths) != 1:
        sys.exit(f"{wanted}: one executable was expected, Cargo built {len(paths)}: {', '.join(paths)}")
    return paths[0]


def main():
    if len(sys.argv) < 2 or not all(argument.partition("=")[2].count("/") in (1, 2) for argument in sys.argv[1:]):
        sys.exit(__doc__)
    artifacts = list(built(sys.stdin))
    for argument in sys.argv[1:]:
        name, _, wanted = argument.partition("=")
        print(name, chosen(wanted, artifacts))


if __name__ == "__main__":
    main()
