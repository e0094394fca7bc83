// Encodes a side of sets and its inverted lists, between sorts of words ([B] 4.1); a word has a set and an element.
//
// Steps: words of raw element ids are sorted; set_encode_heads marks those that differ from the word before;
// rows_select and rows_gather* keep these; set_encode_offsets gives the sizes; set_encode_frequencies counts elements
// (of the build side); sorting element ids by frequency and rows_scatter32 give ranks, sorting sets by size gives
// places; set_encode_recode writes both into the words. Sorted again, they are the sets in order, from which elements
// and offsets are extracted.
#include "shared/search.cuh"
#include "sets/set_words.cuh"

// The beginning of the values of each of n lists, relative to the first list, and their number.
// Bound: 12 bytes a list. Launch: 256 threads, a block for each 1024 lists.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_encode_spans(const u32* __restrict__ offsets, u32 first, u32 n, u32* __restrict__ starts, u32* __restrict__ counts) {
    each_row(
        n, [=](u32 i) { return uint2{offsets[i], offsets[i + 1]}; },
        [=](u32 i, uint2 span) {
            starts[i] = span.x - first;
            counts[i] = span.y - span.x;
        });
}

// Words of lists. Entry e is the next element of set entry_sets[e]: its value is at the same distance from starts[set]
// as the entry from entry_offsets[set], and the word has the id of that value.
// Bound: 8 bytes an entry and a word. Launch: 256 threads, a block for each 1024 entries.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_encode_entries(const u32* __restrict__ starts, const u32* __restrict__ ids, const u64* __restrict__ entry_offsets,
                   const u32* __restrict__ entry_sets, u32 n, const __grid_constant__ Words out) {
    out.as_they_are([=](auto words) {
        each_row(
            n,
            [=](u32 e) {
                const u32 set = entry_sets[e];
                return words.make(set, ids[starts[set] + u32(e - entry_offsets[set])]);
            },
            [=](u32 e, auto word) { words[e] = word; });
    });
}

// Bit i: word i differs from the word before, and has an element (NONE stands for a NULL, or for an element that the
// build side lacks).
// Bound: a word read. Launch: 256 threads, a block for each 1024 words.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_encode_heads(const __grid_constant__ Words sorted, u32 n, u32* __restrict__ bits) {
    sorted.as_they_are([=](auto words) {
        each_word(
            n, [=](u32 i) { return (i == 0 || words[i - 1] != words[i]) && words.lower(words[i]) != NONE; },
            [=](u32 w, u32 word) { bits[w] = word; });
    });
}

// The beginning of the words of each of `sets` sets (or of whatever the upper numbers are) among n sorted words:
// offsets[0 ..= sets].
// Bound: log2(n) dependent reads, 4 bytes a set. Launch: 256 threads, a thread for each of sets + 1.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_encode_offsets(const __grid_constant__ Words sorted, u32 n, u32 sets, u32* __restrict__ offsets) {
    const u32 set = blockIdx.x * BLOCK + threadIdx.x;
    if (set <= sets) {
        sorted.as_they_are([=](auto words) {
            offsets[set] = partition_point(0, n, [=](u32 i) { return words.upper(words[i]) < set; });
        });
    }
}

// sizes[i] = offsets[i + 1] - offsets[i]. Bound: 8 bytes a set. Launch: 256 threads, a block for each 1024 sets.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_encode_sizes(const u32* __restrict__ offsets, u32 n, u32* __restrict__ sizes) {
    each_row(n, [=](u32 i) { return offsets[i + 1] - offsets[i]; }, [=](u32 i, u32 size) { sizes[i] = size; });
}

// out[i]: groups[i] and sizes[i], by which sets are ordered if there are groups. Bound: 8 bytes and a word a set.
// Launch: 256 threads, a block for each 1024 sets.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_encode_order(const u32* __restrict__ groups, const u32* __restrict__ sizes, u32 n, const __grid_constant__ Words out) {
    out.as_they_are([=](auto words) {
        each_row(
            n, [=](u32 i) { return words.make(groups[i], sizes[i]); }, [=](u32 i, auto word) { words[i] = word; });
    });
}

