#!/usr/bin/env bash
# What takes too long for every change, or changes from day to day: the release build, the modes of the tests, random queries by a seed of the day,
# all tests of the CUDA backend on an emulated GPU, features alone, advisories.
#   scripts/nightly.sh [STEP…]        all steps, or these
#   scripts/nightly.sh --list         what they are
# Run .ci/run before: the steps share its target directory, and need what it installs. A step that fails does not stop those behind it; the script
# fails in the end if one did. Logs and times of tests go to nightly/STEP in Cargo's target directory.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

# As in .ci/run.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/datafusion-bowtie-target}"
export CARGO_INCREMENTAL=0
export BOWTIE_FEATURES="${BOWTIE_FEATURES-bowtie-sql/nvtx}"
export BOWTIE_FUZZ_SEED="${BOWTIE_FUZZ_SEED:-$(date -u +%Y%m%d)}"
cargo_deny=0.20.2

steps=(
    "release: the examples and the benches, built in the release profile"
    "examples: each example, in the release profile"
    "bench: the queries of the bench tpch once, on a small scale"
    "stages: whole queries in plans that are distributed before they are offloaded"
    "cut: whole queries in plans that are cut at their exchanges"
    "codec: whole queries whose plans are sent before they run"
    "cache: whole queries with columns that stay on the device"
    "ignored: tests that are ignored, as they take long or measure"
    "fuzz: 2,000 random queries of each kind, with the seed $BOWTIE_FUZZ_SEED, and damaged messages and files"
    "soak: concurrent clients for ten minutes, with the same seed"
    "clusters: the queries of the tests on workers with an emulated GPU, and random ones on workers of both engines, with the same seed"
    "twins: all unit tests of the CUDA backend on an emulated GPU, in three orders"
    "features: the library with each feature alone, and the documentation with those of the documentation host"
    "dependencies: cargo-deny, with advisories where their database can be fetched"
)

# Whole-query tests that compare rows and do not look at plans, which differ where a plan is distributed before it is offloaded.
of_any_plan=(
    fuzz::aggregate:: fuzz::joins:: fuzz::plans:: fuzz::queries:: fuzz::text:: join::equi::null_aware join::equi::skew join::partners::floats
    join::partners::intervals join::partners::oracle join::semi:: join_aggregate::fused join_aggregate::intervals join_aggregate::overlaps
    join_aggregate::two_inequalities regressions:: tpch::
)
# Modules of whole-query tests that compare rows. The others look at plans, messages and counters, which differ by mode.
of_rows=(aggregate:: clusters:: fuzz:: join:: join_aggregate:: keys:: regressions:: rows:: sort:: text_functions:: tpcds:: tpch::)

# executable <NAME=PACKAGE/KIND/TARGET>: builds as .ci/run does, and prints the path.
executable() {
    cargo test --workspace --no-run --features "$BOWTIE_FEATURES" --locked --message-format=json-render-diagnostics |
        scripts/executables.py "$1" | cut -d' ' -f2
}

# whole_queries <step> <options of run_tests.py…>: on the CPU backend.
whole_queries() {
    local results="$CARGO_TARGET_DIR/nightly/$1" path
    shift
    path=$(executable it=bowtie-tests/test/it) || return 1
    scripts/run_tests.py --results "$results" --patience 1800 "$@" "$path"
}

step_release() {
    cargo build --release --examples --locked && cargo bench --no-run --features measure --locked
}

