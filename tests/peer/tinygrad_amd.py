"""tinygrad's AMD compute queue and HCQGraph with no GPU: what the launch of a graph of N kernels, two pointers each, takes
(`launch`), and what recording one wait, barrier, dispatch and signal takes (`encode`).

The queue, its packets, symbols, patching and the graph's launch are tinygrad's own; the device behind them is memory. Says `ready NAME` or
`absent REASON`; for every line that it reads it runs once untimed and once timed, and prints `ns_per_kernel FIGURE`: a launch
divided by N, or one group recorded. See README.md.
"""

import signal
import sys
import time
from importlib.metadata import version
from types import SimpleNamespace

MODE = sys.argv[1] if len(sys.argv) > 1 else "launch"
COUNT = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
SHARED = (sys.argv[3] if len(sys.argv) > 3 else "shared") == "shared"
LIMIT_SECONDS = 300
INPUT = 4096


def absent(reason):
    print(f"absent {reason}", flush=True)
    sys.exit(0)


signal.alarm(LIMIT_SECONDS)
try:
    import ctypes
    import importlib

    from tinygrad.dtype import dtypes
    from tinygrad.runtime.graph.hcq import HCQGraph
    from tinygrad.runtime.ops_amd import AMDComputeQueue, AMDSignal
    from tinygrad.runtime.support.amd import AMDIP, import_soc
    from tinygrad.runtime.support.hcq import CLikeArgsState, HCQBuffer, MMIOInterface
    from tinygrad.uop.ops import UOp
except (ImportError, AttributeError) as e:
    absent(f"tinygrad's AMD queue does not load: {e}")


KEPT = []


class Stub(SimpleNamespace):
    """What is hashed by identity, as devices are."""

    __hash__ = object.__hash__

    def __eq__(self, other):
        return self is other


