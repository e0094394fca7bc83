// The join of one tile: build rows by key in shared memory, then a look-up for every probe key.
//
// If the tile's keys are dense enough, shared memory has a 16-bit word for each possible key. Otherwise it has the
// build keys themselves; the first key of a probe unit is found by binary search, and the following ones by a scan from
// there.
#pragma once

#include "equi/equi_columns.cuh"
#include "semi/merge_tile.cuh"
#include "shared/search.cuh"

// The output buffer was too small.
constexpr u32 NO_ROOM = 2;

// The key range of a tile, from least to greatest, that is addressed by words, 8 of them in 16 bytes.
constexpr u32 SPAN = 31 * 256;
// Bytes for these words, or for a tile's keys.
constexpr u32 TILE_SHARED = TILE_UNITS * 16 + 128;
static_assert(SPAN * sizeof(u16) <= TILE_SHARED, "words lie where keys would");

// A build row, counted from the tile's first unit, with a bit that says that it exists.
constexpr u32 FOUND = 0x8000;

// The output. Columns that are null stand for row numbers.
template <class Key>
struct Results {
    const Column* build;
    u32 build_count;
    const Column* probe;
    u32 probe_count;
    // The row number of the build side's first row.
    u32 offset;
    Key* keys;
    u64 room;
};

__device__ __forceinline__ void store_word(u32 address, u32 word) {
    asm volatile("st.shared.u16 [%0], %1;" ::"r"(address), "h"(u16(word)) : "memory");
}

__device__ __forceinline__ u32 load_word(u32 address) {
    u16 word;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(word) : "r"(address) : "memory");
    return word;
}

// Writes a value for each row in a warp's list. Each lane has enough loads in flight, before the first write, to
// saturate memory.
template <class Value, typename Load>
__device__ __forceinline__ void write_listed(Value* out, const u32* list, u32 count, Load load) {
    constexpr u32 GROUP = sizeof(Value) == 4 ? 8 : sizeof(Value) == 8 ? 4 : 2;
    u32 at = threadIdx.x % WARP;
    for (; at + (GROUP - 1) * WARP < count; at += GROUP * WARP) {
        Value values[GROUP];
#pragma unroll
        for (u32 k = 0; k < GROUP; k++) {
            values[k] = load(list[at + k * WARP]);
        }
#pragma unroll
        for (u32 k = 0; k < GROUP; k++) {
            out[at + k * WARP] = values[k];
        }
    }
    if (at < count) {
        Value values[GROUP];
#pragma unroll
        for (u32 k = 0; k < GROUP; k++) {
            if (at + k * WARP < count) {
                values[k] = load(list[at + k * WARP]);
            }
        }
#pragma unroll
        for (u32 k = 0; k < GROUP; k++) {
            if (at + k * WARP < count) {
                out[at + k * WARP] = values[k];
            }
        }
    }
}

// The same for each column of a side. The listed rows `row(entry)` are counted from `first`.
template <typename Row>
__device__ __forceinline__ void write_columns(const Column* columns, u32 columns_count, u32 first, u32 offset, u64 to, const u32* list,
                                              u32 count, Row row) {
#pragma unroll 1
    for (u32 c = 0; c < columns_count; c++) {
        const Column column = columns[c];
        if (column.in == nullptr) {
            write_listed(static_cast<u32*>(column.out) + to, list, count, [&](u32 entry) { return offset + first + row(entry); });
            continue;
        }
        with_width(column, [&](auto value) {
            using Value = decltype(value);
            const Value* const in = static_cast<const Value*>(column.in) + first;
            write_listed(static_cast<Value*>(column.out) + to, list, count, [&](u32 entry) { return in[row(entry)]; });
        });
    }
}

// Inclusive prefix sums over the lanes, for each byte of the word separately. No byte reaches 256.
__device__ __forceinline__ u32 bytes_up_to(u32 mine) {
    u32 sum = mine;
#pragma unroll
    for (u32 distance = 1; distance < WARP; distance *= 2) {
        const u32 other = __shfl_up_sync(ALL_LANES, sum, distance);
        sum += threadIdx.x % WARP >= distance ? other : 0;
    }
    return sum;
}

