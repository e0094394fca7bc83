// States and truth values of a lane's pairs as masks, and logic on them.
#pragma once

#include "theta/program/program_pairs.cuh"

// For each pair of a lane: true, NULL, or undecided, which the host decides. At most one of these is set; otherwise the
// pair has a value, or is false.
struct Flags {
    u32 truth, null, fault;
};

// IS [NOT] DISTINCT FROM; `truth` is the result for pairs with both values.
__device__ __forceinline__ Flags distinct(Code code, u32 truth, const Flags& a, const Flags& b) {
    const u32 fault = a.fault | b.fault;
    const u32 of_nulls = code == Code::DISTINCT ? a.null ^ b.null : a.null & b.null;
    return {(of_nulls | (truth & ~(a.null | b.null))) & ~fault & ALL_PAIRS, 0, fault};
}

// Logic on flags alone, including comparisons of truth values.
__device__ __forceinline__ Flags logic(Code code, const Flags& a, const Flags& b) {
    const u32 fault = a.fault | b.fault;
    const u32 value = ~(a.null | b.null | fault) & ALL_PAIRS;
    u32 truth = 0;
    switch (code) {
        case Code::AND: {
            // The left operand alone may decide.
            const u32 asked = a.truth | a.null;
            const u32 undecided = a.fault | (b.fault & asked);
            truth = a.truth & b.truth;
            return {truth, asked & (b.truth | b.null) & ~truth, undecided};
        }
        case Code::OR: {
            const u32 undecided = a.fault | (b.fault & ~a.truth);
            truth = (a.truth | b.truth) & ~undecided;
            return {truth, (a.null | b.null) & ~truth & ~undecided, undecided};
        }
        case Code::IS_NULL: return {a.null, 0, a.fault};
        case Code::IS_NOT_NULL: return {~(a.null | a.fault) & ALL_PAIRS, 0, a.fault};
        case Code::NOT: truth = ~a.truth; break;
        case Code::LT: truth = ~a.truth & b.truth; break;
        case Code::LT_EQ: truth = ~a.truth | b.truth; break;
        case Code::GT: truth = a.truth & ~b.truth; break;
        case Code::GT_EQ: truth = a.truth | ~b.truth; break;
        case Code::EQ: truth = ~(a.truth ^ b.truth); break;
        case Code::DISTINCT: return distinct(code, a.truth ^ b.truth, a, b);
        case Code::NOT_DISTINCT: return distinct(code, ~(a.truth ^ b.truth), a, b);
        default: truth = a.truth ^ b.truth; break;
    }
    return {truth & value, (a.null | b.null) & ~fault, fault};
}

// The flags of `a` where the condition is true, otherwise those of `b`.
__device__ __forceinline__ Flags choose(const Flags& condition, const Flags& a, const Flags& b) {
    const u32 yes = condition.truth;
    const u32 decided = ~condition.fault;
    return {((a.truth & yes) | (b.truth & ~yes)) & decided, ((a.null & yes) | (b.null & ~yes)) & decided,
            (a.fault & yes) | (b.fault & ~yes) | condition.fault};
}
