#include "memory.hpp"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <sys/mman.h>

namespace {
struct Memory {
    u8 *base;
    /// Bytes of each granule that are allocated.
    u8 *shadow;
    std::mutex lock;
    std::map<u64, u64> used; // offset, bytes
    std::map<u64, u64> free; // offset, bytes
    std::map<u64, u64> pinned;
    u64 taken = 0;
    u64 limit;
    Memory() {
        auto map = [](u64 bytes) {
            return (u8 *)mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        };
        base = map(ARENA);
        shadow = map(ARENA / GRANULE);
        free[0] = ARENA;
        const char *mib = getenv("EMULATED_GPU_MIB");
        arena_begin = (u64)base;
        arena_shadow = shadow;
        limit = (mib ? strtoull(mib, nullptr, 10) : 16384) << 20;
    }
};
Memory &memory() {
    static Memory *m = new Memory;
    return *m;
}
void shade(Memory &m, u64 at, u64 bytes, bool allowed) {
    u64 whole = bytes / GRANULE;
    memset(m.shadow + at / GRANULE, allowed ? GRANULE : 0, whole);
    if (bytes % GRANULE) m.shadow[at / GRANULE + whole] = allowed ? bytes % GRANULE : 0;
}
} // namespace

u64 allocate_global(u64 bytes) {
    auto &m = memory();
    u64 room = (bytes + 511) / 256 * 256;
    u64 at;
    {
        std::lock_guard guard(m.lock);
        if (m.taken + room > m.limit) return 0;
        auto hole = std::find_if(m.free.begin(), m.free.end(), [&](auto &h) { return h.second >= room; });
        if (hole == m.free.end()) return 0;
        at = hole->first;
        u64 left = hole->second - room;
        m.free.erase(hole);
        if (left) m.free[at + room] = left;
        m.used[at] = bytes;
        m.taken += room;
        shade(m, at, bytes, true);
    }
    // What nobody wrote is no zero; of large memory only the ends, or every test would pay for it.
    memset(m.base + at, 0xa5, std::min(bytes, (u64)1 << 20));
    return (u64)m.base + at;
}

void free_global(u64 address) {
    auto &m = memory();
    u64 at = address - (u64)m.base;
    std::lock_guard guard(m.lock);
    auto found = m.used.find(at);
    if (found == m.used.end()) die("memory is freed that was not allocated");
    u64 bytes = found->second, room = (bytes + 511) / 256 * 256;
    m.used.erase(found);
    shade(m, at, bytes, false);
    if (room > (1 << 20)) madvise(m.base + at, room / 4096 * 4096, MADV_DONTNEED);
    m.taken -= room;
    // Joined with its neighbours.
    auto next = m.free.lower_bound(at);
    if (next != m.free.end() && next->first == at + room) {
        room += next->second;
        next = m.free.erase(next);
    }
    if (next != m.free.begin()) {
        auto before = std::prev(next);
        if (before->first + before->second == at) {
            before->second += room;
            return;
        }
    }
    m.free[at] = room;
}

bool of_device(u64 address) {
    auto &m = memory();
    return address - (u64)m.base < ARENA;
}

u64 arena_begin;
const u8 *arena_shadow;

bool pinned_or_allocated(u64 address, u32 bytes) {
    static Memory &m = memory();
    u64 at = address - (u64)m.base;
    if (at < ARENA) return (at % GRANULE) + bytes <= m.shadow[at / GRANULE];
    std::lock_guard guard(m.lock);
    auto found = m.pinned.upper_bound(address);
    if (found == m.pinned.begin()) return false;
    --found;
    return address + bytes <= found->first + found->second;
}

void allow(u64 address, u64 bytes, bool allowed) {
    auto &m = memory();
    std::lock_guard guard(m.lock);
    if (allowed)
        m.pinned[address] = bytes;
    else
        m.pinned.erase(address);
}

u64 device_bytes() { return memory().limit; }
u64 device_free() {
    auto &m = memory();
    std::lock_guard guard(m.lock);
    return m.limit - std::min(m.limit, m.taken);
}

std::string neighbours(u64 address) {
    auto &m = memory();
    u64 at = address - (u64)m.base;
    char text[200];
    if (at >= ARENA) {
        snprintf(text, sizeof text, "at %#llx, which is none of the device's", (unsigned long long)address);
        return text;
    }
    std::lock_guard guard(m.lock);
    auto next = m.used.upper_bound(at);
    std::string s;
    if (next != m.used.begin()) {
        auto before = std::prev(next);
        snprintf(text, sizeof text, ", byte %lld of an allocation of %llu", (long long)(at - before->first),
                 (unsigned long long)before->second);
        s += text;
    }
    if (next != m.used.end()) {
        snprintf(text, sizeof text, ", %lld before one of %llu", (long long)(next->first - at), (unsigned long long)next->second);
        s += text;
    }
    return s;
}
