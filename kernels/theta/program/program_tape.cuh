// The tape: a pair program in the form that lanes run.
//
// Loads and constants are not steps of the tape but operands of the steps that use them, and a result that only the
// next step reads is passed on without being stored.
#pragma once

#include "theta/program/program.cuh"

// The source of an operand: the last step's result, a register, a column of either side (by its number among all
// columns), or an instruction's constant.
enum class Source : u8 { LAST, REGISTER, BUILD, PROBE, CONSTANT, NONE };

struct Operand {
    Source source;
    u8 index;
};

// The operation of a step on the words of its operands, by their kind. From CHOOSE on the second operand must have one
// word for each pair.
enum class Body : u8 {
    MOVE, LOGIC,
    ADD_INT, SUB_INT, MUL_INT,
    ADD_F64, SUB_F64, MUL_F64,
    ADD_F32, SUB_F32, MUL_F32,
    COMPARE_SIGNED, COMPARE_F64, COMPARE_F32,
    CHOOSE, SIGNED_TO_F64, CAREFUL_F64, CAREFUL_F32, COMPARE_KEYS, OTHER,
};

// The relation that a comparison tests; it may be inverted.
enum class Order : u8 { LESS, GREATER, EQUAL };

// Properties of a step, as bits.
enum Is : u16 {
    // The words of the operand are fetched; and they belong to a 64-bit column of the build side, in the order of
    // positions.
    FETCHED_A = 1, FETCHED_B = 2, WIDE_A = 4, WIDE_B = 8,
    // All pairs of a lane share one word of `b`.
    SCALAR = 16,
    // Words are read, not only flags; the result has words; they have fewer than 64 bits.
    WORDS = 32, MAKES_WORDS = 64, NARROW = 128,
    // The result is stored to memory for later steps; the comparison's result is inverted.
    STORED = 256, INVERTED = 512,
    // Some operand can be NULL or undecided, or the body reads flags.
    FLAGGED = 1024,
    // The shared word of `b` belongs to a 64-bit column.
    WIDE_SCALAR = 2048,
    // This is the last step.
    LAST_STEP = 4096,
};

// `careful`: the body with exact handling of NaNs. `c` is SELECT's condition, `from` a cast's source kind, `is` a set
// of `Is`.
struct alignas(16) Step {
    Body body, careful;
    Code code;
    Kind kind, from;
    Operand a, b, c;
    u8 out;
    Order order;
    u16 is;
};

// The tape of a block, in shared memory: the instructions, for their constants, and the steps.
struct Tape {
    Instruction instructions[MAX_INSTRUCTIONS];
    Step steps[MAX_INSTRUCTIONS];
};

__device__ __forceinline__ bool is_leaf(Code code) {
    return code <= Code::CONSTANT;
}

// The number of registers that an instruction reads: a, then b, then c.
__device__ __forceinline__ u32 operands_of(Code code) {
    switch (code) {
        case Code::LOAD_BUILD: case Code::LOAD_PROBE: case Code::CONSTANT: return 0;
        case Code::NEG: case Code::NOT: case Code::IS_NULL: case Code::IS_NOT_NULL: case Code::CAST: return 1;
        case Code::SELECT: return 3;
        default: return 2;
    }
}

__device__ __forceinline__ bool reads(const Instruction& instruction, u32 reg) {
    const u32 operands = operands_of(instruction.code);
    return (operands > 0 && instruction.a == reg) || (operands > 1 && instruction.b == reg) ||
           (operands > 2 && instruction.c == reg);
}

__device__ __forceinline__ bool is_comparison(Code code) {
    return Code::EQ <= code && code <= Code::NOT_DISTINCT;
}

// The instruction before `t` that wrote register `reg`.
__device__ __forceinline__ u32 writer_of(const Tape& tape, u32 t, u32 reg) {
    do {
        t--;
    } while (t > 0 && tape.instructions[t].out != reg);
    return t;
}

