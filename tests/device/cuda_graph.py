"""What the job of nv.toml costs to launch as a CUDA graph, by libcuda alone: one JSON object.

The graph has the same nodes: a copy, saxpy, vadd. Its outputs are compared with those that the job is to have.

Ends with 0 when it has measured, with 3 when there is nothing to measure with (no libcuda, no GPU, no cubins for it), with 1
when something went wrong, and with 2 when it is called wrongly.
"""

import argparse
import array
import ctypes
import json
import os
import pathlib
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
N = 4096
BYTES = 4 * N
WARM_UP = 100
# CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR; CU_STREAM_NON_BLOCKING; CU_STREAM_CAPTURE_MODE_GLOBAL.
MAJOR, MINOR = 75, 76
NON_BLOCKING = 1
GLOBAL = 0
NOTHING = 3


class Nothing(Exception):
    """There is nothing to measure with."""


class Failed(Exception):
    """It does not work."""


def floats(path):
    """The numbers of a file of numpy's: 4096 of 32 bits."""
    data = path.read_bytes()
    if data[:8] != b"\x93NUMPY\x01\x00":
        raise Failed(f"{path}: not a file of numpy's, version 1.0")
    start = 10 + int.from_bytes(data[8:10], "little")
    if len(data) - start != BYTES or b"'<f4'" not in data[:start]:
        raise Failed(f"{path}: not {N} floats")
    return data[start:]


class Cuda:
    """libcuda, and calls whose errors are exceptions."""

    def __init__(self):
        # The GPUs in the order of the bus, as `nv:0`, `nv:1` are.
        os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        try:
            self.library = ctypes.CDLL("libcuda.so.1")
        except OSError as e:
            raise Nothing(f"no libcuda.so.1: {e}") from e
        status = self.library.cuInit(0)
        if status != 0:
            raise Nothing(f"cuInit: {self.name(status)}")

    def name(self, status):
        text = ctypes.c_char_p()
        known = self.library.cuGetErrorName(status, ctypes.byref(text)) == 0 and text.value
        return text.value.decode() if known else f"error {status}"

    def call(self, function, *args):
        status = getattr(self.library, function)(*args)
        if status != 0:
            raise Failed(f"{function}: {self.name(status)}")

    def get(self, function, *args, kind=ctypes.c_void_p):
        """Calls what stores its answer where its first argument says."""
        answer = kind()
        self.call(function, ctypes.byref(answer), *args)
        return answer

    def function(self, cubin, name):
        module = self.get("cuModuleLoadData", cubin.read_bytes())
        return self.get("cuModuleGetFunction", module, name)

    def memory(self, contents=None):
        address = self.get("cuMemAlloc_v2", ctypes.c_size_t(BYTES), kind=ctypes.c_uint64)
        self.call("cuMemcpyHtoD_v2", address, contents or bytes(BYTES), ctypes.c_size_t(BYTES))
        return address

    def read(self, address):
        host = ctypes.create_string_buffer(BYTES)
        self.call("cuMemcpyDtoH_v2", host, address, ctypes.c_size_t(BYTES))
        return host.raw


def cubins(cuda, device, folder):
    """The files of both programs for the GPU."""
    parts = [cuda.get("cuDeviceGetAttribute", part, device, kind=ctypes.c_int) for part in (MAJOR, MINOR)]
    target = "sm_" + "".join(str(part.value) for part in parts)
    paths = [folder / f"{name}-{target}.cubin" for name in ("saxpy", "vadd")]
    for path in paths:
        if not path.exists():
            raise Nothing(f"no {path}")
    return target, paths


def measure(options):
    cuda = Cuda()
    device = cuda.get("cuDeviceGet", options.device, kind=ctypes.c_int)
    target, paths = cubins(cuda, device, options.objects)
    data = options.data
    wanted = [("y", floats(data / "expected_y.npy")), ("sum", floats(data / "expected_sum.npy"))]
    before_y = floats(data / "y.npy")

    cuda.call("cuCtxSetCurrent", cuda.get("cuDevicePrimaryCtxRetain", device))
    saxpy, vadd = (cuda.function(path, name) for path, name in zip(paths, (b"saxpy", b"vadd")))
    x = cuda.memory(array.array("f", range(N)).tobytes())
    y_before, y, total = cuda.memory(before_y), cuda.memory(), cuda.memory()
    stream = cuda.get("cuStreamCreate", NON_BLOCKING)

    def run(kernel, groups, local, *args):
        places = (ctypes.c_void_p * len(args))(*(ctypes.addressof(a) for a in args))
        cuda.call("cuLaunchKernel", kernel, groups, 1, 1, local, 1, 1, 0, stream, places, None)

    cuda.call("cuStreamBeginCapture_v2", stream, GLOBAL)
    cuda.call("cuMemcpyDtoDAsync_v2", y, y_before, ctypes.c_size_t(BYTES), stream)
    numbers = ctypes.c_float(2.5), ctypes.c_int32(N), ctypes.c_uint64(0), ctypes.c_uint8(0)
    run(saxpy, 16, 256, y, x, *numbers)
    run(vadd, 64, 64, total, y, x)
    graph = ctypes.c_void_p()
    cuda.call("cuStreamEndCapture", stream, ctypes.byref(graph))
    launch = cuda.get("cuGraphInstantiateWithFlags", graph, ctypes.c_uint64(0))

    host, whole = [], []
    for turn in range(WARM_UP + options.launches):
        start = time.perf_counter_ns()
        cuda.call("cuGraphLaunch", launch, stream)
        submitted = time.perf_counter_ns()
        cuda.call("cuStreamSynchronize", stream)
        if turn >= WARM_UP:
            host.append(submitted - start)
            whole.append(time.perf_counter_ns() - start)
    for (name, expected), address in zip(wanted, (y, total)):
        if cuda.read(address) != expected:
            raise Failed(f"{name} is not as expected")
    version = cuda.get("cuDriverGetVersion", kind=ctypes.c_int).value
    return {
        "cuda": f"{version // 1000}.{version % 1000 // 10}",
        "target": target,
        "launches": options.launches,
        "host_ns": statistics.median(host),
        "total_ns": statistics.median(whole),
    }


def count(text):
    number = int(text)
    if not 1 <= number <= 1_000_000:
        raise argparse.ArgumentTypeError("from 1 to 1000000")
    return number


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--launches", type=count, default=2000, help="launches that are measured")
    parser.add_argument("--device", type=int, default=0, help="the GPU, counted along the bus")
    folder = {"type": pathlib.Path, "metavar": "FOLDER"}
    parser.add_argument("--objects", default=ROOT / "tests/vectors/objects", help="where the cubins are", **folder)
    parser.add_argument("--data", default=ROOT / "examples/gpu", help="where inputs and outputs are", **folder)
    options = parser.parse_args()
    try:
        print(json.dumps(measure(options)))
    except Nothing as e:
        print(e, file=sys.stderr)
        return NOTHING
    except (Failed, OSError) as e:
        print(e, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
