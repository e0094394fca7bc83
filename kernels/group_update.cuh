// Adding rows to accumulators: in shared memory, whose arrays are by place, and in global memory, whose arrays are by group.
//
// Shared memory has fast atomics of 32 bits alone. So a sum is words of 32 bits that hand on their carries: each addition that
// wraps a word hands on its own, so that their order does not matter. Words of one place lie an array apart, for the banks' sake.
#pragma once

#include "group_arg.cuh"

// Adds a number to words that lie `apart` from one another. Bound: an atomic for each word that the number and its carries
// touch: one for most numbers that fit a word, negative ones as well.
template <u32 WORDS, typename Word>
__device__ __forceinline__ void add_words(Word* at, u64 apart, const Word (&number)[WORDS]) {
    Word carry = 0;
#pragma unroll
    for (u32 j = 0; j < WORDS; j++) {
        const Word addend = number[j] + carry;
        // 0 is either nothing, or all ones and a carry, which goes on.
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

// Adds words of 64 bits in shared memory. All lower halves go out before the first carry is waited for.
__device__ __forceinline__ void add_halves(u32* low, u32* high, const Rows& rows, const u64 (&word)[ROWS]) {
    u32 old[ROWS];
#pragma unroll
    for (u32 k = 0; k < ROWS; k++) {
        old[k] = atomicAdd(low + rows.shared_place(k), (u32)word[k]);
    }
    u32 upper[ROWS];
    u32 any = 0;
#pragma unroll
    for (u32 k = 0; k < ROWS; k++) {
        upper[k] = (u32)(word[k] >> 32) + (old[k] + (u32)word[k] < old[k]);
        any |= upper[k];
    }
    // Small numbers seldom have anything to add here, negative ones included.
    if (any != 0) {
#pragma unroll
        for (u32 k = 0; k < ROWS; k++) {
            atomicAdd(high + rows.shared_place(k), upper[k]);
        }
    }
}

// `shared(k, place)` for each row, with a place of waste for those that have none, and `global(k, group)` for each row that is
// accumulated there. SHARED: some may be accumulated in shared memory.
template <bool SHARED, typename Shared, typename Global>
__device__ __forceinline__ void each_place(const Rows& rows, Shared shared, Global global) {
    if (SHARED) {
#pragma unroll
        for (u32 k = 0; k < ROWS; k++) {
            shared(k, rows.shared_place(k));
        }
    }
    if (rows.outside) {
#pragma unroll
        for (u32 k = 0; k < ROWS; k++) {
            if (rows.place[k] >= IN_GLOBAL && rows.somewhere(k)) {
                global(k, rows.place[k] - IN_GLOBAL);
            }
        }
    }
}

// A sum of WORDS64 words of 64 bits, of values that are as wide.
template <u32 WORDS64>
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
        if (rows.place[k] < IN_GLOBAL) {
            u32 halves[2 * WORDS64];
#pragma unroll
            for (u32 j = 0; j < WORDS64; j++) {
                halves[2 * j] = (u32)number[j];
                halves[2 * j + 1] = (u32)(number[j] >> 32);
            }
            add_words(words + rows.place[k], places, halves);
        } else {
            add_words(static_cast<u64*>(of.out) + (rows.place[k] - IN_GLOBAL), capacity, number);
        }
    }
}

// Atomics that change nothing are left out, after a look that may be out of date: extremes only ever move one way.
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

// Numbers from 1 to this, fewer of them than 2^32, do not add up to a multiple of 2^64.
constexpr u64 SMALL = 1ull << 32;

// The rows whose value counts.
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

// Whether an accumulator is of words: update_words adds them, and update_rows what others are of.
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

