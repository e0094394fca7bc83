// Runs a tape for the 16 pairs of each lane of a warp.
//
// A step is decoded once for 16 pairs, which lie in registers of the lane by a number known when this is compiled. Words
// are what costs: states are masks of a bit a pair, and so are truth values, so that NULLs and logic cost next to nothing.
#pragma once

#include "program_bodies.cuh"
#include "program_flags.cuh"

// What a warp keeps of a register: a word for each pair and lane, and the flags of each lane.
constexpr u32 REGISTER_BYTES = WARP * PAIRS * 8 + WARP * 4;

// A lane's registers.
struct Registers {
    u8* of_warp;

    __device__ __forceinline__ ulonglong2* words(u32 index) const {
        return reinterpret_cast<ulonglong2*>(of_warp + index * REGISTER_BYTES) + threadIdx.x % WARP;
    }

    __device__ __forceinline__ u32& flags(u32 index) const {
        return reinterpret_cast<u32*>(of_warp + index * REGISTER_BYTES + WARP * PAIRS * 8)[threadIdx.x % WARP];
    }

    // Flags in two masks: the upper one of pairs without a value, the lower one of those that are true or at fault.
    __device__ __forceinline__ void store_flags(u32 index, const Flags& is) const {
        flags(index) = is.truth | is.fault | (is.null | is.fault) << PAIRS;
    }

    __device__ __forceinline__ Flags load_flags(u32 index) const {
        const u32 low = flags(index) & ALL_PAIRS;
        const u32 high = flags(index) >> PAIRS;
        return {low & ~high, high & ~low, low & high};
    }

    __device__ __forceinline__ void store_words(u32 index, const u64 (&from)[PAIRS]) const {
        ulonglong2* const to = words(index);
#pragma unroll
        for (u32 p = 0; p < PAIRS; p += 2) {
            to[p / 2 * WARP] = make_ulonglong2(from[p], from[p + 1]);
        }
    }

    __device__ __forceinline__ void load_words(u32 index, u64 (&to)[PAIRS]) const {
        const ulonglong2* const from = words(index);
#pragma unroll
        for (u32 p = 0; p < PAIRS; p += 2) {
            const ulonglong2 two = from[p / 2 * WARP];
            to[p] = two.x;
            to[p + 1] = two.y;
        }
    }
};

// The flags of an operand, and where WORDS and `wanted` are set its words, to `words`. `last` and `last_flags`: the last
// step's result.
template <bool WORDS, typename Pairs>
__device__ __forceinline__ Flags fetch(const Program& program, const Tape& tape, const Registers& registers, const Pairs& pairs,
                                       Operand operand, bool wanted, const u64 (&last)[PAIRS], const Flags& last_flags,
                                       u64 (&words)[PAIRS]) {
    Flags is = {0, 0, 0};
    switch (operand.source) {
        case Source::LAST:
            if (WORDS) {
#pragma unroll
                for (u32 p = 0; p < PAIRS; p++) {
                    words[p] = last[p];
                }
            }
            return last_flags;
        case Source::REGISTER:
            if (WORDS && wanted) {
                registers.load_words(operand.index, words);
            }
            return registers.load_flags(operand.index);
        case Source::SORTED: {
            const ProgramColumn& column = program.sorted[operand.index];
            if (column.valid != nullptr) {
                is.null = ~pairs.sorted_bits(column.valid) & ALL_PAIRS;
            }
            if (Kind(column.kind) == Kind::BOOL) {
                is.truth = pairs.sorted_bits(static_cast<const u32*>(column.values)) & ~is.null;
            } else if (WORDS && wanted) {
                pairs.sorted_words(column, words);
            }
            return is;
        }
        case Source::SEARCHING: {
            const ProgramColumn& column = program.searching[operand.index];
            if (column.valid != nullptr) {
                is.null = ~pairs.searching_bits(column.valid) & ALL_PAIRS;
            }
            if (Kind(column.kind) == Kind::BOOL) {
                is.truth = pairs.searching_bits(static_cast<const u32*>(column.values)) & ~is.null;
            } else if (WORDS && wanted) {
                pairs.searching_words(column, words);
            }
            return is;
        }
        case Source::CONSTANT: {
            const Instruction& in = tape.instructions[operand.index];
            is.null = in.b != 0 ? ALL_PAIRS : 0;
            is.truth = in.b == 0 && in.kind == Kind::BOOL && in.constant != 0 ? ALL_PAIRS : 0;
            if (WORDS && wanted) {
#pragma unroll
                for (u32 p = 0; p < PAIRS; p++) {
                    words[p] = in.constant;
                }
            }
            return is;
        }
        default: return is;
    }
}

