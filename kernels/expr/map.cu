// Row programs: all expressions of a projection, or the predicate of a filter, over the rows of an input. CPU
// counterpart: src/device/host/expr/row_program.rs.
#include "expr/map.cuh"

// Rows of a thread; a warp has 128. An instruction is read and decoded once for them.
constexpr u32 MAP_ROWS = 4;

// Registers of a thread's rows. They are indexed by number, so they are in local memory, which L1 caches. States are a
// byte a row. Words have 128 bits if the program has decimals.
template <typename Word>
struct MapRegisters {
    Word words[MAP_REGISTERS][MAP_ROWS];
    u32 states[MAP_REGISTERS];
};

constexpr u32 EACH_ROW = 0x01010101u;

__device__ __forceinline__ u8 state_of(u32 states, u32 k) {
    return u8(states >> 8 * k);
}

// The greater state of each row.
__device__ __forceinline__ u32 greater(u32 a, u32 b) {
    const u32 both = a | b;
    const u32 undecided = both & EACH_ROW * UNDECIDED;
    return undecided | (both & ~(undecided >> 1) & EACH_ROW);
}

// A 1 in the byte of each row that has a value.
__device__ __forceinline__ u32 with_value(u32 states) {
    return ~(states | states >> 1) & EACH_ROW;
}

// `f(k)` gives the word of row k and its state.
template <typename Word, typename F>
__device__ __forceinline__ void each_result(MapRegisters<Word>& at, const MapInstruction& in, F f) {
    u32 states = 0;
#pragma unroll
    for (u32 k = 0; k < MAP_ROWS; k++) {
        u8 state = VALUE;
        const Word word = f(k, state);
        at.words[in.out][k] = word;
        states |= u32(state) << 8 * k;
    }
    at.states[in.out] = states;
}

// Kleene's AND, where false decides, or OR, where true decides.
template <typename Word>
__device__ __forceinline__ void kleene(MapRegisters<Word>& at, const MapInstruction& in, u64 decides) {
    const u32 a_states = at.states[in.a];
    const u32 b_states = at.states[in.b];
    each_result(at, in, [&](u32 k, u8& state) {
        const u8 a = state_of(a_states, k);
        const u8 b = state_of(b_states, k);
        const bool by_a = a == VALUE && u64(at.words[in.a][k]) == decides;
        const bool by_b = b == VALUE && u64(at.words[in.b][k]) == decides;
        const bool undecided = !by_a && (a == UNDECIDED || b == UNDECIDED);
        const bool decided = by_a || (!undecided && by_b);
        state = undecided ? UNDECIDED : decided ? VALUE : a == NO_VALUE || b == NO_VALUE ? NO_VALUE : VALUE;
        return Word(decided ? decides : decides ^ 1);
    });
}

template <typename Word>
__device__ __forceinline__ void select(MapRegisters<Word>& at, const MapInstruction& in) {
    const u32 states = at.states[in.a];
    const u32 b_states = at.states[in.b];
    const u32 c_states = at.states[in.c];
    each_result(at, in, [&](u32 k, u8& state) {
        const u8 of_a = state_of(states, k);
        const bool is_true = of_a == VALUE && u64(at.words[in.a][k]) == 1;
        state = of_a == UNDECIDED ? UNDECIDED : state_of(is_true ? b_states : c_states, k);
        return is_true ? at.words[in.b][k] : at.words[in.c][k];
    });
}

template <typename Word>
__device__ __forceinline__ bool equal_or_less(const MapInstruction& in, Code code, Word a, Word b) {
    if constexpr (sizeof(Word) == sizeof(u128)) {
        if (in.kind == DECIMAL) {
            return compares(code, i128(a) < i128(b), a == b);
        }
    }
    return compare_words(code, Kind(in.kind), u64(a), u64(b));
}

