// Adds rows to accumulators: in shared memory, whose arrays are indexed by place, and in global memory, whose arrays
// are indexed by group. A type says where places are: InGlobal (no row has one), InBlock, or InCluster
// (group_cluster.cu).
//
// A block's own shared memory has fast atomics only for 32 bits. So a sum is words of 32 bits that propagate their
// carries: each addition that wraps a word propagates its own carry, so that their order does not matter. The words of
// one place are an array apart, to avoid bank conflicts. In the shared memory of other blocks a 64-bit addition takes
// no longer than one of 32 bits: there sums are words of 64. (No other operation: the compiler's code for a 64-bit
// atomicXor by a generic address falls back to a load and a store if that is another block's, on an H200.)
#pragma once

#include "aggregate/block/group_arg.cuh"

// No row has a place in shared memory.
struct InGlobal {
    static constexpr bool SHARED = false;
    static constexpr bool WASTE = false;
    static constexpr bool HALVES = false;

    template <typename T>
    static __device__ __forceinline__ T* at(T* array, u32 place) {
        return array + place;
    }
};

// Places in the block's own shared memory. Rows without one are added to a waste place.
struct InBlock {
    static constexpr bool SHARED = true;
    static constexpr bool WASTE = true;
    static constexpr bool HALVES = true;

    template <typename T>
    static __device__ __forceinline__ T* at(T* array, u32 place) {
        return array + place;
    }
};

// Adds a number to words at a distance of `apart`. Bound: an atomic for each word that the number and its carries
// touch: one for most numbers that fit in a word, including negative ones.
template <u32 WORDS, typename Word>
__device__ __forceinline__ void add_words(Word* at, u64 apart, const Word (&number)[WORDS]) {
    Word carry = 0;
#pragma unroll
    for (u32 j = 0; j < WORDS; j++) {
        const Word addend = number[j] + carry;
        // 0 is either nothing to add, or all ones and a carry, which propagates.
        if (addend != 0) {
            if (j + 1 < WORDS) {
                const Word old = atomicAdd(at + j * apart, addend);
                carry = old + addend < addend;
            } else {
                atomicAdd(at + j * apart, addend);
            }
        }
    }
}

// Calls `step(k, place)` for each row in shared memory; if there is a waste place, rows without a place use it.
template <typename Where, typename Step>
__device__ __forceinline__ void each_shared(const Rows& rows, Step step) {
    if (Where::SHARED) {
#pragma unroll
        for (u32 k = 0; k < ROWS; k++) {
            if (Where::WASTE || rows.place[k] < IN_GLOBAL) {
                step(k, Where::WASTE ? rows.shared_place(k) : rows.place[k]);
            }
        }
    }
}

// Adds words of 64 bits in shared memory. All atomics of the lower halves are issued before the first carry is used.
template <typename Where>
__device__ __forceinline__ void add_halves(u32* low, u32* high, const Rows& rows, const u64 (&word)[ROWS]) {
    u32 old[ROWS];
    each_shared<Where>(rows, [&](u32 k, u32 p) { old[k] = atomicAdd(Where::at(low, p), (u32)word[k]); });
    u32 upper[ROWS];
    u32 any = 0;
    each_shared<Where>(rows, [&](u32 k, u32) {
        upper[k] = (u32)(word[k] >> 32) + (old[k] + (u32)word[k] < old[k]);
        any |= upper[k];
    });
    // Small numbers, including negative ones, seldom have anything to add here.
    if (any != 0) {
        each_shared<Where>(rows, [&](u32 k, u32 p) { atomicAdd(Where::at(high, p), upper[k]); });
    }
}

// Calls `shared(k, place)` for each row in shared memory, and `global(k, group)` for each row that is accumulated in
// global memory.
template <typename Where, typename Shared, typename Global>
__device__ __forceinline__ void each_place(const Rows& rows, Shared shared, Global global) {
    each_shared<Where>(rows, shared);
    if (rows.outside) {
#pragma unroll
        for (u32 k = 0; k < ROWS; k++) {
            if (rows.place[k] >= IN_GLOBAL && rows.somewhere(k)) {
                global(k, rows.place[k] - IN_GLOBAL);
            }
        }
    }
}

