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

# All steps together take no longer than this, whatever each may take.
LIMIT=465
SECONDS=0
BAD=0
KEEPERS=()

DEVICE="${DEVICE:-nv}"
REPORT="$(realpath -m -- "${1:-/dev/null}")"
[ -z "${HCQ:-}" ] || [[ "$HCQ" != */* ]] || HCQ="$(realpath -- "$HCQ")"
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 4
[ "$REPORT" = /dev/null ] || : >"$REPORT" || exit 4

say() { printf '%s\n' "$*" | tee -a "$REPORT"; }
failed() {
    say "FAILED: $*"
    BAD=1
}

# bounded SECONDS COMMAND...: ends it when its time is over, or that of all, kindly first.
bounded() {
    local seconds=$1 left=$((LIMIT - SECONDS))
    shift
    [ "$left" -ge 1 ] || return 124
    timeout --kill-after=3 "$((seconds < left ? seconds : left))" "$@"
}

# ended CODE SECONDS: what an exit code says.
ended() {
    case $1 in
        124 | 137) echo "not done within $2 s, or after $LIMIT s of all steps" ;;
        *) echo "exit code $1" ;;
    esac
}

release() {
    [ ${#KEEPERS[@]} = 0 ] || kill "${KEEPERS[@]}" 2>/dev/null
}
trap release EXIT

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
    export CARGO_TARGET_DIR=target
    bounded 200 cargo build --quiet --release --package hcq || { say "FAILED: hcq does not build in 200 s"; exit 1; }
    HCQ=target/release/hcq
fi

# A driver without a persistence daemon starts a GPU anew each time that somebody opens it first, which takes seconds: whoever
# keeps its node open keeps it running. That is no setting, and ends with this script.
if [[ "$DEVICE" != sim:* ]]; then
    for node in /dev/nvidia[0-9]*; do
        timeout --kill-after=3 "$LIMIT" sleep "$LIMIT" <"$node" >/dev/null 2>&1 &
        KEEPERS+=($!)
    done
fi

say "== $(bounded 10 "$HCQ" --version), driver: $(head -n 1 /proc/driver/nvidia/version 2>/dev/null || echo none)"
say "$(bounded 30 "$HCQ" devices 2>&1)"

# ---------------------------------------------------------------------------------------- behaviours

say "== hcq selftest --device $DEVICE"
list=$(bounded 240 "$HCQ" selftest --device "$DEVICE" 2>&1)
code=$?
say "$(printf '%s\n' "$list" | grep -v '^ok ')"
[ $code = 0 ] || failed "$(ended $code 240)"

# ---------------------------------------------------------------------------------------- a job

say "== hcq run tests/device/nv.toml --device $DEVICE"
# One line of JSON, of which the launch's cost is read with no other tool.
job=$(bounded 60 "$HCQ" run tests/device/nv.toml --device "$DEVICE" --repeat 2000 --json 2>&1)
code=$?
if [ $code = 0 ]; then
    say "outputs are as expected"
    say "hcq: $(printf '%s' "$job" | grep -o '"launch":{[^}]*}')"
else
    failed "$(ended $code 60): $job"
fi

# ---------------------------------------------------------------------------------------- the same as a CUDA graph

if ! command -v python3 >/dev/null; then
    say "skipped: a CUDA graph to compare with: no python3"
else
    graph=$(bounded 60 python3 -B tests/device/cuda_graph.py --launches 2000 2>&1)
    code=$?
    case $code in
        0) say "CUDA graph: $graph" ;;
        3) say "skipped: a CUDA graph to compare with: $graph" ;;
        *) failed "the CUDA graph: $(ended $code 60): $graph" ;;
    esac
fi

[ $BAD = 0 ] && say "== all is well"
exit $BAD
