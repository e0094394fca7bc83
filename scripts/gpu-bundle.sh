#!/usr/bin/env bash
# Packs tests, or benches, for a GPU machine without Rust: one part of them into one archive of at most 60 MiB.
#   scripts/gpu-bundle.sh [--part PART] [archive [name…]]         default: --part tests target/gpu-bundle-PART.tar.xz
# PART is
#   tests      the library's unit tests and the whole-query tests, with upstream's SQL tests
#   shell      the shell and its tests
#   workers    bowtie-cluster, and the tests of Ballista and datafusion-distributed
#   python     the Python package and its tests, for Python 3.10 or newer
#   wheels     the named packages of python/tests/requirements.txt, for the Python that BOWTIE_WHEELS_PYTHON names (3.12 by default)
#   benches    the named benches, theta by default; they need a release build
# There:  tar xf each archive;  gpu-bundle/run.sh [--tests | --benches | --sanitizer [tool]] [results directory]
# All parts unpack into the folder gpu-bundle, and run.sh (scripts/gpu-run.sh) runs what it finds there. Packing takes 8 GB of memory.
set -euo pipefail
cd "$(dirname "$0")/.."

part=tests
if [ "${1:-}" = --part ]; then
    part=${2:?"--part needs a name"}
    shift 2
fi
case "$part" in
    tests | shell | workers | python | wheels | benches) ;;
    *) echo "there is no part $part: see the first lines of $0" >&2 && exit 1 ;;
esac
archive=$(realpath -m "${1:-target/gpu-bundle-$part.tar.xz}")
shift || true
staging=$(mktemp -d)
trap 'rm -rf "$staging"' EXIT
bundle=$staging/gpu-bundle
mkdir -p "$bundle/commits" "$(dirname "$archive")"

# A file of the bundle, which must be new.
new() {
    if [ -e "$bundle/$1" ]; then
        echo "$1 is packed already" >&2
        exit 1
    fi
    printf '%s\n' "$bundle/$1"
}

# pack <file with Cargo's messages> <NAME=PACKAGE/KIND/TARGET…>: strips what Cargo built into the bundle, under these names.
pack() {
    local messages=$1 chosen name path to
    shift
    chosen=$(scripts/executables.py "$@" < "$messages")
    while read -r name path; do
        to=$(new "$name")
        strip -o "$to" "$path"
    done <<< "$chosen"
}

# All members and targets, as `cargo test --workspace` builds them: there is one build of DataFusion.
messages=$staging/messages
build_tests() {
    cargo test --locked --workspace --no-run --message-format=json-render-diagnostics > "$messages"
}

case "$part" in
    tests)
        build_tests
        pack "$messages" unit-tests=datafusion-bowtie/lib integration-tests=bowtie-tests/test/it
        # Upstream's sqllogictest files, which the integration tests read.
        slt=$(cargo metadata --format-version=1 --offline --filter-platform="$(rustc -vV | sed -n 's/^host: //p')" |
            python3 -c 'import json, os, sys
for package in json.load(sys.stdin)["packages"]:
    if package["name"] == "datafusion-sqllogictest":
        print(os.path.dirname(package["manifest_path"]))')
        mkdir "$bundle/slt"
        cp -r "$slt/test_files" "$slt/data" "$bundle/slt/"
        ;;
    shell)
        build_tests
        pack "$messages" bowtie-sql=bowtie-sql/bin/bowtie-sql shell-tests=bowtie-sql/test/it
        ;;
    workers)
        build_tests
        pack "$messages" bowtie-cluster=datafusion-bowtie-distributed/bin/bowtie-cluster \
            worker-unit-tests=datafusion-bowtie-distributed/lib worker-tests=datafusion-bowtie-distributed/test/distributed
        ;;
    python)
        # As in scripts/python_tests.sh.
        cargo build --locked --workspace --lib --bin bowtie-cluster --message-format=json-render-diagnostics > "$messages"
        mkdir -p "$bundle/python" "$bundle/docs/guide"
        git ls-files python/datafusion_bowtie python/tests python/README.md python/pyproject.toml docs/guide/python.md |
            xargs cp --parents -t "$bundle"
        pack "$messages" python/datafusion_bowtie/_lib.abi3.so=datafusion-bowtie-python/cdylib
        ;;
    wheels)
        mkdir "$bundle/wheels"
        [ $# -gt 0 ] || { echo "which packages of python/tests/requirements.txt?" >&2; exit 1; }
        # Some packages are in two: polars and polars-runtime-32.
        for name in "$@"; do
            grep -E "^$name(-runtime-[0-9]+)?==" python/tests/requirements.txt ||
                { echo "python/tests/requirements.txt has no $name" >&2; exit 1; }
        done > "$staging/wanted"
        python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --dest "$bundle/wheels" \
            --python-version "${BOWTIE_WHEELS_PYTHON:-3.12}" --requirement "$staging/wanted"
        ;;
    benches)
        for bench in "${@:-theta}"; do
            cargo build --locked --release --features measure --bench "$bench" --message-format=json-render-diagnostics > "$messages"
            pack "$messages" "bench-$bench=bowtie-benches/bench/$bench"
        done
        ;;
esac

cp scripts/run_tests.py "$bundle/"
cp scripts/gpu-run.sh "$bundle/run.sh"
# What a log of a run names.
git describe --always --abbrev=40 --exclude='*' --dirty > "$bundle/commits/$part"

# A window that reaches over all executables, which share most of their code. It takes 8 GB of memory, and 1 GB to unpack.
tar -C "$staging" -cf - gpu-bundle | xz -T1 --lzma2=preset=1,dict=1GiB > "$archive"
size=$(stat -c %s "$archive")
printf '%s: %d MiB\n' "$archive" $((size >> 20))
test "$size" -le $((60 << 20)) || { echo "the archive is larger than 60 MiB" >&2; exit 1; }