// A sum of WORDS64 words of 64 bits, of values of the same width.
template <typename Where, u32 WORDS64>
__device__ __forceinline__ void add_wide(const Accumulator& of, u32* words, u32 places, u64 capacity, const Rows& rows) {
#pragma unroll
    for (u32 k = 0; k < ROWS; k++) {
        if (!rows.somewhere(k)) {
            continue;
        }
        const ulonglong2* const pairs = static_cast<const ulonglong2*>(of.values) + (u64)rows.row(k) * (WORDS64 / 2);
        u64 number[WORDS64];
#pragma unroll
        for (u32 j = 0; j < WORDS64 / 2; j++) {
            const ulonglong2 pair = __ldg(pairs + j);
            number[2 * j] = pair.x;
            number[2 * j + 1] = pair.y;
        }
        if (rows.place[k] < IN_GLOBAL && !Where::HALVES) {
            add_words(Where::at(reinterpret_cast<u64*>(words), rows.place[k]), places, number);
        } else if (rows.place[k] < IN_GLOBAL) {
            u32 halves[2 * WORDS64];
#pragma unroll
            for (u32 j = 0; j < WORDS64; j++) {
                halves[2 * j] = (u32)number[j];
                halves[2 * j + 1] = (u32)(number[j] >> 32);
            }
            add_words(Where::at(words, rows.place[k]), places, halves);
        } else {
            add_words(static_cast<u64*>(of.out) + (rows.place[k] - IN_GLOBAL), capacity, number);
        }
    }
}

// Atomics without effect are skipped after a load, which may be stale: extremes only move in one direction.
__device__ __forceinline__ void least(u64* at, u64 word) {
    if (word < __ldca(at)) {
        atomicMin(at, word);
    }
}

__device__ __forceinline__ void greatest(u64* at, u64 word) {
    if (word > __ldca(at)) {
        atomicMax(at, word);
    }
}

// Fewer than 2^32 numbers from 1 to this do not add up to a multiple of 2^64.
constexpr u64 SMALL = 1ull << 32;

// The rows whose value is valid.
__device__ __forceinline__ Rows valid_rows(const Accumulator& of, const Rows& all) {
    Rows rows = all;
    if (of.valid != nullptr) {
#pragma unroll
        for (u32 k = 0; k < ROWS; k++) {
            if (rows.somewhere(k) && !bit_at(of.valid, rows.row(k))) {
                rows.place[k] = NOWHERE;
            }
        }
    }
    return rows;
}

// Whether an accumulator takes words, which update_words adds; update_rows adds the others.
__device__ __forceinline__ bool reads_words(u32 update) {
    switch (update) {
        case COUNT:
        case FIRST_ROW:
        case LAST_ROW:
        case ARG_MIN:
        case ARG_MAX:
        case SUM128:
        case SUM256: return false;
        default: return true;
    }
}

// Adds the rows of a thread to one accumulator. `words` are its words in shared memory, if it has any.
// Bound: an atomic a row; values of more than a word read once.
template <typename Where>
__device__ __forceinline__ void update_rows(const Accumulator& of, u32* words, u32 places, u64 capacity, const Rows& rows) {
    u64* const out = static_cast<u64*>(of.out);
    u32* const rows_out = static_cast<u32*>(of.out);
    switch (of.update) {
        case COUNT:
            return each_place<Where>(
                rows, [&](u32, u32 p) { atomicAdd(Where::at(words, p), 1u); }, [&](u32, u32 group) { atomicAdd(out + group, 1ull); });
        case FIRST_ROW:
            // Rows ascend, so a load is enough except for the first rows of a group; the loaded value is never too low.
            return each_place<Where>(
                rows,
                [&](u32 k, u32 p) {
                    u32* const at = Where::at(words, p);
                    if (*at > rows.row(k)) {
                        atomicMin(at, rows.row(k));
                    }
                },
                [&](u32 k, u32 group) {
                    if (rows_out[group] > rows.row(k)) {
                        atomicMin(rows_out + group, rows.row(k));
                    }
                });
        case LAST_ROW:
            return each_place<Where>(
                rows, [&](u32 k, u32 p) { atomicMax(Where::at(words, p), rows.row(k)); },
                [&](u32 k, u32 group) { atomicMax(rows_out + group, rows.row(k)); });
        case ARG_MIN:
        case ARG_MAX:
#pragma unroll
            for (u32 k = 0; k < ROWS; k++) {
                if (rows.somewhere(k)) {
                    const bool shared = rows.place[k] < IN_GLOBAL;
                    keep_better(shared ? Where::at(words, rows.place[k]) : rows_out + (rows.place[k] - IN_GLOBAL), of, rows.row(k));
                }
            }
            return;
        case SUM128: return add_wide<Where, 2>(of, words, places, capacity, rows);
        case SUM256: return add_wide<Where, 4>(of, words, places, capacity, rows);
        default: return;
    }
}