// Whether kind `to` represents every integer of kind `from`.
__device__ __forceinline__ bool always_fits(Kind from, Kind to) {
    return from < Kind::F32 && to < Kind::F32 && width_of(from) < width_of(to) && (is_signed(to) || !is_signed(from));
}

__device__ __forceinline__ Body body_of(const Instruction& in) {
    const Kind kind = in.kind;
    const Kind from = Kind(in.column);
    switch (in.code) {
        case Code::ADD: return kind == Kind::F64 ? Body::ADD_F64 : kind == Kind::F32 ? Body::ADD_F32 : Body::ADD_INT;
        case Code::SUB: return kind == Kind::F64 ? Body::SUB_F64 : kind == Kind::F32 ? Body::SUB_F32 : Body::SUB_INT;
        case Code::MUL: return kind == Kind::F64 ? Body::MUL_F64 : kind == Kind::F32 ? Body::MUL_F32 : Body::MUL_INT;
        case Code::DIV: return kind == Kind::F64 ? Body::CAREFUL_F64 : kind == Kind::F32 ? Body::CAREFUL_F32 : Body::OTHER;
        case Code::REM: case Code::NEG: return Body::OTHER;
        case Code::SELECT: return Body::CHOOSE;
        case Code::CAST:
            return from == kind || always_fits(from, kind) ? Body::MOVE
                   : is_signed(from) && kind == Kind::F64 ? Body::SIGNED_TO_F64
                                                          : Body::OTHER;
        case Code::LOAD_BUILD: case Code::LOAD_PROBE: case Code::CONSTANT: return Body::MOVE;
        default: break;
    }
    if (!is_comparison(in.code) || kind == Kind::BOOL) {
        return Body::LOGIC;
    }
    switch (kind) {
        case Kind::F64: return Body::COMPARE_F64;
        case Kind::F32: return Body::COMPARE_F32;
        case Kind::U64: return Body::COMPARE_KEYS;
        // The words of unsigned integers are not negative, so signed comparison is correct.
        default: return Body::COMPARE_SIGNED;
    }
}

// Whether an instruction's result can be NULL or undecided for any operands, NaNs aside.
__device__ __forceinline__ bool can_be_flagged(const Program& program, const Instruction& in) {
    switch (in.code) {
        case Code::LOAD_BUILD: return program.columns[in.column].valid != nullptr;
        case Code::LOAD_PROBE: return program.columns[MAX_COLUMNS + in.column].valid != nullptr;
        case Code::CONSTANT: return in.b != 0;
        case Code::DIV: case Code::REM: return true;
        case Code::CAST: return body_of(in) == Body::OTHER;
        default: return false;
    }
}

// The variant of a body that also handles NaNs exactly.
__device__ __forceinline__ Body careful_body(Body body) {
    switch (body) {
        case Body::ADD_F64: case Body::SUB_F64: case Body::MUL_F64: return Body::CAREFUL_F64;
        case Body::ADD_F32: case Body::SUB_F32: case Body::MUL_F32: return Body::CAREFUL_F32;
        case Body::COMPARE_F64: case Body::COMPARE_F32: return Body::COMPARE_KEYS;
        default: return body;
    }
}

// Whether instruction `t` tests a computed float without propagating its NaN.
__device__ __forceinline__ bool loses_nan(const Tape& tape, u32 t) {
    const Instruction& in = tape.instructions[t];
    if (in.code != Code::IS_NULL && in.code != Code::IS_NOT_NULL && !(in.code == Code::CAST && in.kind == Kind::BOOL)) {
        return false;
    }
    const Instruction& writer = tape.instructions[writer_of(tape, t, in.a)];
    return !is_leaf(writer.code) && !is_comparison(writer.code) && is_float(writer.kind);
}

__device__ __forceinline__ Order order_of(Code code) {
    switch (code) {
        case Code::LT: case Code::GT_EQ: return Order::LESS;
        case Code::GT: case Code::LT_EQ: return Order::GREATER;
        default: return Order::EQUAL;
    }
}

