// Adding rows to accumulators: in shared memory, whose arrays are by place, and in global memory, whose arrays are by group.
//
// Shared memory has fast atomics of 32 bits alone. So a sum is words of 32 bits that hand on their carries: each addition that
// wraps a word hands on its own, so that their order does not matter. Words of one place lie an array apart, for the banks' sake.
#pragma once

#include "group_codes.cuh"

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

__device__ __forceinline__ void add_word(u32* at, u32 apart, u64 word) {
    const u32 halves[2] = {(u32)word, (u32)(word >> 32)};
    add_words(at, apart, halves);
}

// Whether row `row` of a column takes the place of row `best` as its extreme.
__device__ __noinline__ bool is_better(const void* values, u32 kind, bool greatest, u32 row, u32 best) {
    i32 order;
    if (kind >= I128) {
        order = compare_wide(static_cast<const u64*>(values), kind == I128 ? 2 : 4, row, best);
    } else {
        u64 words[2];
        const u32 rows[2] = {row, best};
        for (u32 i = 0; i < 2; i++) {
            switch (kind) {
                case BIT: words[i] = bit_at(static_cast<const u32*>(values), rows[i]); break;
                case U8: words[i] = static_cast<const u8*>(values)[rows[i]]; break;
                case I8: words[i] = (u64)(i64)static_cast<const i8*>(values)[rows[i]]; break;
                case U16: words[i] = static_cast<const u16*>(values)[rows[i]]; break;
                case I16: words[i] = (u64)(i64)static_cast<const i16*>(values)[rows[i]]; break;
                case I32: words[i] = (u64)(i64)static_cast<const i32*>(values)[rows[i]]; break;
                case U32:
                case F32: words[i] = static_cast<const u32*>(values)[rows[i]]; break;
                default: words[i] = static_cast<const u64*>(values)[rows[i]]; break;
            }
            words[i] = order_key(kind, words[i]);
        }
        order = words[0] < words[1] ? -1 : words[0] > words[1];
    }
    return greatest ? order > 0 || (order == 0 && row > best) : order < 0 || (order == 0 && row < best);
}

// Makes `row` the extreme at `at` unless a better one is there. Bound: two values read at random, and rarely an atomic.
__device__ __forceinline__ void keep_better(u32* at, const Accumulator& of, u32 row) {
    const bool greatest = of.update == ARG_MAX;
    u32 best = atomicOr(at, 0);
    while (best == NOWHERE || is_better(of.values, of.kind, greatest, row, best)) {
        const u32 found = atomicCAS(at, best, row);
        if (found == best) {
            return;
        }
        best = found;
    }
}

// `shared(k, place)` or `global(k, group)` for each row that is accumulated.
template <typename Shared, typename Global>
__device__ __forceinline__ void each_place(const u32 (&place)[ROWS], Shared shared, Global global) {
#pragma unroll
    for (u32 k = 0; k < ROWS; k++) {
        if (place[k] < IN_GLOBAL) {
            shared(k, place[k]);
        } else if (place[k] != NOWHERE) {
            global(k, place[k] - IN_GLOBAL);
        }
    }
}