// Calls `take(load(i))` for the rows i below `n` of a tile, and take(NONE) past the end; all lanes of a warp call it
// together.
template <typename Load, typename Take>
__device__ __forceinline__ void each_number(u32 tile, u32 n, Load load, Take take) {
    const u32 first = warp_first(tile) + threadIdx.x % WARP;
    u32 numbers[ITEMS];
#pragma unroll
    for (u32 k = 0; k < ITEMS; k++) {
        const u32 i = first + k * WARP;
        numbers[k] = i < n ? load(i) : NONE;
    }
#pragma unroll
    for (u32 k = 0; k < ITEMS; k++) {
        take(numbers[k]);
    }
}

// Counts a number, except NONE, in global memory. Lanes with the same number share an atomic: atomics of a frequent
// number would serialise.
__device__ __forceinline__ void count_together(u32* counts, u32 number) {
    const u32 same = __match_any_sync(ALL_LANES, number);
    if (number != NONE && __ffs(same) - 1 == threadIdx.x % WARP) {
        atomicAdd(&counts[number], u32(__popc(same)));
    }
}

// Adds the number of words of each element.
// Bound: a word read and an atomic, about 90 G/s with many elements. Launch: 256 threads, a block for each 1024 words;
// frequencies are zeroed first.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_encode_frequencies(const __grid_constant__ Words in, u32 n, u32* frequencies) {
    in.as_they_are([=](auto words) {
        each_number(
            blockIdx.x, n, [=](u32 i) { return words.lower(words[i]); },
            [=](u32 element) { count_together(frequencies, element); });
    });
}

// Elements that a block counts in shared memory.
constexpr u32 FEW_ELEMENTS = 12288;

// The same for at most FEW_ELEMENTS elements, with counts for each block first: with few elements, atomics in global
// memory would serialise.
// Bound: a word read and an atomic in shared memory. Launch: 256 threads, a grid of any size (4 blocks a
// multiprocessor); frequencies are zeroed first.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_encode_few_frequencies(const __grid_constant__ Words in, u32 n, u32 universe, u32* frequencies) {
    __shared__ u32 counts[FEW_ELEMENTS];
    for (u32 element = threadIdx.x; element < universe; element += BLOCK) {
        counts[element] = 0;
    }
    __syncthreads();
    in.as_they_are([&](auto words) {
        for (u32 tile = blockIdx.x; tile < (n + TILE - 1) / TILE; tile += gridDim.x) {
            each_number(
                tile, n, [=](u32 i) { return words.lower(words[i]); },
                [&](u32 element) {
                    if (element != NONE) {
                        atomicAdd(&counts[element], 1);
                    }
                });
        }
    });
    __syncthreads();
    for (u32 element = threadIdx.x; element < universe; element += BLOCK) {
        if (counts[element] != 0) {
            atomicAdd(&frequencies[element], counts[element]);
        }
    }
}

// out[i]: set and element of words[i] by their new numbers. `places` may be null: sets then keep theirs. An element at
// or beyond `universe` (such as NONE) becomes NONE, and so does an element whose rank is NONE.
// Bound: two words and two random reads. Launch: 256 threads, a block for each 1024 words.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_encode_recode(const __grid_constant__ Words in, u32 n, const u32* __restrict__ ranks, u32 universe,
                  const u32* __restrict__ places, const __grid_constant__ Words out) {
    in.as_they_are([=](auto words) {
        out.as_they_are([=](auto recoded) {
            each_row(
                n,
                [=](u32 i) {
                    const auto word = words[i];
                    const u32 set = words.upper(word);
                    const u32 element = words.lower(word);
                    const u32 rank = element < universe ? ranks[element] : NONE;
                    return recoded.make(places == nullptr ? set : places[set], rank);
                },
                [=](u32 i, auto word) { recoded[i] = word; });
        });
    });
}

// The number of zeros among n ascending frequencies. Bound: log2(n) dependent reads. Launch: one thread.
extern "C" __global__ void set_encode_absent(const u32* __restrict__ frequencies, u32 n, u32* absent) {
    if (blockIdx.x * BLOCK + threadIdx.x == 0) {
        *absent = partition_point(0, n, [&](u32 i) { return frequencies[i] == 0; });
    }
}

