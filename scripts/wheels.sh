#!/usr/bin/env bash
# Wheels of the Python package for Linux (glibc 2.17 or newer) on x86-64 and arm64, for Python 3.10 and newer, in python/dist or in the directory that
# is given.
#
# scripts/wheels.sh [directory]
#
# It needs cargo and rustup, Python, and room for two release builds of DataFusion (each some 25 minutes on two cores). maturin builds the wheels; zig, which
# ziglang brings as a package of Python, compiles and links for both targets, so neither a container nor another compiler is needed. No CUDA toolkit
# is needed: the kernels are in the repository as compiled. TARGETS chooses other targets.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out="$(realpath --canonicalize-missing "${1:-python/dist}")"
targets="${TARGETS:-x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu}"

target="${CARGO_TARGET_DIR:-target}"
tools="$target/wheel-tools"
if [ ! -x "$tools/bin/maturin" ]; then
    "${PYTHON:-python3}" -m venv "$tools"
    "$tools/bin/python" -m pip install --quiet --disable-pip-version-check 'maturin[zig]>=1.9,<2'
fi

for triple in $targets; do
    rustup target add "$triple"
    PATH="$(realpath "$tools")/bin:$PATH" maturin build --manifest-path python/Cargo.toml --release --locked --strip --zig \
        --target "$triple" --compatibility manylinux2014 --out "$out"
done
ls -l "$out"
