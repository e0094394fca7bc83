// The interpreter: runs a tape for the 16 pairs of each lane of a warp.
//
// A step is decoded once for 16 pairs, whose words are in registers of the lane with indices known at compile time.
// Words dominate the cost: states and truth values are masks of a bit a pair, so that NULLs and logic cost next to
// nothing.
#pragma once

#include "theta/program/program_bodies.cuh"
#include "theta/program/program_flags.cuh"

// The storage of a program register for a warp: a word for each pair and lane, and the flags of each lane.
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

    // Flags as two masks: the upper one of pairs without a value, the lower one of pairs that are true or undecided.
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

// The flags of an operand that is not the last step's result.
template <typename Pairs>
__device__ __forceinline__ Flags fetch_flags(const Program& program, const Tape& tape, const Registers& registers, const Pairs& pairs,
                                             Operand operand) {
    Flags is = {0, 0, 0};
    if (operand.source == Source::REGISTER) {
        return registers.load_flags(operand.index);
    }
    if (operand.source == Source::CONSTANT) {
        const Instruction& in = tape.instructions[operand.index];
        is.null = in.b != 0 ? ALL_PAIRS : 0;
        is.truth = in.b == 0 && in.kind == Kind::BOOL && in.constant != 0 ? ALL_PAIRS : 0;
        return is;
    }
    const ProgramColumn& column = program.columns[operand.index];
    const auto bits = [&](const u32* bitmap) {
        return operand.source == Source::BUILD ? pairs.build_bits(bitmap) : pairs.probe_bits(bitmap);
    };
    if (column.valid != nullptr) {
        is.null = ~bits(column.valid) & ALL_PAIRS;
    }
    if (Kind(column.kind) == Kind::BOOL) {
        is.truth = bits(static_cast<const u32*>(column.values)) & ~is.null;
    }
    return is;
}

// The word that all pairs of a lane share.
template <typename Pairs>
__device__ __forceinline__ u64 fetch_scalar(const Program& program, const Tape& tape, const Pairs& pairs, Operand operand, bool wide) {
    if constexpr (Pairs::ONE_ROW) {
        if (operand.source == Source::PROBE) {
            return pairs.probe_word(program.columns[operand.index], wide);
        }
    }
    return tape.instructions[operand.index].constant;
}

__device__ __forceinline__ void spread(u64 word, u64 (&words)[PAIRS]) {
#pragma unroll
    for (u32 p = 0; p < PAIRS; p++) {
        words[p] = word;
    }
}

__device__ __forceinline__ void copy(const u64 (&from)[PAIRS], u64 (&to)[PAIRS]) {
#pragma unroll
    for (u32 p = 0; p < PAIRS; p++) {
        to[p] = from[p];
    }
}

// The words of an operand. `last`: those of the last step's result.
template <typename Pairs>
__device__ __forceinline__ void fetch_words(const Program& program, const Tape& tape, const Registers& registers, const Pairs& pairs,
                                            Operand operand, const u64 (&last)[PAIRS], u64 (&words)[PAIRS]) {
    switch (operand.source) {
        case Source::LAST: copy(last, words); return;
        case Source::REGISTER: registers.load_words(operand.index, words); return;
        case Source::BUILD: pairs.build_words(program.columns[operand.index], words); return;
        case Source::PROBE:
            if constexpr (!Pairs::ONE_ROW) {
                pairs.probe_words(program.columns[operand.index], words);
                return;
            }
        default: spread(fetch_scalar(program, tape, pairs, operand, false), words);
    }
}

// Loads the words of a step's operands into `a`, which holds those of the last step's result, and `b`.
template <typename Pairs>
__device__ __forceinline__ void fetch_operands(const Program& program, const Tape& tape, const Registers& registers,
                                               const Pairs& pairs, const Step& step, u64 (&a)[PAIRS], u64 (&b)[PAIRS]) {
    const u32 in_line = pairs.in_line() ? step.is / WIDE_A : 0;
    // All loads go through `b`, so that the code exists once.
    for (u32 left = step.is & ~in_line & (FETCHED_A | FETCHED_B); left != 0; left &= left - 1) {
        const bool first = (left & FETCHED_A) != 0;
        fetch_words(program, tape, registers, pairs, first ? step.a : step.b, a, b);
        if (first) {
            copy(b, a);
        }
    }
    if ((in_line & FETCHED_A) != 0) {
        pairs.wide_words(program.columns[step.a.index], a);
    }
    if ((in_line & FETCHED_B) != 0) {
        pairs.wide_words(program.columns[step.b.index], b);
    }
}

// Combines the operands' flags into those of the step's result, in `is`, which holds those of the last step's result.
// Returns the pairs whose truth and faults the body decides. `yes`: the pairs whose condition is true, or whose
// operand, a truth value, is true.
template <typename Pairs>
__device__ __forceinline__ u32 combine_flags(const Program& program, const Tape& tape, const Registers& registers, const Pairs& pairs,
                                             const Step& step, Flags& is, u32& yes) {
    Flags condition = {0, 0, 0}, b = {0, 0, 0};
    if (step.c.source != Source::NONE) {
        condition = step.c.source == Source::LAST ? is : fetch_flags(program, tape, registers, pairs, step.c);
    }
    if (step.b.source != Source::NONE) {
        b = step.b.source == Source::LAST ? is : fetch_flags(program, tape, registers, pairs, step.b);
    }
    const Flags a = step.a.source == Source::LAST ? is : fetch_flags(program, tape, registers, pairs, step.a);
    switch (step.body) {
        case Body::MOVE: is = a; return 0;
        case Body::LOGIC: is = logic(step.code, a, b); return 0;
        case Body::CHOOSE:
            yes = condition.truth;
            is = choose(condition, a, b);
            return 0;
        default: break;
    }
    yes = a.truth;
    const u32 fault = a.fault | b.fault;
    const u32 null = (a.null | b.null) & ~fault;
    if (step.code == Code::DISTINCT || step.code == Code::NOT_DISTINCT) {
        is = distinct(step.code, 0, a, b);
    } else {
        is = {0, null, fault};
    }
    return ~(null | fault) & ALL_PAIRS;
}

