#!/usr/bin/env python3
"""What a GPU machine allows at most: device copy, random gather, copies over the bus, copies through staging memory.

Needs CuPy. Prints one line each; the shares in docs/performance/log-theta.md are of these figures, measured in the same run.
"""

import os
import time
from concurrent.futures import ThreadPoolExecutor

import cupy
import numpy


def median_seconds(work, runs=7):
    """Time on the device of `work`, after one run that is not counted."""
    work()
    times = []
    for _ in range(runs):
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        work()
        end.record()
        end.synchronize()
        times.append(cupy.cuda.get_elapsed_time(begin, end) / 1e3)
    return sorted(times)[runs // 2]


def pinned(count):
    """`count` bytes of pinned memory, touched."""
    memory = numpy.frombuffer(cupy.cuda.alloc_pinned_memory(count), numpy.uint8, count)
    memory[:] = 1
    return memory


def staged_gigabytes(up, size=1 << 30, slot=32 << 20):
    """Pageable memory to (or from) the device by way of four pinned slots that all cores fill (or empty)."""
    cores = os.cpu_count()
    pool = ThreadPoolExecutor(cores)
    host = numpy.ones(size, numpy.uint8)
    device = cupy.empty(size, cupy.uint8)
    slots = [pinned(slot) for _ in range(4)]
    stream = cupy.cuda.Stream(non_blocking=True)
    events = [cupy.cuda.Event() for _ in slots]

    def copy(to, source):
        part = -(-len(to) // cores)
        jobs = [
            pool.submit(numpy.copyto, to[i * part : (i + 1) * part], source[i * part : (i + 1) * part])
            for i in range(cores)
        ]
        for job in jobs:
            job.result()

    def run():
        begin = time.perf_counter()
        parts = size // slot
        for part in range(parts if up else parts + 2):
            at = part % len(slots)
            if up:
                events[at].synchronize()
                copy(slots[at], host[part * slot : (part + 1) * slot])
                cupy.cuda.runtime.memcpyAsync(
                    device.data.ptr + part * slot, slots[at].ctypes.data, slot, 1, stream.ptr
                )
                events[at].record(stream)
                continue
            if part < parts:
                cupy.cuda.runtime.memcpyAsync(
                    slots[at].ctypes.data, device.data.ptr + part * slot, slot, 2, stream.ptr
                )
                events[at].record(stream)
            if part >= 2:
                done = part - 2
                events[done % len(slots)].synchronize()
                copy(host[done * slot : (done + 1) * slot], slots[done % len(slots)])
        stream.synchronize()
        return size / (time.perf_counter() - begin) / 1e9

    return max(run() for _ in range(4))


def main():
    count = 1 << 28
    source = cupy.arange(count, dtype=cupy.uint32)
    target = cupy.empty_like(source)
    seconds = median_seconds(lambda: cupy.cuda.runtime.memcpyAsync(
        target.data.ptr, source.data.ptr, 4 * count, 3, cupy.cuda.get_current_stream().ptr))
    print(f"device copy, read + write   {8 * count / seconds / 1e12:8.2f} TB/s")

    table, places = source[: 1 << 27], cupy.random.permutation(1 << 27).astype(cupy.uint32)
    out = cupy.empty_like(places)
    gather = cupy.RawKernel(
        r"""extern "C" __global__ void gather(const unsigned* t, const unsigned* p, unsigned* o, unsigned n) {
            const unsigned first = blockIdx.x * 1024 + threadIdx.x;
            unsigned at[4];
            for (int k = 0; k < 4; k++) at[k] = p[first + k * 256];
            for (int k = 0; k < 4; k++) o[first + k * 256] = t[at[k]];
        }""",
        "gather",
    )
    seconds = median_seconds(lambda: gather(((1 << 27) // 1024,), (256,), (table, places, out, numpy.uint32(1 << 27))))
    print(f"random gather over 512 MB   {(1 << 27) / seconds / 1e9:8.1f} G/s")

    size = 1 << 30
    host, device = pinned(size), cupy.empty(size, cupy.uint8)
    stream = cupy.cuda.get_current_stream().ptr
    for name, to, of, kind in (
        ("host to device, pinned", device.data.ptr, host.ctypes.data, 1),
        ("device to host, pinned", host.ctypes.data, device.data.ptr, 2),
    ):
        seconds = median_seconds(lambda: cupy.cuda.runtime.memcpyAsync(to, of, size, kind, stream))
        print(f"{name}      {size / seconds / 1e9:8.1f} GB/s")
    print(f"host to device, staged      {staged_gigabytes(True):8.1f} GB/s")
    print(f"device to host, staged      {staged_gigabytes(False):8.1f} GB/s")


if __name__ == "__main__":
    main()