// IS DISTINCT FROM: two NULLs are not distinct.
template <typename Word>
__device__ __forceinline__ void distinct(MapRegisters<Word>& at, const MapInstruction& in) {
    const u32 a_states = at.states[in.a];
    const u32 b_states = at.states[in.b];
    each_result(at, in, [&](u32 k, u8& state) {
        const u8 a = state_of(a_states, k);
        const u8 b = state_of(b_states, k);
        const bool values = a == VALUE && b == VALUE;
        const bool same = values ? equal_or_less(in, Code::EQ, at.words[in.a][k], at.words[in.b][k]) : a == b;
        state = a == UNDECIDED || b == UNDECIDED ? UNDECIDED : VALUE;
        return Word(same == (Code(in.code) == Code::NOT_DISTINCT));
    });
}

template <typename Word>
__device__ __forceinline__ void is_null(MapRegisters<Word>& at, const MapInstruction& in) {
    const u32 states = at.states[in.a];
    each_result(at, in, [&](u32 k, u8& state) {
        const u8 a = state_of(states, k);
        state = a == UNDECIDED ? UNDECIDED : VALUE;
        return Word((a == NO_VALUE) == (Code(in.code) == Code::IS_NULL));
    });
}

// The result word of an instruction that propagates NULLs.
template <typename Word>
__device__ __forceinline__ Word combine(const MapInstruction& in, Word a, Word b, bool& undecided) {
    if constexpr (sizeof(Word) == sizeof(u128)) {
        if (in.code == SCALE || in.code == ROUND) {
            // An integer's word is sign-extended, except for U64.
            const bool plain = in.from != DECIMAL;
            const u128 value = plain && in.from != u8(Kind::U64) ? u128(i128(i64(u64(a)))) : a;
            const u128 made = in.code == SCALE ? multiply(value, wide(in.constant), undecided)
                                               : rounded(i128(value), i128(wide(in.constant)));
            undecided |= distance(i128(made)) >= wide(in.bound);
            return made;
        }
        if (in.code == TRUNCATE || in.code == TO_FLOAT) {
            const i128 value = in.code == TRUNCATE ? i128(a) / i128(wide(in.constant)) : i128(a);
            const u64 word = u64(value);
            if (value != i128(i64(word))) {
                undecided = true;
                return 0;
            }
            if (in.code == TO_FLOAT) {
                return Double::word(__ll2double_rn(i64(word)) / Double::of(in.constant[0]));
            }
            return Kind(in.kind) == Kind::I64 ? word : cast(word, Kind::I64, Kind(in.kind), undecided);
        }
        if (in.code == FROM_FLOAT) {
            const f64 scaled = round(Double::of(u64(a)) * Double::of(in.constant[0]));
            const i128 made = i64(float_to_int(scaled, Kind::I64, undecided));
            undecided |= distance(made) >= wide(in.bound);
            return u128(made);
        }
    }
    if (in.code == FLOOR) {
        return u64(floor_of(i64(u64(a)), i64(in.constant[0])));
    }
    if (in.code == PART) {
        const i64 days = i64(u64(a));
        undecided = days > FAR_DAYS || days < -FAR_DAYS;
        return undecided ? 0 : u64(date_part(days, in.b));
    }
    const Code code = Code(in.code);
    if constexpr (sizeof(Word) == sizeof(u128)) {
        if (in.kind == DECIMAL && (code == Code::DIV || code == Code::REM)) {
            return divided(code, i128(a), i128(b), undecided);
        }
    }
    if (is_comparison(code)) {
        return u64(equal_or_less(in, code, a, b));
    }
    if (code == Code::NOT) {
        return a ^ 1;
    }
    if (code == Code::NEG) {
        return negative(Kind(in.kind), u64(a));
    }
    if (code == Code::CAST) {
        return cast(u64(a), Kind(in.from), Kind(in.kind), undecided);
    }
    return arithmetic(code, Kind(in.kind), u64(a), u64(b), undecided);
}

// Applies `f(a, b, undecided)` to the operand words of each row; `b` is 0 for one operand.
template <bool UNROLL, typename Word, typename F>
__device__ __forceinline__ void apply(MapRegisters<Word>& at, const MapInstruction& in, bool two, F f) {
    const u32 states = two ? greater(at.states[in.a], at.states[in.b]) : at.states[in.a];
    u32 faults = 0;
#pragma unroll(UNROLL ? MAP_ROWS : 1)
    for (u32 k = 0; k < MAP_ROWS; k++) {
        bool undecided = false;
        at.words[in.out][k] = f(at.words[in.a][k], two ? at.words[in.b][k] : Word(0), undecided);
        faults |= u32(undecided) << 8 * k;
    }
    at.states[in.out] = states | (faults & with_value(states)) * UNDECIDED;
}

