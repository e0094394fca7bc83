// A pair program, over both sides of a candidate pair, as the host encodes it.
#pragma once

#include "shared/tile.cuh"

constexpr u32 MAX_COLUMNS = 8;
constexpr u32 MAX_INSTRUCTIONS = 64;

enum class Kind : u8 { I8, I16, I32, I64, U8, U16, U32, U64, F32, F64, BOOL };

enum class Code : u8 {
    LOAD_BUILD, LOAD_PROBE, CONSTANT,
    ADD, SUB, MUL, DIV, REM, NEG,
    EQ, NOT_EQ, LT, LT_EQ, GT, GT_EQ, DISTINCT, NOT_DISTINCT,
    AND, OR, NOT, IS_NULL, IS_NOT_NULL, SELECT, CAST,
};

// Values of one column of one side by position; those of BOOL are a bitmap.
struct ProgramColumn {
    const void* values;
    const u32* valid;
    u32 kind;
    u32 unused;
};

// One instruction: `out`, `a`, `b`, `c` are registers. `column` is that of a load, or the source kind of a CAST. A
// CONSTANT is NULL if `b` is not 0.
struct Instruction {
    Code code;
    Kind kind;
    u8 out, a, b, c;
    u16 column;
    u64 constant;
};

// `columns`: of the build side, then of the probe side. `registers`: the number of registers that steps may store to,
// from 0 on. `build_len` and `probe_len` are the lengths of the columns, at least 1.
struct Program {
    ProgramColumn columns[2 * MAX_COLUMNS];
    Instruction instructions[MAX_INSTRUCTIONS];
    u32 count;
    u32 registers;
    u32 build_len;
    u32 probe_len;
};

__device__ __forceinline__ bool is_signed(Kind kind) {
    return kind <= Kind::I64;
}

__device__ __forceinline__ bool is_float(Kind kind) {
    return kind == Kind::F32 || kind == Kind::F64;
}

// Bits of a value in memory. The digits of the constant are their logarithms: a switch would be a tree of branches in
// every step.
__device__ __forceinline__ u32 width_of(Kind kind) {
    return 1u << (0x06565436543ull >> 4 * u32(kind) & 7);
}

// Extends the low 32 bits to the word of an integer of up to 32 bits (or an F32).
struct Extension {
    u32 above, sign_mask;

    __device__ __forceinline__ explicit Extension(Kind kind)
        : above(32 - width_of(kind)), sign_mask(is_signed(kind) ? ~0u : 0) {}

    __device__ __forceinline__ u64 operator()(u32 low) const {
        const u32 up = low << above;
        const u32 signs = u32(i32(up) >> 31) & sign_mask;
        return u64(signs) << 32 | __funnelshift_rc(up, signs, above);
    }
};
