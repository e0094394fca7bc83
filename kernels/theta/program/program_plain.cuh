// Plain programs: arithmetic and a comparison of 64-bit and 32-bit columns, with minimal decoding.
//
// All their operations propagate NULLs, and none can fail, so a pair is NULL if any value that it reads is.
#pragma once

#include "theta/program/program_machine.cuh"

// The source of a plain step: a constant word; a column of the probe row, or of 16 contiguous build positions, with
// 64-bit or with 32-bit values; or a register.
enum class Plain : u8 { WORD, ROW_WIDE, ROW_NARROW, BUILD_WIDE, BUILD_NARROW, MEMORY };

// `address`: of a column's values; a word; or a register's number. Body MOVE loads the operand, any other body combines
// the last result with it. `sign_mask`: the bits above 32-bit values. `is`: bits of `Is`, where NARROW means 32 signed
// bits, and FLAGGED that some step reads a column with NULLs.
struct alignas(16) PlainStep {
    u64 address;
    const u32* valid;
    u32 sign_mask;
    Plain source;
    Body body;
    Order order;
    u8 out;
    u16 is;
};

constexpr u32 MAX_PLAIN = 16;

// `count`: 0 for a program that is not plain.
struct PlainTape {
    PlainStep steps[MAX_PLAIN];
    u32 count;
};

// Sets the step's source for an operand, with `valid`, `sign_mask` and `address`; false if a plain step cannot read it.
__device__ __forceinline__ bool plain_source(const Program& program, const Tape& tape, Operand operand, PlainStep& step) {
    if (operand.source == Source::REGISTER) {
        step.source = Plain::MEMORY;
        step.address = operand.index;
        return true;
    }
    if (operand.source == Source::CONSTANT) {
        step.source = Plain::WORD;
        step.address = tape.instructions[operand.index].constant;
        return tape.instructions[operand.index].b == 0;
    }
    if (operand.source != Source::BUILD && operand.source != Source::PROBE) {
        return false;
    }
    const ProgramColumn& column = program.columns[operand.index];
    const bool wide = width_of(Kind(column.kind)) == 64;
    const bool of_build = operand.source == Source::BUILD;
    step.source = of_build ? (wide ? Plain::BUILD_WIDE : Plain::BUILD_NARROW) : wide ? Plain::ROW_WIDE : Plain::ROW_NARROW;
    step.address = reinterpret_cast<u64>(column.values);
    step.valid = column.valid;
    step.sign_mask = is_signed(Kind(column.kind)) ? ~0u : 0;
    return wide || width_of(Kind(column.kind)) == 32;
}

// Translates the tape into the plain tape. All threads of the block call it; the first thread does the work.
__device__ __forceinline__ void translate_plain(const Program& program, const Tape& tape, PlainTape& plain) {
    if (threadIdx.x == 0) {
        u32 count = 0;
        bool fits = true, nullable = false;
        for (u32 s = 0; fits; s++) {
            const Step& step = tape.steps[s];
            const bool last = (step.is & LAST_STEP) != 0;
            // Every NULL must reach the result: a later step has to read this one's.
            const Step& next = tape.steps[last ? s : s + 1];
            const bool read = last || (step.is & STORED) != 0 || next.a.source == Source::LAST;
            const bool common = Body::ADD_INT <= step.body && step.body < Body::CHOOSE && step.code != Code::DISTINCT &&
                                step.code != Code::NOT_DISTINCT && (last == compares_words(step.body));
            const bool narrow = (step.is & NARROW) != 0;
            fits = read && common && (!narrow || step.kind == Kind::I32) && count + 2 <= MAX_PLAIN;
            if (fits && step.a.source != Source::LAST) {
                PlainStep& load = plain.steps[count++];
                load = {};
                load.body = Body::MOVE;
                // A value of the probe row alone only as the second operand.
                fits = plain_source(program, tape, step.a, load) && load.source > Plain::ROW_NARROW;
                nullable |= load.valid != nullptr;
            }
            if (fits) {
                PlainStep& to = plain.steps[count++];
                to = {};
                to.body = step.body;
                to.order = step.order;
                to.out = step.out;
                to.is = step.is & (NARROW | INVERTED | STORED | LAST_STEP);
                fits = plain_source(program, tape, step.b, to);
                nullable |= to.valid != nullptr;
                to.is |= last && nullable ? FLAGGED : 0;
            }
            if (last) {
                break;
            }
        }
        plain.count = fits ? count : 0;
    }
    __syncthreads();
}

