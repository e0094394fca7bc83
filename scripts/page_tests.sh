#!/usr/bin/env bash
# Tests of the page that shows a profile, in headless Chromium: pytest with Playwright, over samples and over a page of a query that really ran.
#
# scripts/page_tests.sh [arguments of pytest …]
#
# scripts/setup.sh installs the browser and the packages of Python where they are missing. BOWTIE_SQL names the shell that runs the
# query; without it there are samples alone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/setup.sh browser page-tests

python="$(realpath "${CARGO_TARGET_DIR:-target}")/page-tests/bin/python"
exec "$python" -B -m pytest -p no:cacheprovider tests/page "$@"
