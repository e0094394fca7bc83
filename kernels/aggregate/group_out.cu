// From results by group to columns: words of 64 bits, and row ids. CPU counterpart: src/device/host/aggregate/fold.rs.
#include "shared/common.cuh"
#include "shared/tile.cuh"

// Bit `i` says whether word `i` is not 0: which groups have a value, from their counts, or Booleans from their words.
// Bound: 8 bytes read a row. Launch: blocks of 256, a block for each 1024 rows.
extern "C" __global__ void __launch_bounds__(BLOCK)
    group_out_bits(const u64* __restrict__ words, u32* __restrict__ bits, u32 n) {
    each_word(n, [=](u32 i) { return words[i] != 0; }, [=](u32 w, u32 word) { bits[w] = word; });
}

// The low bits of words. Bound: 8 bytes read and a value written a row. Launch: blocks of 256, a block for each 1024
// rows.
#define NARROW(bits, T)                                                                                       \
    extern "C" __global__ void __launch_bounds__(BLOCK)                                                       \
        group_out_narrow##bits(const u64* __restrict__ words, T* __restrict__ out, u32 n) {                   \
        each_row(n, [=](u32 i) { return words[i]; }, [=](u32 i, u64 word) { out[i] = (T)word; });             \
    }

NARROW(8, u8)
NARROW(16, u16)
NARROW(32, u32)

// Values of two or four words; word `j` is at `words[j * n + i]`, the lowest first. Bound: a value read and written a
// row. Launch: blocks of 256, a block for each 1024 rows.
extern "C" __global__ void __launch_bounds__(BLOCK)
    group_out_join128(const u64* __restrict__ words, ulonglong2* __restrict__ out, u32 n) {
    each_row(
        n, [=](u32 i) { return ulonglong2{words[i], words[(u64)n + i]}; },
        [=](u32 i, ulonglong2 value) { out[i] = value; });
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    group_out_join256(const u64* __restrict__ words, ulonglong2* __restrict__ out, u32 n) {
    each_row(
        2 * n,
        [=](u32 half) {
            const u64 low = (u64)(half % 2 * 2) * n + half / 2;
            return ulonglong2{words[low], words[low + n]};
        },
        [=](u32 half, ulonglong2 value) { out[half] = value; });
}

// rows[g] becomes moved[rows[g]], if the rows of groups were found in another order than their own; NO_GROUP stays.
// Bound: 8 bytes read or written and one word read at random a group. Launch: blocks of 256, a block for each 1024
// rows.
extern "C" __global__ void __launch_bounds__(BLOCK)
    group_out_rows(const u32* __restrict__ moved, u32* rows, u32 n) {
    each_row(
        n, [=](u32 i) { return rows[i] == NO_GROUP ? NO_GROUP : moved[rows[i]]; }, [=](u32 i, u32 row) { rows[i] = row; });
}