// ranks[order[i]] = i - absent, NONE for the first `absent`: ranks by frequency of the elements that occur in some set.
// Bound: 4 bytes an element and a random write. Launch: 256 threads, a block for each 1024 elements.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_encode_ranks(const u32* __restrict__ order, u32 n, u32 absent, u32* __restrict__ ranks) {
    each_row(n, [=](u32 i) { return order[i]; }, [=](u32 i, u32 element) { ranks[element] = i < absent ? NONE : i - absent; });
}

// out[i]: the group of the set of words[i] and the element by its number in `numbers` (null: its own), group << 32 |
// number. If only sets of one group match, equal elements of different groups are distinct.
// Bound: 8 bytes and a word, and two random reads. Launch: 256 threads, a block for each 1024 words.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_encode_grouped(const __grid_constant__ Words in, u32 n, const u32* __restrict__ groups, const u32* __restrict__ numbers,
                   u64* __restrict__ out) {
    in.as_they_are([=](auto words) {
        each_row(
            n,
            [=](u32 i) {
                const auto word = words[i];
                const u32 element = words.lower(word);
                return u64(groups[words.upper(word)]) << 32 | (numbers == nullptr ? element : numbers[element]);
            },
            [=](u32 i, u64 word) { out[i] = word; });
    });
}

// out[i]: the set of words[i] with elements[i].
// Bound: 4 bytes and two words. Launch: 256 threads, a block for each 1024 words.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_encode_renamed(const __grid_constant__ Words in, const u32* __restrict__ elements, u32 n, const __grid_constant__ Words out) {
    in.as_they_are([=](auto words) {
        out.as_they_are([=](auto renamed) {
            each_row(
                n, [=](u32 i) { return renamed.make(words.upper(words[i]), elements[i]); },
                [=](u32 i, auto word) { renamed[i] = word; });
        });
    });
}

// out[i] = the element of words[i]. Bound: 4 bytes and a word. Launch: 256 threads, a block for each 1024 words.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_encode_elements(const __grid_constant__ Words in, u32 n, u32* __restrict__ out) {
    in.as_they_are([=](auto words) {
        each_row(n, [=](u32 i) { return words.lower(words[i]); }, [=](u32 i, u32 element) { out[i] = element; });
    });
}

// The number of sets of each size; sizes of `most` and above are counted together: histogram[0 ..= most].
// Bound: 4 bytes a set. Launch: 256 threads, a block for each 1024 sets; the histogram is zeroed first.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_encode_size_histogram(const u32* __restrict__ sizes, u32 n, u32 most, u32* histogram) {
    each_number(
        blockIdx.x, n, [=](u32 i) { return min(sizes[i], most); }, [=](u32 size) { count_together(histogram, size); });
}

// The words of inverted lists, with the element above the set, for each set's first elements: entry e is element e -
// entry_offsets[set] of set entry_sets[e]. They are in the order of sets, so a stable sort by element alone gives the
// lists.
// Bound: 8 bytes and a word an entry, and 12 bytes a set. Launch: 256 threads, a block for each 1024 entries.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_encode_list_words(const __grid_constant__ Sets sets, const u64* __restrict__ entry_offsets,
                      const u32* __restrict__ entry_sets, u32 n, const __grid_constant__ Words out) {
    out.as_they_are([&](auto words) {
        each_row(
            n,
            [&](u32 e) {
                const u32 set = entry_sets[e];
                return words.make(sets.of(set)[e - entry_offsets[set]], set);
            },
            [=](u32 e, auto word) { words[e] = word; });
    });
}

// Lists from sorted words: lists[i] is the set, places[i] the position of the element in it; `entries` are the entry
// numbers as the sort moved them. Both may be null.
// Bound: a word and 4 bytes an entry, and 8 bytes and a random read for places. Launch: 256 threads, a block for each
// 1024 entries.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_encode_lists(const __grid_constant__ Words sorted, const u32* __restrict__ entries, u32 n,
                 const u64* __restrict__ entry_offsets, u32* __restrict__ lists, u32* __restrict__ places) {
    sorted.as_they_are([=](auto words) {
        each_row(n, [=](u32 i) { return words.lower(words[i]); },
                 [=](u32 i, u32 set) {
                     lists[i] = set;
                     if (places != nullptr) {
                         places[i] = u32(entries[i] - entry_offsets[set]);
                     }
                 });
    });
}
