#!/usr/bin/env bash
# Builds the book from docs/ into a directory (target/book, or the one that is given) and checks its links and those of the files beside it.
# Any warning is an error. Needs Python 3 with venv; mkdocs-material, pinned in docs/requirements.txt, is installed into a cache directory
# outside of the clone at the first call. Reading the book needs no network.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

site="$(realpath --canonicalize-missing "${1:-target/book}")"
environment="${XDG_CACHE_HOME:-$HOME/.cache}/datafusion-bowtie-docs"

scripts/setup.sh docs
python3 scripts/check_links.py README.md ARCHITECTURE.md CONTRIBUTING.md CHANGELOG.md SECURITY.md
python3 scripts/figure.py --check
# No __pycache__ beside the scripts.
python3 -B scripts/pictures.py --check
NO_MKDOCS_2_WARNING=1 "$environment/bin/mkdocs" build --strict --clean --site-dir "$site"
python3 scripts/check_links.py --book "$site"
printf 'the book: %s\n' "$site/index.html"