__device__ __forceinline__ bool compares_words(Body body) {
    return (Body::COMPARE_SIGNED <= body && body <= Body::COMPARE_F32) || body == Body::COMPARE_KEYS;
}

// Whether the operands of a step can be swapped.
__device__ __forceinline__ bool can_turn(Body body) {
    switch (body) {
        case Body::ADD_INT: case Body::MUL_INT: case Body::ADD_F64: case Body::MUL_F64: case Body::ADD_F32: case Body::MUL_F32: return true;
        default: return compares_words(body);
    }
}

// Whether an instruction reads register `reg` only as its second operand, and the operands cannot be swapped: the last
// step's result is then stored to memory.
__device__ __forceinline__ bool is_second_only(const Instruction& in, u32 reg) {
    const u32 operands = operands_of(in.code);
    const Body body = body_of(in);
    return operands >= 2 && body != Body::LOGIC && !can_turn(body) && (operands == 3 ? in.c : in.b) == reg &&
           (operands == 3 ? in.b : in.a) != reg;
}

__device__ __forceinline__ void turn(Step& step) {
    if (compares_words(step.body)) {
        step.order = step.order == Order::LESS ? Order::GREATER : step.order == Order::GREATER ? Order::LESS : Order::EQUAL;
    }
    const Operand a = step.a;
    step.a = step.b;
    step.b = a;
}

// The operand that a load or a constant becomes.
__device__ __forceinline__ Operand leaf_of(const Tape& tape, u32 t) {
    const Instruction& in = tape.instructions[t];
    return in.code == Code::CONSTANT     ? Operand{Source::CONSTANT, u8(t)}
           : in.code == Code::LOAD_BUILD ? Operand{Source::BUILD, u8(in.column)}
                                         : Operand{Source::PROBE, u8(MAX_COLUMNS + in.column)};
}

// The source of register `reg` for instruction `t`. `steps` are the instructions that become steps.
__device__ __forceinline__ Operand operand_of(const Tape& tape, u64 steps, u32 t, u32 reg) {
    const u32 writer = writer_of(tape, t, reg);
    if (is_leaf(tape.instructions[writer].code)) {
        return leaf_of(tape, writer);
    }
    const u64 between = (steps & ((1ull << t) - 1)) >> writer >> 1;
    return between == 0 ? Operand{Source::LAST, 0} : Operand{Source::REGISTER, u8(reg)};
}

// Whether the result of instruction `t` is read from memory: mostly by a step later than the next one.
__device__ __forceinline__ bool is_kept(const Tape& tape, u64 steps, u32 t, u32 count) {
    const u32 reg = tape.instructions[t].out;
    bool next = true;
    for (u32 reader = t + 1; reader < count; reader++) {
        const Instruction& in = tape.instructions[reader];
        if ((steps >> reader & 1) != 0) {
            if ((!next && reads(in, reg)) || is_second_only(in, reg)) {
                return true;
            }
            next = false;
        }
        if (in.out == reg) {
            return false;
        }
    }
    return false;
}

