#!/usr/bin/env bash
# Makes kernels/packed from kernels/*.cu with the pinned compiler: what a build embeds of each family, PTX and machine code for common
# architectures, compressed.
#   scripts/ptx.sh               writes the packs of the families that changed
#   scripts/ptx.sh --check       fails when they are not what the kernels compile to
#   scripts/ptx.sh --keep DIR    writes nothing but the PTX and the machine code themselves, into DIR
set -euo pipefail
cd "$(dirname "$0")/.."

nvcc=$(scripts/install-cuda.sh)
include=$(dirname "$nvcc")/../include
# Architectures, and the toolkit whose ptxas makes their code: a driver loads code of its own CUDA version and of older ones, so the oldest one
# that knows the architecture. Later cards of a generation run the code of an earlier one: 8.6 and 8.9 that of 8.0, and 10.3 that of 10.0.
architectures="75:12.3 80:12.3 90:12.3 100:13.0 120:13.0"
machine=$(mktemp -d)
trap 'rm -rf "$machine"' EXIT
# One folder for each architecture, and one for the PTX. Their files `driver` say which CUDA version a driver must have to load them; that of the PTX
# is the version of its label.
made=$machine/ptx
mkdir "$made"
echo 12.3 > "$made/driver"

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

# Machine code of each family, by its label for all of the toolkits.
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

case "${1:-}" in
    --check)
        scripts/kernel_packs.py --check "$machine" || {
            echo "kernels/packed is not what kernels/*.cu compile to: run scripts/ptx.sh and commit the result" >&2
            exit 1
        }
        echo "kernels/packed is what kernels/*.cu compile to"
        ;;
    --keep)
        mkdir -p "${2:?"--keep needs a directory"}"
        cp -r "$machine"/. "$2"
        ;;
    "") scripts/kernel_packs.py "$machine" ;;
    *) echo "there is no option $1: see the first lines of $0" >&2 && exit 1 ;;
esac
