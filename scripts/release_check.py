#!/usr/bin/env python3
"""Checks that a release can be built from this commit, or published with --publish.

    scripts/release_check.py [--publish]

All members that are released have the version of the library; CHANGELOG.md and docs/reference/compatibility.md have it too; nothing is uncommitted;
a tag of the commit has the version's name. Where there is such a tag, the changelog has the version's date, and the page does not say that it is not
released. To publish, there must be a tag, and Cargo.toml says where the repository is. Prints the version, or what is wrong, and fails then. Needs
Python 3.11 or newer, and git.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MEMBERS = ("cli", "distributed", "python")
CHANGELOG = re.compile(r"^## \[(?P<version>[^\]]+)\] – (?P<date>.*)$", re.MULTILINE)


def manifest(folder):
    return tomllib.loads((ROOT / folder / "Cargo.toml").read_text(encoding="utf-8"))


def git(*arguments):
    return subprocess.run(["git", *arguments], check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT).stdout


def of_versions(version):
    for member in MEMBERS:
        package = manifest(member)
        if package["package"]["version"] != version:
            yield f"{member}/Cargo.toml has version {package['package']['version']}, Cargo.toml {version}"
        for name, dependency in package["dependencies"].items():
            # A member that nobody publishes may be named by its path alone.
            if name.startswith("datafusion-bowtie") and dependency.get("version", version) != version:
                yield f"{member}/Cargo.toml asks for {name} {dependency['version']}, Cargo.toml has version {version}"
    # The wheel's version is that of python/Cargo.toml.
    project = tomllib.loads((ROOT / "python/pyproject.toml").read_text(encoding="utf-8"))["project"]
    if "version" not in project.get("dynamic", []):
        yield 'python/pyproject.toml has no dynamic = ["version"]'


def of_pages(version, released):
    newest = CHANGELOG.search((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    if not newest or newest["version"] != version:
        yield f"the newest version of CHANGELOG.md is {newest and newest['version']}, that of Cargo.toml {version}"
    elif released and not re.fullmatch(r"\d{4}-\d{2}-\d{2}", newest["date"]):
        yield f"CHANGELOG.md has '{newest['date']}' where the date of version {version} must be"
    page = "docs/reference/compatibility.md"
    row = re.search(rf"^\| {re.escape(version)}(?![\w.-]).*$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    if not row:
        yield f"{page} has no row of version {version}"
    elif released and "not released" in row[0]:
        yield f"{page} says that version {version} is not released"


def of_commit(version, tags, publish):
    if changes := git("status", "--porcelain"):
        yield f"there are changes that are not committed:\n{changes.rstrip()}"
    if tags and f"v{version}" not in tags:
        yield f"the commit's tag is {', '.join(tags)}, the version {version}"
    elif publish and not tags:
        yield f"the commit has no tag v{version}"


def main():
    publish = sys.argv[1:] == ["--publish"]
    if sys.argv[1:] and not publish:
        sys.exit(__doc__)
    package = manifest(".")["package"]
    version = package["version"]
    tags = [tag for tag in git("tag", "--points-at", "HEAD").split() if tag.startswith("v")]
    wrong = [*of_versions(version), *of_pages(version, publish or bool(tags)), *of_commit(version, tags, publish)]
    if publish and "repository" not in package:
        wrong.append("Cargo.toml has no `repository`: users would not find the source, nor where to report")
    if wrong:
        print("\n".join(wrong), file=sys.stderr)
        sys.exit(1)
    print(f"version {version}")


main()
