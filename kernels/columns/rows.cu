// Row movement: gather and scatter by row id, and the flags of matched rows. Bitmaps are made and compacted in the two
// included files. CPU counterparts: src/device/host/columns/values.rs, flags.rs, and row_counts of range.rs.
#include "shared/common.cuh"
#include "columns/rows_bits.cuh"
#include "columns/rows_select.cuh"
#include "shared/tile.cuh"

// "No row": its value is zero, and its bit is not set.
constexpr u32 NO_ROW = 0xFFFFFFFFu;

// Reads row 0 for NO_ROW, so that no branch separates a thread's loads.
template <typename T>
__device__ __forceinline__ T value_at(const T* values, u32 row, T none) {
    const T value = values[row == NO_ROW ? 0 : row];
    return row == NO_ROW ? none : value;
}

// Words passed as a kernel argument.
struct GivenWords {
    u64 words[64];
};

// `out[i] = given.words[i]`. Launch: one block, a thread for each word.
extern "C" __global__ void __launch_bounds__(64) rows_given(const __grid_constant__ GivenWords given, u64* out, u32 n) {
    if (threadIdx.x < n) {
        out[threadIdx.x] = given.words[threadIdx.x];
    }
}

// `out[i] = values[rows[i]]`, zero for NO_ROW. Bound: 4 bytes of row id read, one value read at random and one written
// a row. Launch: blocks of 256, a block for each 1024 rows; there is at least one value.
#define GATHER(bits, T)                                                                                        \
    extern "C" __global__ void __launch_bounds__(BLOCK) rows_gather##bits(                                     \
        const T* __restrict__ values, const u32* __restrict__ rows, T* __restrict__ out, u32 n) {              \
        each_row(n, [=](u32 i) { return value_at(values, rows[i], T{}); },                                     \
                 [=](u32 i, T value) { out[i] = value; });                                                     \
    }

GATHER(8, u8)
GATHER(16, u16)
GATHER(32, u32)
GATHER(64, u64)
GATHER(128, uint4)

// As the gathers above, for values of 32 bytes aligned to 16: two neighbouring lanes move the halves of one value.
// Launch: blocks of 256, a block for each 512 rows.
extern "C" __global__ void __launch_bounds__(BLOCK)
    rows_gather256(const uint4* __restrict__ values, const u32* __restrict__ rows, uint4* __restrict__ out, u32 n) {
    each_row(
        2 * n,
        [=](u32 half) {
            const u32 row = rows[half / 2];
            const uint4 value = values[(row == NO_ROW ? 0 : (u64)row) * 2 + half % 2];
            return row == NO_ROW ? uint4{} : value;
        },
        [=](u32 half, uint4 value) { out[half] = value; });
}

// Bit `i` of the output is bit `rows[i]` of `bits`, or 0 for NO_ROW. Bound: 4 bytes and one random bit read a row.
// Launch: blocks of 256, a block for each 1024 rows; there is at least one bit.
extern "C" __global__ void __launch_bounds__(BLOCK) rows_gather_bits(const u32* __restrict__ bits,
                                                                     const u32* __restrict__ rows,
                                                                     u32* __restrict__ out_bits, u32 n) {
    each_word(
        n,
        [=](u32 i) {
            const u32 row = rows[i];
            return (row != NO_ROW) & bit_at(bits, row == NO_ROW ? 0 : row);
        },
        [=](u32 w, u32 word) { out_bits[w] = word; });
}

// `from, from + 1, …`. Bound: 4 bytes written a row. Launch: blocks of 256, a block for each 1024 rows.
extern "C" __global__ void __launch_bounds__(BLOCK) rows_sequence(u32 from, u32* __restrict__ out, u32 n) {
    each_row(n, [=](u32 i) { return from + i; }, [=](u32 i, u32 row) { out[i] = row; });
}

// `out[rows[i]] = values[i]`, each row at most once; other rows keep their values. Bound: one id and one value read,
// and one value written at random a row. Launch: blocks of 256, a block for each 1024 rows.
extern "C" __global__ void __launch_bounds__(BLOCK) rows_scatter32(
    const u32* __restrict__ rows, const u32* __restrict__ values, u32* __restrict__ out, u32 n) {
    each_row(n, [=](u32 i) { return Placed<u32>{values[i], rows[i]}; },
             [=](u32, Placed<u32> placed) { out[placed.row] = placed.value; });
}

// Loads a word that other threads may be changing.
__device__ __forceinline__ u32 load_shared_word(const u32* word) {
    u32 value;
    asm("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(word));
    return value;
}

// A row, and the word of the bitmap that has its flag.
struct Flag {
    u32 row, word;
};

// Sets the flags of rows `first + rows[i]`. Most rows match more than once, and a load is cheaper than an atomic write.
// Bound: 4 bytes and one random word read a row. Launch: blocks of 256, a block for each 1024 rows. Launches on one
// bitmap may overlap.
extern "C" __global__ void __launch_bounds__(BLOCK)
    rows_set_flags(u32* flags, u32 first, const u32* __restrict__ rows, u32 n) {
    each_row(
        n,
        [=](u32 i) {
            const u32 row = first + rows[i];
            return Flag{row, load_shared_word(flags + row / 32)};
        },
        [=](u32, Flag flag) {
            const u32 bit = 1u << flag.row % 32;
            if ((flag.word & bit) == 0) {
                atomicOr(flags + flag.row / 32, bit);
            }
        });
}

// Sets the flag of every row `first + i` whose count is not zero, a word at a time. Bound: 4 bytes read a row. Launch:
// blocks of 256, a block for each 1024 rows, counted from the first row of the word that holds `first`. Launches on one
// bitmap may overlap.
extern "C" __global__ void __launch_bounds__(BLOCK)
    rows_set_flags_counted(u32* flags, u32 first, const u32* __restrict__ counts, u32 n) {
    const u32 before = first % 32;
    each_word(
        before + n, [=](u32 i) { return i >= before && counts[max(i, before) - before] > 0; },
        [=](u32 w, u32 word) {
            u32* flag_word = flags + first / 32 + w;
            if ((word & ~load_shared_word(flag_word)) != 0) {
                atomicOr(flag_word, word);
            }
        });
}
