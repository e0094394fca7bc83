// Words of two numbers, by which sets are sorted ([B] 4.1): upper << shift | lower. They have 32 bits if both numbers
// fit, which halves the bytes of a sort pass, and 64 otherwise.
#pragma once

#include "sets/set.cuh"

// Words of one width. Lower numbers are less than the one whose `shift` bits are all set, which stands for NONE.
template <typename Word>
struct Packed {
    Word* words;
    u32 shift;

    __device__ __forceinline__ Word& operator[](u32 i) const { return words[i]; }
    __device__ __forceinline__ Word make(u32 upper, u32 lower) const { return Word(upper) << shift | (lower & none()); }
    __device__ __forceinline__ u32 upper(Word word) const { return u32(word >> shift); }
    __device__ __forceinline__ u32 lower(Word word) const {
        const u32 lower = u32(word) & none();
        return lower == none() ? NONE : lower;
    }

private:
    __device__ __forceinline__ u32 none() const { return u32((u64(1) << shift) - 1); }
};

// Words as kernel arguments. `shift` is at most 32, and less in words of 32 bits.
struct Words {
    void* words;
    u32 shift;
    u32 wide;

    // Calls `use(packed)` with the type of the words' width. `use` contains whole loops, so that no access has to test
    // the width.
    template <typename Use>
    __device__ __forceinline__ void as_they_are(Use use) const {
        if (wide != 0) {
            use(Packed<u64>{static_cast<u64*>(words), shift});
        } else {
            use(Packed<u32>{static_cast<u32*>(words), shift});
        }
    }
};
