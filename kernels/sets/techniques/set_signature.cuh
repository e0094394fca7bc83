// Signatures: bits that stand for the elements of a set, several elements for one bit. They can only reject.
#pragma once

#include "sets/set.cuh"

// The bit of an element, one of 2^log_bits: the high bits of a product, as neighbouring numbers occur together.
__device__ __forceinline__ u32 signature_bit(u32 element, u32 log_bits) {
    return (element * 0x9E3779B1u) >> (32 - log_bits);
}

// The signature of one set in 64-bit words, aligned to 16 bytes if there are two or more.
template <u32 WORDS>
struct Signature {
    u64 words[WORDS];

    __device__ __forceinline__ Signature(const u64* signatures, u32 set) {
        const u64* const mine = signatures + u64(set) * WORDS;
        if (WORDS == 1) {
            words[0] = mine[0];
        } else {
#pragma unroll
            for (u32 w = 0; w < WORDS; w += 2) {
                const ulonglong2 two = *reinterpret_cast<const ulonglong2*>(mine + w);
                words[w] = two.x;
                words[w + 1] = two.y;
            }
        }
    }

    // How many bits the other lacks: each stands for at least one element that the other set lacks.
    __device__ __forceinline__ u32 bits_without(const Signature& other) const {
        u32 bits = 0;
#pragma unroll
        for (u32 w = 0; w < WORDS; w++) {
            bits += __popcll(words[w] & ~other.words[w]);
        }
        return bits;
    }

    __device__ __forceinline__ bool lies_in(const Signature& other) const {
        u64 outside = 0;
#pragma unroll
        for (u32 w = 0; w < WORDS; w++) {
            outside |= words[w] & ~other.words[w];
        }
        return outside == 0;
    }
};
