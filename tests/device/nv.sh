#!/usr/bin/env bash
# Checks a real NVIDIA GPU: the list of behaviours, a job with real cubins, what a launch costs beside a CUDA graph.
#
#   tests/device/nv.sh [REPORT]     writes what it found to a file as well
#
#   HCQ      the command to use; without it, target/release/hcq or target/debug/hcq, or one is built
#   DEVICE   the device, nv by default
#
# It ends within 8 minutes, resets nothing and changes no setting. Without an NVIDIA device it says so and succeeds.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 4

DEVICE="${DEVICE:-nv}"
REPORT="${1:-/dev/null}"
BAD=0

say() { printf '%s\n' "$*" | tee -a "$REPORT"; }
[ "$REPORT" = /dev/null ] || : >"$REPORT"

# bounded SECONDS COMMAND...: ends it when its time is over, kindly first.
bounded() {
    local seconds=$1
    shift
    timeout --kill-after=5 "$seconds" "$@"
}

if [ ! -e /dev/nvidiactl ] && [[ "$DEVICE" != sim:* ]]; then
    say "skipped: no NVIDIA device"
    exit 0
fi

# ---------------------------------------------------------------------------------------- the command

if [ -z "${HCQ:-}" ]; then
    for built in target/release/hcq target/debug/hcq; do
        [ -x "$built" ] && HCQ="$built" && break
    done
fi
if [ -z "${HCQ:-}" ]; then
    command -v cargo >/dev/null || { say "skipped: no hcq, and no cargo to build it"; exit 0; }
    bounded 200 cargo build --quiet --release --package hcq || { say "FAILED: hcq does not build in 200 s"; exit 1; }
    HCQ=target/release/hcq
fi

say "== $("$HCQ" --version), driver: $(head -n 1 /proc/driver/nvidia/version 2>/dev/null || echo none)"
say "$("$HCQ" devices 2>&1)"

# ---------------------------------------------------------------------------------------- behaviours

say "== hcq selftest --device $DEVICE"
list=$(bounded 180 "$HCQ" selftest --device "$DEVICE" 2>&1)
code=$?
say "$(printf '%s\n' "$list" | grep -v '^ok ')"
case $code in
    0) ;;
    124 | 137) say "FAILED: not done within 180 s"; BAD=1 ;;
    *) say "FAILED: exit code $code"; BAD=1 ;;
esac

# ---------------------------------------------------------------------------------------- a job

say "== hcq run tests/device/nv.toml --device $DEVICE"
# One line of JSON, of which the launch's cost is read with no other tool.
job=$(bounded 60 "$HCQ" run tests/device/nv.toml --device "$DEVICE" --repeat 2000 --json 2>&1)
code=$?
if [ $code = 0 ]; then
    say "outputs are as expected"
    say "hcq: $(printf '%s' "$job" | grep -o '"launch":{[^}]*}')"
else
    say "FAILED: exit code $code: $job"
    BAD=1
fi

# ---------------------------------------------------------------------------------------- the same as a CUDA graph

target=$("$HCQ" run tests/device/nv.toml --device "$DEVICE" --json 2>/dev/null | grep -o 'sm_[0-9]*' | head -n 1)
[ -n "$target" ] || target=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | sed 's/^/sm_/; s/\.//')
objects=tests/vectors/objects
if ! command -v python3 >/dev/null; then
    say "skipped: a CUDA graph to compare with: no python3"
elif ! python3 -c 'import ctypes; ctypes.CDLL("libcuda.so.1")' 2>/dev/null; then
    say "skipped: a CUDA graph to compare with: no libcuda.so.1"
elif [ ! -e "$objects/saxpy-$target.cubin" ]; then
    say "skipped: a CUDA graph to compare with: no cubins for ${target:-this GPU}"
else
    graph=$(bounded 60 python3 tests/device/cuda_graph.py "$objects/saxpy-$target.cubin" "$objects/vadd-$target.cubin" 2>&1)
    if [ $? = 0 ]; then
        say "CUDA graph: $graph"
    else
        say "skipped: a CUDA graph to compare with: $graph"
    fi
fi

[ $BAD = 0 ] && say "== all is well"
exit $BAD