// Adds the rows of a thread to one accumulator. `words` are its words in shared memory, where some rows are accumulated if SHARED.
// Bound: an atomic a row; values of more than a word read once.
template <bool SHARED>
__device__ __forceinline__ void update_rows(const Accumulator& of, u32* words, u32 places, u64 capacity, const Rows& rows) {
    u64* const out = static_cast<u64*>(of.out);
    u32* const rows_out = static_cast<u32*>(of.out);
    switch (of.update) {
        case COUNT:
            return each_place<SHARED>(
                rows, [&](u32, u32 p) { atomicAdd(words + p, 1u); }, [&](u32, u32 group) { atomicAdd(out + group, 1ull); });
        case FIRST_ROW:
            // Rows ascend, so but for the first ones of a group a look is enough; what it sees is never too low.
            return each_place<SHARED>(
                rows,
                [&](u32 k, u32 p) {
                    if (words[p] > rows.row(k)) {
                        atomicMin(words + p, rows.row(k));
                    }
                },
                [&](u32 k, u32 group) {
                    if (rows_out[group] > rows.row(k)) {
                        atomicMin(rows_out + group, rows.row(k));
                    }
                });
        case LAST_ROW:
            return each_place<SHARED>(
                rows, [&](u32 k, u32 p) { atomicMax(words + p, rows.row(k)); },
                [&](u32 k, u32 group) { atomicMax(rows_out + group, rows.row(k)); });
        case ARG_MIN:
        case ARG_MAX:
#pragma unroll
            for (u32 k = 0; k < ROWS; k++) {
                if (rows.somewhere(k)) {
                    const bool shared = rows.place[k] < IN_GLOBAL;
                    keep_better(shared ? words + rows.place[k] : rows_out + (rows.place[k] - IN_GLOBAL), of, rows.row(k));
                }
            }
            return;
        case SUM128: return add_wide<2>(of, words, places, capacity, rows);
        case SUM256: return add_wide<4>(of, words, places, capacity, rows);
        default: return;
    }
}

// The same of a word for each row. `group_of(place)` is the group of a place in shared memory. Unless SHARED, `may_be_0` becomes true where a
// SUM of these rows and others may be 0. Bound: an atomic a row, two for sums whose upper words change.
template <bool SHARED, typename GroupOf>
__device__ __forceinline__ void update_words(const Accumulator& of, u32* words, u32 places, const Rows& rows, u64 (&word)[ROWS],
                                             GroupOf group_of, bool& may_be_0) {
    u64* const out = static_cast<u64*>(of.out);
    u64* const pairs = reinterpret_cast<u64*>(words);
    switch (of.update) {
        case SUM:
            if (SHARED) {
                add_halves(words, words + places, rows, word);
            } else {
#pragma unroll
                for (u32 k = 0; k < ROWS; k++) {
                    may_be_0 |= rows.somewhere(k) && word[k] - 1 >= SMALL;
                }
            }
            return each_place<SHARED>(
                rows, [](u32, u32) {}, [&](u32 k, u32 group) { atomicAdd(out + group, word[k]); });
        case AND:
            return each_place<SHARED>(
                rows,
                [&](u32 k, u32 p) {
                    atomicAnd(words + p, (u32)word[k]);
                    atomicAnd(words + places + p, (u32)(word[k] >> 32));
                },
                [&](u32 k, u32 group) { atomicAnd(out + group, word[k]); });
        case OR:
            return each_place<SHARED>(
                rows,
                [&](u32 k, u32 p) {
                    atomicOr(words + p, (u32)word[k]);
                    atomicOr(words + places + p, (u32)(word[k] >> 32));
                },
                [&](u32 k, u32 group) { atomicOr(out + group, word[k]); });
        case XOR:
            return each_place<SHARED>(
                rows,
                [&](u32 k, u32 p) {
                    atomicXor(words + p, (u32)word[k]);
                    atomicXor(words + places + p, (u32)(word[k] >> 32));
                },
                [&](u32 k, u32 group) { atomicXor(out + group, word[k]); });
        case MIN:
        case MAX:
#pragma unroll
            for (u32 k = 0; k < ROWS; k++) {
                word[k] = order_key(of.kind, word[k]);
            }
            return of.update == MIN ? each_place<SHARED>(
                                          rows, [&](u32 k, u32 p) { atomicMin(pairs + p, word[k]); },
                                          [&](u32 k, u32 group) { least(out + group, word[k]); })
                                    : each_place<SHARED>(
                                          rows, [&](u32 k, u32 p) { atomicMax(pairs + p, word[k]); },
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
    each_place<SHARED>(
        rows, [&](u32 k, u32 p) { atomicAdd(reinterpret_cast<f64*>(pairs + p), value[k]); },
        [&](u32 k, u32 group) { atomicAdd(reinterpret_cast<f64*>(out + group), value[k]); });
}
