// Grouped aggregation by dense ids with all accumulators in global memory. Rows are added in their order, so that L2
// holds the accumulators of neighbouring rows of a partition (group_spread, group_part).
#include "aggregate/block/group_found.cuh"
#include "aggregate/block/group_update.cuh"

// Rows of a block.
constexpr u32 GLOBAL_ROWS = BLOCK * ROWS;

// Adds the rows to the groups `ids[i] - first_id`. Ids that are not below `groups` are skipped; once one is found, the
// results are invalid, and the remaining rows are skipped.
// Bound: ids and values read once, and an atomic of 64 bits for each row: 91 G/s if L2 holds the results (H200).
// Launch: blocks of 256, one for each GLOBAL_ROWS rows; `found`, COPIES times COPY_WORDS words, is zeroed first.
extern "C" __global__ void __launch_bounds__(BLOCK, 4)
    group_global(const u32* __restrict__ ids, u32 first_id, u32 groups, u32 n, u32* found,
                 const __grid_constant__ Accumulators accumulators) {
    u32* const copy = found_by_block(found);
    const uint4 words = __ldcg(reinterpret_cast<const uint4*>(copy));
    const Known known{words.x, words.y, words.z, words.w};
    Rows rows;
    rows.first = blockIdx.x * GLOBAL_ROWS + threadIdx.x / WARP * WARP_ROWS + threadIdx.x % WARP;
    u32 id[ROWS];
#pragma unroll
    for (u32 k = 0; k < ROWS; k++) {
        id[k] = __ldcs(ids + min(rows.row(k), n - 1));
        rows.place[k] = rows.row(k) < n ? 0 : NOWHERE;
    }
    // Values are loaded together with the ids.
    const Rows all = rows;
    u64 word[ROWS];
    if (reads_words(accumulators.of[0].update)) {
        read_values<false>(accumulators.of[0].values, accumulators.of[0].kind, all, word);
    }
    if (__any_sync(ALL_LANES, known.beyond != 0)) {
        return;
    }
    bool beyond = false;
    u32 greatest = 0;
    u32 from_last = 0;
    rows.outside = false;
#pragma unroll
    for (u32 k = 0; k < ROWS; k++) {
        const u32 group = id[k] - first_id;
        beyond |= rows.somewhere(k) && group >= groups;
        rows.place[k] = rows.somewhere(k) && group < groups ? group | IN_GLOBAL : NOWHERE;
        if (rows.somewhere(k)) {
            rows.outside = true;
            greatest = max(greatest, group);
            from_last = max(from_last, groups - 1 - group);
        }
    }
    raise(copy + GREATEST, known.greatest, greatest);
    raise(copy + FROM_LAST, known.from_last, from_last);
    if (__any_sync(ALL_LANES, beyond)) {
        found_beyond(found);
    }
    u32 unsure = 0;
    for (u32 a = 0; a < accumulators.count; a++) {
        const Accumulator& of = accumulators.of[a];
        const Rows these = valid_rows(of, rows);
        bool may_be_0 = of.update != SUM;
        if (reads_words(of.update)) {
            if (a > 0) {
                read_values<false>(of.values, of.kind, all, word);
            }
            update_words<InGlobal>(of, nullptr, 0, these, word, [](u32 place) { return place; }, may_be_0);
        } else {
            update_rows<InGlobal>(of, nullptr, 0, accumulators.capacity, these);
        }
        unsure |= (u32)may_be_0 << a;
    }
    if ((unsure & ~known.unsure) != 0) {
        atomicOr(copy + UNSURE, unsure);
    }
}
