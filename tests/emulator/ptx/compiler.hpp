// The compiler of one kernel.
#pragma once
#include "instruction.hpp"
#include "ptx/text.hpp"
#include <map>
#include <unordered_map>
#include <vector>

struct Compiler {
    Compiler(Module &module, Kernel &kernel) : module(module), kernel(kernel) {}
    /// The kernel whose `.entry` is there in the module's text, and the functions that it calls.
    void compile(size_t at);

private:
    struct Labels {
        std::unordered_map<std::string, u32> known;
        /// Branches, and where they go.
        std::vector<std::pair<u32, std::string>> wanted;
    };
    /// A function has its rows and its place in a thread's memory once in a kernel: none calls itself.
    struct Function {
        u32 entry;
        Row return_row;
        /// Where the value that it returns is, and its parameters: (offset, bytes).
        u32 value, value_bytes;
        std::vector<std::pair<u32, u32>> parameters;
    };

    Module &module;
    Kernel &kernel;
    /// Registers, the innermost scope last; what lies in the memory of a thread; in shared memory; among the kernel's parameters.
    std::vector<std::unordered_map<std::string, Row>> scopes;
    std::vector<std::unordered_map<std::string, u32>> local;
    std::unordered_map<std::string, u32> shared;
    std::unordered_map<std::string, u32> parameters;
    std::map<u64, Row> constant_rows;
    /// Those that are called, their parameters by name, and the one that is compiled.
    std::map<std::string, Function> functions;
    std::unordered_map<std::string, std::unordered_map<std::string, u32>> formal;
    std::vector<std::string> to_compile;
    std::string current;
    /// Dynamic shared memory, and the row of its address, which is known at the end.
    std::string dynamic_name;
    Row dynamic_row = NONE;

    // compile.cpp
    Row row() { return kernel.rows++; }
    Row constant(u64 value);
    u32 in_local(const Declared &d);
    u32 in_shared(const Declared &d);
    void declare_registers(Lexer &lexer);
    std::vector<Declared> parameters_of(Lexer &lexer);
    void declare_function(const std::string &name);
    void body(Lexer &lexer);

    // operand.cpp
    const Row *find(const std::string &name);
    const u32 *find_local(const std::string &name);
    /// The row of a register, a number, or a symbol's address.
    Row operand(const std::string &name);
    /// `[name+offset]`
    void address(Lexer &lexer, Instruction &ins);
    /// `{a, b}`, or one operand; how many they are.
    u32 vector(Lexer &lexer, Row *rows);

    // statement.cpp
    void statement(Lexer &lexer, std::string word, Labels &labels);
    void call(Lexer &lexer);
};