// The bodies that are not common; returns the pairs that the host must decide. `yes` as in combine_flags.
__device__ __forceinline__ u32 run_other(const Step& step, Body body, u64 (&a)[PAIRS], u64 (&b)[PAIRS], u32 yes, u32& truth) {
    const bool words = (step.is & WORDS) != 0;
    switch (body) {
        case Body::CHOOSE:
#pragma unroll
            for (u32 p = 0; p < PAIRS; p++) {
                a[p] = (yes >> p & 1) != 0 ? a[p] : b[p];
            }
            return 0;
        case Body::SIGNED_TO_F64:
#pragma unroll
            for (u32 p = 0; p < PAIRS; p++) {
                a[p] = Double::word(__ll2double_rn(i64(a[p])));
            }
            return 0;
        case Body::CAREFUL_F64: return any_floats<Double>(step.code, a, b);
        case Body::CAREFUL_F32: return any_floats<Single>(step.code, a, b);
        case Body::COMPARE_KEYS:
            if (is_float(step.kind)) {
                const bool is_double = step.kind == Kind::F64;
#pragma unroll
                for (u32 p = 0; p < PAIRS; p++) {
                    a[p] = is_double ? Double::key(a[p]) : Single::key(a[p]);
                    b[p] = is_double ? Double::key(b[p]) : Single::key(b[p]);
                }
            }
            truth = compare(step.order, a, [&](u32 p) { return b[p]; }, [](u64 key) { return key; });
            return 0;
        default: break;
    }
    if (!words) {
#pragma unroll
        for (u32 p = 0; p < PAIRS; p++) {
            a[p] = yes >> p & 1;
        }
    }
    const u32 fault = in_turn<1>(a, b, [&] {
        bool undecided = false;
        a[0] = other(step, a[0], b[0], undecided);
        return u32(undecided);
    });
    truth = step.kind == Kind::BOOL ? each_bit([&](u32 p) { return a[p] != 0; }) : 0;
    return fault;
}

// The result of each pair: the flags of the last step.
//
// NaNs are rare, and their exact handling is expensive: a lane runs its pairs as if there were none, and repeats them
// with exact handling if it reads one.
template <typename Pairs>
__device__ __forceinline__ Flags run(const Program& program, const Tape& tape, const Registers& registers, const Pairs& pairs) {
    u64 a[PAIRS], b[PAIRS];
    Flags is = {0, 0, 0};
    u32 careful = 0;
#pragma unroll 1
    for (const Step* at = tape.steps;;) {
        const Step step = *at;
        const Body body = careful != 0 ? step.careful : step.body;
        const bool flagged = ((step.is | careful) & FLAGGED) != 0;
        const u64 word = (step.is & SCALAR) != 0 ? fetch_scalar(program, tape, pairs, step.b, (step.is & WIDE_SCALAR) != 0) : 0;
        fetch_operands(program, tape, registers, pairs, step, a, b);
        // The result's flags as far as the operands decide them, the pairs for which the body's truth and faults count,
        // and the condition of CHOOSE.
        u32 counted = ALL_PAIRS, yes = 0;
        if (flagged) {
            counted = combine_flags(program, tape, registers, pairs, step, is, yes);
        } else {
            is = {0, 0, 0};
        }
        u32 truth = 0, fault = 0;
        bool nan = false;
        if (body >= Body::CHOOSE) {
            if ((step.is & SCALAR) != 0) {
                spread(word, b);
            }
            fault = run_other(step, body, a, b, yes, truth);
            nan = fault != 0 && is_float(step.kind);
        } else if ((step.is & SCALAR) != 0) {
            truth = run_common(body, step.order, a, [&](u32) { return word; }, nan);
        } else {
            truth = run_common(body, step.order, a, [&](u32 p) { return b[p]; }, nan);
        }
        if (nan && careful == 0) {
            careful = FLAGGED;
            at = tape.steps;
            continue;
        }
        if ((step.is & NARROW) != 0) {
            const Extension extension(step.kind);
#pragma unroll
            for (u32 p = 0; p < PAIRS; p++) {
                a[p] = extension(u32(a[p]));
            }
        }
        truth ^= (step.is & INVERTED) != 0 ? ALL_PAIRS : 0;
        fault &= counted;
        is.fault |= fault;
        is.truth |= truth & counted & ~fault;
        if ((step.is & STORED) != 0) {
            registers.store_flags(step.out, is);
            if ((step.is & MAKES_WORDS) != 0) {
                registers.store_words(step.out, a);
            }
        }
        if ((step.is & LAST_STEP) != 0) {
            return is;
        }
        at++;
    }
}
