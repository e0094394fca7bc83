// Grouped aggregation by dense ids: those of group_ids, or narrow keys minus the least key (direct address). There is
// no table and no comparison: an id is its place.
#include "aggregate/block/group_block.cuh"

// The layout of ids: each team has `hot + plain` of them in shared memory, the hot ones first, since groups are
// numbered as they come and frequent ones come early. Ids after those of all teams are accumulated in global memory.
struct Layout {
    u32 hot, plain, team, teams;

    __device__ __forceinline__ u32 places() const { return hot * WARP + plain + WARP; }

    // The first id after those of all teams.
    __device__ __forceinline__ u32 behind() const { return teams * (hot + plain); }

    // Without branches, which would separate the rows of a thread.
    __device__ __forceinline__ u32 place_of(u32 id) const {
        const u32 inside = id - team * (hot + plain);
        const u32 in_hot = inside * WARP + threadIdx.x % WARP;
        const u32 in_plain = hot * (WARP - 1) + inside;
        return inside < hot ? in_hot : inside < hot + plain ? in_plain : NOWHERE;
    }

    // The id of a place in shared memory.
    __device__ __forceinline__ u32 id_of(u32 place) const {
        return team * (hot + plain) + (place < hot * WARP ? place / WARP : place - hot * (WARP - 1));
    }
};

// Accumulates the rows by `ids[i] - first_id`. Ids that are not below `groups` are skipped, and so are the rows that
// `kept` (null: all rows) excludes. `claims`: 32 words, zeroed first.
// Bound: ids (once a team) and values read once, and one or two shared-memory atomics of 32 bits for each SUM of a row;
// for ids that are not in shared memory an atomic in global memory.
// Launch: blocks of up to 1024, a multiple of 32; a multiple of `teams` blocks, as many as are resident. Dynamic shared
// memory: 4 bytes for each word of each of (32 hot + plain + 32) places. `plain` is even.
extern "C" __global__ void __launch_bounds__(GROUP_THREADS, 1)
    group_dense(const u32* ids, u32 first_id, u32 groups, const u32* kept, u32 n, u32* claims,
                const __grid_constant__ Accumulators accumulators, u32 hot, u32 plain, u32 teams) {
    const Layout layout{hot, plain, blockIdx.x % teams, teams};
    clear_places(accumulators, layout.places());
    __syncthreads();
    bool beyond = false;
    each_claim(claims + layout.team, nullptr, n, [&](u32 row, u32 end) {
        Rows rows;
        rows.first = row;
        u32 id[ROWS];
#pragma unroll
        for (u32 k = 0; k < ROWS; k++) {
            id[k] = __ldg(ids + min(rows.row(k), end - 1));
        }
#pragma unroll
        for (u32 k = 0; k < ROWS; k++) {
            id[k] = rows.row(k) < end ? id[k] - first_id : NO_GROUP;
            beyond |= id[k] >= groups && rows.row(k) < end;
            const u32 place = layout.place_of(id[k]);
            rows.place[k] = id[k] < groups ? place : NOWHERE;
        }
        if (layout.behind() < groups) {
#pragma unroll
            for (u32 k = 0; k < ROWS; k++) {
                const bool global = id[k] >= layout.behind() && id[k] < groups && team_of(id[k], teams) == layout.team;
                rows.place[k] = global ? id[k] | IN_GLOBAL : rows.place[k];
            }
        }
        if (teams == 1) {
            fetch_next(accumulators, ids, row, end);
        }
        if (kept != nullptr) {
#pragma unroll
            for (u32 k = 0; k < ROWS; k++) {
                rows.place[k] = rows.somewhere(k) && bit_at(kept, rows.row(k)) ? rows.place[k] : NOWHERE;
            }
        }
        accumulate(accumulators, layout.places(), rows, [=](u32 p) { return layout.id_of(p); });
    });
    if (__syncthreads_or(beyond) != 0 && threadIdx.x == 0) {
        claims[WARP] = 1;
    }

    const u32 first = layout.team * (hot + plain);
    for (u32 h = threadIdx.x / WARP; h < hot && first + h < groups; h += blockDim.x / WARP) {
        flush_hot(accumulators, layout.places(), h, first + h);
    }
    for (u32 p = threadIdx.x; p < plain && first + hot + p < groups; p += blockDim.x) {
        flush_plain(accumulators, layout.places(), hot * WARP + p, first + hot + p);
    }
}