// A sum of WORDS64 words of 64 bits, of values that are as wide.
template <u32 WORDS64>
__device__ __forceinline__ void add_wide(const Accumulator& of, u32* words, u32 places, u64 capacity, u32 row,
                                         const u32 (&place)[ROWS]) {
    const auto number = [&](u32 k) { return static_cast<const ulonglong2*>(of.values) + (u64)(row + k * WARP) * (WORDS64 / 2); };
    each_place(
        place,
        [&](u32 k, u32 p) {
            u32 value[2 * WORDS64];
#pragma unroll
            for (u32 j = 0; j < WORDS64 / 2; j++) {
                const ulonglong2 two = __ldg(number(k) + j);
                value[4 * j] = (u32)two.x;
                value[4 * j + 1] = (u32)(two.x >> 32);
                value[4 * j + 2] = (u32)two.y;
                value[4 * j + 3] = (u32)(two.y >> 32);
            }
            add_words(words + p, places, value);
        },
        [&](u32 k, u32 group) {
            u64 value[WORDS64];
#pragma unroll
            for (u32 j = 0; j < WORDS64 / 2; j++) {
                const ulonglong2 two = __ldg(number(k) + j);
                value[2 * j] = two.x;
                value[2 * j + 1] = two.y;
            }
            add_words(static_cast<u64*>(of.out) + group, capacity, value);
        });
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

// Adds the rows of a thread to one accumulator. `words` are its words in shared memory; `group_of(place)` is the group of a place
// there. Bound: the values read once; an atomic a row, two for sums whose upper words change.
template <typename GroupOf>
__device__ __forceinline__ void update(const Accumulator& of, u32* words, u32 places, u64 capacity, u32 row,
                                       const u32 (&all)[ROWS], GroupOf group_of) {
    u32 place[ROWS];
#pragma unroll
    for (u32 k = 0; k < ROWS; k++) {
        place[k] = all[k] != NOWHERE && bit_at(of.valid, row + k * WARP) ? all[k] : NOWHERE;
    }
    u64* const out = static_cast<u64*>(of.out);
    u32* const rows_out = static_cast<u32*>(of.out);
    u64* const pairs = reinterpret_cast<u64*>(words);
    switch (of.update) {
        case COUNT:
            return each_place(
                place, [&](u32, u32 p) { atomicAdd(words + p, 1u); }, [&](u32, u32 group) { atomicAdd(out + group, 1ull); });
        case FIRST_ROW:
            return each_place(
                place, [&](u32 k, u32 p) { atomicMin(words + p, row + k * WARP); },
                [&](u32 k, u32 group) { atomicMin(rows_out + group, row + k * WARP); });
        case LAST_ROW:
            return each_place(
                place, [&](u32 k, u32 p) { atomicMax(words + p, row + k * WARP); },
                [&](u32 k, u32 group) { atomicMax(rows_out + group, row + k * WARP); });
        case ARG_MIN:
        case ARG_MAX:
            return each_place(
                place, [&](u32 k, u32 p) { keep_better(words + p, of, row + k * WARP); },
                [&](u32 k, u32 group) { keep_better(rows_out + group, of, row + k * WARP); });
        case SUM128: return add_wide<2>(of, words, places, capacity, row, place);
        case SUM256: return add_wide<4>(of, words, places, capacity, row, place);
        default: break;
    }

    u64 word[ROWS];
    read_values(of.values, of.kind, row, place, word);
    switch (of.update) {
        case SUM:
            return each_place(
                place, [&](u32 k, u32 p) { add_word(words + p, places, word[k]); },
                [&](u32 k, u32 group) { atomicAdd(out + group, word[k]); });
        case MIN:
            return each_place(
                place, [&](u32 k, u32 p) { atomicMin(pairs + p, order_key(of.kind, word[k])); },
                [&](u32 k, u32 group) { least(out + group, order_key(of.kind, word[k])); });
        case MAX:
            return each_place(
                place, [&](u32 k, u32 p) { atomicMax(pairs + p, order_key(of.kind, word[k])); },
                [&](u32 k, u32 group) { greatest(out + group, order_key(of.kind, word[k])); });
        case AND:
            return each_place(
                place,
                [&](u32 k, u32 p) {
                    atomicAnd(words + p, (u32)word[k]);
                    atomicAnd(words + places + p, (u32)(word[k] >> 32));
                },
                [&](u32 k, u32 group) { atomicAnd(out + group, word[k]); });
        case OR:
            return each_place(
                place,
                [&](u32 k, u32 p) {
                    atomicOr(words + p, (u32)word[k]);
                    atomicOr(words + places + p, (u32)(word[k] >> 32));
                },
                [&](u32 k, u32 group) { atomicOr(out + group, word[k]); });
        case XOR:
            return each_place(
                place,
                [&](u32 k, u32 p) {
                    atomicXor(words + p, (u32)word[k]);
                    atomicXor(words + places + p, (u32)(word[k] >> 32));
                },
                [&](u32 k, u32 group) { atomicXor(out + group, word[k]); });
        default: break;
    }

    // Sums of floats.
#pragma unroll
    for (u32 k = 0; k < ROWS; k++) {
        f64 value = real(of.kind, word[k]);
        if (of.update != SUM_F64) {
            const bool centered = of.centers != nullptr && place[k] != NOWHERE;
            const u32 group = place[k] < IN_GLOBAL ? group_of(place[k]) : place[k] - IN_GLOBAL;
            value -= centered ? __ldg(of.centers + group) : 0.0;
            value *= of.update == SQUARED_DEVIATION ? value : 1.0;
        }
        word[k] = (u64)__double_as_longlong(value);
    }
    each_place(
        place,
        [&](u32 k, u32 p) { atomicAdd(reinterpret_cast<f64*>(pairs + p), __longlong_as_double((i64)word[k])); },
        [&](u32 k, u32 group) { atomicAdd(reinterpret_cast<f64*>(out + group), __longlong_as_double((i64)word[k])); });
}