step_examples() {
    local example failed=0
    for example in examples/*.rs; do
        cargo run --release --locked --example "$(basename "$example" .rs)" || failed=1
    done
    return $failed
}

# Each of the 22 queries once, with the features of DataFusion that the benches are built with.
step_bench() {
    cargo bench --locked --bench tpch -- --quick --repeat 1 --device host --out "$CARGO_TARGET_DIR/bench"
}

step_stages() {
    BOWTIE_TEST_RULE=stages whole_queries stages "${of_any_plan[@]/#/--filter=}"
}

step_cut() {
    BOWTIE_TEST_RULE="cut" whole_queries cut "${of_any_plan[@]/#/--filter=}"
}

# Those that count what a runtime of their own does are left out.
step_codec() {
    BOWTIE_TEST_CODEC=1 whole_queries codec "${of_rows[@]/#/--filter=}"
}

step_cache() {
    # Others look at uploads, and at what is spilled.
    BOWTIE_TEST_CACHE=8GB whole_queries cache --skip memory:: --skip partition:: --skip nodes_between_borders --skip each_scan_is_uploaded_once \
        "${of_rows[@]/#/--filter=}"
}

step_ignored() {
    local unit whole failed=0
    unit=$(executable unit-tests=datafusion-bowtie/lib) || return 1
    whole=$(executable it=bowtie-tests/test/it) || return 1
    "$unit" --ignored --nocapture --test-threads 1 || failed=1
    "$whole" --ignored --nocapture --test-threads 1 || failed=1
    return $failed
}

step_fuzz() {
    BOWTIE_FUZZ_CASES=2000 PROPTEST_CASES=1000 whole_queries fuzz --filter fuzz:: --filter damaged
}

step_soak() {
    BOWTIE_SOAK_SECONDS=600 BOWTIE_SOAK_SEED="$BOWTIE_FUZZ_SEED" whole_queries soak --filter memory::soak
}

step_clusters() {
    local engine path failed=0
    path=$(executable it=datafusion-bowtie-distributed/test/distributed) || return 1
    BOWTIE_TEST_DEVICE=cuda scripts/emulated.sh scripts/run_tests.py --results "$CARGO_TARGET_DIR/nightly/clusters" --patience 1800 \
        --filter workers::all_queries --filter ballista::all_queries "$path" || failed=1
    cargo build --workspace --bins --features "$BOWTIE_FEATURES" --locked || return 1
    for engine in distributed ballista; do
        mkdir -p "$CARGO_TARGET_DIR/nightly/$engine"
        scripts/cluster_fuzz.py --bin "$CARGO_TARGET_DIR/debug" --data "$CARGO_TARGET_DIR/nightly/$engine" --engine "$engine" \
            --seed "$BOWTIE_FUZZ_SEED" --count 200 || failed=1
    done
    return $failed
}

step_twins() {
    local seed failed=0
    for seed in 1 2 3; do
        EMULATED_GPU_SEED=$seed scripts/emulated_tests.sh twins || failed=1
    done
    return $failed
}

step_features() {
    local feature failed=0
    for feature in "" datafusion parquet cuda codec tracing measure faults; do
        printf '    features: %s\n' "${feature:-none}"
        cargo check --package datafusion-bowtie --lib --no-default-features --features "$feature" --locked || failed=1
    done
    for feature in "" ballista-client ballista datafusion-distributed stores; do
        printf '    features of the distributed engines: %s\n' "${feature:-none}"
        cargo check --package datafusion-bowtie-distributed --lib --no-default-features --features "$feature" --locked || failed=1
    done
    RUSTDOCFLAGS="-D warnings" cargo doc --package datafusion-bowtie --no-deps --features codec,cuda,tracing --locked || failed=1
    return $failed
}

step_dependencies() {
    if [ "$(cargo deny --version 2>/dev/null)" != "cargo-deny $cargo_deny" ]; then
        cargo install cargo-deny --version "$cargo_deny" --locked || return 1
    fi
    cargo deny --locked check licenses bans sources || return 1
    if cargo deny fetch db; then
        cargo deny --locked check advisories
    else
        echo "advisories were not checked: their database cannot be fetched"
    fi
}

names=("${steps[@]%%:*}")
if [ "${1:-}" = --list ]; then
    printf '%s\n' "${steps[@]}"
    exit
fi
wanted=("$@")
[ $# -gt 0 ] || wanted=("${names[@]}")
for step in "${wanted[@]}"; do
    if [[ " ${names[*]} " != *" $step "* ]]; then
        echo "there is no step $step: see $0 --list" >&2
        exit 1
    fi
done

results=()
failures=0
for step in "${wanted[@]}"; do
    begun=$SECONDS
    printf '\n==> %s\n' "$step"
    mkdir -p "$CARGO_TARGET_DIR/nightly/$step"
    result=passed
    "step_$step" || { result=FAILED && failures=$((failures + 1)); }
    results+=("$step: $result in $((SECONDS - begun)) s")
    printf '==> %s\n' "${results[-1]}"
done
printf '\n%s\n' "${results[@]}"
printf '%d passed, %d failed\n' $((${#results[@]} - failures)) "$failures"
[ "$failures" -eq 0 ]
