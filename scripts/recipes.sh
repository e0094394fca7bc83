#!/usr/bin/env bash
# Runs the recipes of the book with the Python package that `cargo build` made: `scripts/recipes.py` says what can be asked. The engines that the
# pages compare with, scripts/recipes-requirements.txt, are installed into an environment in Cargo's target directory.
#
# scripts/recipes.sh check [page …]
#
# PYTHON chooses the interpreter, 3.11 or newer. BOWTIE_PYTHON_BUILD=no takes the library that is there; BOWTIE_PYTHON_PROFILE=release one for times.
# BOWTIE_FEATURES: features for Cargo.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

profile="${BOWTIE_PYTHON_PROFILE:-debug}"
if [ "${BOWTIE_PYTHON_BUILD:-yes}" != no ]; then
    cargo build --workspace --lib --features "${BOWTIE_FEATURES:-}" --locked $([ "$profile" = debug ] || printf -- '--profile %s' "$profile")
fi

target="$(realpath "${CARGO_TARGET_DIR:-target}")"
scripts/setup.sh recipes
python="$target/recipes/bin/python"

# The package beside the library, as an installation would have it.
package="$target/recipes/package/datafusion_bowtie"
mkdir -p "$package"
cp python/datafusion_bowtie/*.py "$package"
# A new file in place of the old one, which a running interpreter may have mapped.
cp "$target/$profile/libdatafusion_bowtie_python.so" "$package/_lib.$$"
mv "$package/_lib.$$" "$package/_lib.abi3.so"

export PYTHONPATH="$target/recipes/package"
# No __pycache__ beside the scripts.
export PYTHONDONTWRITEBYTECODE=1
exec "$python" scripts/recipes.py "$@"