// The words that a step reads for each of 16 pairs, at contiguous build positions from `base` on.
__device__ __forceinline__ void plain_words(const PlainStep& step, const Registers& registers, u32 base, u64 (&words)[PAIRS]) {
    // Values that depend on the position should not be kept from step to step.
    const u32 from = opaque(base);
    if (step.source == Plain::BUILD_WIDE) {
        const ulonglong2* const vectors = opaque(reinterpret_cast<const ulonglong2*>(step.address) + from / 2);
#pragma unroll
        for (u32 p = 0; p < PAIRS; p += 2) {
            const ulonglong2 two = __ldg(vectors + p / 2);
            words[p] = two.x;
            words[p + 1] = two.y;
        }
    } else if (step.source == Plain::BUILD_NARROW) {
        const uint4* const vectors = opaque(reinterpret_cast<const uint4*>(step.address) + from / 4);
        const auto extended = [&](u32 low) { return u64(u32(i32(low) >> 31) & step.sign_mask) << 32 | low; };
#pragma unroll
        for (u32 p = 0; p < PAIRS; p += 4) {
            const uint4 four = __ldg(vectors + p / 4);
            words[p] = extended(four.x);
            words[p + 1] = extended(four.y);
            words[p + 2] = extended(four.z);
            words[p + 3] = extended(four.w);
        }
    } else {
        registers.load_words(opaque(u32(step.address)), words);
    }
}

// The word that a step reads for all pairs.
__device__ __forceinline__ u64 plain_word(const PlainStep& step, u32 probe) {
    if (step.source == Plain::ROW_WIDE) {
        return __ldg(reinterpret_cast<const u64*>(step.address) + probe);
    }
    if (step.source == Plain::ROW_NARROW) {
        const u32 low = __ldg(reinterpret_cast<const u32*>(step.address) + probe);
        return u64(u32(i32(low) >> 31) & step.sign_mask) << 32 | low;
    }
    return step.address;
}

// The pairs that are NULL.
__device__ __forceinline__ u32 plain_nulls(const PlainTape& plain, u32 probe, u32 base) {
    u32 null = 0;
#pragma unroll 1
    for (u32 s = 0; s < plain.count; s++) {
        const PlainStep& step = plain.steps[s];
        if (step.valid != nullptr) {
            const bool of_row = step.source <= Plain::ROW_NARROW;
            const u32 from = of_row ? probe : base;
            const u32 valid = __ldg(step.valid + from / 32) >> from % 32;
            null |= of_row ? (valid & 1) - 1 : ~valid;
        }
    }
    return null & ALL_PAIRS;
}

// The pairs of probe position `probe` and 16 contiguous build positions from `base` on that match; false if a NaN
// needs exact handling. Bound: about 30 instructions to decode a step for 16 pairs.
__device__ __forceinline__ bool run_plain(const PlainTape& plain, const Registers& registers, u32 probe, u32 base, u32& passing) {
    u64 a[PAIRS], b[PAIRS];
#pragma unroll 1
    for (const PlainStep* at = plain.steps;; at++) {
        const PlainStep step = *at;
        const bool of_row = step.source <= Plain::ROW_NARROW;
        if (step.body == Body::MOVE) {
            plain_words(step, registers, base, a);
            continue;
        }
        const u64 word = plain_word(step, probe);
        if (!of_row) {
            plain_words(step, registers, base, b);
        }
        if ((step.is & LAST_STEP) != 0) {
            bool nan = false;
            const u32 truth = of_row ? run_comparison(step.body, step.order, a, [&](u32) { return word; }, nan)
                                     : run_comparison(step.body, step.order, a, [&](u32 p) { return b[p]; }, nan);
            passing = truth ^ ((step.is & INVERTED) != 0 ? ALL_PAIRS : 0);
            if ((step.is & FLAGGED) != 0) {
                passing &= ~plain_nulls(plain, probe, base);
            }
            return !nan;
        }
        if (of_row) {
            run_arithmetic(step.body, a, [&](u32) { return word; });
        } else {
            run_arithmetic(step.body, a, [&](u32 p) { return b[p]; });
        }
        if ((step.is & NARROW) != 0) {
#pragma unroll
            for (u32 p = 0; p < PAIRS; p++) {
                a[p] = u64(i64(i32(u32(a[p]))));
            }
        }
        if ((step.is & STORED) != 0) {
            registers.store_words(step.out, a);
        }
    }
}
