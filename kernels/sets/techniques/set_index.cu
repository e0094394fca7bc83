// Overlap counts from the inverted index of whole sets (sf-gSSJoin: [B] 5.1.1): a block processes a probe set, reads
// the lists of its elements as one vector, and counts the occurrences of each build set. Counts are in shared memory,
// where [B] has them in global memory: in a hash table if the lists are short, otherwise by window of build sets.
#include "sets/set_verify.cuh"

constexpr u32 COUNTER_WORDS = 8192;
// Slots of the hash table, and the maximum number of list items that it counts.
constexpr u32 TABLE_SLOTS = COUNTER_WORDS / 2;
constexpr u32 TABLE_ITEMS = TABLE_SLOTS / 2;
// Build sets that are scanned in the time that one list item takes through the hash table.
constexpr u32 SCANNED_PER_ITEM = 4;

// The inverted index: element e is in the build sets lists[offsets[e] .. offsets[e + 1]], which ascend.
struct Index {
    const u32* offsets;
    const u32* lists;
};

// The parts of up to 256 elements' lists within a range of build sets, as one vector.
struct Parts {
    u32 begins[BLOCK];
    u32 ends[BLOCK];  // in the vector
    u32 sums[BLOCK / WARP];
};

// Loads the lists of elements[0 .. count], count <= 256, cut to build sets from .. to, into `parts`; returns the
// vector's length. All threads call it.
__device__ __forceinline__ u32 cut_lists(const Index& index, const u32* elements, u32 count, u32 from, u32 to, Parts& parts) {
    const u32 lane = threadIdx.x % WARP;
    u32 begin = 0, len = 0;
    if (threadIdx.x < count) {
        const u32 element = elements[threadIdx.x];
        const u32 end = index.offsets[element + 1];
        begin = partition_point(index.offsets[element], end, [&](u32 at) { return index.lists[at] < from; });
        len = partition_point(begin, end, [&](u32 at) { return index.lists[at] < to; }) - begin;
    }
    u32 sum = len;
    for (u32 distance = 1; distance < WARP; distance *= 2) {
        const u32 before = __shfl_up_sync(ALL_LANES, sum, distance);
        sum += lane >= distance ? before : 0;
    }
    __syncthreads();
    if (lane == WARP - 1) {
        parts.sums[threadIdx.x / WARP] = sum;
    }
    __syncthreads();
    u32 total = 0;
#pragma unroll
    for (u32 w = 0; w < BLOCK / WARP; w++) {
        sum += w < threadIdx.x / WARP ? parts.sums[w] : 0;
        total += parts.sums[w];
    }
    parts.begins[threadIdx.x] = begin;
    parts.ends[threadIdx.x] = sum;
    __syncthreads();
    return total;
}

// Calls `visit(s)` for all build sets of the vector, distributed evenly over the block's threads.
template <typename Visit>
__device__ __forceinline__ void each_item(const Index& index, const Parts& parts, u32 count, u32 total, Visit visit) {
    for (u32 item = threadIdx.x; item < total; item += BLOCK) {
        const u32 part = partition_point(0, count - 1, [&](u32 p) { return parts.ends[p] <= item; });
        const u32 before = part == 0 ? 0 : parts.ends[part - 1];
        visit(index.lists[parts.begins[part] + (item - before)]);
    }
}

// Counts of build sets by hashing: keys in the first half of the words, counts in the second.
__device__ __forceinline__ void count_by_hash(u32* words, u32 log_slots, u32 s) {
    const u32 mask = (1u << log_slots) - 1;
    u32 slot = (s * 0x9E3779B1u) >> (32 - log_slots);
    for (;;) {
        const u32 known = atomicCAS(&words[slot], NONE, s);
        if (known == NONE || known == s) {
            atomicAdd(&words[TABLE_SLOTS + slot], 1u);
            return;
        }
        slot = (slot + 1) & mask;
    }
}

// Emits the matches in the hash table.
__device__ __forceinline__ void take_hashed(const Join& join, const u32* words, u32 log_slots, u32 r) {
    const u32 size = join.probe.sizes[r];
    for (u32 first = 0; first < 1u << log_slots; first += BLOCK) {
        const u32 slot = first + threadIdx.x;
        const u32 s = slot >> log_slots == 0 ? words[slot] : NONE;
        const bool match = s != NONE && join.measure.passes(words[TABLE_SLOTS + slot], size, join.build.sizes[s]);
        join.take(match, r, s);
    }
}

// Counters of a window of build sets, packed into words as narrowly as the probe set's length allows.
struct Counters {
    u32* words;
    u32 log_in_word;

