#!/usr/bin/env bash
# Makes kernels/ptx from kernels/*.cu with the pinned compiler, and from that kernels/machine: what a build embeds, the PTX itself and machine
# code for common architectures, compressed.
#   scripts/ptx.sh            writes both
#   scripts/ptx.sh --check    fails when they are not what the kernels compile to
set -euo pipefail
cd "$(dirname "$0")/.."

nvcc=$(scripts/install-cuda.sh)
include=$(dirname "$nvcc")/../include
target=kernels/ptx
# Architectures, and the toolkit whose ptxas makes their code: a driver loads code of its own CUDA version and of older ones, so the oldest one
# that knows the architecture. Later cards of a generation run the code of an earlier one: 8.6 and 8.9 that of 8.0, and 10.3 that of 10.0.
architectures="75:12.3 80:12.3 90:12.3 100:13.0 120:13.0"
made=$(mktemp -d)
machine=$(mktemp -d)
trap 'rm -rf "$made" "$machine"' EXIT

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
done

# Machine code of each family, by its label for all of the toolkits. A file `driver` says which CUDA version a driver must have to load it.
bin=$(dirname "$nvcc")
for pair in $architectures; do
    arch=${pair%:*}
    cuda=${pair#*:}
    case $cuda in
        12.3) ptxas=$bin/../../cuda_nvcc/bin/ptxas ;;
        13.0) ptxas=$bin/ptxas ;;
    esac
    mkdir "$machine/sm_$arch"
    echo "$cuda" > "$machine/sm_$arch/driver"
    for ptx in "$made"/*.ptx; do
        needs=$(sed -n 's/^\.target sm_\([0-9]*\).*/\1/p' "$ptx")
        # A family that older cards do not know is never loaded there.
        [ "$needs" -gt "$arch" ] || printf '%s\0' "$ptxas" "-arch=sm_$arch" -o "$machine/sm_$arch/$(basename "$ptx" .ptx).cubin" "$ptx"
    done
done | xargs -0 -n 5 -P "$(nproc)" env --
mkdir "$machine/ptx"
cp "$made"/*.ptx "$machine/ptx/"
# The version of the label.
echo 12.3 > "$machine/ptx/driver"

if [ "${1:-}" = --check ]; then
    diff -rq "$made" "$target" && scripts/machine_code.py --check "$machine" || {
        echo "kernels/ptx or kernels/machine is not what kernels/*.cu compile to: run scripts/ptx.sh and commit the result" >&2
        exit 1
    }
    echo "kernels/ptx and kernels/machine are what kernels/*.cu compile to"
else
    rm -rf "$target"
    mkdir -p "$target"
    cp "$made"/*.ptx "$target"/
    scripts/machine_code.py "$machine"
    ls -l "$target" kernels/machine
fi
