#!/usr/bin/env bash
# Makes kernels/ptx from kernels/*.cu with the pinned compiler.
#   scripts/ptx.sh            writes kernels/ptx
#   scripts/ptx.sh --check    fails when kernels/ptx is not what the kernels compile to
set -euo pipefail
cd "$(dirname "$0")/.."

nvcc=$(scripts/install-cuda.sh)
include=$(dirname "$nvcc")/../include
target=kernels/ptx
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT

for source in $(find kernels -name "*.cu" | sort); do
    family=$(basename "$source" .cu)
    # The oldest architecture that the compiler knows, but where a family says that it needs a newer one: the driver makes the
    # best of it for the card at hand.
    arch=$(sed -n 's|^// For \(compute_[0-9]*\)\.$|\1|p' "$source")
    "$nvcc" -std=c++17 -O3 -arch="${arch:-compute_75}" -ptx --Werror all-warnings -Ikernels -I"$include/cccl" -o "$made/$family.ptx" "$source"
    # No comment and no hash of the directory, so that every machine makes the same; and the oldest label under which all instructions are known, so that
    # drivers from R545 on accept it too.
    sed -i -E -e '1i // Generated from '"$family"'.cu by scripts/ptx.sh. Do not edit.' -e '/^\/\//d' \
        -e 's/^\.version .*/.version 8.3/' -e 's/(_INTERNAL_|_GLOBAL__N__)[0-9a-f]{8}_/\100000000_/g' "$made/$family.ptx"
    # Is that label old enough to be of use, and new enough for the instructions?
    "$(dirname "$nvcc")/ptxas" -arch=sm_90 -o /dev/null "$made/$family.ptx"
done

if [ "${1:-}" = --check ]; then
    diff -rq "$made" "$target" || {
        echo "kernels/ptx is not what kernels/*.cu compile to: run scripts/ptx.sh and commit the result" >&2
        exit 1
    }
    echo "kernels/ptx is what kernels/*.cu compile to"
else
    rm -rf "$target"
    mkdir -p "$target"
    cp "$made"/*.ptx "$target"/
    ls -l "$target"
fi
