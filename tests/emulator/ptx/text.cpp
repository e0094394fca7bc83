#include "ptx/text.hpp"
#include "ptx/opcode.hpp"
#include <algorithm>
#include <cstdlib>

static bool word_char(char c) { return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '$' || c == '%'; }

void Lexer::space() {
    for (;;) {
        while (at < text.size() && isspace((unsigned char)text[at])) line += text[at++] == '\n';
        if (text.substr(at, 2) == "//") {
            while (at < text.size() && text[at] != '\n') at++;
            continue;
        }
        if (text.substr(at, 2) == "/*") {
            while (text.substr(at, 2) != "*/") line += text[at++] == '\n';
            at += 2;
            continue;
        }
        return;
    }
}

std::string Lexer::next() {
    space();
    if (at >= text.size()) return "";
    size_t begin = at;
    if (text[at] == '"') {
        at = text.find('"', at + 1) + 1;
    } else if (word_char(text[at])) {
        while (at < text.size() && word_char(text[at])) at++;
    } else if (text[at] == '-' && isdigit((unsigned char)text[at + 1])) {
        at++;
        while (at < text.size() && word_char(text[at])) at++;
    } else {
        at++;
    }
    return std::string(text.substr(begin, at - begin));
}

std::string Lexer::peek() {
    auto kept = *this;
    auto word = next();
    *this = kept;
    return word;
}

bool number(const std::string &word, u64 &value) {
    if (word.size() > 2 && word[0] == '0' && (word[1] == 'f' || word[1] == 'F')) {
        value = strtoull(word.c_str() + 2, nullptr, 16);
        return true;
    }
    if (word.size() > 2 && word[0] == '0' && (word[1] == 'd' || word[1] == 'D')) {
        value = strtoull(word.c_str() + 2, nullptr, 16);
        return true;
    }
    const char *begin = word.c_str();
    bool negative = *begin == '-';
    if (negative) begin++;
    if (!isdigit((unsigned char)*begin)) return false;
    value = strtoull(begin, nullptr, 0);
    if (negative) value = 0 - value;
    return true;
}

Declared declared(Lexer &lexer, std::string word) {
    Declared d;
    Ty type = Ty::None;
    for (;; word = lexer.next()) {
        if (word == ".align") {
            d.align = strtoul(lexer.next().c_str(), nullptr, 10);
        } else if (word == ".ptr" || word == ".global" || word == ".const" || word == ".shared") {
        } else if (word[0] == '.') {
            type = type_of(word.substr(1));
            if (type == Ty::None) die("a declaration of type " + word);
        } else {
            break;
        }
    }
    d.name = word;
    u32 width = width_of(type);
    d.align = std::max(d.align, width);
    d.bytes = width;
    if (lexer.peek() == "[") {
        lexer.next();
        auto count = lexer.next();
        if (count == "]") {
            d.bytes = 0;
        } else {
            d.bytes = width * strtoul(count.c_str(), nullptr, 10);
            lexer.next();
        }
    }
    return d;
}
