// Key bits: whether a side has a key, by direct address. The bit of a key is its distance from the least one; several columns are
// digits of one number, and where NULLs are equal a NULL is one more digit of its column. 2^28 keys have 32 MB of bits, which lie in
// the cache of a large card: a table of positions would not.
#include "tile.cuh"

// "No bit": the key lies outside of the range, or is a NULL that equals nothing.
constexpr u32 NO_PLACE = 0xFFFFFFFFu;

// Key columns of one side, by the digits of the other side's range.
template <typename T>
struct Digits {
    const T* values;
    const u32* valid;
    // The sign bit of signed types, 0 of others.
    u64 sign;
    u64 least;
    // Values from the least to the greatest.
    u32 count;
    // The digit of a NULL, or NO_PLACE.
    u32 null_digit;

    // Keys are read once and had better leave the cache to the bits.
    __device__ __forceinline__ u32 at(u32 i) const {
        const u64 distance = ((u64)__ldcs(values + i) ^ sign) - least;
        const u32 digit = distance < count ? (u32)distance : NO_PLACE;
        return bit_at(valid, i) ? digit : null_digit;
    }
};

// Where the word of a bit lies; any word for no place.
__device__ __forceinline__ u32 word_of(u32 place) {
    return place == NO_PLACE ? 0 : place / WARP;
}

__device__ __forceinline__ bool is_set(u32 word, u32 place) {
    return place != NO_PLACE && (word >> (place % WARP) & 1u) != 0;
}

// Sets each lane's bit of word `at`, if it has one. Keys in order have neighbouring bits: those of one word go together.
__device__ __forceinline__ void set_bit(u32* bits, u32 at, u32 bit) {
    int same;
    __match_all_sync(ALL_LANES, at, &same);
    if (same) {
        for (u32 lanes = WARP / 2; lanes > 0; lanes /= 2) {
            bit |= __shfl_xor_sync(ALL_LANES, bit, lanes);
        }
        bit = threadIdx.x % WARP == 0 ? bit : 0;
    }
    if (bit != 0) {
        atomicOr(bits + at, bit);
    }
}

// A tile is looked at before its bits are set: where keys come again and again, most are set after a while, and atomics would queue
// at hot words. A warp that found nearly none set in two tiles looks only every fourth time, as a look costs as much as it saves.
constexpr u32 FRESH_TILES = 2;
constexpr u32 LOOK_EVERY = 4;
constexpr u32 KNOWN_SHARE = 16;

template <typename T>
__device__ __forceinline__ void set_bits(Digits<T> keys, u32 n, u32* bits) {
    u32 fresh = 0;
    u32 turn = 0;
    for (u32 tile = blockIdx.x; tile < (n + TILE - 1) / TILE; tile += gridDim.x, turn++) {
        const bool look = fresh < FRESH_TILES || turn % LOOK_EVERY == 0;
        const u32 first = warp_first(tile) + threadIdx.x % WARP;
        u32 places[ITEMS];
        u32 words[ITEMS];
#pragma unroll
        for (u32 k = 0; k < ITEMS; k++) {
            const u32 i = first + k * WARP;
            const u32 place = keys.at(min(i, n - 1));
            places[k] = i < n ? place : NO_PLACE;
        }
#pragma unroll
        for (u32 k = 0; k < ITEMS; k++) {
            // From the second-level cache: what a block keeps in the first one would be out of date.
            words[k] = look ? __ldcg(bits + word_of(places[k])) : 0;
        }
#pragma unroll
        for (u32 k = 0; k < ITEMS; k++) {
            const bool is_new = places[k] != NO_PLACE && !is_set(words[k], places[k]);
            set_bit(bits, word_of(places[k]), is_new ? 1u << (places[k] % WARP) : 0);
        }
        if (look) {
            const u32 known = __popc(__ballot_sync(ALL_LANES, is_set(words[0], places[0])));
            const u32 placed = __popc(__ballot_sync(ALL_LANES, places[0] != NO_PLACE));
            fresh = known * KNOWN_SHARE < placed ? fresh + 1 : 0;
        }
    }
}

