// Statements made instructions.
#include "ptx/compiler.hpp"
#include "ptx/opcode.hpp"
#include <algorithm>

static Space space_of(const Opcode &opcode) {
    for (auto &[name, space] : {std::pair{"global", Space::Global},
                                {"shared", Space::Shared},
                                {"local", Space::Local},
                                {"param", Space::Param},
                                {"const", Space::Constant}})
        if (opcode.has(name)) return space;
    return Space::Generic;
}

void Compiler::statement(Lexer &lexer, std::string word, Labels &labels) {
    Instruction ins;
    ins.line = lexer.line;
    if (word == "@") {
        word = lexer.next();
        if (word == "!") {
            ins.guard_negated = true;
            word = lexer.next();
        }
        ins.guard = operand(word);
        word = lexer.next();
    }
    Opcode opcode(word);
    auto has = [&](const char *part) { return opcode.has(part); };
    const auto &op = opcode.name;
    Ty type = opcode.type;
    auto end = [&] {
        auto semicolon = lexer.next();
        if (semicolon != ";")
            die("'" + semicolon + "' after " + word + " in " + kernel.name + " line " + std::to_string(ins.line));
        kernel.code.push_back(ins);
    };
    auto comma = [&] {
        auto c = lexer.next();
        if (c != ",") die("'" + c + "' in the operands of " + word + " in " + kernel.name + " line " + std::to_string(ins.line));
    };
    if (op == "bra") {
        ins.kind = Kind::Branch;
        labels.wanted.push_back({(u32)kernel.code.size(), lexer.next()});
        return end();
    }
    if (op == "exit" || (op == "ret" && current.empty())) {
        ins.kind = Kind::Exit;
        return end();
    }
    if (op == "ret") {
        ins.kind = Kind::Return;
        ins.from[0] = functions[current].return_row;
        return end();
    }
    if (op == "trap") {
        ins.kind = Kind::Trap;
        return end();
    }
    if (op == "nanosleep") {
        ins.kind = Kind::Sleep;
        lexer.next();
        return end();
    }
    if (op == "membar" || op == "fence") return end(), (void)kernel.code.pop_back();
    if (op == "prefetch" || op == "prefetchu" || op == "applypriority") {
        while (lexer.next() != ";") {}
        return;
    }
    if (op == "cp") {
        // cp.async [shared], [global], bytes, bytes that are read.
        ins.execute = executed(opcode, ins);
        if (has("wait_all")) return end();
        if (!ins.execute || !has("shared") || !has("global")) die("no " + word);
        address(lexer, ins);
        if (ins.offset != 0) die("an offset of " + word);
        comma();
        Row shared = ins.from[0];
        address(lexer, ins);
        if (ins.offset != 0) die("an offset of " + word);
        comma();
        ins.from[1] = ins.from[0];
        ins.from[0] = shared;
        ins.bytes = std::stoi(lexer.next());
        comma();
        ins.from[2] = operand(lexer.next());
        return end();
    }
    if (op == "call") return call(lexer);
    if (op == "bar" || op == "barrier") {
        if (has("warp")) {
            ins.kind = Kind::Warp;
            ins.execute = [](Machine &, const Instruction &, u32) {};
            ins.mask = operand(lexer.next());
            return end();
        }
        ins.kind = Kind::Block;
        if (has("cluster")) {
            // Who has arrived waits, so that arrivals need not be counted.
            if (has("arrive")) return end(), (void)kernel.code.pop_back();
            ins.variant = ALL_OF_CLUSTER;
            return end();
        }
        if (has("red")) {
            ins.variant = has("or") ? 2 : has("and") ? 1 : 3;
            ins.to[0] = operand(lexer.next());
            comma();
            lexer.next();
            comma();
            auto word = lexer.next();
            if (word == "!") die("a negated predicate of bar.red");
            if (lexer.peek() == ",") die("bar.red of some threads");
            ins.from[0] = operand(word);
        } else {
            if (lexer.next() != "0") die("a barrier other than 0");
            if (lexer.peek() == ",") die("a barrier of some threads");
        }
        return end();
    }
    if (op == "ld" || op == "st" || op == "atom" || op == "red" || op == "ldu") {
        ins.space = space_of(opcode);
        ins.bytes = width_of(type);
        ins.execute = executed(opcode, ins);
        if (!ins.execute) die("no " + word);
        if (op == "ld" || op == "ldu") {
            ins.lanes_of_vector = vector(lexer, ins.to);
            comma();
            address(lexer, ins);
        } else if (op == "st") {
            address(lexer, ins);
            comma();
            ins.lanes_of_vector = vector(lexer, ins.more);
        } else {
            if (op == "atom") {
                ins.to[0] = operand(lexer.next());
                comma();
            }
            address(lexer, ins);
            comma();
            ins.from[1] = operand(lexer.next());
            if (lexer.peek() == ",") {
                comma();
                ins.from[2] = operand(lexer.next());
            }
        }
        return end();
    }
    if (op == "mov" && lexer.peek() == "{") {
        // Cuts a word.
        u32 count = vector(lexer, ins.to);
        comma();
        ins.from[0] = operand(lexer.next());
        ins.lanes_of_vector = count;
        ins.bytes = width_of(type) / count;
        ins.execute = executed(Opcode("cut"), ins);
        return end();
    }
    if (op == "mma") {
        ins.kind = Kind::Warp;
        ins.mask = constant(~0u);
        ins.execute = executed(opcode, ins);
        if (!ins.execute) die("no " + word);
        vector(lexer, ins.to);
        comma();
        vector(lexer, ins.from);
        comma();
        Row b[4] = {NONE, NONE, NONE, NONE};
        vector(lexer, b);
        comma();
        vector(lexer, ins.more);
        // Two registers of b at the most.
        ins.mask = constant(~0u);
        ins.also = b[0];
        ins.target = (u32)b[1];
        return end();
    }
    if (op == "cvta") {
        ins.space = space_of(opcode);
    }
    ins.execute = executed(opcode, ins);
    if (!ins.execute) die("no instruction " + word + " in " + kernel.name);
    // d{|p}, a, b, c …
    ins.to[0] = operand(lexer.next());
    if (lexer.peek() == "|") {
        lexer.next();
        ins.also = operand(lexer.next());
    }
    u32 count = 0;
    bool sync = has("sync");
    Row rows[8] = {};
    while (lexer.peek() == ",") {
        comma();
        if (lexer.peek() == "{") {
            Row parts[4] = {NONE, NONE, NONE, NONE};
            u32 n = vector(lexer, parts);
            std::copy(parts, parts + 4, ins.more);
            ins.lanes_of_vector = n;
            ins.bytes = width_of(type) / n;
            ins.execute = executed(Opcode("join"), ins);
            continue;
        }
        bool negated = lexer.peek() == "!";
        if (negated) lexer.next();
        auto name = lexer.next();
        Row r;
        if (op == "mov" && !find(name) && find_local(name)) {
            // The address of the stack, or of a parameter.
            ins.offset = *find_local(name);
            r = LOCAL_BASE;
            ins.execute = executed(Opcode("offset"), ins);
        } else if (op == "mov" && parameters.count(name) && !find(name)) {
            r = constant(parameters[name]);
            ins.execute = executed(Opcode("parameter"), ins);
        } else {
            r = operand(name);
        }
        if (negated) {
            Instruction no;
            no.execute = executed(Opcode("not.pred"), no);
            no.from[0] = r;
            no.to[0] = r = row();
            kernel.code.push_back(no);
        }
        rows[count++] = r;
    }
    if (sync) {
        ins.kind = Kind::Warp;
        ins.mask = rows[--count];
    }
    for (u32 i = 0; i < std::min(count, 4u); i++) ins.from[i] = rows[i];
    if (count > 4) ins.more[0] = rows[4];
    end();
}

void Compiler::call(Lexer &lexer) {
    CallSite site;
    auto names = [&] {
        std::vector<std::string> all;
        for (;;) {
            auto word = lexer.next();
            if (word == ")") return all;
            if (word != ",") all.push_back(word);
        }
    };
    std::vector<std::string> values;
    auto word = lexer.next();
    if (word == "(") {
        values = names();
        lexer.next();
        word = lexer.next();
    }
    site.function = word;
    std::vector<std::string> given;
    if (lexer.next() == ",") {
        lexer.next();
        given = names();
        lexer.next();
    }
    if (!functions.count(word)) declare_function(word);
    auto &function = functions[word];
    for (size_t i = 0; i < given.size(); i++)
        site.before.push_back({*find_local(given[i]), function.parameters[i].first, function.parameters[i].second});
    for (auto &value : values) site.after.push_back({function.value, *find_local(value), function.value_bytes});
    site.return_row = function.return_row;
    Instruction ins;
    ins.kind = Kind::Call;
    ins.variant = kernel.calls.size();
    ins.line = lexer.line;
    kernel.calls.push_back(site);
    kernel.code.push_back(ins);
}
