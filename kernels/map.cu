// Programs over the rows of an input: all expressions of a projection, or the predicate of a filter. Twin: device/host/map.rs.
#include "map.cuh"

// Registers of one row. They lie in local memory, which the first cache holds: an instruction names them by number.
struct MapRegisters {
    u128 words[MAP_REGISTERS];
    u8 states[MAP_REGISTERS];
};

// AND, where false decides, or OR, where true does.
__device__ __forceinline__ void kleene(MapRegisters& at, const MapInstruction& in, u64 decides) {
    const u8 a = at.states[in.a];
    const u8 b = at.states[in.b];
    const bool by_a = a == VALUE && u64(at.words[in.a]) == decides;
    const bool by_b = b == VALUE && u64(at.words[in.b]) == decides;
    const bool undecided = !by_a && (a == UNDECIDED || b == UNDECIDED);
    const bool decided = by_a || (!undecided && by_b);
    at.words[in.out] = decided ? decides : decides ^ 1;
    at.states[in.out] = undecided ? UNDECIDED : decided ? VALUE : a == NO_VALUE || b == NO_VALUE ? NO_VALUE : VALUE;
}

__device__ __forceinline__ void select(MapRegisters& at, const MapInstruction& in) {
    const u8 state = at.states[in.a];
    const u8 taken = state == VALUE && u64(at.words[in.a]) == 1 ? in.b : in.c;
    at.words[in.out] = at.words[taken];
    at.states[in.out] = state == UNDECIDED ? UNDECIDED : at.states[taken];
}

// Whether two are distinct: two NULLs are not.
__device__ __forceinline__ void distinct(MapRegisters& at, const MapInstruction& in, bool equal) {
    const u8 a = at.states[in.a];
    const u8 b = at.states[in.b];
    const bool values = a == VALUE && b == VALUE;
    const bool same = values ? equal : a == b;
    at.words[in.out] = u64(same == (Code(in.code) == Code::NOT_DISTINCT));
    at.states[in.out] = a == UNDECIDED || b == UNDECIDED ? UNDECIDED : VALUE;
}

__device__ __forceinline__ bool equal_or_less(const MapRegisters& at, const MapInstruction& in, Code code) {
    const u128 a = at.words[in.a];
    const u128 b = at.words[in.b];
    return in.kind == DECIMAL ? compares(code, i128(a) < i128(b), a == b) : compare_words(code, Kind(in.kind), u64(a), u64(b));
}

