// Opcodes: their words between dots, and who executes them.
#pragma once
#include "instruction.hpp"
#include <string>
#include <vector>

/// A type, as the suffix of an opcode names it.
enum class Ty : u8 { Pred, B8, B16, B32, B64, U8, U16, U32, U64, S8, S16, S32, S64, F32, F64, None };

inline u32 width_of(Ty type) {
    switch (type) {
    case Ty::B8:
    case Ty::U8:
    case Ty::S8:
    case Ty::Pred: return 1;
    case Ty::B16:
    case Ty::U16:
    case Ty::S16: return 2;
    case Ty::B32:
    case Ty::U32:
    case Ty::S32:
    case Ty::F32: return 4;
    default: return 8;
    }
}
Ty type_of(const std::string &word);

struct Opcode {
    std::vector<std::string> words;
    std::string name;
    /// That is named last.
    Ty type;

    explicit Opcode(const std::string &text);
    bool has(const char *word) const;
};

// Each returns null for what is not its own, or unknown.
Execute arithmetic(const Opcode &, Instruction &);
Execute comparison(const Opcode &, Instruction &);
Execute movement(const Opcode &, Instruction &);
Execute access(const Opcode &, Instruction &);
Execute across(const Opcode &, Instruction &);

/// Who executes an opcode; null if nobody can.
Execute executed(const Opcode &, Instruction &);