// The number of registers that an instruction of `combine` reads.
__device__ __forceinline__ bool reads_two(u8 code) {
    return code < SCALE && operands_of(Code(code)) == 2;
}

// Which of less, equal and greater satisfy a comparison, a bit each.
__device__ __forceinline__ u32 answers(Code code) {
    return u32(compares(code, true, false)) | u32(compares(code, false, true)) << 1 | u32(compares(code, false, false)) << 2;
}

// The most frequent instructions that propagate NULLs, unrolled for each row; false for any other instruction.
template <typename Word>
__device__ __forceinline__ bool run_common(MapRegisters<Word>& at, const MapInstruction& in) {
    const Code code = Code(in.code);
    const bool adds = code == Code::ADD || code == Code::SUB;
    if (!adds && code != Code::MUL && !(in.code < SCALE && is_comparison(code))) {
        return false;
    }
    if constexpr (sizeof(Word) == sizeof(u128)) {
        if (in.kind == DECIMAL) {
            if (is_comparison(code)) {
                const u32 mask = answers(code);
                apply<true>(at, in, true, [=](Word a, Word b, bool&) {
                    return Word(mask >> (i128(a) < i128(b) ? 0 : a == b ? 1 : 2) & 1);
                });
            } else {
                apply<true>(at, in, true, [=](Word a, Word b, bool& undecided) { return decimal_arithmetic(code, a, b, undecided); });
            }
            return true;
        }
    }
    const Kind kind = Kind(in.kind);
    if (is_float(kind)) {
        return false;
    }
    if (is_comparison(code)) {
        const u32 mask = answers(code);
        const u64 sign = is_signed(kind) ? SIGN : 0;
        apply<true>(at, in, true, [=](Word a, Word b, bool&) {
            const u64 x = u64(a) ^ sign;
            const u64 y = u64(b) ^ sign;
            return Word(mask >> (x < y ? 0 : x == y ? 1 : 2) & 1);
        });
        return true;
    }
    const bool whole = is_wide(kind);
    const Extension extended(kind);
    const u64 minus = code == Code::SUB ? ~0ull : 0;
    apply<true>(at, in, true, [=](Word a, Word b, bool&) {
        // a - b is a + ~b + 1.
        const u64 word = adds ? u64(a) + (u64(b) ^ minus) - minus : u64(a) * u64(b);
        return Word(whole ? word : extended(u32(word)));
    });
    return true;
}

template <typename Word>
__device__ __forceinline__ void run(MapRegisters<Word>& at, const MapInstruction& in) {
    switch (Code(in.code)) {
        case Code::CONSTANT:
            each_result(at, in, [&](u32, u8& state) {
                state = in.b == 1 ? NO_VALUE : VALUE;
                return Word(wide(in.constant));
            });
            return;
        case Code::AND: kleene(at, in, 0); return;
        case Code::OR: kleene(at, in, 1); return;
        case Code::SELECT: select(at, in); return;
        case Code::DISTINCT: case Code::NOT_DISTINCT: distinct(at, in); return;
        case Code::IS_NULL: case Code::IS_NOT_NULL: is_null(at, in); return;
        default: break;
    }
    if (!run_common(at, in)) {
        apply<false>(at, in, reads_two(in.code), [&](Word a, Word b, bool& undecided) { return combine(in, a, b, undecided); });
    }
}

// The rows of a thread: 32 apart.
struct MapRows {
    u32 first, n;

    __device__ __forceinline__ u32 row(u32 k) const { return first + k * WARP; }
    __device__ __forceinline__ bool inside(u32 k) const { return row(k) < n; }
    // Rows past the end read the last one, so that all lanes of a warp vote.
    __device__ __forceinline__ u32 read(u32 k) const { return min(row(k), n - 1); }
};

