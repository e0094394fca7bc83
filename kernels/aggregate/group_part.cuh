// A partition pass of grouped aggregation: the radix sort's pass, with its own digits and with values of 4 or 8 bytes.
#pragma once

#include "aggregate/block/group_hash.cuh"
#include "keys/sort_onesweep.cuh"

// The partition of a key, one of 256: 8 bits of its hash, of which the upper ones group neighbours in a directory with
// this seed; or 8 bits of its distance from the first key (direct address), where keys after the last partition, such as
// NO_GROUP, are in the last.
struct Digits {
    u32 hashed, seed_or_first_key, first_bit;

    template <typename Key>
    __device__ __forceinline__ u32 of(Key key) const {
        return hashed != 0 ? hash_of(key, seed_or_first_key) >> first_bit & 255
                           : min(((u32)key - seed_or_first_key) >> first_bit, 255u);
    }
};

// The digit extractor of the ranking, which gets digits in place of keys.
struct DigitItself {
    __device__ __forceinline__ u32 Digit(u32 digit) const { return digit; }
};

template <class Key, class Value>
struct Partition : Onesweep<Key, Value> {
    using Base = Onesweep<Key, Value>;
    using Agent = typename Base::Agent;
    static constexpr u32 ITEMS = Base::ITEMS;
    using Base::Base;

    struct Counted {
        Partition& pass;
        int (&count)[1];

        __device__ __forceinline__ void operator()(int (&counted)[1]) {
            count[0] = counted[0];
            pass.LookbackPartial(count);
        }
    };

    // Positions past the end count as rows of the last partition, after all others.
    __device__ __forceinline__ void run(Digits digits) {
        const u32 tile_begin = this->block_idx * Agent::TILE_ITEMS;
        const u32 rows = min(this->num_items - tile_begin, (u32)Agent::TILE_ITEMS);
        Key keys[ITEMS];
        this->LoadKeys(tile_begin, keys);
        u32 digit[ITEMS];
#pragma unroll
        for (u32 i = 0; i < ITEMS; ++i) {
            const bool is_row = this->warp * 32 * ITEMS + this->lane + i * 32 < rows;
            digit[i] = is_row ? digits.of(keys[i]) : 255;
        }

        int ranks[ITEMS];
        int digit_start[1];
        int count[1];
        typename Agent::BlockRadixRankT(this->s.rank_temp_storage)
            .RankKeys(digit, ranks, DigitItself{}, digit_start, Counted{*this, count});
        __syncthreads();
        this->ScatterKeysShared(keys, ranks);
        this->LoadBinsToOffsetsGlobal(digit_start);
        this->look_back(count[0]);
        __syncthreads();

        int begins[ITEMS];
#pragma unroll
        for (u32 i = 0; i < ITEMS; ++i) {
            const u32 at = threadIdx.x + i * ONESWEEP_THREADS;
            const Key key = this->s.keys_out[at];
            begins[i] = digits.of(key);
            if (at < rows) {
                this->d_keys_out[at + this->s.global_offsets[begins[i]]] = key;
            }
        }
        // The values reuse the shared memory of the keys.
        Value values[ITEMS];
        this->LoadValues(tile_begin, values);
        __syncthreads();
        this->ScatterValuesShared(values, ranks);
        __syncthreads();
        this->ScatterValuesGlobal(begins);
    }
};

template <class Key, class Value>
__device__ __forceinline__ void partition(const Key* keys_in, const Value* values_in, u32 n, Digits digits, Key* keys_out,
                                          Value* values_out, const u32* starts, i32* lookback, i32* next_tile) {
    __shared__ typename OnesweepAgent<Key, Value>::TempStorage storage;
    Partition<Key, Value> pass(
        storage, lookback, next_tile, nullptr, starts, keys_out, keys_in, values_out, values_in, i32(n), 0, 8);
    pass.run(digits);
}
