// The driver's API, as far as it is used: one GPU, whose work is done as late as may be, so that what is not waited for is not
// there.
#include "machine.hpp"
#include "memory.hpp"
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <set>

namespace {

std::recursive_mutex everything;

struct Stream {
    std::deque<std::function<void()>> work;
    /// How many were given, and done.
    u64 given = 0, done = 0;
    bool running = false;
};

struct Event {
    Stream *stream = nullptr;
    u64 at = 0;
};

std::set<Stream *> streams;
Stream legacy;
bool eager() {
    static bool e = getenv("EMULATED_GPU_EAGER") != nullptr;
    return e;
}

void drain(Stream *s, u64 until) {
    while (s->done < until) {
        auto work = std::move(s->work.front());
        s->work.pop_front();
        // Before it is run: who waits for this place must not run it again.
        s->done++;
        work();
    }
}
void drain_all() {
    drain(&legacy, legacy.given);
    for (auto *s : streams) drain(s, s->given);
}
void give(Stream *s, std::function<void()> work) {
    if (!s) s = &legacy;
    s->work.push_back(std::move(work));
    s->given++;
    if (eager()) drain(s, s->given);
}

struct Counts {
    std::map<std::string, std::pair<u64, double>> kernels;
    ~Counts() {
        const char *file = getenv("EMULATED_GPU_PROFILE");
        if (!file) return;
        FILE *f = fopen(file, "a");
        for (auto &[name, c] : kernels) fprintf(f, "%s %llu %.3f\n", name.c_str(), (unsigned long long)c.first, c.second);
        fclose(f);
    }
};
Counts counts;

/// Calls that are counted, to fail one of them: `EMULATED_GPU_REFUSE=n` refuses the n-th allocation and the next one, as who is refused asks
/// once more; from the n-th launch, copy or event on, `EMULATED_GPU_FAIL=n` fails them all, as after a fault.
u64 number_of(const char *name) {
    const char *text = getenv(name);
    return text ? strtoull(text, nullptr, 10) : 0;
}
bool refuses() {
    static const u64 refused = number_of("EMULATED_GPU_REFUSE");
    static std::atomic<u64> count{0};
    u64 n = ++count;
    return refused && (n == refused || n == refused + 1);
}
bool fails() {
    static const u64 failed = number_of("EMULATED_GPU_FAIL");
    static std::atomic<u64> count{0};
    return failed && ++count >= failed;
}

void check_device(u64 at, u64 bytes, const char *what) {
    if (bytes && (!allocated(at, 1) || !allocated(at + bytes - 1, 1)))
        die(std::string(what) + " of " + std::to_string(bytes) + " bytes where nothing is allocated");
}

thread_local void *current = nullptr;
int context;

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 101, NO_BINARY_FOR_GPU = 209, NOT_FOUND = 500, ILLEGAL_ADDRESS = 700 };

using Lock = std::lock_guard<std::recursive_mutex>;

} // namespace

