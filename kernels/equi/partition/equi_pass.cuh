// One stable pass of the radix partition: the sort's onesweep pass on mixed keys, with any number of payload columns.
#pragma once

#include "equi/equi_columns.cuh"
#include "equi/equi_hash.cuh"
#include "keys/sort_onesweep.cuh"

// Fewer rows a thread than a sort of pairs has: values of two turns fit its registers.
constexpr u32 PASS_THREADS = 512;
template <class Key>
constexpr u32 PASS_ITEMS_OF_4_BYTES = 11 * sizeof(Key) / 4;

template <class Key>
struct PartitionPass : Onesweep<Key, u32, PASS_THREADS, PASS_ITEMS_OF_4_BYTES<Key>> {
    using Base = Onesweep<Key, u32, PASS_THREADS, PASS_ITEMS_OF_4_BYTES<Key>>;
    using Base::Base;
    using Base::ITEMS;
    static constexpr u32 TILE_ROWS = Base::Agent::TILE_ITEMS;

    // The position in the tile of this thread's `i`-th row as loaded.
    __device__ __forceinline__ u32 loaded_at(u32 i) const { return this->warp * 32 * ITEMS + i * 32 + this->lane; }

    // The same for the `i`-th row as written.
    __device__ __forceinline__ u32 written_at(u32 i) const { return threadIdx.x + i * PASS_THREADS; }

    // The destinations of the tile's rows, packed into few registers: the rank in the tile of each row loaded, and the
    // digit of each row written.
    struct Route {
        u32 ranks[(ITEMS + 1) / 2];
        u32 digits[(ITEMS + 3) / 4];

        __device__ __forceinline__ u32 rank(u32 i) const { return ranks[i / 2] >> i % 2 * 16 & 0xFFFFu; }
        __device__ __forceinline__ u32 digit(u32 i) const { return digits[i / 4] >> i % 4 * 8 & 0xFFu; }
    };
    static_assert(TILE_ROWS <= 0x10000, "a place in a tile has 16 bits");

    __device__ __forceinline__ u32 to(const Route& route, u32 i) const {
        return written_at(i) + this->s.global_offsets[route.digit(i)];
    }

    // Values wider than a key pass through the shared memory of the keys in several turns.
    template <bool WHOLE, class Value, typename Load>
    __device__ __forceinline__ void move(Value* out, u32 tile_rows, const Route& route, Load load) {
        constexpr u32 TURNS = sizeof(Value) > sizeof(Key) ? sizeof(Value) / sizeof(Key) : 1;
        constexpr u32 SLOTS = TILE_ROWS / TURNS;
        static_assert(SLOTS * TURNS == TILE_ROWS, "turns are of equal length");
        Value* const slots = reinterpret_cast<Value*>(&this->s);
        // Registers hold values of up to two turns, which are read once.
        constexpr bool HELD = TURNS <= 2 && sizeof(Value) <= 8;
        Value held[HELD ? ITEMS : 1];
        if constexpr (HELD) {
#pragma unroll
            for (u32 i = 0; i < ITEMS; ++i) {
                if (WHOLE || loaded_at(i) < tile_rows) {
                    held[i] = load(loaded_at(i));
                }
            }
        }
#pragma unroll 1
        for (u32 turn = 0; turn < TURNS; ++turn) {
            const u32 begin = turn * SLOTS;
            __syncthreads();
            if constexpr (HELD) {
#pragma unroll
                for (u32 i = 0; i < ITEMS; ++i) {
                    if (TURNS == 1 || route.rank(i) - begin < SLOTS) {
                        slots[route.rank(i) - begin] = held[i];
                    }
                }
            } else {
#pragma unroll
                for (u32 i = 0; i < ITEMS; ++i) {
                    if (route.rank(i) - begin < SLOTS && (WHOLE || loaded_at(i) < tile_rows)) {
                        slots[route.rank(i) - begin] = load(loaded_at(i));
                    }
                    // At most four values in flight at a time: they are wide, and registers are few.
                    if (i % 4 == 3) {
                        asm volatile("" ::: "memory");
                    }
                }
            }
            __syncthreads();
#pragma unroll
            for (u32 i = 0; i < ITEMS; ++i) {
                if ((TURNS == 1 || written_at(i) - begin < SLOTS) && (WHOLE || written_at(i) < tile_rows)) {
                    out[to(route, i)] = slots[written_at(i) - begin];
                }
            }
        }
    }

