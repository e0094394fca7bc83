// Modules: where functions and kernels are in a text, and what all of them share.
#include "ptx/compile.hpp"
#include "memory.hpp"
#include "ptx/text.hpp"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

void die(const std::string &message) {
    fprintf(stderr, "\nemulated GPU: %s\n", message.c_str());
    fflush(stderr);
    abort();
}

std::unique_ptr<Module> Module::load(std::string text) {
    auto module = std::make_unique<Module>();
    module->text = std::move(text);
    Lexer lexer{module->text};
    for (;;) {
        size_t begin;
        lexer.space();
        begin = lexer.at;
        auto word = lexer.next();
        if (word.empty()) break;
        if (word == ".visible" || word == ".weak" || word == ".extern" || word == ";") continue;
        if (word == ".version" || word == ".target" || word == ".address_size") {
            lexer.next();
            while (lexer.peek() == ",") lexer.next(), lexer.next();
            continue;
        }
        if (word == ".entry" || word == ".func") {
            std::string name;
            if (word == ".func" && lexer.peek() == "(")
                while (lexer.next() != ")") {}
            name = lexer.next();
            // A declaration ends with `;`, a definition has a body, which is skipped by its braces.
            for (;;) {
                auto token = lexer.next();
                if (token == ";") break;
                if (token != "{") continue;
                size_t end = lexer.at;
                for (u32 depth = 1; depth > 0; end++) {
                    if (end >= module->text.size()) die("the end of " + name + " is missing");
                    char c = module->text[end];
                    if (c == '/' && module->text[end + 1] == '/') end = module->text.find('\n', end);
                    depth += c == '{';
                    depth -= c == '}';
                }
                (word == ".entry" ? module->entries : module->functions)[name] = begin;
                lexer.at = end;
                break;
            }
            continue;
        }
        if (word == ".global" || word == ".const" || word == ".shared") {
            auto d = declared(lexer, lexer.next());
            if (word == ".shared") {
                module->shared[d.name] = {d.align, d.bytes};
            } else {
                u64 at = allocate_global(std::max(d.bytes, 16u));
                memset((void *)at, 0, std::max(d.bytes, 16u));
                module->globals[d.name] = at;
                if (lexer.peek() == "=") {
                    lexer.next();
                    u32 width = 1;
                    // Values of bytes or of words.
                    auto token = lexer.next();
                    std::vector<u64> values;
                    while (token != ";") {
                        u64 value;
                        if (number(token, value)) values.push_back(value);
                        token = lexer.next();
                    }
                    width = values.empty() ? 1 : d.bytes / values.size();
                    for (size_t i = 0; i < values.size(); i++) memcpy((u8 *)at + i * width, &values[i], width);
                    continue;
                }
            }
            while (lexer.next() != ";") {}
            continue;
        }
        if (word == ".file" || word == ".section") {
            while (lexer.at < module->text.size() && module->text[lexer.at] != '\n') lexer.at++;
            continue;
        }
        if (word == ".pragma") {
            while (lexer.next() != ";") {}
            continue;
        }
        die("'" + word + "' at the top of a module, line " + std::to_string(lexer.line));
    }
    return module;
}

Kernel *Module::kernel(const std::string &name) {
    std::lock_guard guard(lock);
    auto found = entries.find(name);
    if (found == entries.end()) return nullptr;
    auto &kernel = kernels[name];
    if (!kernel) {
        kernel = std::make_unique<Kernel>();
        compile(*this, *kernel, found->second);
    }
    return kernel.get();
}
