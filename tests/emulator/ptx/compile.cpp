// Scopes, declarations, functions.
#include "ptx/compiler.hpp"
#include "ptx/compile.hpp"
#include "ptx/opcode.hpp"
#include <algorithm>
#include <cstdlib>

Row Compiler::constant(u64 value) {
    auto [at, added] = constant_rows.emplace(value, 0);
    if (added) {
        at->second = ~(Row)(kernel.constants.size() / 32);
        kernel.constants.insert(kernel.constants.end(), 32, value);
    }
    return at->second;
}

u32 Compiler::in_local(const Declared &d) {
    kernel.local_bytes = align_up(kernel.local_bytes, std::max(d.align, 8u));
    u32 at = kernel.local_bytes;
    kernel.local_bytes += d.bytes;
    return at;
}

u32 Compiler::in_shared(const Declared &d) {
    kernel.shared_bytes = align_up(kernel.shared_bytes, std::max(d.align, 16u));
    u32 at = kernel.shared_bytes;
    kernel.shared_bytes += d.bytes;
    return at;
}

void Compiler::declare_registers(Lexer &lexer) {
    lexer.next(); // the type
    for (;;) {
        auto name = lexer.next();
        auto after = lexer.next();
        if (after == "<") {
            u32 count = strtoul(lexer.next().c_str(), nullptr, 10);
            lexer.next();
            after = lexer.next();
            for (u32 i = 0; i < count; i++) scopes.back()[name + std::to_string(i)] = row();
        } else {
            scopes.back()[name] = row();
        }
        if (after == ";") return;
    }
}

std::vector<Declared> Compiler::parameters_of(Lexer &lexer) {
    std::vector<Declared> all;
    for (;;) {
        auto word = lexer.next();
        if (word == ")") return all;
        if (word == "," || word == ".param") continue;
        all.push_back(declared(lexer, word));
    }
}

void Compiler::declare_function(const std::string &name) {
    Lexer lexer{module.text, module.functions.at(name)};
    Function f{};
    auto &names = formal[name];
    lexer.next(); // .func
    if (lexer.peek() == "(") {
        lexer.next();
        for (auto &d : parameters_of(lexer)) {
            f.value = in_local(d);
            f.value_bytes = d.bytes;
            names[d.name] = f.value;
        }
    }
    lexer.next(); // its name
    if (lexer.peek() == "(") {
        lexer.next();
        for (auto &d : parameters_of(lexer)) {
            u32 at = in_local(d);
            f.parameters.push_back({at, d.bytes});
            names[d.name] = at;
        }
    }
    f.return_row = row();
    functions[name] = f;
    to_compile.push_back(name);
}

void Compiler::body(Lexer &lexer) {
    Labels labels;
    u32 depth = 1;
    scopes.emplace_back();
    local.emplace_back();
    while (depth > 0) {
        auto word = lexer.next();
        if (word.empty()) die("the end of " + kernel.name + " is missing");
        if (word == "{") {
            depth++;
            scopes.emplace_back();
            local.emplace_back();
        } else if (word == "}") {
            depth--;
            scopes.pop_back();
            local.pop_back();
        } else if (word == ".reg") {
            declare_registers(lexer);
        } else if (word == ".shared") {
            auto d = declared(lexer, lexer.next());
            shared[d.name] = in_shared(d);
            lexer.next();
        } else if (word == ".local" || word == ".param") {
            auto d = declared(lexer, lexer.next());
            local.back()[d.name] = in_local(d);
            lexer.next();
        } else if (word == ".loc") {
            lexer.next();
            lexer.next();
            lexer.next();
        } else if (word[0] == '.') {
            while (lexer.next() != ";") {}
        } else if (word == ";") {
        } else if (lexer.peek() == ":") {
            lexer.next();
            labels.known[word] = kernel.code.size();
        } else {
            statement(lexer, word, labels);
        }
    }
    for (auto &[at, label] : labels.wanted) {
        auto found = labels.known.find(label);
        if (found == labels.known.end()) die("no label " + label + " in " + kernel.name);
        kernel.code[at].target = found->second;
    }
}

void Compiler::compile(size_t at) {
    Lexer lexer{module.text, at};
    kernel.rows = SPECIAL_ROWS;
    for (auto &[name, d] : module.shared) {
        if (d.second == 0) {
            dynamic_name = name;
            continue;
        }
    }
    lexer.next(); // .entry
    kernel.name = lexer.next();
    if (lexer.peek() == "(") {
        lexer.next();
        u32 offset = 0;
        for (auto &d : parameters_of(lexer)) {
            offset = align_up(offset, d.align);
            kernel.parameters.push_back({offset, d.bytes});
            parameters[d.name] = offset;
            offset += d.bytes;
        }
        kernel.parameter_bytes = offset;
    }
    for (;;) {
        auto word = lexer.next();
        if (word == "{") break;
        if (word == ".maxntid" || word == ".reqntid") kernel.most_threads = strtoul(lexer.next().c_str(), nullptr, 10);
    }
    // Dynamic shared memory begins behind the static one, whose size is not known yet.
    bool dynamic = !dynamic_name.empty();
    if (dynamic) {
        dynamic_row = constant(0xfeedfacecafebeefull);
        scopes.emplace_back();
        scopes.back()[dynamic_name] = dynamic_row;
    }
    body(lexer);
    // A way to end without `ret`.
    Instruction end;
    end.kind = Kind::Exit;
    kernel.code.push_back(end);
    for (size_t i = 0; i < to_compile.size(); i++) {
        current = to_compile[i];
        auto &function = functions[current];
        function.entry = kernel.code.size();
        Lexer of{module.text, module.functions.at(current)};
        while (of.next() != "{") {}
        local.push_back(formal[current]);
        body(of);
        local.pop_back();
        Instruction ret;
        ret.kind = Kind::Return;
        ret.from[0] = function.return_row;
        kernel.code.push_back(ret);
    }
    for (auto &site : kernel.calls) site.entry = functions[site.function].entry;
    // A function is called from many places, and its rows are alive in all of them.
    if (kernel.calls.empty()) reuse_rows(kernel);
    if (dynamic) {
        u32 begin = align_up(kernel.shared_bytes, 16);
        std::fill_n(kernel.constants.begin() + (u64)~dynamic_row * 32, 32, (u64)begin);
    }
}

void compile(Module &module, Kernel &kernel, size_t at) {
    Compiler compiler(module, kernel);
    compiler.compile(at);
}
