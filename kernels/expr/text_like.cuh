// LIKE patterns as segments, which are the parts between `%`. The first segment begins the text and the last ends it.
// Those between are matched one after the other, each at its leftmost position, which leaves the most text for the
// following ones. A single segment is the whole text.
#pragma once

#include "columns/text_value.cuh"

// Any one character in a segment. No byte of UTF-8 has this value.
constexpr u32 ANY_CHARACTER = 0xFF;

// Constants one after the other: values, or the segments of a pattern.
struct Constants {
    const u32 *offsets, *bytes;
    u32 count;

    __device__ __forceinline__ Value at(u32 k) const {
        const u32 start = offsets[k], length = offsets[k + 1] - start;
        return Value{bytes, start, length, length};
    }
};

// Whether `segment` begins at byte `*at`, which advances to the byte after it.
__device__ __forceinline__ Truth segment_at(const Value& value, const Value& segment, u32* at) {
    u32 here = *at;
    for (u32 i = 0; i < segment.length; i++) {
        if (here >= value.length) {
            return NO;
        }
        if (here >= value.known) {
            return UNKNOWN;
        }
        const u32 wanted = segment.byte(i), found = value.byte(here);
        if (wanted != ANY_CHARACTER && wanted != found) {
            return NO;
        }
        here += wanted == ANY_CHARACTER ? width_of(found) : 1;
    }
    *at = here;
    return YES;
}

// Whether `value`, whose bytes are all known, ends with `segment`, which begins at byte `least` or later.
__device__ __forceinline__ bool ends_with(const Value& value, const Value& segment, u32 least) {
    u32 at = value.length;
    for (u32 i = segment.length; i > 0; i--) {
        if (at <= least) {
            return false;
        }
        at--;
        const u32 wanted = segment.byte(i - 1);
        if (wanted != ANY_CHARACTER) {
            if (value.byte(at) != wanted) {
                return false;
            }
            continue;
        }
        while (at > least && !begins(value.byte(at))) {
            at--;
        }
    }
    return true;
}

__device__ __forceinline__ Truth is_like(const Value& value, const Constants& segments) {
    u32 at = 0;
    const Truth first = segment_at(value, segments.at(0), &at);
    if (first != YES) {
        return first;
    }
    if (segments.count == 1) {
        return at == value.length ? YES : NO;
    }
    const Value last = segments.at(segments.count - 1);
    if (segments.count == 2 && last.length == 0) {
        return YES;
    }
    if (!value.whole()) {
        return UNKNOWN;
    }
    for (u32 k = 1; k + 1 < segments.count; k++) {
        const Value segment = segments.at(k);
        Truth found = NO;
        for (; at < value.length; at++) {
            if (begins(value.byte(at)) && (found = segment_at(value, segment, &at)) == YES) {
                break;
            }
        }
        if (found != YES) {
            return NO;
        }
    }
    return ends_with(value, last, at) ? YES : NO;
}
