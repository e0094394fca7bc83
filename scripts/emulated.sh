#!/usr/bin/env bash
# Runs a command on the emulated GPU of tests/emulator, such as `scripts/emulated.sh cargo test --workspace --lib cuda::tests::few`.
# Needs a C++20 compiler, $CXX or g++.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# It is compiled for the processor at hand, which another machine that has the same directory may not have.
processor=$({ grep -m1 '^flags' /proc/cpuinfo 2>/dev/null || uname -m; } | cksum | cut -d' ' -f1)
# Absolute: tests run in the directory of their package.
made="$(realpath -m "${CARGO_TARGET_DIR:-$root/target}")/emulator/$processor"
mkdir -p "$made"
# A file that is newer than its object is compiled anew, and all are when a header is newer, or this script.
emulator="$root/tests/emulator"
headers=$(find "$emulator" -name '*.hpp' -print0 | xargs -0 ls -t "${BASH_SOURCE[0]}" | head -1)
stale=()
objects=()
while read -r source; do
    object="$made/$(basename "$source" .cpp).o"
    objects+=("$object")
    if [ ! -e "$object" ] || [ "$source" -nt "$object" ] || [ "$headers" -nt "$object" ]; then
        stale+=("$source")
    fi
done < <(find "$emulator" -name '*.cpp' | sort)
if [ ${#stale[@]} -gt 0 ]; then
    # An instruction rounds toward zero (-frounding-math).
    printf '%s\n' "${stale[@]}" | xargs -P "$(nproc)" -I{} sh -c \
        '"${CXX:-g++}" -std=c++20 -O3 -march=native -fPIC -frounding-math -Wall -Wextra -Werror -I"$3" -c "$1" -o "$2/$(basename "$1" .cpp).o"' _ {} "$made" "$emulator"
    "${CXX:-g++}" -shared -o "$made/libcuda.so.new" "${objects[@]}"
    # Whoever has the old one keeps it.
    mv "$made/libcuda.so.new" "$made/libcuda.so"
fi

export LD_LIBRARY_PATH="$made${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export BOWTIE_REQUIRE_CUDA=1
# What an emulated card takes says nothing: plans are those of the reference.
export BOWTIE_RATES="${BOWTIE_RATES:-off}"
exec "$@"
