#!/usr/bin/env bash
# Wheels of the Python package for Python 3.10 and newer, in python/dist or in the directory that is given: on Linux for x86-64 and arm64 with
# glibc 2.17 or newer, on macOS for its own processor, without CUDA.
#
# scripts/wheels.sh [directory]
#
# It needs cargo and rustup, Python, and room for a release build of DataFusion for each (some 25 minutes on two cores). maturin builds the wheels; on
# Linux zig, a package of Python too, compiles and links, so neither a container nor another compiler is needed. No CUDA toolkit is needed: the
# kernels are in the repository as compiled. TARGETS chooses the targets; scripts/targets.sh says what is skipped without it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/targets.sh

mkdir -p "${1:-python/dist}"
out=$(cd "${1:-python/dist}" && pwd)
scripts/setup.sh wheel-tools
tools=$(cd "${CARGO_TARGET_DIR:-target}/wheel-tools/bin" && pwd)

for triple in $(targets); do
    usable "$triple" || continue
    if is_linux "$triple"; then
        options=(--zig --compatibility manylinux2014)
    else
        options=(--no-default-features --features ballista)
    fi
    PATH="$tools:$PATH" maturin build --manifest-path python/Cargo.toml --release --locked --strip --target "$triple" "${options[@]}" --out "$out"
done
ls -l "$out"