// The same with a word for each row. `group_of(place)` is the group of a place in shared memory. Unless Where::HALVES,
// `may_be_0` becomes true if a SUM of these rows and others may be 0. Bound: an atomic a row, two for sums whose upper
// words change.
template <typename Where, typename GroupOf>
__device__ __forceinline__ void update_words(const Accumulator& of, u32* words, u32 places, const Rows& rows, u64 (&word)[ROWS],
                                             GroupOf group_of, bool& may_be_0) {
    u64* const out = static_cast<u64*>(of.out);
    u64* const pairs = reinterpret_cast<u64*>(words);
    switch (of.update) {
        case SUM:
            if (Where::HALVES) {
                add_halves<Where>(words, words + places, rows, word);
            } else {
                each_shared<Where>(rows, [&](u32 k, u32 p) { atomicAdd(Where::at(pairs, p), word[k]); });
#pragma unroll
                for (u32 k = 0; k < ROWS; k++) {
                    may_be_0 |= rows.somewhere(k) && word[k] - 1 >= SMALL;
                }
            }
            return each_place<Where>(
                rows, [](u32, u32) {}, [&](u32 k, u32 group) { atomicAdd(out + group, word[k]); });
        case AND:
            return each_place<Where>(
                rows,
                [&](u32 k, u32 p) {
                    atomicAnd(Where::at(words, p), (u32)word[k]);
                    atomicAnd(Where::at(words + places, p), (u32)(word[k] >> 32));
                },
                [&](u32 k, u32 group) { atomicAnd(out + group, word[k]); });
        case OR:
            return each_place<Where>(
                rows,
                [&](u32 k, u32 p) {
                    atomicOr(Where::at(words, p), (u32)word[k]);
                    atomicOr(Where::at(words + places, p), (u32)(word[k] >> 32));
                },
                [&](u32 k, u32 group) { atomicOr(out + group, word[k]); });
        case XOR:
            return each_place<Where>(
                rows,
                [&](u32 k, u32 p) {
                    atomicXor(Where::at(words, p), (u32)word[k]);
                    atomicXor(Where::at(words + places, p), (u32)(word[k] >> 32));
                },
                [&](u32 k, u32 group) { atomicXor(out + group, word[k]); });
        case MIN:
        case MAX:
#pragma unroll
            for (u32 k = 0; k < ROWS; k++) {
                word[k] = order_key(of.kind, word[k]);
            }
            return of.update == MIN ? each_place<Where>(
                                          rows, [&](u32 k, u32 p) { atomicMin(Where::at(pairs, p), word[k]); },
                                          [&](u32 k, u32 group) { least(out + group, word[k]); })
                                    : each_place<Where>(
                                          rows, [&](u32 k, u32 p) { atomicMax(Where::at(pairs, p), word[k]); },
                                          [&](u32 k, u32 group) { greatest(out + group, word[k]); });
        default: break;
    }

    // Sums of floats.
    f64 value[ROWS];
#pragma unroll
    for (u32 k = 0; k < ROWS; k++) {
        value[k] = real(of.kind, word[k]);
        if (of.update != SUM_F64) {
            if (of.centers != nullptr && rows.somewhere(k)) {
                const u32 place = rows.place[k];
                value[k] -= __ldg(of.centers + (place < IN_GLOBAL ? group_of(place) : place - IN_GLOBAL));
            }
            value[k] *= of.update == SQUARED_DEVIATION ? value[k] : 1.0;
        }
    }
    each_place<Where>(
        rows, [&](u32 k, u32 p) { atomicAdd(reinterpret_cast<f64*>(Where::at(pairs, p)), value[k]); },
        [&](u32 k, u32 group) { atomicAdd(reinterpret_cast<f64*>(out + group), value[k]); });
}
