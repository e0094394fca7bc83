// Segmented reduction ([D] table 1; [W] 3.2.2, SGB): rows in the order of their groups are aggregated without a table,
// and with atomics only for groups that two warps share.
#include "aggregate/group_sorted.cuh"

// Aggregates rows into their groups' results, which hold the neutral elements first. `ids` ascend; values and validity
// are in the same order. The row ids of FIRST_ROW and ARG_* are positions in that order. The grid's second dimension is
// the accumulator.
// Bound: for each accumulator 4 bytes of an id and the value read a row, a result written a group; two atomics for 1024
// rows. So 12 bytes a row for a sum of 64 bits: 340 G rows/s at 4.1 TB/s.
// Launch: blocks of 256, one for each 8192 rows. Accumulates COUNT, SUM*, AND, OR, XOR, FIRST_ROW and ARG_*.
extern "C" __global__ void __launch_bounds__(BLOCK)
    group_sorted(const u32* ids, u32 n, const __grid_constant__ Accumulators accumulators) {
    const u32 begin = (blockIdx.x * (BLOCK / WARP) + threadIdx.x / WARP) * SHARE_ROWS;
    if (begin >= n) {
        return;
    }
    const u32 end = min(n, begin + SHARE_ROWS);
    accumulate_share(accumulators.of[blockIdx.y], GivenIds{ids}, begin, end, accumulators.capacity);
}