// The word that all pairs of a lane have in common.
template <typename Pairs>
__device__ __forceinline__ u64 fetch_scalar(const Program& program, const Tape& tape, const Pairs& pairs, Operand operand) {
    if constexpr (Pairs::ONE_ROW) {
        if (operand.source == Source::SEARCHING) {
            return pairs.searching_word(program.searching[operand.index]);
        }
    }
    return tape.instructions[operand.index].constant;
}

// What became of each pair: the flags of the last step.
template <typename Pairs>
__device__ __forceinline__ Flags run(const Program& program, const Tape& tape, const Registers& registers, const Pairs& pairs) {
    u64 a[PAIRS], b[PAIRS];
    Flags is = {0, 0, 0};
#pragma unroll 1
    for (u32 s = 0; s < tape.count; s++) {
        const Step step = tape.steps[s];
        const bool words = step.words;
        Flags condition = {0, 0, 0}, of_b = {0, 0, 0};
        if (step.c.source != Source::NONE) {
            condition = fetch<false>(program, tape, registers, pairs, step.c, false, a, is, b);
        }
        // One word for all pairs of the lane.
        const bool scalar = words && (step.b.source == Source::CONSTANT || (Pairs::ONE_ROW && step.b.source == Source::SEARCHING));
        u64 word = 0;
        if (step.b.source != Source::NONE) {
            of_b = fetch<true>(program, tape, registers, pairs, step.b, words && !scalar, a, is, b);
        }
        if (step.a.source != Source::LAST) {
            is = fetch<true>(program, tape, registers, pairs, step.a, words, a, is, a);
        }
        // Of pairs whose operands have values.
        u32 truth = 0, fault = 0;
        bool done;
        if (scalar) {
            word = fetch_scalar(program, tape, pairs, step.b);
            done = run_common(step, a, [&](u32) { return word; }, truth);
            if (!done) {
#pragma unroll
                for (u32 p = 0; p < PAIRS; p++) {
                    b[p] = word;
                }
            }
        } else {
            done = run_common(step, a, [&](u32 p) { return b[p]; }, truth);
        }
        bool by_keys = false;
        switch (done ? Body::MOVE : step.body) {
            case Body::MOVE: break;
            case Body::ADD_F64: case Body::SUB_F64: case Body::MUL_F64: case Body::DIV_F64:
                fault = any_floats<Double>(step.code, a, b);
                break;
            case Body::ARITHMETIC_F32: fault = any_floats<Single>(step.code, a, b); break;
            case Body::COMPARE_F64: case Body::COMPARE_KEYS: by_keys = true; break;
            case Body::CHOOSE:
                if (words) {
#pragma unroll
                    for (u32 p = 0; p < PAIRS; p++) {
                        a[p] = (condition.truth >> p & 1) != 0 ? a[p] : b[p];
                    }
                }
                break;
            case Body::SIGNED_TO_F64:
#pragma unroll
                for (u32 p = 0; p < PAIRS; p++) {
                    a[p] = Double::word(__ll2double_rn(i64(a[p])));
                }
                break;
            case Body::OTHER:
                if (!words) {
#pragma unroll
                    for (u32 p = 0; p < PAIRS; p++) {
                        a[p] = is.truth >> p & 1;
                    }
                }
                fault = in_turn<1>(a, b, [&] {
                    bool undecided = false;
                    a[0] = other(step, a[0], b[0], undecided);
                    return u32(undecided);
                });
                truth = step.kind == Kind::BOOL ? each_bit([&](u32 p) { return a[p] != 0; }) : 0;
                break;
            default: break;
        }
        if (by_keys) {
            if (is_float(step.kind)) {
                const bool is_double = step.kind == Kind::F64;
#pragma unroll
                for (u32 p = 0; p < PAIRS; p++) {
                    a[p] = is_double ? Double::key(a[p]) : Single::key(a[p]);
                    b[p] = is_double ? Double::key(b[p]) : Single::key(b[p]);
                }
            }
            truth = compare(step.order, a, [&](u32 p) { return b[p]; }, [](u64 key) { return key; });
        }
        truth ^= step.inverted ? ALL_PAIRS : 0;
        if (step.body == Body::MOVE) {
            // The flags are the operand's.
        } else if (step.body == Body::LOGIC) {
            is = logic(step.code, is, of_b);
        } else if (step.body == Body::CHOOSE) {
            is = choose(condition, is, of_b);
        } else if (step.code == Code::DISTINCT || step.code == Code::NOT_DISTINCT) {
            is = distinct(step.code, truth, is, of_b);
        } else {
            const u32 null = (is.null | of_b.null) & ~(is.fault | of_b.fault);
            fault = is.fault | of_b.fault | (fault & ~null);
            is = {truth & ~(null | fault), null, fault};
        }
        if (step.store) {
            registers.store_flags(step.out, is);
            if (step.makes_words) {
                registers.store_words(step.out, a);
            }
        }
    }
    return is;
}