// `one_row`: all pairs of a lane have one probe position.
__device__ __forceinline__ Step step_of(const Program& program, const Tape& tape, u64 steps, u32 t, u32 count, bool one_row) {
    const Instruction& in = tape.instructions[t];
    const Operand none = {Source::NONE, 0};
    Step step = {};
    step.body = body_of(in);
    step.code = in.code;
    step.kind = in.kind;
    step.from = Kind(in.column);
    step.a = step.b = step.c = none;
    const u32 operands = operands_of(in.code);
    if (operands == 0) {
        step.a = leaf_of(tape, t);
    } else if (operands == 3) {
        step.c = operand_of(tape, steps, t, in.a);
        step.a = operand_of(tape, steps, t, in.b);
        step.b = operand_of(tape, steps, t, in.c);
    } else {
        step.a = operand_of(tape, steps, t, in.a);
        if (operands == 2) {
            step.b = operand_of(tape, steps, t, in.b);
        }
    }
    step.out = in.out;
    step.order = order_of(in.code);
    // The last result is not moved if it is the first operand, and a word that all pairs of a lane share need not be
    // replicated if it is the second.
    if (step.a.source != Source::LAST && (step.b.source == Source::LAST || step.a.source >= Source::PROBE)) {
        const u32 second = operands == 3 ? in.c : in.b;
        if (can_turn(step.body)) {
            turn(step);
        } else if (step.b.source == Source::LAST && is_second_only(in, second)) {
            step.b = {Source::REGISTER, u8(second)};
        }
    }
    step.careful = careful_body(step.body);

    const bool words = step.body != Body::LOGIC && (in.code == Code::CAST ? step.from : in.kind) != Kind::BOOL;
    const bool makes_words = step.body != Body::LOGIC && !is_comparison(in.code) && in.kind != Kind::BOOL;
    const bool scalar = words && (step.b.source == Source::CONSTANT || (one_row && step.b.source == Source::PROBE));
    const auto wide = [&](Operand operand, Source source) {
        return words && operand.source == source && width_of(Kind(program.columns[operand.index].kind)) == 64;
    };
    bool flagged = step.body == Body::LOGIC || step.body == Body::CHOOSE || step.body == Body::OTHER || in.code == Code::DISTINCT ||
                   in.code == Code::NOT_DISTINCT || (in.kind == Kind::BOOL && !is_comparison(in.code));
    for (u32 i = 0; i <= t; i++) {
        flagged |= can_be_flagged(program, tape.instructions[i]);
    }
    step.is = (words && step.a.source != Source::LAST ? FETCHED_A : 0) |
              (words && !scalar && step.b.source != Source::NONE ? FETCHED_B : 0) |
              (wide(step.a, Source::BUILD) ? WIDE_A : 0) | (wide(step.b, Source::BUILD) ? WIDE_B : 0) |
              (scalar ? SCALAR : 0) | (scalar && wide(step.b, Source::PROBE) ? WIDE_SCALAR : 0) |
              (words ? WORDS : 0) | (makes_words ? MAKES_WORDS : 0) |
              (width_of(in.kind) < 64 && Body::ADD_INT <= step.body && step.body <= Body::MUL_INT ? NARROW : 0) |
              (is_kept(tape, steps, t, count) ? STORED : 0) |
              (in.code == Code::NOT_EQ || in.code == Code::LT_EQ || in.code == Code::GT_EQ || in.code == Code::DISTINCT ? INVERTED : 0) |
              (flagged ? FLAGGED : 0) | (t + 1 == count ? LAST_STEP : 0);
    return step;
}

// Builds the tape, one thread for each instruction. All threads of the block call it.
__device__ __forceinline__ void translate(const Program& program, Tape& tape, bool one_row) {
    const u32 count = program.count;
    for (u32 t = threadIdx.x; t < count; t += blockDim.x) {
        tape.instructions[t] = program.instructions[t];
    }
    __syncthreads();
    u64 steps = 1ull << (count - 1);
    for (u32 t = 0; t < count; t++) {
        steps |= u64(!is_leaf(tape.instructions[t].code)) << t;
    }
    // If a NaN could be lost before a comparison reads it, all steps are careful ones.
    bool careful = false;
    for (u32 t = 0; t < count; t++) {
        careful |= loses_nan(tape, t);
    }
    for (u32 t = threadIdx.x; t < count; t += blockDim.x) {
        if ((steps >> t & 1) != 0) {
            Step step = step_of(program, tape, steps, t, count, one_row);
            if (careful) {
                step.body = step.careful;
                step.is |= FLAGGED;
            }
            tape.steps[__popcll(steps & ((1ull << t) - 1))] = step;
        }
    }
    __syncthreads();
}
