#!/usr/bin/env bash
# Runs tests on the GPU that tests/emulator emulates: those that have few rows, as it is slow. Each group has its list here, with the number of tests
# that must pass, not skipped.
#   scripts/emulated_tests.sh units | cards | little | queries | random | tpch | twins
#     units     unit tests of the CUDA backend
#     cards     those of two GPUs
#     little    the shortest of them, on a card with little shared memory
#     queries   whole queries
#     random    random queries, of which there are few
#     tpch      TPC-H at scale factor 0.01
#     twins     all unit tests of the CUDA backend, some of which take many minutes
# EMULATED_GPU_SEED chooses another order of warps and blocks. BOWTIE_FEATURES: features for Cargo. Times and counts of tests go to emulated/GROUP in
# Cargo's target directory (times.csv, counts.csv): look there for what to leave out when a group gets slow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

group=${1:-}
# What is in the name of a test that runs, and what is not.
tests=()
without=()
# Seconds without the end of a test after which one hangs.
patience=900
case "$group" in
    units)
        executable=unit-tests minimum=38
        tests=(
            cuda::tests::few cuda::tests::refusals keys_that_were_made_to_collide a_kernel_stays_loaded cuda::tests::columns::transfer cuda::tests::columns::kept cuda::tests::theta::partners
            direct_address::clusters_of_few_places direct_address::partitions_in_no_order folds_under_a_test
            graph::components::components_are graph::components::forests presorted::few_rows
        )
        ;;
    cards)
        executable=unit-tests minimum=1
        tests=(cuda::tests::cards)
        export EMULATED_GPUS=2
        ;;
    little)
        executable=unit-tests minimum=18
        tests=(cuda::tests::few)
        export EMULATED_GPU_SHARED_KIB=64
        ;;
    twins)
        executable=unit-tests minimum=155 patience=7200
        tests=(device::cuda::tests::)
        ;;
    queries)
        executable=integration-tests minimum=191
        tests=(
            aggregate::data_types::filtered_counts aggregate::distinct::distinct_values_of_bit_xor aggregate::first_last::orders_that_decide
            aggregate::grouping::grouping_sets aggregate::grouping::overflow_and aggregate::grouping::sets_of_nothing
            aggregate::inputs::above_and_below aggregate::short_text::no_text_at_all aggregate::strategies::several_keys
            aggregate::strategies::what_is_shown
            cache::
            clusters::on_device::computed clusters::on_device::graphs clusters::on_device::parts clusters::on_device::plans
            codec::
            functions::
            join::equi::null_aware join::equi::strategies::a_forced_strategy
            join::partners::oracle
            join::semi::key_bitmap::chains join::semi::presorted::presorted_sides
            join::sets::explain join::sets::joins::aggregates join::sets::joins::empty_sides join::sets::limits::huge_sets
            join::sets::values::what_is_read
            join::theta::conditions::joins_of_joins join::theta::conditions::products join::theta::conditions::sums_and_differences_that_wrap
            join::theta::overlaps::no_pair join::theta::tunings::batches
            join_aggregate::
            memory::budget::several_joins memory::budget::strategies_and memory::cancel:: memory::concurrent memory::faults::few
            memory::pool::groups_of_views memory::spill::aggregate::a_fair_pool memory::spill::aggregate::groups_by_short_text
            memory::spill::staged
            partition::grace_join::few_chunks partition::grace_join::keys_that_fail partition::grace_join::limits
            partition::grace_join::null_aware partition::grace_join::sparse_keys
            ranges::
            regressions::
            rows::fallible::failing_keys rows::fallible::nothing_fails rows::resident::
            sort::limits sort::plans sort::key_types::long_text
        )
        without=(
            damaged text_functions:: grouping_sets_of_many_pieces a_null_of_another_partition
            overlaps::types_of_ends two_inequalities::conditions two_inequalities::values join_aggregate::ways join_aggregate::grouped argument_types chains_by_each
            chains_give_the_rows conditions_joins_and_groups chunks_of_several_shapes functions_are_their_long_forms
            conditions_and_queries some_chunks_are_probed
        )
        ;;
    random)
        executable=integration-tests minimum=8
        tests=(fuzz::)
        without=(fuzz::evictions)
        # Of each kind.
        export BOWTIE_FUZZ_CASES=40
        ;;
    tpch)
        executable=integration-tests minimum=1
        tests=(tpch::all_queries_in_cut)
        export BOWTIE_TPCH_SF=0.01
        ;;
    *)
        sed -n '2,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
        exit 1
        ;;
esac

results="$(realpath -m "${CARGO_TARGET_DIR:-target}")/emulated/$group"
rm -rf "$results"
mkdir -p "$results"
# All members and targets, as `cargo test --workspace` builds them.
cargo test --workspace --no-run --features "${BOWTIE_FEATURES:-}" --locked --message-format=json-render-diagnostics > "$results/messages"
chosen=$(scripts/executables.py unit-tests=datafusion-bowtie/lib integration-tests=bowtie-tests/test/it < "$results/messages")
while read -r name path; do
    ln -s "$path" "$results/$name"
done <<< "$chosen"
export BOWTIE_TEST_DEVICE=cuda
scripts/emulated.sh scripts/run_tests.py --results "$results" --patience "$patience" --minimum "$executable=$minimum" \
    "${tests[@]/#/--filter=}" "${without[@]/#/--skip=}" "$results/$executable"
