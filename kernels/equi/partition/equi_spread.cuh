// One pass of the radix partition of joins that keeps no order within a digit: a row's rank among the rows of its digit
// in the tile is the result of a shared-memory atomic, where a stable pass has to compare the digits of a warp's lanes
// bit by bit.
#pragma once

#include "equi/equi_columns.cuh"
#include "equi/equi_hash.cuh"
#include "equi/equi_look_back.cuh"

constexpr u32 SPREAD_THREADS = 512;
constexpr u32 SPREAD_ITEMS = 11;
constexpr u32 SPREAD_BLOCKS = 2;
constexpr u32 SPREAD_ROWS = SPREAD_THREADS * SPREAD_ITEMS;
static_assert(SPREAD_THREADS >= SPREAD_DIGITS, "a thread stands for one digit, or for none");

// 8 bytes a row, within the 48 KiB that every card has.
struct SpreadStorage {
    uint4 area[SPREAD_ROWS / 2];
    // The rows of each digit in the tile; later the offset from a row's position in the tile to its position in the
    // output.
    u32 counts[SPREAD_DIGITS];
    u32 places[SPREAD_DIGITS];
    u32 totals[SPREAD_DIGITS / WARP];
    u32 tile;
};
static_assert(sizeof(SpreadStorage) <= 48 * 1024, "static shared memory");

// Prefetches rows of a column into L2.
__device__ __forceinline__ void prefetch_bytes(const void* from, u32 bytes, u32 threads) {
    constexpr u32 SECTOR = 32;
    const u64 address = __cvta_generic_to_global(from);
    for (u32 at = threadIdx.x * SECTOR; at < bytes; at += threads * SECTOR) {
        asm volatile("prefetch.global.L2 [%0];" ::"l"(address + at));
    }
}

// The digit of a pass, and the counts from which the beginnings of digits follow.
struct SpreadOrder {
    u32 first_bit, bits;
    // The number of bits below the digit by which the input is ordered; the pass keeps that order. 0 in the first pass.
    u32 ordered_bits;
    u32* starts;
    u32* next_starts;
    // Null: tiles reserve output positions as they come, by atomics on `starts`.
    u32* lookback;

    template <class Key>
    __device__ __forceinline__ u32 digit(Key key) const {
        return u32(key >> first_bit) & ((1u << bits) - 1);
    }

    template <class Key>
    __device__ __forceinline__ u32 digit_before(Key key) const {
        return u32(key >> (first_bit - ordered_bits)) & ((1u << ordered_bits) - 1);
    }
};

// One tile of the pass: SPREAD_ROWS rows, or fewer at the end if not WHOLE.
template <class Key, bool WHOLE>
struct SpreadTile {
    SpreadStorage& s;
    const SpreadOrder& order;
    u32 begin, rows, number;
    // The rank in the tile of each row as loaded, two of 16 bits in a word; the digit of each row as written, four of 8
    // bits in a word.
    u32 ranks[(SPREAD_ITEMS + 1) / 2];
    u32 digits[(SPREAD_ITEMS + 3) / 4];
    // The half of the area that is not being read.
    u32 half;

    static __device__ __forceinline__ u32 at(u32 i) { return threadIdx.x + i * SPREAD_THREADS; }
    __device__ __forceinline__ bool has(u32 i) const { return WHOLE || at(i) < rows; }
    __device__ __forceinline__ u32 rank(u32 i) const { return ranks[i / 2] >> i % 2 * 16 & 0xFFFFu; }
    __device__ __forceinline__ u32 to(u32 i) const { return at(i) + s.counts[digits[i / 4] >> i % 4 * 8 & 0xFFu]; }

    __device__ __forceinline__ u32* free_half() {
        half ^= 1;
        return reinterpret_cast<u32*>(s.area) + half * SPREAD_ROWS;
    }

    // Ranks the rows of each digit. All atomics of a thread are in flight together.
    __device__ __forceinline__ void rank_keys(const Key (&keys)[SPREAD_ITEMS]) {
        u32 numbers[SPREAD_ITEMS];
#pragma unroll
        for (u32 i = 0; i < SPREAD_ITEMS; ++i) {
            numbers[i] = has(i) ? atomicAdd(&s.counts[order.digit(keys[i])], 1) : 0;
        }
#pragma unroll
        for (u32 i = 0; i < (SPREAD_ITEMS + 1) / 2; ++i) {
            ranks[i] = numbers[2 * i] | (2 * i + 1 < SPREAD_ITEMS ? numbers[(2 * i + 1) % SPREAD_ITEMS] << 16 : 0);
        }
        __syncthreads();
    }

    // The same if the tile's rows have several values of the digit by which the input is ordered: one value after the
    // other.
    __device__ __forceinline__ void rank_keys_in_order(const Key (&keys)[SPREAD_ITEMS], u32 least, u32 greatest) {
#pragma unroll 1
        for (u32 turn = least; turn <= greatest; ++turn) {
#pragma unroll
            for (u32 i = 0; i < SPREAD_ITEMS; ++i) {
                if (has(i) && order.digit_before(keys[i]) == turn) {
                    ranks[i / 2] |= atomicAdd(&s.counts[order.digit(keys[i])], 1) << i % 2 * 16;
                }
            }
            __syncthreads();
        }
    }