def memory(size):
    """Bytes that are both the device's and ours, for ever: views of them are addresses."""
    block = (ctypes.c_uint64 * (size // 8 + 1))()
    KEPT.append(block)
    address = ctypes.addressof(block)
    return HCQBuffer(address, size, view=MMIOInterface(address, size))


def device():
    """A gfx1100 of which nothing but the queue's memory is there."""
    offsets = importlib.import_module("tinygrad.runtime.autogen.am.navi_offsets")
    target = (11, 0, 0)

    def bases(name, segments):
        of = lambda i, s: getattr(offsets, f"{name}_BASE__INST{i}_SEG{s}", 0)
        return {i: tuple(of(i, s) for s in range(segments)) for i in range(6)}

    dev = Stub(
        target=target,
        xccs=1,
        soc=import_soc(target),
        pm4=importlib.import_module("tinygrad.runtime.autogen.am.pm4_nv"),
        gc=AMDIP("gc", target, bases("GC", 6)),
        nbio=AMDIP("nbio", (4, 3, 0), bases("NBIO", 9)),
        sqtt_enabled=False,
        tmpring_size=0,
        scratch=memory(4096),
        is_am=lambda: True,
        allocator=SimpleNamespace(alloc=lambda size, _: memory(size), free=lambda *_: None),
    )
    ring = memory(1 << 20)
    dev.compute_queue = SimpleNamespace(
        ring=ring.cpu_view().view(fmt="I"), put_value=0, signal_doorbell=lambda dev: None
    )
    return dev


def group(queue, prg, args, sig, value):
    queue.wait(sig, value)
    queue.memory_barrier()
    queue.exec(prg, args, (1, 1, 1), (64, 1, 1))
    queue.signal(sig, value)


def main():
    dev = device()
    prg = SimpleNamespace(
        dev=dev, enable_private_segment_sgpr=False, enable_dispatch_ptr=False, prog_addr=0x7F4400012300,
        rsrc1=0x60AF0080, rsrc2=0x1390, rsrc3=0, wave32=True, signature=(), kernargs_segment_size=16,
    )
    kernargs = memory(16 * COUNT)
    sig = AMDSignal(memory(16), value=0, owner=None)
    if MODE == "encode":
        args = CLikeArgsState(kernargs, prg, (memory(64), memory(64)))

        def run(_):
            queue = AMDComputeQueue(dev)
            for value in range(20):
                group(queue, prg, args, sig, value)
            return 20
    else:
        queue = AMDComputeQueue(dev)
        inputs = 2 if SHARED else 2 * COUNT
        var = lambda name, t: UOp.variable(name, 0, 0xFFFFFFFF if t is dtypes.uint32 else 0xFFFFFFFFFFFFFFFF, dtype=t)
        pointers = [var(f"inp_{i}_0", dtypes.uint64) for i in range(inputs)]
        which = [[pos if SHARED else 2 * k + pos for pos in (0, 1)] for k in range(COUNT)]
        kickoff, point, slot = (
            var("kickoff_var", dtypes.uint32), var("timeline_var", dtypes.uint32), var("timeline_sig", dtypes.uint64)
        )
        kick = AMDSignal(memory(16), value=0, owner=None)
        timeline = AMDSignal(HCQBuffer(slot, 16), owner=None, is_timeline=True)
        # As HCQGraph records a device's queue, without what it waits for between kernels: AMD's needs nothing there.
        queue.memory_barrier().wait(timeline, point).wait(kick, kickoff).signal(sig, kickoff)
        for k, pair in enumerate(which):
            bufs = tuple(HCQBuffer(pointers[i], INPUT) for i in pair)
            args = CLikeArgsState(kernargs.offset(16 * k, 16), prg, bufs)
            queue.exec(prg, args, (1, 1, 1), (64, 1, 1))
        queue.signal(timeline, point + 1).bind(dev)

        # The device is done when it is looked at.
        done = Stub(wait=lambda value: None, base_buf=memory(16))
        dev.timeline_signal, dev.timeline_value = done, 1

        def next_timeline():
            dev.timeline_value += 1
            return dev.timeline_value - 1

        dev.next_timeline = next_timeline
        graph = Stub(
            devices=[dev], input_replace_map={dev: set()}, kickoff_value=0, last_timeline={dev: (done, 0)},
            kickoff_var=kickoff, virt_timeline_vals={dev: point}, virt_timeline_signals={dev: timeline},
            uop_replace=[list(enumerate(pair)) for pair in which], calls=[(0, None, [], {})] * COUNT,
            input_replace_to_var={(k, pos): pointers[i] for k, pair in enumerate(which) for pos, i in enumerate(pair)},
            rdma_vars={}, rdma_queues={}, comp_queues={dev: queue}, device_vars={}, _dev_copy_queues=lambda dev: [],
            queue_signals_to_reset=[sig], kick_signals={0: kick},
        )
        addresses = [[0x7F0000000000 + INPUT * i + 64 * turn for i in range(inputs)] for turn in (0, 1)]
        given = [[Stub(buffer=Stub(_buf=Stub(va_addr=a))) for a in of] for of in addresses]

        def run(turn):
            HCQGraph.__call__(graph, given[turn & 1], {})
            return COUNT

        run(1)
        words = kernargs.cpu_view().view(fmt="Q")
        if [words[i] for i in range(2 * COUNT)] != [addresses[1][i] for pair in which for i in pair]:
            absent("a launch that stores its pointers")
    print(f"ready tinygrad {version('tinygrad')}, AMD queue of gfx1100 without a GPU, {MODE}", flush=True)
    turn = 2
    for _ in sys.stdin:
        run(turn)
        start = time.perf_counter_ns()
        n = run(turn + 1)
        print(f"ns_per_kernel {(time.perf_counter_ns() - start) / n:.1f}", flush=True)
        turn += 2


try:
    main()
except Exception as e:  # noqa: BLE001
    absent(f"tinygrad's AMD queue without a GPU: {type(e).__name__}: {e}")
