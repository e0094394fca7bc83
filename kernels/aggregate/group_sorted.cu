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
    const Accumulator& of = accumulators.of[blockIdx.y];
    const u64 capacity = accumulators.capacity;
    switch (of.update) {
        case COUNT: return fold_share(WordFold<COUNT>{of}, ids, begin, end, capacity);
        case SUM: return fold_share(WordFold<SUM>{of}, ids, begin, end, capacity);
        case SUM128: return fold_share(WideFold<2>{of}, ids, begin, end, capacity);
        case SUM256: return fold_share(WideFold<4>{of}, ids, begin, end, capacity);
        case SUM_F64: return fold_share(WordFold<SUM_F64>{of}, ids, begin, end, capacity);
        case AND: return fold_share(WordFold<AND>{of}, ids, begin, end, capacity);
        case OR: return fold_share(WordFold<OR>{of}, ids, begin, end, capacity);
        case XOR: return fold_share(WordFold<XOR>{of}, ids, begin, end, capacity);
        case FIRST_ROW: return fold_share(WordFold<FIRST_ROW>{of}, ids, begin, end, capacity);
        default: break;
    }
    if (of.kind >= I128) {
        fold_share(WideExtremeFold{of}, ids, begin, end, capacity);
    } else if (of.update == ARG_MIN) {
        fold_share(ExtremeFold<false>{of}, ids, begin, end, capacity);
    } else {
        fold_share(ExtremeFold<true>{of}, ids, begin, end, capacity);
    }
}
