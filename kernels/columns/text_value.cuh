// Single text values: their bytes, their order, and their characters.
#pragma once

#include "columns/text_bytes.cuh"

// The result of a test of a value; UNKNOWN if the known bytes do not decide it.
enum Truth : u32 { NO = 0, YES = 1, UNKNOWN = 2 };

// Bytes of a value that a view stores beside its length: all bytes of a short value, or the first bytes of a longer
// one.
constexpr u32 INLINE_BYTES = 12;
constexpr u32 PREFIX_BYTES = 4;

// `length` bytes from byte `at` of `base` on, of which the first `known` can be read.
struct Value {
    const u32* base;
    u32 at, length, known;

    __device__ __forceinline__ u32 byte(u32 i) const { return reinterpret_cast<const u8*>(base)[at + i]; }
    __device__ __forceinline__ bool whole() const { return known == length; }
};

// Columns with offsets into bytes.
struct Bytes {
    const u32 *offsets, *bytes;

    __device__ __forceinline__ Value value(u32 i) const {
        const u32 start = offsets[i], length = offsets[i + 1] - start;
        return Value{bytes, start, length, length};
    }
};

// Columns of views, without their buffers.
struct Views {
    const u32* views;

    __device__ __forceinline__ Value value(u32 i) const {
        const u32* const view = views + 4 * (u64)i;
        const u32 length = view[0];
        return Value{view, 4, length, length > INLINE_BYTES ? PREFIX_BYTES : length};
    }
};

// Negative, 0 or positive if the first `count` bytes of `a` are less than, equal to or greater than those of `b`.
__device__ __forceinline__ int order_of_bytes(const Value& a, const Value& b, u32 count) {
    for (u32 i = 0; i < count; i += 16) {
        const u32 some = min(count - i, 16u);
        const u128 x = load_bytes(a.base, a.at + i, some), y = load_bytes(b.base, b.at + i, some);
        if (x == y) {
            continue;
        }
        const bool low = (u64)x != (u64)y;
        const u64 left = low ? (u64)x : (u64)(x >> 64), right = low ? (u64)y : (u64)(y >> 64);
        const u32 first = (__ffsll((i64)(left ^ right)) - 1) & ~7u;
        return (int)(left >> first & 0xFF) - (int)(right >> first & 0xFF);
    }
    return 0;
}

// Whether the order of two values is known; it is stored in `order` as above.
__device__ __forceinline__ bool compare(const Value& a, const Value& b, int* order) {
    const u32 shorter = min(a.length, b.length);
    const u32 known = min(shorter, min(a.known, b.known));
    *order = order_of_bytes(a, b, known);
    if (*order == 0) {
        *order = a.length < b.length ? -1 : a.length > b.length;
        return known == shorter;
    }
    return true;
}

// Whether the values are equal. Different lengths decide it without a look at the bytes.
__device__ __forceinline__ Truth equal(const Value& a, const Value& b) {
    int order = 0;
    if (a.length != b.length) {
        return NO;
    }
    if (!compare(a, b, &order)) {
        return UNKNOWN;
    }
    return order == 0 ? YES : NO;
}

// Whether a UTF-8 character begins with this byte, and the number of bytes of that character.
__device__ __forceinline__ bool begins(u32 byte) { return (byte & 0xC0) != 0x80; }
__device__ __forceinline__ u32 width_of(u32 byte) { return 1 + (byte >= 0xC0) + (byte >= 0xE0) + (byte >= 0xF0); }

constexpr u32 ALL_CHARACTERS = 0xFFFFFFFFu;

// Advances `*at` by `count` characters; false if the end is not known.
__device__ __forceinline__ bool walk(const Value& value, u32* at, u32 count) {
    // There are at most as many characters as bytes.
    if (count >= value.length - *at) {
        *at = value.length;
        return true;
    }
    for (; count > 0 && *at < value.length; count--) {
        if (*at >= value.known) {
            return false;
        }
        *at += width_of(value.byte(*at));
    }
    return true;
}

// Restricts `*value` to `take` characters after the first `skip`; false if they are not known.
__device__ __forceinline__ bool slice(Value* value, u32 skip, u32 take) {
    if (skip == 0 && take == ALL_CHARACTERS) {
        return true;
    }
    u32 start = 0;
    if (!walk(*value, &start, skip)) {
        return false;
    }
    u32 end = start;
    if (!walk(*value, &end, take)) {
        return false;
    }
    const u32 known = min(end, value->known);
    *value = Value{value->base, value->at + start, end - start, known > start ? known - start : 0};
    return true;
}
