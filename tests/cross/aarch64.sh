#!/usr/bin/env bash
# The boards' processors: builds the command for aarch64 Linux, one static file with no C in it, and runs it under emulation:
# the whole list of behaviours on each simulated board and on the CPU device, and a job.
#
#     tests/cross/aarch64.sh [DEVICE...]
#
# The file is $CARGO_TARGET_DIR/cross/aarch64-unknown-linux-musl/release/hcq, ready to be copied to a board. No device takes
# longer than LIMIT seconds (default 600).
set -euo pipefail
cd "$(dirname "$0")/../.."

target=aarch64-unknown-linux-musl
limit="${LIMIT:-600}"
# At least so many behaviours pass on each device; what it skips beside them, it says.
floor=120
devices=("$@")
[ $# -gt 0 ] || devices=(sim:qcom-a630 sim:qcom-a650 sim:qcom-a660 cpu)
skipped() {
    printf '   skipped: %s: %s\n' "$1" "$2"
}

emulator="$(command -v qemu-aarch64 || command -v qemu-aarch64-static || true)"
if [ -z "$emulator" ]; then
    skipped cross "qemu-aarch64 (apt-get install qemu-user)"
    exit 0
fi
rustup target list --installed | grep -qx "$target" || timeout 300 rustup target add "$target"

# rustc brings a linker for it.
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld
export CARGO_PROFILE_RELEASE_STRIP=true CARGO_INCREMENTAL=0
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/cross"
cargo build --locked --release --target "$target" --bin hcq
hcq="$CARGO_TARGET_DIR/$target/release/hcq"
printf '   %s: %s bytes\n' "$hcq" "$(stat -c %s "$hcq")"

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
log="$work/selftest.log"
for device in "${devices[@]}"; do
    from=$SECONDS status=0
    timeout "$limit" "$emulator" "$hcq" selftest --device "$device" >"$log" || status=$?
    grep -E '^(FAILED|skipped) ' "$log" | sed 's/^skipped  /skips    /' || true
    if [ "$status" != 0 ]; then
        tail -n 3 "$log"
        printf '   error: selftest of %s ends with %d (124: not done after %d s)\n' "$device" "$status" "$limit" >&2
        exit 1
    fi
    passed="$(sed -n 's/^\([0-9]*\) passed, .*/\1/p' "$log")"
    printf '   %s: %s; %d s\n' "$device" "$(tail -n 1 "$log")" $((SECONDS - from))
    if [ "${passed:-0}" -lt "$floor" ]; then
        printf '   error: fewer than %d behaviours were run\n' "$floor" >&2
        exit 1
    fi
done

# A job writes beside itself.
mkdir -p "$work/examples" "$work/tests/conformance/kernels"
cp -r examples/gpu "$work/examples/"
cp -r tests/conformance/kernels/qcom "$work/tests/conformance/kernels/"
for device in "${devices[@]}"; do
    case "$device" in
        *qcom*) timeout "$limit" "$emulator" "$hcq" run "$work/examples/gpu/job-qcom.toml" --device "$device" ;;
    esac
done
