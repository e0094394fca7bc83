#!/usr/bin/env bash
# Tests of the page that shows a profile, in headless Chromium: pytest with Playwright, over samples and over a page of a query that really ran.
#
# scripts/page_tests.sh [arguments of pytest …]
#
# Debian's packages chromium and poppler-utils are installed where they are missing, which needs root. BOWTIE_SQL names the shell that runs the
# query; without it there are samples alone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! command -v chromium >/dev/null || ! command -v pdftoppm >/dev/null; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium poppler-utils >/dev/null
fi

target="$(realpath "${CARGO_TARGET_DIR:-target}")"
python="$target/page-tests/bin/python"
if [ ! -x "$python" ]; then
    "${PYTHON:-python3}" -m venv "$target/page-tests"
fi
"$python" -m pip install --quiet --disable-pip-version-check --requirement tests/page/requirements.txt
exec "$python" -B -m pytest -p no:cacheprovider tests/page "$@"
