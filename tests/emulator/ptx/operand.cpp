// What operands are.
#include "ptx/compiler.hpp"

static Row special(const std::string &name) {
    static const std::map<std::string, Row> names = {
        {"%tid.x", TID_X},
        {"%tid.y", TID_Y},
        {"%tid.z", TID_Z},
        {"%ctaid.x", CTAID_X},
        {"%ctaid.y", CTAID_Y},
        {"%ctaid.z", CTAID_Z},
        {"%ntid.x", NTID_X},
        {"%ntid.y", NTID_Y},
        {"%ntid.z", NTID_Z},
        {"%nctaid.x", NCTAID_X},
        {"%nctaid.y", NCTAID_Y},
        {"%nctaid.z", NCTAID_Z},
        {"%laneid", LANEID},
        {"%warpid", WARPID},
        {"%lanemask_eq", LANEMASK_EQ},
        {"%lanemask_lt", LANEMASK_LT},
        {"%lanemask_le", LANEMASK_LE},
        {"%lanemask_gt", LANEMASK_GT},
        {"%lanemask_ge", LANEMASK_GE},
        {"%smid", SMID},
        {"%nsmid", NSMID},
        {"%clock", CLOCK},
        {"%clock64", CLOCK},
        {"%globaltimer", CLOCK},
        {"%dynamic_smem_size", DYNAMIC_SHARED},
        {"%cluster_ctarank", CLUSTER_RANK},
        {"%cluster_nctarank", CLUSTER_BLOCKS},
    };
    auto found = names.find(name);
    return found == names.end() ? NONE : found->second;
}

const Row *Compiler::find(const std::string &name) {
    for (size_t s = scopes.size(); s-- > 0;) {
        auto found = scopes[s].find(name);
        if (found != scopes[s].end()) return &found->second;
    }
    return nullptr;
}

const u32 *Compiler::find_local(const std::string &name) {
    for (size_t s = local.size(); s-- > 0;) {
        auto found = local[s].find(name);
        if (found != local[s].end()) return &found->second;
    }
    return nullptr;
}

Row Compiler::operand(const std::string &name) {
    if (name == "_") return NONE;
    if (auto found = find(name)) return *found;
    u64 value;
    if (number(name, value)) return constant(value);
    Row row = special(name);
    if (row != NONE) return row;
    auto symbol = shared.find(name);
    if (symbol == shared.end())
        if (auto found = module.shared.find(name); found != module.shared.end()) {
            // Only what is named takes room.
            Declared d;
            d.align = found->second.first;
            d.bytes = found->second.second;
            symbol = shared.emplace(name, in_shared(d)).first;
        }
    if (symbol != shared.end()) return constant(symbol->second);
    if (auto found = module.globals.find(name); found != module.globals.end()) return constant(found->second);
    if (name == "WARP_SZ") return constant(32);
    die("what is " + name + " in " + kernel.name + "?");
}

void Compiler::address(Lexer &lexer, Instruction &ins) {
    if (lexer.next() != "[") die("an address in " + kernel.name + " line " + std::to_string(lexer.line));
    auto base = lexer.next();
    auto after = lexer.next();
    u64 offset = 0;
    if (after == "+") {
        number(lexer.next(), offset);
        after = lexer.next();
    } else if (!after.empty() && after[0] == '-') {
        number(after, offset);
        after = lexer.next();
    }
    if (after != "]") die("an address ends with " + after + " in " + kernel.name);
    ins.offset = (i64)offset;
    auto parameter = parameters.find(base);
    if (find_local(base) && !find(base)) {
        // A parameter of a function or of a call, or the stack.
        ins.space = Space::Local;
        ins.from[0] = LOCAL_BASE;
        ins.offset += *find_local(base);
    } else if (ins.space == Space::Param && parameter != parameters.end()) {
        ins.from[0] = constant(parameter->second);
    } else {
        ins.from[0] = operand(base);
    }
}

u32 Compiler::vector(Lexer &lexer, Row *rows) {
    if (lexer.peek() != "{") {
        rows[0] = operand(lexer.next());
        return 1;
    }
    lexer.next();
    u32 count = 0;
    for (;;) {
        rows[count++] = operand(lexer.next());
        if (lexer.next() == "}") return count;
    }
}