extern "C" {

int cuInit(unsigned) { return SUCCESS; }
int cuDriverGetVersion(int *v) { return *v = 13000, SUCCESS; }
int cuDeviceGetCount(int *n) { return *n = 1, SUCCESS; }
int cuDeviceGet(int *d, int ordinal) {
    if (ordinal != 0) return NO_DEVICE;
    return *d = 0, SUCCESS;
}
int cuDeviceGetName(char *name, int most, int) { return snprintf(name, most, "emulated GPU"), SUCCESS; }
int cuDeviceTotalMem_v2(size_t *bytes, int) { return *bytes = device_bytes(), SUCCESS; }
int cuMemGetInfo_v2(size_t *free, size_t *total) { return *free = device_free(), *total = device_bytes(), SUCCESS; }
int cuDeviceGetAttribute(int *value, int attribute, int) {
    auto number = [](const char *name, int otherwise) {
        const char *text = getenv(name);
        return text ? atoi(text) : otherwise;
    };
    switch (attribute) {
    case 16: *value = number("EMULATED_GPU_MULTIPROCESSORS", 3); break;
    case 38: *value = number("EMULATED_GPU_L2_MIB", 50) << 20; break;
    case 75: *value = 9; break;
    case 76: *value = 0; break;
    case 97: *value = number("EMULATED_GPU_SHARED_KIB", 227) << 10; break;
    case 115: *value = 1; break;
    default: *value = 0;
    }
    return SUCCESS;
}
int cuDevicePrimaryCtxRetain(void **c, int) { return *c = &context, SUCCESS; }
int cuDevicePrimaryCtxRelease_v2(int) { return SUCCESS; }
int cuCtxSetCurrent(void *c) { return current = c, SUCCESS; }
int cuCtxGetCurrent(void **c) { return *c = current, SUCCESS; }
int cuCtxSynchronize() {
    Lock lock(everything);
    drain_all();
    return SUCCESS;
}
int cuGetErrorName(int e, const char **name) {
    *name = e == 0     ? "CUDA_SUCCESS"
            : e == 2   ? "CUDA_ERROR_OUT_OF_MEMORY"
            : e == 500 ? "CUDA_ERROR_NOT_FOUND"
                       : "CUDA_ERROR_OF_THE_EMULATION";
    return SUCCESS;
}
int cuGetErrorString(int e, const char **text) {
    *text = e == 2 ? "out of memory" : "see the name";
    return SUCCESS;
}

int cuStreamCreate(void **s, unsigned) {
    Lock lock(everything);
    auto *stream = new Stream;
    streams.insert(stream);
    *s = stream;
    return SUCCESS;
}
int cuStreamCreateWithPriority(void **s, unsigned flags, int) { return cuStreamCreate(s, flags); }
int cuStreamDestroy_v2(void *s) {
    Lock lock(everything);
    // Its work is still done; events may name it.
    drain((Stream *)s, ((Stream *)s)->given);
    streams.erase((Stream *)s);
    return SUCCESS;
}
int cuStreamSynchronize(void *s) {
    if (fails()) return ILLEGAL_ADDRESS;
    Lock lock(everything);
    auto *stream = s ? (Stream *)s : &legacy;
    drain(stream, stream->given);
    return SUCCESS;
}
int cuStreamIsCapturing(void *, int *status) { return *status = 0, SUCCESS; }
int cuEventCreate(void **e, unsigned) { return *e = new Event, SUCCESS; }
int cuEventDestroy_v2(void *e) {
    Lock lock(everything);
    // Who waits for it has its own copy.
    delete (Event *)e;
    return SUCCESS;
}
int cuEventRecord(void *e, void *s) {
    if (fails()) return ILLEGAL_ADDRESS;
    Lock lock(everything);
    auto *stream = s ? (Stream *)s : &legacy;
    *(Event *)e = {stream, stream->given};
    return SUCCESS;
}
int cuStreamWaitEvent(void *s, void *e, unsigned) {
    if (fails()) return ILLEGAL_ADDRESS;
    Lock lock(everything);
    Event event = *(Event *)e;
    if (event.stream) give((Stream *)s, [event] { drain(event.stream, event.at); });
    return SUCCESS;
}
int cuEventSynchronize(void *e) {
    if (fails()) return ILLEGAL_ADDRESS;
    Lock lock(everything);
    Event event = *(Event *)e;
    if (event.stream) drain(event.stream, event.at);
    return SUCCESS;
}
int cuEventQuery(void *e) { return cuEventSynchronize(e); }
int cuEventElapsedTime_v2(float *ms, void *, void *) { return *ms = 1.0f, SUCCESS; }
int cuEventElapsedTime(float *ms, void *, void *) { return *ms = 1.0f, SUCCESS; }

int cuMemPoolCreate(void **pool, const void *) { return *pool = &context, SUCCESS; }
int cuMemPoolDestroy(void *) { return SUCCESS; }
int cuMemPoolSetAttribute(void *, int, void *) { return SUCCESS; }
int cuMemPoolTrimTo(void *, size_t) { return SUCCESS; }
int cuMemAllocFromPoolAsync(u64 *at, size_t bytes, void *, void *) {
    if (refuses()) return OUT_OF_MEMORY;
    Lock lock(everything);
    if (!(*at = allocate_global(bytes))) {
        // What is to be freed may still wait.
        drain_all();
        *at = allocate_global(bytes);
    }
    return *at ? SUCCESS : OUT_OF_MEMORY;
}
int cuMemAllocAsync(u64 *at, size_t bytes, void *s) { return cuMemAllocFromPoolAsync(at, bytes, nullptr, s); }
int cuMemAlloc_v2(u64 *at, size_t bytes) { return cuMemAllocFromPoolAsync(at, bytes, nullptr, nullptr); }
int cuMemFreeAsync(u64 at, void *s) {
    Lock lock(everything);
    give((Stream *)s, [at] { free_global(at); });
    return SUCCESS;
}
int cuMemFree_v2(u64 at) {
    Lock lock(everything);
    drain_all();
    free_global(at);
    return SUCCESS;
}
int cuMemHostAlloc(void **at, size_t bytes, unsigned) {
    *at = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    allow((u64)*at, bytes, true);
    return SUCCESS;
}
int cuMemFreeHost(void *at) {
    Lock lock(everything);
    drain_all();
    allow((u64)at, 0, false);
    free(at);
    return SUCCESS;
}

int cuMemcpyHtoDAsync_v2(u64 to, const void *from, size_t bytes, void *s) {
    if (fails()) return ILLEGAL_ADDRESS;
    Lock lock(everything);
    give((Stream *)s, [=] {
        check_device(to, bytes, "a copy up");
        memcpy((void *)to, from, bytes);
    });
    // Pageable memory is read before the call returns.
    if (!allocated((u64)from, 1)) drain(s ? (Stream *)s : &legacy, (s ? (Stream *)s : &legacy)->given);
    return SUCCESS;
}
int cuMemcpyDtoHAsync_v2(void *to, u64 from, size_t bytes, void *s) {
    if (fails()) return ILLEGAL_ADDRESS;
    Lock lock(everything);
    give((Stream *)s, [=] {
        check_device(from, bytes, "a copy down");
        memcpy(to, (void *)from, bytes);
    });
    if (!allocated((u64)to, 1)) drain(s ? (Stream *)s : &legacy, (s ? (Stream *)s : &legacy)->given);
    return SUCCESS;
}
int cuMemcpyDtoDAsync_v2(u64 to, u64 from, size_t bytes, void *s) {
    if (fails()) return ILLEGAL_ADDRESS;
    Lock lock(everything);
    give((Stream *)s, [=] {
        check_device(from, bytes, "a copy from");
        check_device(to, bytes, "a copy to");
        memcpy((void *)to, (void *)from, bytes);
    });
    return SUCCESS;
}
int cuMemcpyHtoD_v2(u64 to, const void *from, size_t bytes) {
    return cuMemcpyHtoDAsync_v2(to, from, bytes, nullptr), cuStreamSynchronize(nullptr);
}
int cuMemcpyDtoH_v2(void *to, u64 from, size_t bytes) {
    return cuMemcpyDtoHAsync_v2(to, from, bytes, nullptr), cuStreamSynchronize(nullptr);
}
int cuMemsetD8Async(u64 to, unsigned char byte, size_t bytes, void *s) {
    if (fails()) return ILLEGAL_ADDRESS;
    Lock lock(everything);
    give((Stream *)s, [=] {
        check_device(to, bytes, "clearing");
        memset((void *)to, byte, bytes);
    });
    return SUCCESS;
}

int cuModuleLoadData(void **module, const void *image) {
    // Machine code.
    if (!std::strncmp((const char *)image, "\x7f" "ELF", 4)) return NO_BINARY_FOR_GPU;
    *module = Module::load((const char *)image).release();
    return SUCCESS;
}
int cuModuleUnload(void *module) {
    Lock lock(everything);
    drain_all();
    delete (Module *)module;
    return SUCCESS;
}
int cuModuleGetFunction(void **function, void *module, const char *name) {
    *function = ((Module *)module)->kernel(name);
    return *function ? SUCCESS : NOT_FOUND;
}
int cuFuncGetAttribute(int *value, int attribute, void *f) {
    auto *kernel = (Kernel *)f;
    switch (attribute) {
    case 0: *value = kernel->most_threads; break;
    case 1: *value = kernel->shared_bytes; break;
    case 3: *value = kernel->local_bytes; break;
    case 4: *value = 32; break;
    case 8: *value = kernel->most_dynamic; break;
    default: return INVALID_VALUE;
    }
    return SUCCESS;
}
int cuFuncSetAttribute(void *f, int attribute, int value) {
    if (attribute == 8) ((Kernel *)f)->most_dynamic = value;
    return SUCCESS;
}
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *, int, size_t) { return *blocks = 2, SUCCESS; }
int cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, void *, int, size_t, unsigned) {
    return *blocks = 2, SUCCESS;
}