// The result of an instruction that hands on NULLs, on words.
__device__ __forceinline__ u128 combine(const MapRegisters& at, const MapInstruction& in, bool& undecided) {
    const u128 a = at.words[in.a];
    switch (in.code) {
        case SCALE: case ROUND: {
            // An integer's word is extended by its sign, but for the widest without one.
            const bool plain = in.from != DECIMAL;
            const u128 value = plain && in.from != u8(Kind::U64) ? u128(i128(i64(u64(a)))) : a;
            const u128 made = in.code == SCALE ? multiply(value, wide(in.constant), undecided)
                                               : rounded(i128(value), i128(wide(in.constant)));
            undecided |= distance(i128(made)) >= wide(in.bound);
            return made;
        }
        case FLOOR: return u64(floor_of(i64(u64(a)), i64(in.constant[0])));
        case PART: {
            const i64 days = i64(u64(a));
            undecided = days > FAR_DAYS || days < -FAR_DAYS;
            return undecided ? 0 : u64(date_part(days, in.b));
        }
        default: break;
    }
    const Code code = Code(in.code);
    if (is_comparison(code)) {
        return u64(equal_or_less(at, in, code));
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
    const u128 b = at.words[in.b];
    return in.kind == DECIMAL ? decimal_arithmetic(code, a, b, undecided)
                              : u128(arithmetic(code, Kind(in.kind), u64(a), u64(b), undecided));
}

// How many of its registers an instruction of those that `combine` does reads.
__device__ __forceinline__ bool reads_two(u8 code) {
    return code < SCALE && operands_of(Code(code)) == 2;
}

__device__ __forceinline__ void run(MapRegisters& at, const MapInstruction& in) {
    switch (Code(in.code)) {
        case Code::CONSTANT:
            at.words[in.out] = wide(in.constant);
            at.states[in.out] = in.b == 1 ? NO_VALUE : VALUE;
            return;
        case Code::AND: kleene(at, in, 0); return;
        case Code::OR: kleene(at, in, 1); return;
        case Code::SELECT: select(at, in); return;
        case Code::DISTINCT: case Code::NOT_DISTINCT: distinct(at, in, equal_or_less(at, in, Code::EQ)); return;
        case Code::IS_NULL: case Code::IS_NOT_NULL: {
            const u8 state = at.states[in.a];
            at.words[in.out] = u64((state == NO_VALUE) == (Code(in.code) == Code::IS_NULL));
            at.states[in.out] = state == UNDECIDED ? UNDECIDED : VALUE;
            return;
        }
        default: break;
    }
    const u8 a = at.states[in.a];
    const u8 state = reads_two(in.code) ? max(a, at.states[in.b]) : a;
    bool undecided = false;
    const u128 word = combine(at, in, undecided);
    at.words[in.out] = word;
    at.states[in.out] = state == VALUE && undecided ? UNDECIDED : state;
}

// Evaluates a program on `n` rows. `table`: the columns, then the outputs (`MapColumn`), then the instructions (`MapInstruction`).
// `left` is set to 1 when a row that is for the host reaches an output. Bound: bytes, the values and bits of the columns read and
// those of the outputs written, as long as there are few instructions: an operation takes some 20 to 40 instructions a row, 128-bit
// division some hundred. Blocks of 256, a row a thread; bits past the end of an output are written as 0. `left` must be zeroed.
extern "C" __global__ void __launch_bounds__(BLOCK)
    map_rows(const u64* __restrict__ table, u32 columns, u32 outputs, u32 instructions, u32 n, u32* __restrict__ left) {
    const MapColumn* const inputs = reinterpret_cast<const MapColumn*>(table);
    const MapColumn* const made = inputs + columns;
    const MapInstruction* const tape = reinterpret_cast<const MapInstruction*>(made + outputs);
    const u32 i = blockIdx.x * BLOCK + threadIdx.x;
    const bool inside = i < n;
    // Rows past the end read the last one, so that all lanes of a warp vote.
    const u32 row = min(i, n - 1);
    MapRegisters at;
    bool undecided = false;
    for (u32 t = 0; t < instructions; t++) {
        const MapInstruction in = tape[t];
        if (in.code == u8(Code::LOAD_SORTED)) {
            const MapColumn column = inputs[in.column];
            at.words[in.out] = load_word(column, row);
            at.states[in.out] = bit_at(reinterpret_cast<const u32*>(column.valid), row) ? VALUE : NO_VALUE;
        } else if (in.code == STORE) {
            const MapColumn column = made[in.column];
            const u8 state = at.states[in.a];
            const u128 word = at.words[in.a];
            undecided |= inside && state == UNDECIDED;
            const u32 valid = __ballot_sync(ALL_LANES, inside && state == VALUE);
            const u32 bits = __ballot_sync(ALL_LANES, inside && (u64(word) & 1) != 0);
            const bool first = threadIdx.x % WARP == 0 && inside;
            if (first) {
                reinterpret_cast<u32*>(column.valid)[i / WARP] = valid;
            }
            if (column.kind == u64(Kind::BOOL)) {
                if (first) {
                    reinterpret_cast<u32*>(column.values)[i / WARP] = bits;
                }
            } else if (inside) {
                store_word(column, i, word);
            }
        } else {
            run(at, in);
        }
    }
    if (undecided) {
        *left = 1;
    }
}
