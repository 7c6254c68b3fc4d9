"""Tiny kernels on tinygrad's CPU device, through its graph: N of them captured by TinyJit, replayed and waited for.

Says `ready NAME` or `absent REASON`; then, for every line that it reads, replays the graph once untimed and once timed, and
prints `ns_per_kernel FIGURE`. See README.md.
"""

import os
import shutil
import signal
import sys
import time
from importlib.metadata import version
from pathlib import Path

COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
LIMIT_SECONDS = 900


def absent(reason):
    print(f"absent {reason}", flush=True)
    sys.exit(0)


def clang():
    """tinygrad compiles with what CC names, and calls it as only clang can be called."""
    for name in ["clang", *(f"clang-{n}" for n in range(25, 10, -1))]:
        if path := shutil.which(name):
            return path
    absent("no clang, which tinygrad compiles CPU kernels with")


# Whatever hangs ends some time.
signal.alarm(LIMIT_SECONDS)
os.environ.update(
    CC=clang(),
    DEV="CPU",
    HCQ2="1",  # whole graphs become one recorded queue
    CACHEDB=str(Path(sys.prefix) / "tinygrad.db"),
)
# Its progress bars and complaints go to stderr; stdout is for the figures.
try:
    from tinygrad import Device, Tensor, TinyJit
except ImportError as e:
    absent(f"tinygrad does not load: {e}")

device = Device["CPU"]


@TinyJit
def graph(x):
    for _ in range(COUNT):
        x = (x + 1).contiguous()
    return x.realize()


def replay(x):
    y = graph(x)
    device.synchronize()
    return y


x = Tensor([1.0, 2.0]).contiguous().realize()
# The first call runs, the second one captures, the third one replays.
for _ in range(4):
    got = replay(x).tolist()
    if got != [1.0 + COUNT, 2.0 + COUNT]:
        absent(f"a graph that adds: it gave {got}")
calls = len(graph.captured.linear.src)
print(f"ready tinygrad {version('tinygrad')}, HCQ2, {COUNT} kernels in {calls} call(s)", flush=True)

for _ in sys.stdin:
    replay(x)
    start = time.perf_counter_ns()
    replay(x)
    print(f"ns_per_kernel {(time.perf_counter_ns() - start) / COUNT:.1f}", flush=True)
