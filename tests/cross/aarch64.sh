#!/usr/bin/env bash
# The boards' processors: builds for aarch64 Linux, static, with no C, and runs the list of behaviours there under emulation, on
# a simulated board.
#
#     tests/cross/aarch64.sh [all]
#
# One behaviour of each group is run; with `all`, the whole list on every simulated chip. Nothing takes longer than LIMIT seconds
# (default 1500). The command is not built: one of its dependencies (psm, by way of npyz) has a file in assembly, for which
# an aarch64 C compiler would be needed.
set -euo pipefail
cd "$(dirname "$0")/../.."

target=aarch64-unknown-linux-musl
limit="${LIMIT:-1500}"
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
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER="$emulator"
export CARGO_PROFILE_DEV_DEBUG=0 CARGO_INCREMENTAL=0
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/cross"

filter=(one_of_each_group_on_a650)
[ "${1:-}" != all ] || filter=()
timeout "$limit" cargo test --locked --target "$target" -p hcq-conformance --test qcom -- --test-threads=1 "${filter[@]}"
