// The tape: a program in the form that lanes run.
//
// On the tape loads and constants are no steps of their own but operands of the steps that use them, and a result that the
// next step alone reads is handed on without being stored.
#pragma once

#include "program.cuh"

// Where a step reads from: the last step's result, a register, a column of either side, or an instruction's constant.
enum class Source : u8 { LAST, REGISTER, SORTED, SEARCHING, CONSTANT, NONE };

struct Operand {
    Source source;
    u8 index;
};

// What a step does with the words of its operands, by their kind.
enum class Body : u8 {
    MOVE, LOGIC, CHOOSE,
    ADD_INT, SUB_INT, MUL_INT,
    ADD_F64, SUB_F64, MUL_F64, DIV_F64, ARITHMETIC_F32,
    COMPARE_SIGNED, COMPARE_F64, COMPARE_KEYS,
    SIGNED_TO_F64, OTHER,
};

// What a comparison asks, which may be inverted.
enum class Order : u8 { LESS, GREATER, EQUAL };

// `c` is SELECT's condition, `from` a cast's source kind. `words`: words of `a` and `b` are read, not their flags alone;
// `makes_words`: the result has words. `store`: a step later than the next one reads the result.
struct alignas(16) Step {
    Body body;
    Code code;
    Kind kind, from;
    Operand a, b, c;
    u8 out;
    Order order;
    bool words, makes_words, store, inverted;
};

struct Tape {
    Instruction instructions[MAX_INSTRUCTIONS];
    Step steps[MAX_INSTRUCTIONS];
    u32 count;
};

__device__ __forceinline__ bool is_leaf(Code code) {
    return code <= Code::CONSTANT;
}