template <typename T>
__device__ __forceinline__ void test_bits(Digits<T> keys, u32 n, const u32* bits, u32* flags) {
    each_word(
        n,
        [=](u32 i) {
            const u32 place = keys.at(i);
            return is_set(__ldg(bits + word_of(place)), place);
        },
        [=](u32 w, u32 word) { __stcs(flags + w, word); });
}

// `digit` times `stride`, beside the place that other columns gave; no place where either has none.
__device__ __forceinline__ u32 with_digit(u32 digit, u32 stride, u32 place) {
    return digit == NO_PLACE || place == NO_PLACE ? NO_PLACE : place + digit * stride;
}

// All of them take keys of so many bits a value and their valid bits (null: all valid), `sign`, the least key, how many values there
// are from it to the greatest (fewer than 2^32 - 1), and the digit of a NULL, NO_PLACE where it equals nothing.
//
// key_bits_set*: sets the bit of each key. Bound: the keys read once, and for each a sector of 32 bytes of the second-level cache
// looked at, an atomic there, or both. Blocks of 256, a grid of any size (8 blocks a multiprocessor).
//
// key_bits_test*: bit i of `flags` becomes the bit of key i; bits past the end become 0. Bound: the keys read once, a sector of the
// second-level cache for each, and a bit written. Blocks of 256, a block takes 1024 rows.
//
// key_bits_places*: places[i] becomes the digit times `stride`, beside what it holds when `add` is not 0, or NO_PLACE. All places are
// below 2^32 - 1. Bound: a value read and 4 bytes written a row, 4 more read to add. Launch as key_bits_test*.
#define KEY_BITS(width, T)                                                                                             \
    extern "C" __global__ void __launch_bounds__(BLOCK)                                                                \
        key_bits_set##width(const T* __restrict__ values, const u32* __restrict__ valid, u32 n, u64 sign, u64 least,   \
                            u32 count, u32 null_digit, u32* bits) {                                                    \
        set_bits(Digits<T>{values, valid, sign, least, count, null_digit}, n, bits);                                   \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(BLOCK)                                                                \
        key_bits_test##width(const T* __restrict__ values, const u32* __restrict__ valid, u32 n, u64 sign, u64 least,  \
                             u32 count, u32 null_digit, const u32* __restrict__ bits, u32* __restrict__ flags) {       \
        test_bits(Digits<T>{values, valid, sign, least, count, null_digit}, n, bits, flags);                           \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(BLOCK)                                                                \
        key_bits_places##width(const T* __restrict__ values, const u32* __restrict__ valid, u32 n, u64 sign,           \
                               u64 least, u32 count, u32 null_digit, u32 stride, u32 add, u32* places) {               \
        const Digits<T> keys{values, valid, sign, least, count, null_digit};                                           \
        each_row(                                                                                                      \
            n, [=](u32 i) { return with_digit(keys.at(i), stride, add != 0 ? places[i] : 0); },                        \
            [=](u32 i, u32 place) { places[i] = place; });                                                             \
    }

KEY_BITS(8, u8)
KEY_BITS(16, u16)
KEY_BITS(32, u32)
KEY_BITS(64, u64)

// The places of Booleans, whose digits are 0 and 1.
extern "C" __global__ void __launch_bounds__(BLOCK)
    key_bits_places_bool(const u32* __restrict__ values, const u32* __restrict__ valid, u32 n, u32 null_digit, u32 stride,
                         u32 add, u32* places) {
    each_row(
        n,
        [=](u32 i) {
            const u32 digit = bit_at(valid, i) ? (u32)bit_at(values, i) : null_digit;
            return with_digit(digit, stride, add != 0 ? places[i] : 0);
        },
        [=](u32 i, u32 place) { places[i] = place; });
}
