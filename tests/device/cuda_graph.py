"""What a CUDA graph of the two kernels of nv.toml costs to launch, by libcuda alone: one JSON object.

usage: cuda_graph.py SAXPY.cubin VADD.cubin
"""

import ctypes
import json
import statistics
import sys
import time

N = 4096
LAUNCHES = 2000


def main(saxpy_file, vadd_file):
    cuda = ctypes.CDLL("libcuda.so.1")

    def call(name, *args):
        status = getattr(cuda, name)(*args)
        if status != 0:
            raise SystemExit(f"{name}: error {status}")

    def pointer():
        return ctypes.c_void_p()

    device, context, stream, graph, launch = ctypes.c_int(), pointer(), pointer(), pointer(), pointer()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)

    def function(path, name):
        module, found = pointer(), pointer()
        with open(path, "rb") as file:
            call("cuModuleLoadData", ctypes.byref(module), file.read())
        call("cuModuleGetFunction", ctypes.byref(found), module, name)
        return found

    saxpy, vadd = function(saxpy_file, b"saxpy"), function(vadd_file, b"vadd")
    buffers = []
    for _ in range(3):
        address = ctypes.c_uint64()
        call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(4 * N))
        call("cuMemsetD32_v2", address, 0, ctypes.c_size_t(N))
        buffers.append(address)
    x, y, total = buffers

    def run(kernel, groups, local, *args):
        list_of = (ctypes.c_void_p * len(args))(*(ctypes.addressof(a) for a in args))
        call("cuLaunchKernel", kernel, groups, 1, 1, local, 1, 1, 0, stream, list_of, None)

    call("cuStreamCreate", ctypes.byref(stream), 1)
    call("cuStreamBeginCapture_v2", stream, 0)
    run(saxpy, 16, 256, y, x, ctypes.c_float(2.5), ctypes.c_int(N), ctypes.c_uint64(0), ctypes.c_uint8(0))
    run(vadd, 64, 64, total, y, x)
    call("cuStreamEndCapture", stream, ctypes.byref(graph))
    call("cuGraphInstantiateWithFlags", ctypes.byref(launch), graph, ctypes.c_ulonglong(0))

    host, whole = [], []
    for turn in range(LAUNCHES + 100):
        before = time.perf_counter_ns()
        call("cuGraphLaunch", launch, stream)
        submitted = time.perf_counter_ns()
        call("cuStreamSynchronize", stream)
        if turn >= 100:
            host.append(submitted - before)
            whole.append(time.perf_counter_ns() - before)
    print(json.dumps({"host_ns": statistics.median(host), "total_ns": statistics.median(whole)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
