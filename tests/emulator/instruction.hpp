// Instructions, kernels and modules: registers are rows of 32 lanes, scopes and symbols are resolved.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using i8 = int8_t;
using i16 = int16_t;
using i32 = int32_t;
using i64 = int64_t;

struct Machine;
struct Instruction;
/// Executes an instruction for the lanes of a mask.
using Execute = void (*)(Machine &, const Instruction &, u32 mask);

enum class Kind : u8 {
    Plain,
    Branch,
    Exit,
    Return,
    Call,
    Trap,
    Sleep,
    /// Waits for the lanes of a mask, which is its operand `mask`.
    Warp,
    /// Waits for all threads of the block, or of its cluster (variant ALL_OF_CLUSTER).
    Block,
};

constexpr u8 ALL_OF_CLUSTER = 4;

enum class Space : u8 { Generic, Global, Shared, Local, Param, Constant };

/// A row of the register file, or of a kernel's constants if it is negative.
using Row = i32;
constexpr Row NONE = INT32_MIN;

struct Instruction {
    Execute execute = nullptr;
    Kind kind = Kind::Plain;
    Space space = Space::Generic;
    u8 bytes = 0;
    u8 lanes_of_vector = 1;
    bool guard_negated = false;
    Row guard = NONE;
    /// Results, and the operands.
    Row to[4] = {NONE, NONE, NONE, NONE};
    Row from[4] = {NONE, NONE, NONE, NONE};
    /// A vector's elements that are stored.
    Row more[4] = {NONE, NONE, NONE, NONE};
    /// Which lanes take part; a second result.
    Row mask = NONE, also = NONE;
    i64 offset = 0;
    u32 target = 0;
    u32 variant = 0;
    u32 line = 0;
};

struct CallSite {
    /// (from, to, bytes) in the thread's memory, before and after.
    struct Copy {
        u32 from, to, bytes;
    };
    std::vector<Copy> before, after;
    std::string function;
    u32 entry = 0;
    Row return_row = NONE;
};

struct Parameter {
    u32 offset, bytes;
};

struct Kernel {
    std::string name;
    std::vector<Instruction> code;
    /// 32 lanes of each.
    std::vector<u64> constants;
    std::vector<Parameter> parameters;
    std::vector<CallSite> calls;
    u32 parameter_bytes = 0;
    u32 rows = 0;
    u32 shared_bytes = 0;
    u32 local_bytes = 0;
    /// Most dynamic shared memory that was allowed.
    u32 most_dynamic = 48 << 10;
    u32 most_threads = 1024;
    /// Launches that are not done.
    u64 pending = 0;
};

struct Module {
    std::string text;
    std::map<std::string, std::unique_ptr<Kernel>> kernels;
    /// Where each function's text begins: at `.entry` or `.func`.
    std::map<std::string, size_t> functions;
    std::map<std::string, size_t> entries;
    std::map<std::string, u64> globals;
    /// Of the module: (offset is given by each kernel).
    std::map<std::string, std::pair<u32, u32>> shared; // align, bytes
    std::mutex lock;
    static std::unique_ptr<Module> load(std::string text);
    Kernel *kernel(const std::string &name);
};

/// Rows that every kernel has, before its own registers.
enum Special : Row {
    TID_X,
    TID_Y,
    TID_Z,
    CTAID_X,
    CTAID_Y,
    CTAID_Z,
    NTID_X,
    NTID_Y,
    NTID_Z,
    NCTAID_X,
    NCTAID_Y,
    NCTAID_Z,
    LANEID,
    WARPID,
    LANEMASK_EQ,
    LANEMASK_LT,
    LANEMASK_LE,
    LANEMASK_GT,
    LANEMASK_GE,
    SMID,
    NSMID,
    CLOCK,
    DYNAMIC_SHARED,
    CLUSTER_RANK,
    CLUSTER_BLOCKS,
    CARRY,
    LOCAL_BASE,
    SPECIAL_ROWS
};

[[noreturn]] void die(const std::string &message);
