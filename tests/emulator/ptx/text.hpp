// The words of PTX.
#pragma once
#include "instruction.hpp"
#include <string>
#include <string_view>

/// Where it is in a text; words are names, numbers, quotes, and signs.
struct Lexer {
    std::string_view text;
    size_t at = 0;
    u32 line = 1;

    /// Goes past spaces and comments.
    void space();
    /// Empty at the end.
    std::string next();
    std::string peek();
};

/// The bits of a number, whole or floating; false if it is none.
bool number(const std::string &word, u64 &value);

/// What a declaration says: `.align 4 .b8 name[12]`, `.b32 name`.
struct Declared {
    u32 align = 0, bytes = 0;
    std::string name;
};
/// `word` is its first one.
Declared declared(Lexer &, std::string word);

inline u32 align_up(u32 at, u32 align) { return (at + align - 1) / align * align; }
