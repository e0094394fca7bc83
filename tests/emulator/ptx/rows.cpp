#include "ptx/compile.hpp"
#include <algorithm>
#include <map>

/// Gives one row to registers that are never alive together, so that a warp's registers stay in the cache.
void reuse_rows(Kernel &kernel) {
    struct Life {
        u32 begin = UINT32_MAX, end = 0;
    };
    std::vector<Life> lives(kernel.rows);
    auto each = [](Instruction &i, auto f) {
        f(i.guard);
        for (Row &row : i.to) f(row);
        for (Row &row : i.from) f(row);
        for (Row &row : i.more) f(row);
        f(i.mask);
        f(i.also);
        // The second register of a matrix.
        Row second = (Row)i.target;
        if (i.kind == Kind::Warp && second != 0) {
            f(second);
            i.target = (u32)second;
        }
    };
    for (u32 at = 0; at < kernel.code.size(); at++)
        each(kernel.code[at], [&](Row row) {
            if (row < SPECIAL_ROWS) return;
            lives[row].begin = std::min(lives[row].begin, at);
            lives[row].end = std::max(lives[row].end, at);
        });
    // Which are alive where blocks of the text begin and end.
    u32 size = kernel.code.size();
    std::vector<u8> leads(size + 1, 0);
    leads[0] = leads[size] = 1;
    for (u32 at = 0; at < size; at++) {
        const auto &i = kernel.code[at];
        if (i.kind == Kind::Branch) leads[i.target] = 1;
        if (i.kind == Kind::Branch || i.kind == Kind::Exit || i.kind == Kind::Trap) leads[at + 1] = 1;
    }
    std::vector<u32> begins, block_of(size + 1);
    for (u32 at = 0; at < size; at++) {
        if (leads[at]) begins.push_back(at);
        block_of[at] = begins.size() - 1;
    }
    u32 blocks = begins.size();
    begins.push_back(size);
    size_t words = (kernel.rows + 63) / 64;
    using Bits = std::vector<u64>;
    std::vector<Bits> used(blocks, Bits(words)), made(blocks, Bits(words)), in(blocks, Bits(words)), out(blocks, Bits(words));
    auto has = [](const Bits &bits, Row row) { return bits[row / 64] >> (row % 64) & 1; };
    auto add = [](Bits &bits, Row row) { bits[row / 64] |= 1ull << (row % 64); };
    for (u32 at = 0; at < size; at++) {
        auto &i = kernel.code[at];
        u32 block = block_of[at];
        auto reads = [&](Row row) {
            if (row >= SPECIAL_ROWS && !has(made[block], row)) add(used[block], row);
        };
        auto makes = [&](Row row) {
            if (row < SPECIAL_ROWS) return;
            if (i.guard == NONE)
                add(made[block], row);
            else if (!has(made[block], row))
                add(used[block], row);
        };
        reads(i.guard);
        for (Row row : i.from) reads(row);
        for (Row row : i.more) reads(row);
        reads(i.mask);
        if (i.kind == Kind::Warp && i.target)
            reads(i.also), reads((Row)i.target);
        else
            makes(i.also);
        for (Row row : i.to) makes(row);
    }
    for (bool again = true; again;) {
        again = false;
        for (u32 block = blocks; block-- > 0;) {
            const auto &last = kernel.code[begins[block + 1] - 1];
            auto flows = [&](u32 to) {
                if (to >= blocks) return;
                for (size_t w = 0; w < words; w++) out[block][w] |= in[to][w];
            };
            if (last.kind == Kind::Branch) flows(block_of[last.target]);
            bool ends = (last.kind == Kind::Branch || last.kind == Kind::Exit) && last.guard == NONE;
            if (!ends) flows(block + 1);
            for (size_t w = 0; w < words; w++) {
                u64 alive = used[block][w] | (out[block][w] & ~made[block][w]);
                again |= alive != in[block][w];
                in[block][w] = alive;
            }
        }
    }
    for (u32 block = 0; block < blocks; block++)
        for (Row row = SPECIAL_ROWS; row < (Row)kernel.rows; row++) {
            if (has(in[block], row))
                lives[row].begin = std::min(lives[row].begin, begins[block]),
                lives[row].end = std::max(lives[row].end, begins[block]);
            if (has(out[block], row))
                lives[row].begin = std::min(lives[row].begin, begins[block + 1] - 1),
                lives[row].end = std::max(lives[row].end, begins[block + 1] - 1);
        }
    std::vector<u32> order;
    for (u32 row = SPECIAL_ROWS; row < kernel.rows; row++)
        if (lives[row].begin != UINT32_MAX) order.push_back(row);
    std::sort(order.begin(), order.end(), [&](u32 a, u32 b) { return lives[a].begin < lives[b].begin; });
    std::vector<Row> renamed(kernel.rows, 0);
    std::vector<Row> spare;
    std::multimap<u32, Row> busy;
    Row rows = SPECIAL_ROWS;
    for (u32 row : order) {
        while (!busy.empty() && busy.begin()->first < lives[row].begin) {
            spare.push_back(busy.begin()->second);
            busy.erase(busy.begin());
        }
        Row given = spare.empty() ? rows++ : spare.back();
        if (!spare.empty()) spare.pop_back();
        renamed[row] = given;
        busy.emplace(lives[row].end, given);
    }
    for (auto &i : kernel.code)
        each(i, [&](Row &row) {
            if (row >= SPECIAL_ROWS) row = renamed[row];
        });
    kernel.rows = rows;
}
