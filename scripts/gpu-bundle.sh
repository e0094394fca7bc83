#!/usr/bin/env bash
# Packs everything that a GPU machine without Rust needs into one archive: tests, benches, and a script that runs them.
#   scripts/gpu-bundle.sh [archive [bench…]]         default: target/gpu-bundle.tar.xz theta
# There:  tar xf gpu-bundle.tar.xz && gpu-bundle/run.sh [--tests | --benches | --sanitizer] [results directory]
# It needs Python 3.8 or newer there.
set -euo pipefail
cd "$(dirname "$0")/.."

archive=$(realpath -m "${1:-target/gpu-bundle.tar.xz}")
shift || true
benches=("${@:-theta}")
staging=$(mktemp -d)
trap 'rm -rf "$staging"' EXIT
bundle=$staging/gpu-bundle
mkdir -p "$bundle" "$(dirname "$archive")"

# executable <cargo arguments…>: builds, and prints the paths of what was built, a line each.
executables() {
    cargo "$@" --message-format=json-render-diagnostics |
        python3 -c 'import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("executable") and message["target"]["kind"][0] in ("lib", "test", "bench"):
        print(message["target"]["kind"][0], message["executable"])'
}

executables test --locked --workspace --no-run --lib --test it | while read -r kind path; do
    case "$kind" in lib) name=unit-tests ;; *) name=integration-tests ;; esac
    strip -o "$bundle/$name" "$path"
done
for bench in "${benches[@]}"; do
    executables build --locked --release --features measure --bench "$bench" | while read -r _ path; do
        strip -o "$bundle/bench-$bench" "$path"
    done
done

# Upstream's sqllogictest files, which the integration tests read.
slt=$(cargo metadata --format-version=1 --offline --filter-platform="$(rustc -vV | sed -n 's/^host: //p')" |
    python3 -c 'import json, os, sys
for package in json.load(sys.stdin)["packages"]:
    if package["name"] == "datafusion-sqllogictest":
        print(os.path.dirname(package["manifest_path"]))')
mkdir "$bundle/slt"
cp -r "$slt/test_files" "$slt/data" "$bundle/slt/"

cp scripts/run_tests.py "$bundle/"
cat > "$bundle/run.sh" <<'RUN'
#!/usr/bin/env bash
# Runs the tests on the GPU, then the benches; fails when one fails, and where there is no GPU.
#   run.sh [--tests | --benches | --sanitizer] [results directory]
# --tests, --benches: these alone. --sanitizer: the tests of few rows alone, under compute-sanitizer's memcheck.
# BOWTIE_THREADS: tests at once, as many as cores if it is not set.
set -uo pipefail
cd "$(dirname "$0")"
mode=
case "${1:-}" in --tests | --benches | --sanitizer) mode=$1 && shift ;; esac
results=$(realpath -m "${1:-results}")
mkdir -p "$results"
export BOWTIE_REQUIRE_CUDA=1 BOWTIE_TEST_DEVICE=cuda BOWTIE_SLT_DIR=$PWD/slt
failed=0

if [ "$mode" = --sanitizer ]; then
    sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | tail -1)
    [ -n "$sanitizer" ] || { echo "compute-sanitizer, a part of the CUDA toolkit, is not here" >&2; exit 1; }
    # One test makes the driver refuse memory on purpose, which is no error here.
    "$sanitizer" --tool memcheck --report-api-errors no --error-exitcode 1 ./unit-tests cuda::tests::few --test-threads 1 2>&1 |
        tee "$results/sanitizer.log" || failed=1
    exit $failed
fi
if [ "$mode" != --benches ]; then
    ./run_tests.py --results "$results" --threads "${BOWTIE_THREADS:-$(nproc)}" ./unit-tests ./integration-tests 2>&1 |
        tee "$results/tests.log" || failed=1
fi
if [ "$mode" != --tests ]; then
    for bench in ./bench-*; do
        # Sizes for a GPU are those of theta anyway.
        large=--large
        [ "$bench" = ./bench-theta ] && large=
        "$bench" --device cuda $large --limit 3 --repeat 5 --out "$results" 2>&1 | tee "$results/${bench#./}.log" || failed=1
    done
fi
exit $failed
RUN
chmod +x "$bundle/run.sh"

# A window that reaches over all executables, which share most of their code. It takes some 8 GB of memory, and 1 GB to unpack.
tar -C "$staging" -cf - gpu-bundle | xz -T1 --lzma2=preset=1,dict=1GiB > "$archive"
size=$(stat -c %s "$archive")
printf '%s: %d MiB\n' "$archive" $((size >> 20))
test "$size" -le $((60 << 20)) || { echo "the archive is larger than 60 MiB" >&2; exit 1; }