// How many registers an instruction reads: a, then b, then c.
__device__ __forceinline__ u32 operands_of(Code code) {
    switch (code) {
        case Code::LOAD_SORTED: case Code::LOAD_SEARCHING: case Code::CONSTANT: return 0;
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

__device__ __forceinline__ Body body_of(const Instruction& in) {
    const Kind kind = in.kind;
    const Kind from = Kind(in.column);
    switch (in.code) {
        case Code::ADD: return kind == Kind::F64 ? Body::ADD_F64 : kind == Kind::F32 ? Body::ARITHMETIC_F32 : Body::ADD_INT;
        case Code::SUB: return kind == Kind::F64 ? Body::SUB_F64 : kind == Kind::F32 ? Body::ARITHMETIC_F32 : Body::SUB_INT;
        case Code::MUL: return kind == Kind::F64 ? Body::MUL_F64 : kind == Kind::F32 ? Body::ARITHMETIC_F32 : Body::MUL_INT;
        case Code::DIV: return kind == Kind::F64 ? Body::DIV_F64 : kind == Kind::F32 ? Body::ARITHMETIC_F32 : Body::OTHER;
        case Code::REM: case Code::NEG: return Body::OTHER;
        case Code::SELECT: return Body::CHOOSE;
        case Code::CAST:
            return from == kind                            ? Body::MOVE
                   : is_signed(from) && kind == Kind::F64 ? Body::SIGNED_TO_F64
                                                          : Body::OTHER;
        case Code::LOAD_SORTED: case Code::LOAD_SEARCHING: case Code::CONSTANT: return Body::MOVE;
        default: break;
    }
    if (!is_comparison(in.code) || kind == Kind::BOOL) {
        return Body::LOGIC;
    }
    return kind == Kind::F64 ? Body::COMPARE_F64 : is_signed(kind) ? Body::COMPARE_SIGNED : Body::COMPARE_KEYS;
}

__device__ __forceinline__ Order order_of(Code code) {
    switch (code) {
        case Code::LT: case Code::GT_EQ: return Order::LESS;
        case Code::GT: case Code::LT_EQ: return Order::GREATER;
        default: return Order::EQUAL;
    }
}

// Turns the operands of a step round where that is the same to its body.
__device__ __forceinline__ void turn(Step& step) {
    switch (step.body) {
        case Body::COMPARE_SIGNED: case Body::COMPARE_F64: case Body::COMPARE_KEYS:
            step.order = step.order == Order::LESS ? Order::GREATER : step.order == Order::GREATER ? Order::LESS : Order::EQUAL;
            break;
        case Body::ADD_INT: case Body::MUL_INT: case Body::ADD_F64: case Body::MUL_F64: break;
        default: return;
    }
    const Operand a = step.a;
    step.a = step.b;
    step.b = a;
}

// Where instruction `t` finds register `reg`. `steps` are the instructions that become steps.
__device__ __forceinline__ Operand operand_of(const Tape& tape, u64 steps, u32 t, u32 reg) {
    u32 writer = t;
    do {
        writer--;
    } while (writer > 0 && tape.instructions[writer].out != reg);
    const Instruction& in = tape.instructions[writer];
    switch (in.code) {
        case Code::LOAD_SORTED: return {Source::SORTED, u8(in.column)};
        case Code::LOAD_SEARCHING: return {Source::SEARCHING, u8(in.column)};
        case Code::CONSTANT: return {Source::CONSTANT, u8(writer)};
        default: break;
    }
    const u64 between = (steps & ((1ull << t) - 1)) >> writer >> 1;
    return between == 0 ? Operand{Source::LAST, 0} : Operand{Source::REGISTER, u8(reg)};
}

// Whether a step later than the next one reads what instruction `t` writes.
__device__ __forceinline__ bool is_kept(const Tape& tape, u64 steps, u32 t, u32 count) {
    const u32 reg = tape.instructions[t].out;
    bool next = true;
    for (u32 reader = t + 1; reader < count; reader++) {
        const Instruction& in = tape.instructions[reader];
        if ((steps >> reader & 1) != 0) {
            if (!next && reads(in, reg)) {
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

__device__ __forceinline__ Step step_of(const Tape& tape, u64 steps, u32 t, u32 count) {
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
        step.a = in.code == Code::CONSTANT       ? Operand{Source::CONSTANT, u8(t)}
                 : in.code == Code::LOAD_SORTED ? Operand{Source::SORTED, u8(in.column)}
                                                : Operand{Source::SEARCHING, u8(in.column)};
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
    step.words = step.body != Body::LOGIC && (in.code == Code::CAST ? step.from : in.kind) != Kind::BOOL;
    step.makes_words = step.body != Body::LOGIC && !is_comparison(in.code) && in.kind != Kind::BOOL;
    step.store = is_kept(tape, steps, t, count);
    step.order = order_of(in.code);
    step.inverted = in.code == Code::NOT_EQ || in.code == Code::LT_EQ || in.code == Code::GT_EQ || in.code == Code::DISTINCT;
    // The last result stays where it is when it comes first, and what is the same for all pairs of a lane need not be spread
    // when it comes second.
    if (step.a.source != Source::LAST && (step.b.source == Source::LAST || step.a.source >= Source::SEARCHING)) {
        turn(step);
    }
    return step;
}

// Makes the tape, a thread an instruction. All threads of the block call.
__device__ __forceinline__ void translate(const Program& program, Tape& tape) {
    const u32 count = program.count;
    for (u32 t = threadIdx.x; t < count; t += blockDim.x) {
        tape.instructions[t] = program.instructions[t];
    }
    __syncthreads();
    u64 steps = 1ull << (count - 1);
    for (u32 t = 0; t < count; t++) {
        steps |= u64(!is_leaf(tape.instructions[t].code)) << t;
    }
    for (u32 t = threadIdx.x; t < count; t += blockDim.x) {
        if ((steps >> t & 1) != 0) {
            tape.steps[__popcll(steps & ((1ull << t) - 1))] = step_of(tape, steps, t, count);
        }
    }
    if (threadIdx.x == 0) {
        tape.count = __popcll(steps);
    }
    __syncthreads();
}