    __device__ __forceinline__ Counters(u32* words, u32 length) : words(words), log_in_word(length < 256 ? 2 : length < 65536 ? 1 : 0) {}
    __device__ __forceinline__ u32 in_word() const { return 1u << log_in_word; }
    __device__ __forceinline__ u32 bits() const { return 32 >> log_in_word; }
    __device__ __forceinline__ u32 window() const { return COUNTER_WORDS << log_in_word; }
    __device__ __forceinline__ void add(u32 place) const {
        atomicAdd(&words[place >> log_in_word], 1u << (place & (in_word() - 1)) * bits());
    }
    __device__ __forceinline__ u32 of_word(u32 word, u32 k) const { return word >> k * bits() & (~0u >> (32 - bits())); }
};

// Emits the matches of a window from .. to.
__device__ __forceinline__ void take_counted(const Join& join, const Counters& counters, u32 r, u32 from, u32 to) {
    const u32 size = join.probe.sizes[r];
    // Needs do not fall with the size, so the shortest set's need skips most counters.
    const u32 least = max(join.measure.need(size, join.build.sizes[from]), 1u);
    const u32 words = (to - from + counters.in_word() - 1) >> counters.log_in_word;
    for (u32 first = 0; first < words; first += BLOCK) {
        const u32 at = first + threadIdx.x;
        const u32 word = at < words ? counters.words[at] : 0;
        u32 left = 0;
        if (word != 0) {
            for (u32 k = 0; k < counters.in_word(); k++) {
                left |= u32(counters.of_word(word, k) >= least) << k;
            }
        }
        for (; __any_sync(ALL_LANES, left != 0); left &= left - 1) {
            const u32 k = left == 0 ? 0 : __ffs(left) - 1;
            const u32 s = from + (at << counters.log_in_word) + k;
            const bool match = left != 0 && join.measure.passes(counters.of_word(word, k), size, join.build.sizes[s]);
            join.take(match, r, s);
        }
    }
}

// The matches of all probe sets with the build sets in their windows lo .. hi that share an element with them (all
// matches, if the measure is OVERLAP or a later one; otherwise those of sets that are not empty).
// Bound: a read of 4 bytes and a shared-memory atomic a list item; if lists are long, one byte of shared memory (two
// from sets of 256 elements on) for each build set in the window. Launch: 256 threads, grid (a block for each probe
// set, slices of the windows): if probe sets are few, enough slices for 8 blocks a multiprocessor.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_index_counts(const __grid_constant__ Join join, const __grid_constant__ Index index, const u32* __restrict__ lo,
                 const u32* __restrict__ hi) {
    __shared__ u32 words[COUNTER_WORDS];
    __shared__ Parts parts;
    const u32 r = join.probe.first + blockIdx.x;
    const u32 length = join.probe.length(r);
    const u32 from = lo[r], to = hi[r];
    if (length == 0 || from >= to) {
        return;
    }
    const u32* const elements = join.probe.of(r);
    const Counters counters(words, length);
    if (length <= BLOCK) {
        const u32 total = cut_lists(index, elements, length, from, to, parts);
        if (total <= TABLE_ITEMS && total * SCANNED_PER_ITEM < to - from) {
            if (blockIdx.y != 0) {
                return;
            }
            const u32 log_slots = max(32 - __clz(2 * max(total, 1u) - 1), 5);
            for (u32 i = threadIdx.x; i < 1u << log_slots; i += BLOCK) {
                words[i] = NONE;
                words[TABLE_SLOTS + i] = 0;
            }
            __syncthreads();
            each_item(index, parts, length, total, [&](u32 s) { count_by_hash(words, log_slots, s); });
            __syncthreads();
            take_hashed(join, words, log_slots, r);
            return;
        }
    }
    for (u32 begin = from + blockIdx.y * counters.window(); begin < to; begin += gridDim.y * counters.window()) {
        const u32 end = min(begin + counters.window(), to);
        __syncthreads();
        for (u32 i = threadIdx.x; i < COUNTER_WORDS && i << counters.log_in_word < end - begin; i += BLOCK) {
            words[i] = 0;
        }
        for (u32 first = 0; first < length; first += BLOCK) {
            const u32 count = min(BLOCK, length - first);
            const u32 total = cut_lists(index, elements + first, count, begin, end, parts);
            each_item(index, parts, count, total, [&](u32 s) { counters.add(s - begin); });
        }
        __syncthreads();
        take_counted(join, counters, r, begin, end);
    }
}