template <bool UNIQUE, class Key>
__device__ __forceinline__ void merge_join(const Side<Key>& build_side, const Side<Key>& probe_side, const u32* cuts, u32 without,
                                           const Results<Key>& results, u64* written, u32* status) {
    constexpr u32 KEYS = UNIT_KEYS<Key>;
    constexpr u32 WARPS = BLOCK / WARP;
    static_assert(UNITS == 4 && KEYS * WARP < 256, "a byte counts what a warp finds of each unit");
    extern __shared__ __align__(16) unsigned char shared[];
    __shared__ u32 counts[WARPS];
    __shared__ u64 base;
    const u32 lane = threadIdx.x % WARP;
    const u32 warp = threadIdx.x / WARP;
    const u32 step = blockIdx.x * TILE_ROWS<Key>;
    const u32 steps = min(TILE_ROWS<Key>, build_side.rows + probe_side.rows - step);
    const u32 build_begin = cuts[blockIdx.x];
    const u32 build_end = cuts[blockIdx.x + 1];
    const u32 probe_begin = step - build_begin;
    const u32 probe_end = step + steps - build_end;
    if (build_end < build_begin || probe_end < probe_begin) {
        if (threadIdx.x == 0) {
            atomicOr(status, NOT_ASCENDING);
        }
        return;
    }
    // Includes the next build row: probe rows come before the build row with the same key.
    const TileSide<Key> build(build_side, build_begin, min(build_end + 1, build_side.rows));
    const TileSide<Key> probe(probe_side, probe_begin, probe_begin == probe_end ? probe_begin / KEYS * KEYS : probe_end);
    const u32 begin_of_probe = (build.units + WARP - 1) / WARP * WARP;

    Unit<Key> units[UNITS];
    Key before[UNITS];
#pragma unroll
    for (u32 u = 0; u < UNITS; u++) {
        const u32 number = threadIdx.x + u * BLOCK;
        const bool of_build = number < begin_of_probe;
        const u32 at = of_build ? number : number - begin_of_probe;
        const Key* const keys = (of_build ? build.keys : probe.keys) + at * KEYS;
        if (at < (of_build ? build.units : probe.units)) {
            units[u] = *reinterpret_cast<const Unit<Key>*>(keys);
            before[u] = (of_build ? build.first : probe.first) + at > 0 ? keys[-1] : 0;
        }
    }
    // The range of keys that both sides may have in common.
    Key least = 0;
    Key greatest = 0;
    bool apart = build.units == 0 || probe.units == 0;
    if (!apart) {
        least = max(build.keys[0], probe.keys[0]);
        greatest = min(build.last(), probe.last());
        apart = least > greatest;
    }
    const bool is_wide = u64(greatest) - u64(least) >= SPAN;
    if (!is_wide && !apart) {
#pragma unroll
        for (u32 k = 0; k < (SPAN / 8 + BLOCK - 1) / BLOCK; k++) {
            if (threadIdx.x + k * BLOCK < SPAN / 8) {
                reinterpret_cast<uint4*>(shared)[threadIdx.x + k * BLOCK] = make_uint4(0, 0, 0, 0);
            }
        }
    }
    const u32 build_full = build.full();
    const u32 probe_full = probe.full();
    bool fell = build.template end_falls<UNIQUE>() || probe.template end_falls<false>();
#pragma unroll
    for (u32 u = 0; u < UNITS; u++) {
        const u32 number = threadIdx.x + u * BLOCK;
        // The very first row has no predecessor.
        if (number < begin_of_probe) {
            const bool begins = build.first + number == 0;
            fell |= number < build_full && ((!begins && falls<UNIQUE>(before[u], units[u].keys[0])) || falls_within<UNIQUE>(units[u]));
        } else {
            const bool begins = probe.first + number == begin_of_probe;
            fell |= number - begin_of_probe < probe_full &&
                    ((!begins && falls<false>(before[u], units[u].keys[0])) || falls_within<false>(units[u]));
        }
    }
    // A failure found by another block ends this one too. All threads vote, as not every warp sees *status change at
    // the same time.
    fell |= *status != 0;
    if (__syncthreads_or(fell)) {
        if (threadIdx.x == 0) {
            atomicOr(status, NOT_ASCENDING);
        }
        return;
    }
    if (probe.units == 0 || (apart && without == 0)) {
        return;
    }

    // The shared address of the word of key 0: keys with words differ from one another in their lowest bits.
    const u32 words = u32(__cvta_generic_to_shared(shared)) - u32(least) * 2;
    Key* const sorted = reinterpret_cast<Key*>(shared);
    const u32 build_rows = min(build.units * KEYS, build.rows);
    // Rows with duplicate keys write the same word.
    const auto word_of = [](u32 row) { return UNIQUE ? row | FOUND : 1; };
    const auto has_word = [&](Key key) { return key >= least && key <= greatest; };
    const auto has_words = [&](const Unit<Key>& unit) { return unit.keys[0] >= least && unit.keys[KEYS - 1] <= greatest; };
    if (is_wide) {
#pragma unroll
        for (u32 u = 0; u < UNITS; u++) {
            const u32 number = threadIdx.x + u * BLOCK;
            if (number < build.units) {
                *reinterpret_cast<Unit<Key>*>(sorted + number * KEYS) = units[u];
            }
        }
    } else if (!apart) {
#pragma unroll
        for (u32 u = 0; u < UNITS; u++) {
            const u32 number = threadIdx.x + u * BLOCK;
            if (number < build_full && has_words(units[u])) {
#pragma unroll
                for (u32 c = 0; c < KEYS; c++) {
                    store_word(u32(units[u].keys[c]) * 2 + words, word_of(number * KEYS + c));
                }
            } else if (number < build.units) {
#pragma unroll
                for (u32 c = 0; c < KEYS; c++) {
                    if (number * KEYS + c < build.rows && has_word(units[u].keys[c])) {
                        store_word(u32(units[u].keys[c]) * 2 + words, word_of(number * KEYS + c));
                    }
                }
            }
        }
    }
    __syncthreads();

    // The probe keys that are in the output, a bit each; their number in each unit, a byte each; and the build rows
    // that they matched, two in a word.
    u32 out = 0;
    u32 mine = 0;
    u32 found[UNITS * KEYS / 2];
#pragma unroll
    for (u32 u = 0; u < UNITS; u++) {
        const u32 number = threadIdx.x + u * BLOCK - begin_of_probe;
        u32 here[KEYS];
#pragma unroll
        for (u32 c = 0; c < KEYS; c++) {
            here[c] = 0;
        }
        if (threadIdx.x + u * BLOCK >= begin_of_probe && number < probe.units) {
            if (is_wide && !apart) {
                u32 row = partition_point(0, build_rows, [&](u32 row) { return sorted[row] < units[u].keys[0]; });
#pragma unroll
                for (u32 c = 0; c < KEYS; c++) {
                    // Probe keys may be far apart.
                    for (u32 steps = 0; steps < 4 && row < build_rows && sorted[row] < units[u].keys[c]; steps++) {
                        row++;
                    }
                    if (row < build_rows && sorted[row] < units[u].keys[c]) {
                        row = partition_point(row, build_rows, [&](u32 row) { return sorted[row] < units[u].keys[c]; });
                    }
                    here[c] = row < build_rows && sorted[row] == units[u].keys[c] ? word_of(row) : 0;
                }
            } else if (!apart && number < probe_full && has_words(units[u])) {
#pragma unroll
                for (u32 c = 0; c < KEYS; c++) {
                    here[c] = load_word(u32(units[u].keys[c]) * 2 + words);
                }
            } else if (!apart) {
#pragma unroll
                for (u32 c = 0; c < KEYS; c++) {
                    if (number * KEYS + c < probe.rows && has_word(units[u].keys[c])) {
                        here[c] = load_word(u32(units[u].keys[c]) * 2 + words);
                    }
                }
            }
            u32 those = 0;
#pragma unroll
            for (u32 c = 0; c < KEYS; c++) {
                those |= (UNIQUE ? here[c] / FOUND : here[c]) << c;
            }
            those ^= without != 0 ? (1u << KEYS) - 1 : 0;
            // A unit may have rows of the tiles before and after this one.
            const i32 row = i32(number * KEYS) - i32(probe_begin - probe.first);
            if (row < 0 || row + i32(KEYS) > i32(probe_end - probe_begin)) {
#pragma unroll
                for (u32 c = 0; c < KEYS; c++) {
                    those &= u32(row + i32(c)) < probe_end - probe_begin ? ~0u : ~(1u << c);
                }
            }
            mine |= u32(__popc(those)) << u * 8;
            out |= those << u * KEYS;
        }
        if (UNIQUE) {
#pragma unroll
            for (u32 c = 0; c < KEYS; c += 2) {
                found[(u * KEYS + c) / 2] = here[c] | here[c + 1] << 16;
            }
        }
    }

    // The warp's list of output rows: the probe row in the low half of a word and the build row in the high half, both
    // counted from the first unit. If only keys are wanted, the list holds the keys.
    const bool keys_alone = !UNIQUE && sizeof(Key) == 4 && results.probe_count == 0 && results.keys != nullptr;
    u32* const list = reinterpret_cast<u32*>(shared + TILE_SHARED) + warp * (UNITS * WARP * KEYS);
    const u32 sums = bytes_up_to(mine);
    u32 count = 0;
#pragma unroll
    for (u32 u = 0; u < UNITS; u++) {
        u32 place = count + ((sums - mine) >> u * 8 & 255);
        const u32 here = __shfl_sync(ALL_LANES, sums, WARP - 1) >> u * 8 & 255;
        count += here;
        if (here > 0) {
            const u32 row = (threadIdx.x + u * BLOCK - begin_of_probe) * KEYS;
#pragma unroll
            for (u32 c = 0; c < KEYS; c++) {
                if ((out & 1u << (u * KEYS + c)) != 0) {
                    const u32 build_row = UNIQUE ? found[(u * KEYS + c) / 2] >> (c % 2) * 16 & (FOUND - 1) : 0;
                    list[place] = keys_alone ? u32(units[u].keys[c]) : (row + c) | build_row << 16;
                    place++;
                }
            }
        }
    }
    if (lane == 0) {
        counts[warp] = count;
    }
    __syncthreads();
    u32 earlier = 0;
    u32 total = 0;
#pragma unroll
    for (u32 w = 0; w < WARPS; w++) {
        earlier += w < warp ? counts[w] : 0;
        total += counts[w];
    }
    if (total == 0) {
        return;
    }
    if (threadIdx.x == 0) {
        base = atomicAdd(written, u64(total));
    }
    __syncthreads();
    if (base + total > results.room) {
        if (threadIdx.x == 0) {
            atomicOr(status, NO_ROOM);
        }
        return;
    }
    const u64 to = base + earlier;
    const auto of_probe = [](u32 entry) { return entry & 0xFFFF; };
    if (keys_alone) {
        write_listed(results.keys + to, list, count, [](u32 key) { return Key(key); });
        return;
    }
    if (results.keys != nullptr) {
        write_listed(results.keys + to, list, count, [&](u32 entry) { return probe.keys[of_probe(entry)]; });
    }
    write_columns(results.probe, results.probe_count, probe.first, 0, to, list, count, of_probe);
    if (UNIQUE) {
        write_columns(results.build, results.build_count, build.first, results.offset, to, list, count,
                      [](u32 entry) { return entry >> 16; });
    }
}