    // s.places[digit] = the number of the tile's rows with a lower digit; returns the number of rows of this thread's
    // digit.
    __device__ __forceinline__ u32 place_digits() {
        const u32 lane = threadIdx.x % WARP;
        const u32 warp = threadIdx.x / WARP;
        u32 count = 0, through = 0;
        if (threadIdx.x < SPREAD_DIGITS) {
            count = s.counts[threadIdx.x];
            if (order.lookback != nullptr) {
                *static_cast<volatile u32*>(&order.lookback[number * SPREAD_DIGITS + threadIdx.x]) = count | COUNTED;
            }
            through = count;
            for (u32 distance = 1; distance < WARP; distance *= 2) {
                const u32 lower = __shfl_up_sync(ALL_LANES, through, distance);
                through += lane >= distance ? lower : 0;
            }
            if (lane == WARP - 1) {
                s.totals[warp] = through;
            }
        }
        __syncthreads();
        if (threadIdx.x < SPREAD_DIGITS) {
            u32 below = through - count;
#pragma unroll
            for (u32 w = 0; w < SPREAD_DIGITS / WARP; ++w) {
                below += w < warp ? s.totals[w] : 0;
            }
            s.places[threadIdx.x] = below;
        }
        __syncthreads();
        return count;
    }

    // The output position of the first row of this thread's digit, minus its position in the tile.
    __device__ __forceinline__ void find_offsets(u32 count, bool last) {
        const u32 digit = threadIdx.x;
        if (digit >= SPREAD_DIGITS) {
            return;
        }
        u32 first;
        if (order.lookback == nullptr) {
            first = count > 0 ? atomicAdd(&order.starts[digit], count) : 0;
        } else {
            first = order.starts[digit] + look_back(order.lookback, number, digit, count);
            if (last && order.next_starts != nullptr) {
                order.next_starts[digit] = first + count;
            }
        }
        s.counts[digit] = first - s.places[digit];
    }

    // Writes the rows in slots[0 .. SLOTS], which are those of the tile from `first` on, to `out`. Values of 4 bytes
    // are all read before the first is written.
    template <u32 SLOTS, class Value>
    __device__ __forceinline__ void write_slots(Value* out, const Value* slots, u32 first) const {
        const auto mine = [&](u32 i) { return has(i) && (SLOTS == SPREAD_ROWS || at(i) - first < SLOTS); };
        constexpr u32 GROUP = sizeof(Value) == 4 ? SPREAD_ITEMS : sizeof(Value) == 8 ? 4 : 1;
#pragma unroll
        for (u32 begin = 0; begin < SPREAD_ITEMS; begin += GROUP) {
            Value values[GROUP];
            u32 places[GROUP];
#pragma unroll
            for (u32 i = begin; i < begin + GROUP && i < SPREAD_ITEMS; ++i) {
                if (mine(i)) {
                    values[i - begin] = slots[at(i) - first];
                    places[i - begin] = to(i);
                }
            }
#pragma unroll
            for (u32 i = begin; i < begin + GROUP && i < SPREAD_ITEMS; ++i) {
                if (mine(i)) {
                    out[places[i - begin]] = values[i - begin];
                }
            }
        }
    }

    template <class Value, typename Load>
    __device__ __forceinline__ void move(Value* out, Load load) {
        // Values of 16 bytes pass through the area in two turns.
        constexpr u32 TURNS = sizeof(Value) > 8 ? sizeof(Value) / 8 : 1;
        constexpr u32 SLOTS = SPREAD_ROWS / TURNS;
        Value* const slots = sizeof(Value) == 4 ? reinterpret_cast<Value*>(free_half()) : reinterpret_cast<Value*>(s.area);
#pragma unroll 1
        for (u32 turn = 0; turn < TURNS; ++turn) {
            const u32 first = turn * SLOTS;
            if (sizeof(Value) != 4) {
                __syncthreads();
            }
            constexpr u32 GROUP = sizeof(Value) == 4 ? SPREAD_ITEMS : sizeof(Value) == 8 ? 4 : 2;
#pragma unroll
            for (u32 begin = 0; begin < SPREAD_ITEMS; begin += GROUP) {
                Value values[GROUP];
#pragma unroll
                for (u32 i = begin; i < begin + GROUP && i < SPREAD_ITEMS; ++i) {
                    if (has(i) && (TURNS == 1 || rank(i) - first < SLOTS)) {
                        values[i - begin] = load(at(i));
                    }
                }
#pragma unroll
                for (u32 i = begin; i < begin + GROUP && i < SPREAD_ITEMS; ++i) {
                    if (has(i) && (TURNS == 1 || rank(i) - first < SLOTS)) {
                        slots[rank(i) - first] = values[i - begin];
                    }
                }
            }
            __syncthreads();
            write_slots<TURNS == 1 ? SPREAD_ROWS : SLOTS>(out, slots, first);
        }
        if (sizeof(Value) != 4) {
            __syncthreads();
        }
    }

    __device__ __forceinline__ void move_columns(const Column* columns, u32 from, u32 count, u32 first_row) {
#pragma unroll 1
        for (u32 c = from; c < count; ++c) {
            keep_packed(ranks);
            keep_packed(digits);
            const Column column = columns[c];
            if (column.in == nullptr) {
                const u32 row = first_row + begin;
                move(static_cast<u32*>(column.out), [=](u32 i) { return row + i; });
                continue;
            }
            with_width(column, [&](auto value) {
                using Value = decltype(value);
                const Value* const in = static_cast<const Value*>(column.in) + begin;
                move(static_cast<Value*>(column.out), [=](u32 i) { return in[i]; });
            });
        }
    }
};
