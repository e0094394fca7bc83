#include "ptx/opcode.hpp"
#include <algorithm>
#include <map>

Ty type_of(const std::string &word) {
    static const std::map<std::string, Ty> types = {{"pred", Ty::Pred}, {"b8", Ty::B8},   {"b16", Ty::B16}, {"b32", Ty::B32},
                                                    {"b64", Ty::B64},   {"u8", Ty::U8},   {"u16", Ty::U16}, {"u32", Ty::U32},
                                                    {"u64", Ty::U64},   {"s8", Ty::S8},   {"s16", Ty::S16}, {"s32", Ty::S32},
                                                    {"s64", Ty::S64},   {"f32", Ty::F32}, {"f64", Ty::F64}};
    auto found = types.find(word);
    return found == types.end() ? Ty::None : found->second;
}

Opcode::Opcode(const std::string &text) {
    for (size_t begin = 0; begin <= text.size();) {
        size_t end = std::min(text.find('.', begin), text.size());
        if (end > begin) words.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    name = words.empty() ? "" : words[0];
    type = words.empty() ? Ty::None : type_of(words.back());
}

bool Opcode::has(const char *word) const { return std::find(words.begin(), words.end(), word) != words.end(); }

Execute executed(const Opcode &opcode, Instruction &ins) {
    for (auto part : {arithmetic, comparison, movement, access, across})
        if (Execute found = part(opcode, ins)) return found;
    return nullptr;
}