    template <bool WHOLE>
    __device__ __forceinline__ void move_columns(
        const Column* columns, u32 column_count, u32 number, u32 tile_begin, u32 tile_rows, Route& route) {
#pragma unroll 1
        for (u32 c = 0; c < column_count; ++c) {
            keep_packed(route.ranks);
            keep_packed(route.digits);
            const Column column = columns[c];
            if (column.in == nullptr) {
                move<WHOLE>(static_cast<u32*>(column.out), tile_rows, route, [=](u32 at) { return number + at; });
                continue;
            }
            with_width(column, [&](auto value) {
                using Value = decltype(value);
                const Value* const in = static_cast<const Value*>(column.in) + tile_begin;
                move<WHOLE>(static_cast<Value*>(column.out), tile_rows, route, [=](u32 at) { return in[at]; });
            });
        }
    }

    // All tiles but the last are whole, which saves the bounds checks of each row.
    template <bool WHOLE>
    __device__ __forceinline__ void run(bool mixed, const Column* columns, u32 column_count, u32 first_row) {
        const u32 tile_begin = this->block_idx * TILE_ROWS;
        const u32 tile_rows = WHOLE ? TILE_ROWS : u32(this->num_items) - tile_begin;
        Key keys[ITEMS];
#pragma unroll
        for (u32 i = 0; i < ITEMS; ++i) {
            keys[i] = WHOLE || loaded_at(i) < tile_rows ? this->d_keys_in[tile_begin + loaded_at(i)] : ~Key(0);
        }
        // Keys past the end are all ones, which must stay last, so they are not mixed.
        if (!mixed) {
#pragma unroll
            for (u32 i = 0; i < ITEMS; ++i) {
                keys[i] = WHOLE || loaded_at(i) < tile_rows ? mix(keys[i]) : keys[i];
            }
        }

        int ranks[ITEMS];
        int digit_start[1];
        int count[1];
        // The agent itself has no values, so it never takes its short cut past the code below.
        typename Base::Agent::BlockRadixRankT(this->s.rank_temp_storage)
            .RankKeys(keys, ranks, this->digit_extractor(), digit_start, typename Base::Counted{*this, count, keys});
        __syncthreads();
        this->ScatterKeysShared(keys, ranks);
        this->LoadBinsToOffsetsGlobal(digit_start);
        this->look_back(count[0]);
        this->UpdateBinsGlobal(count, digit_start);
        __syncthreads();
        Route route = {};
#pragma unroll
        for (u32 i = 0; i < ITEMS; ++i) {
            route.ranks[i / 2] |= u32(ranks[i]) << i % 2 * 16;
        }
#pragma unroll
        for (u32 i = 0; i < ITEMS; ++i) {
            const Key key = this->s.keys_out[written_at(i)];
            route.digits[i / 4] |= this->Digit(key) << i % 4 * 8;
            if (WHOLE || written_at(i) < tile_rows) {
                this->d_keys_out[to(route, i)] = key;
            }
        }

        move_columns<WHOLE>(columns, column_count, first_row + tile_begin, tile_begin, tile_rows, route);
    }
};

template <class Key>
__device__ __forceinline__ void partition_pass(
    const Key* keys_in, u32 mixed, u32 first_row, u32 n, Key* keys_out, const Column* columns, u32 column_count,
    const u32* starts, u32* next_starts, u32 first_bit, u32 bits, i32* lookback, i32* next_tile) {
    __shared__ alignas(16) typename PartitionPass<Key>::Agent::TempStorage storage;
    PartitionPass<Key> pass(
        storage, lookback, next_tile, next_starts, starts, keys_out, keys_in, nullptr, nullptr, i32(n), i32(first_bit),
        i32(bits));
    if (pass.full_block) {
        pass.template run<true>(mixed != 0, columns, column_count, first_row);
    } else {
        pass.template run<false>(mixed != 0, columns, column_count, first_row);
    }
}
