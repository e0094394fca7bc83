#!/usr/bin/env bash
# Tests of the Python package: pytest with doctests, ruff and mypy, against the library that `cargo build` made. The packages that it is tested
# with, python/tests/requirements.txt, are installed into an environment in Cargo's target directory.
#
# scripts/python_tests.sh [arguments of pytest …]
#
# PYTHON chooses the interpreter, 3.10 or newer. BOWTIE_PYTHON_BUILD=no takes the library that is there. BOWTIE_FEATURES: features for Cargo.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ "${BOWTIE_PYTHON_BUILD:-yes}" != no ]; then
    # All members, as in the other steps: they share one build of DataFusion.
    cargo build --workspace --lib --bin bowtie-cluster --features "${BOWTIE_FEATURES:-}" --locked
fi

target="$(realpath "${CARGO_TARGET_DIR:-target}")"
scripts/setup.sh python-tests
python="$target/python-tests/bin/python"

# A new file in place of the old one, which a running interpreter may have mapped.
library=python/datafusion_bowtie/_lib.abi3.so
cp "$target/debug/libdatafusion_bowtie_python.so" "$library.new"
mv "$library.new" "$library"

export BOWTIE_CLUSTER="$target/debug/bowtie-cluster"
cd python
export PYTHONPATH="$PWD"
"$python" -m ruff check .
"$python" -m ruff format --check .
"$python" -m mypy datafusion_bowtie tests
exec "$python" -m pytest "$@"
