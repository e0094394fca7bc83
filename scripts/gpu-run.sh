#!/usr/bin/env bash
# Runs on a GPU what scripts/gpu-bundle.sh packed and what is unpacked here: tests, then benches. It is `run.sh` in the bundle.
#   run.sh [--tests | --benches | --sanitizer [memcheck | racecheck | initcheck]] [results directory]
# --tests, --benches: these alone. --sanitizer: the unit tests of few rows alone, under the named tool of compute-sanitizer, or under all three
# in turn. BOWTIE_THREADS: tests at once, as many as cores if it is not set.
# Fails when a test fails, when fewer tests ran than there are, and where there is no GPU. The results directory has logs, times.csv,
# counts.csv and summary.txt, which names the card, the driver and the commit.
set -uo pipefail
cd "$(dirname "$0")" || exit 1

# How many tests must pass, not skipped. `docs::minimums` of the whole-query tests compares them with the sources: a few may be missing here, such as
# those that another card skips.
declare -A minimums=(
    [unit-tests]=540
    [integration-tests]=580
    [shell-tests]=17
    [worker-unit-tests]=16
    [worker-tests]=16
)
# Functions of python/tests, without those of test_cluster.py, which need the part `workers`.
python_minimum=110

# Tests that read sources, which are not here and need no GPU.
of_sources=(--skip docs::)

mode=
tools=(memcheck racecheck initcheck)
case "${1:-}" in --tests | --benches | --sanitizer) mode=$1 && shift ;; esac
if [ "$mode" = --sanitizer ]; then
    case "${1:-}" in memcheck | racecheck | initcheck) tools=("$1") && shift ;; esac
fi
results=$(realpath -m "${1:-results}")
mkdir -p "$results"
export BOWTIE_REQUIRE_CUDA=1 BOWTIE_TEST_DEVICE=cuda BOWTIE_SLT_DIR=$PWD/slt
# Programs that tests start.
[ ! -x bowtie-sql ] || export BOWTIE_SQL=$PWD/bowtie-sql
[ ! -x bowtie-cluster ] || export BOWTIE_CLUSTER=$PWD/bowtie-cluster
failed=0

# summary <line…>: what ran, below the line that says where.
summary() {
    {
        printf 'date: %s\n' "$(date -u +%Y-%m-%dT%H:%MZ)"
        for part in commits/*; do
            printf 'commit of %s: %s\n' "${part#commits/}" "$(cat "$part")"
        done
        nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader | sed 's/^/card, memory, driver: /'
        printf 'cores: %s\n' "$(nproc)"
        printf '%s\n' "$@"
    } > "$results/summary.txt"
    cat "$results/summary.txt"
}

if [ "$mode" = --sanitizer ]; then
    sanitizer=$(command -v compute-sanitizer || find /usr/local/cuda*/bin -name compute-sanitizer 2>/dev/null | sort | tail -1)
    [ -n "$sanitizer" ] || { echo "compute-sanitizer, a part of the CUDA toolkit, is not here" >&2; exit 1; }
    lines=()
    for tool in "${tools[@]}"; do
        options=()
        # One test makes the driver refuse memory on purpose, which is no error here.
        [ "$tool" != memcheck ] || options=(--report-api-errors no)
        result=passed
        "$sanitizer" --tool "$tool" "${options[@]}" --error-exitcode 1 ./unit-tests cuda::tests::few --test-threads 1 2>&1 |
            tee "$results/$tool.log" || result=failed
        # No test is no proof.
        grep -qE '^test result: ok\. [1-9][0-9]* passed' "$results/$tool.log" || result=failed
        [ "$result" = passed ] || failed=1
        lines+=("$tool: $result, $(grep -E '^test result: |ERROR SUMMARY|RACECHECK SUMMARY' "$results/$tool.log" | tr '\n' ' ')")
    done
    summary "${lines[@]}"
    exit $failed
fi

if [ "$mode" != --benches ]; then
    executables=()
    required=()
    for name in unit-tests integration-tests shell-tests worker-unit-tests worker-tests; do
        if [ -x "$name" ]; then
            executables+=("./$name")
            required+=(--minimum "$name=${minimums[$name]}")
        fi
    done
    lines=()
    if [ ${#executables[@]} -gt 0 ]; then
        ./run_tests.py --results "$results" --threads "${BOWTIE_THREADS:-$(nproc)}" "${of_sources[@]}" "${required[@]}" "${executables[@]}" 2>&1 |
            tee "$results/tests.log" || failed=1
        while IFS=, read -r name passed of_failed skipped minimum; do
            [ "$name" = executable ] || lines+=("$name: $passed passed, $of_failed failed, $skipped skipped; minimum ${minimum%$'\r'}")
        done < "$results/counts.csv"
    fi
    if [ -d python ]; then
        packages=$PWD/python/packages
        if [ -d wheels ]; then
            python3 -m pip install --quiet --no-index --no-deps --upgrade --target "$packages" wheels/*.whl || failed=1
        fi
        (cd python && PYTHONPATH=$PWD:$packages python3 -m pytest -p no:cacheprovider --durations=20) 2>&1 |
            tee "$results/python.log" || failed=1
        closing=$(grep -E '^=+ .* in [0-9.]+s' "$results/python.log" | tail -1 | tr -d =)
        passed=$(grep -oE '[0-9]+ passed' <<< "$closing" | cut -d' ' -f1)
        if [ "${passed:-0}" -lt "$python_minimum" ]; then
            echo "python: ${passed:-0} tests passed, of which the minimum is $python_minimum" >&2
            failed=1
        fi
        lines+=("python:$closing; minimum $python_minimum")
    fi
    if [ ${#lines[@]} -eq 0 ] && [ "$mode" = --tests ]; then
        echo "there are no tests here: unpack a part of the bundle that has some" >&2
        failed=1
    fi
    summary "${lines[@]}"
fi
if [ "$mode" != --tests ]; then
    for bench in ./bench-*; do
        [ -x "$bench" ] || continue
        # Sizes for a GPU are those of theta anyway.
        large=(--large)
        [ "$bench" != ./bench-theta ] || large=()
        "$bench" --device cuda "${large[@]}" --limit 3 --repeat 5 --out "$results" 2>&1 | tee "$results/${bench#./}.log" || failed=1
    done
fi
exit $failed