template <typename Word>
__device__ __forceinline__ void load(MapRegisters<Word>& at, const MapInstruction& in, const MapColumn& column, MapRows rows) {
    const u32* const valid = reinterpret_cast<const u32*>(column.valid);
    u32 states = 0;
#pragma unroll
    for (u32 k = 0; k < MAP_ROWS; k++) {
        states |= u32(bit_at(valid, rows.read(k)) ? VALUE : NO_VALUE) << 8 * k;
    }
    at.states[in.out] = states;
    each_word_of(column, [&](auto word_at) {
        Word words[MAP_ROWS];
#pragma unroll
        for (u32 k = 0; k < MAP_ROWS; k++) {
            words[k] = Word(word_at(rows.read(k)));
        }
        // Of codes, the distance from the least value.
        const Word least = in.kind == in.from ? Word(0) : Word(wide(in.constant));
#pragma unroll
        for (u32 k = 0; k < MAP_ROWS; k++) {
            at.words[in.out][k] = words[k] + least;
        }
    });
}

// Returns whether a row that needs the host fallback reached the output.
template <typename Word>
__device__ __forceinline__ bool store(const MapRegisters<Word>& at, const MapInstruction& in, const MapColumn& column, MapRows rows) {
    const u32 states = at.states[in.a];
    bool undecided = false;
#pragma unroll
    for (u32 k = 0; k < MAP_ROWS; k++) {
        const bool inside = rows.inside(k);
        const u8 state = state_of(states, k);
        undecided |= inside && state == UNDECIDED;
        const u32 valid = __ballot_sync(ALL_LANES, inside && state == VALUE);
        const u32 bits = __ballot_sync(ALL_LANES, inside && (u64(at.words[in.a][k]) & 1) != 0);
        if (threadIdx.x % WARP == 0 && inside) {
            reinterpret_cast<u32*>(column.valid)[rows.row(k) / WARP] = valid;
            if (column.kind == u64(Kind::BOOL)) {
                reinterpret_cast<u32*>(column.values)[rows.row(k) / WARP] = bits;
            }
        }
    }
    store_words(column, [&](auto put) {
#pragma unroll
        for (u32 k = 0; k < MAP_ROWS; k++) {
            if (rows.inside(k)) {
                put(rows.row(k), at.words[in.a][k]);
            }
        }
    });
    return undecided;
}

template <typename Word>
__device__ __forceinline__ void map(const u64* table, u32 columns, u32 outputs, u32 instructions, u32 n, u32* left) {
    const MapColumn* const inputs = reinterpret_cast<const MapColumn*>(table);
    const MapColumn* const made = inputs + columns;
    const MapInstruction* const tape = reinterpret_cast<const MapInstruction*>(made + outputs);
    const u32 warp = blockIdx.x * (BLOCK / WARP) + threadIdx.x / WARP;
    const MapRows rows{warp * WARP * MAP_ROWS + threadIdx.x % WARP, n};
    MapRegisters<Word> at;
    bool undecided = false;
    for (u32 t = 0; t < instructions; t++) {
        const MapInstruction in = tape[t];
        if (in.code == u8(Code::LOAD_BUILD)) {
            load(at, in, inputs[in.column], rows);
        } else if (in.code == STORE) {
            undecided |= store(at, in, made[in.column], rows);
        } else {
            run(at, in);
        }
    }
    if (undecided) {
        *left = 1;
    }
}

// Evaluates a program on `n` rows. `table`: the columns, then the outputs (`MapColumn`), then the instructions
// (`MapInstruction`). `left` is set to 1 if a row that needs the host fallback reaches an output; it must be zeroed
// first. `map_rows_narrow` is for programs without decimals.
// Bound: bytes, the values and bits of the columns read and those of the outputs written, while instructions are few:
// an operation costs some 10 to 40 instructions a row, a 128-bit division some hundred. Launch: blocks of 256, a block
// for each 1024 rows; bits past the end of an output are written as 0.
extern "C" __global__ void __launch_bounds__(BLOCK)
    map_rows(const u64* __restrict__ table, u32 columns, u32 outputs, u32 instructions, u32 n, u32* __restrict__ left) {
    map<u128>(table, columns, outputs, instructions, n, left);
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    map_rows_narrow(const u64* __restrict__ table, u32 columns, u32 outputs, u32 instructions, u32 n, u32* __restrict__ left) {
    map<u64>(table, columns, outputs, instructions, n, left);
}