/// As the driver lays it out.
struct LaunchAttribute {
    int id;
    char padding[4];
    union {
        char bytes[64];
        u32 cluster[3];
    } value;
};
struct LaunchConfig {
    u32 grid[3], block[3], shared;
    void *stream;
    const LaunchAttribute *attributes;
    u32 count;
    /// 0: not one of a row of blocks.
    u32 blocks_of_cluster() const {
        for (u32 i = 0; i < count; i++) {
            const u32 *of = attributes[i].value.cluster;
            if (attributes[i].id == 4) return of[1] == 1 && of[2] == 1 ? of[0] : 0;
        }
        return 1;
    }
};
// Cards have as many blocks that may be a cluster.
constexpr u32 MOST_OF_CLUSTER = 16;
int cuOccupancyMaxActiveClusters(int *clusters, void *f, const LaunchConfig *config) {
    u32 blocks = config->blocks_of_cluster();
    if (!blocks || blocks > MOST_OF_CLUSTER || config->shared > ((Kernel *)f)->most_dynamic) return INVALID_VALUE;
    return *clusters = std::max(1u, 4 / blocks), SUCCESS;
}
int cuLaunchKernelEx(const LaunchConfig *config, void *f, void **arguments, void **) {
    auto *kernel = (Kernel *)f;
    if (fails()) return ILLEGAL_ADDRESS;
    u32 gx = config->grid[0], gy = config->grid[1], gz = config->grid[2];
    u32 bx = config->block[0], by = config->block[1], bz = config->block[2];
    u32 shared = config->shared, blocks_of_cluster = config->blocks_of_cluster();
    if (!gx || !gy || !gz || gy > 65535 || gz > 65535) return INVALID_VALUE;
    if (bx * by * bz > kernel->most_threads) return INVALID_VALUE;
    if (!blocks_of_cluster || blocks_of_cluster > MOST_OF_CLUSTER || gx % blocks_of_cluster) return INVALID_VALUE;
    int most_shared = 0;
    cuDeviceGetAttribute(&most_shared, 97, 0);
    if (shared > kernel->most_dynamic || shared + kernel->shared_bytes > (u32)most_shared) return INVALID_VALUE;
    if (kernel->shared_bytes > (48 << 10)) return INVALID_VALUE;
    std::vector<u8> parameters(kernel->parameter_bytes + 16);
    for (size_t p = 0; p < kernel->parameters.size(); p++)
        memcpy(parameters.data() + kernel->parameters[p].offset, arguments[p], kernel->parameters[p].bytes);
    Lock lock(everything);
    give((Stream *)config->stream, [=, parameters = std::move(parameters)] {
        u32 grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
        auto begun = std::chrono::steady_clock::now();
        run(*kernel, grid, block, blocks_of_cluster, shared, parameters.data());
        auto &count = counts.kernels[kernel->name];
        count.first++;
        count.second += std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    });
    return SUCCESS;
}
int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void *s, void **arguments, void **extra) {
    LaunchConfig config{{gx, gy, gz}, {bx, by, bz}, shared, s, nullptr, 0};
    return cuLaunchKernelEx(&config, f, arguments, extra);
}
int cuLaunchHostFunc(void *s, void (*f)(void *), void *with) {
    Lock lock(everything);
    give((Stream *)s, [=] { f(with); });
    return SUCCESS;
}
}
