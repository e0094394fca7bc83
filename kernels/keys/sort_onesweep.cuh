// One pass of the radix sort: CUB's onesweep agent, with a look-back over several tiles at a time, and row ids that it
// can generate.
#pragma once

// The agent uses BlockLoad's functions without including them.
#include <cub/block/block_load.cuh>

#include <cub/agent/agent_radix_sort_onesweep.cuh>

#include "shared/common.cuh"

constexpr u32 ONESWEEP_THREADS = 384;

// CUB's tuning for Hopper: tiles of 23 (u32) or 15 (u64: half of 30) pairs a thread, which fit in the 48 KiB of shared
// memory that a block has on every card; digits of 8 bits. The policy counts items of 4 bytes and halves them for 8.
// The value of a key is a row id by default, and nothing for cub::NullType.
template <class Key, class Value>
constexpr u32 ONESWEEP_ITEMS = sizeof(Key) == 4 && sizeof(Value) <= 4 ? 23 : 30;

template <class Key, class Value, u32 THREADS, u32 ITEMS_OF_4_BYTES>
using OnesweepPolicy = cub::AgentRadixSortOnesweepPolicy<
    THREADS, ITEMS_OF_4_BYTES, std::conditional_t<sizeof(Key) < sizeof(Value), Value, Key>, 1, cub::RADIX_RANK_MATCH_EARLY_COUNTS_ANY,
    cub::BLOCK_SCAN_RAKING_MEMOIZE, cub::RADIX_SORT_STORE_DIRECT, 8>;

template <class Key, class Value = u32, u32 THREADS = ONESWEEP_THREADS, u32 ITEMS_OF_4_BYTES = ONESWEEP_ITEMS<Key, Value>>
using OnesweepAgent = cub::detail::radix_sort::AgentRadixSortOnesweep<OnesweepPolicy<Key, Value, THREADS, ITEMS_OF_4_BYTES>, false, Key, Value, u32, i32>;

template <class Key, class Value = u32, u32 THREADS = ONESWEEP_THREADS, u32 ITEMS_OF_4_BYTES = ONESWEEP_ITEMS<Key, Value>>
struct Onesweep : OnesweepAgent<Key, Value, THREADS, ITEMS_OF_4_BYTES> {
    using Agent = OnesweepAgent<Key, Value, THREADS, ITEMS_OF_4_BYTES>;
    static constexpr u32 ITEMS = Agent::ITEMS_PER_THREAD;
    static constexpr i32 DIGITS = Agent::RADIX_DIGITS;
    // Earlier tiles that a look-back reads at once. When all tiles start together, as with small inputs, it has to pass
    // many.
    static constexpr i32 WINDOW = 4;
    static_assert(Agent::BINS_PER_THREAD == 1, "a thread stands for one digit, or for none");

    using Agent::Agent;

    // Called when the tile's digits are counted and not yet ranked. From then on, later tiles can read the counts in
    // their look-back.
    struct Counted {
        Onesweep& pass;
        int (&count)[1];
        Key (&keys)[ITEMS];

        __device__ __forceinline__ void operator()(int (&counted)[1]) {
            count[0] = counted[0];
            pass.LookbackPartial(count);
            // A tile of one digit is copied without ranking. The agent then reads the rows itself, so rows must be
            // given or not be wanted.
            if (Agent::KEYS_ONLY || pass.d_values_in != nullptr) {
                pass.TryShortCircuit(keys, count);
            }
        }
    };

    // Adds the counts of all earlier tiles to the thread's digit, and publishes the sum.
    __device__ __forceinline__ void look_back(i32 count) {
        const i32 digit = threadIdx.x;
        if (digit >= DIGITS) {
            return;
        }
        volatile i32* words = this->d_lookback + digit;
        i32 before = 0;
        bool found = false;
        for (i32 tile = this->block_idx - 1; tile >= 0 && !found; tile -= WINDOW) {
            i32 window[WINDOW];
#pragma unroll
            for (i32 i = 0; i < WINDOW; ++i) {
                window[i] = tile >= i ? words[(tile - i) * DIGITS] : 0;
            }
#pragma unroll
            for (i32 i = 0; i < WINDOW; ++i) {
                while (window[i] == 0 && tile >= i && !found) {
                    window[i] = words[(tile - i) * DIGITS];
                }
                before += found ? 0 : window[i] & Agent::LOOKBACK_VALUE_MASK;
                found = found || (window[i] & Agent::LOOKBACK_GLOBAL_MASK) != 0;
            }
        }
        words[this->block_idx * DIGITS] = (before + count) | Agent::LOOKBACK_GLOBAL_MASK;
        this->s.global_offsets[digit] += before;
    }

    __device__ __forceinline__ void load_rows(u32 tile_begin, u32 first_row, Value (&rows)[ITEMS]) {
        if (this->d_values_in != nullptr) {
            this->LoadValues(tile_begin, rows);
            return;
        }
        const u32 begin = tile_begin + this->warp * 32 * ITEMS + this->lane;
#pragma unroll
        for (u32 i = 0; i < ITEMS; ++i) {
            rows[i] = first_row + begin + i * 32;
        }
    }

    __device__ __forceinline__ void run(u32 first_row) {
        const u32 tile_begin = this->block_idx * Agent::TILE_ITEMS;
        Key keys[ITEMS];
        this->LoadKeys(tile_begin, keys);

        int ranks[ITEMS];
        int digit_start[1];
        int count[1];
        typename Agent::BlockRadixRankT(this->s.rank_temp_storage)
            .RankKeys(keys, ranks, this->digit_extractor(), digit_start, Counted{*this, count, keys});
        __syncthreads();
        this->ScatterKeysShared(keys, ranks);
        this->LoadBinsToOffsetsGlobal(digit_start);
        look_back(count[0]);
        this->UpdateBinsGlobal(count, digit_start);
        __syncthreads();
        this->ScatterKeysGlobal();
        if constexpr (!Agent::KEYS_ONLY) {
            move_rows(tile_begin, first_row, ranks);
        }
    }

    // The rows reuse the shared memory of the keys.
    __device__ __forceinline__ void move_rows(u32 tile_begin, u32 first_row, int (&ranks)[ITEMS]) {
        int digits[ITEMS];
        this->ComputeKeyDigits(digits);
        Value rows[ITEMS];
        load_rows(tile_begin, first_row, rows);
        __syncthreads();
        this->ScatterValuesShared(rows, ranks);
        __syncthreads();
        this->ScatterValuesGlobal(digits);
    }
};

template <class Key, class Value>
__device__ __forceinline__ void onesweep(
    const Key* keys_in, const Value* rows_in, u32 first_row, u32 n, Key* keys_out, Value* rows_out, const u32* starts,
    u32* next_starts, u32 first_bit, u32 bits, i32* lookback, i32* next_tile) {
    __shared__ typename OnesweepAgent<Key, Value>::TempStorage storage;
    Onesweep<Key, Value> pass(
        storage, lookback, next_tile, next_starts, starts, keys_out, keys_in, rows_out, rows_in, i32(n), i32(first_bit),
        i32(bits));
    pass.run(first_row);
}
