#!/usr/bin/env bash
# Every check of this project, for a laptop and for a build machine alike.
#
#   ./ci.sh all            every step, in order; stops at the first that fails
#   ./ci.sh quick          the steps that take seconds once built: fmt tidy clippy test
#   ./ci.sh STEP...        single steps; `./ci.sh help` lists them
#
# A check that cannot run here prints what is missing and is counted as skipped. With CI set in the
# environment, missing tools and Debian packages are installed; without it, their names are printed.
# With CI set, disk is spared too: nothing is built incrementally, and what a step built and no later
# step reads is removed when the step is over.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

STEPS=(test fmt tidy clippy doc features nostd link cross loom miri fuzz deny bench-smoke)
QUICK=(fmt tidy clippy test)
BARE_TARGETS=(x86_64-unknown-none aarch64-unknown-none riscv64gc-unknown-none-elf thumbv7em-none-eabihf)

TARGET="${CARGO_TARGET_DIR:-$PWD/target}"
mkdir -p "$TARGET"
SCRATCH="$(mktemp -d)"
trap 'rm -rf "$SCRATCH"' EXIT
SKIPS="$SCRATCH/skips"
: >"$SKIPS"
export CARGO_TERM_COLOR="${CARGO_TERM_COLOR:-never}"
export RUST_BACKTRACE=1
[ -z "${CI:-}" ] || export CARGO_INCREMENTAL=0

# ---------------------------------------------------------------------------------------- helpers

note() { printf '   %s\n' "$*"; }
fail() {
    printf '   error: %s\n' "$*" >&2
    exit 1
}

# skip WHAT REASON: say it now and count it in the summary.
skip() {
    note "skipped: $1: $2"
    printf '%s: %s\n' "$1" "$2" >>"$SKIPS"
}

# spent PATH...: no later step reads this.
spent() { [ -z "${CI:-}" ] || rm -rf "$@"; }

# spent_programs FOLDER...: the same of the test programs in these; libraries and macros stay.
spent_programs() { [ -z "${CI:-}" ] || find "$@" -type f -perm -u+x ! -name '*.so' ! -path '*/build/*' -delete; }

# MiB below the folders that this script builds in, and MiB left on their disk.
disk_used() { du -scm "$TARGET" fuzz/target 2>/dev/null | awk 'END { print $1 }'; }
disk_left() { df -Pm "$TARGET" | awk 'END { print $4 }'; }

# Runs a command after showing it.
run() {
    note "\$ $*"
    "$@"
}

# apt_get PACKAGE...: true when Debian packages could be installed, which is tried with CI set only.
apt_get() {
    local as_root=()
    [ -n "${CI:-}" ] && command -v apt-get >/dev/null || return 1
    if [ "$(id -u)" != 0 ]; then
        sudo -n true 2>/dev/null || return 1
        as_root=(sudo -n)
    fi
    note "installing $*"
    { "${as_root[@]}" apt-get update -q && "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -qy --no-install-recommends "$@"; } >"$SCRATCH/apt.log" 2>&1 ||
        { tail -n 5 "$SCRATCH/apt.log" && return 1; }
}

# apt_install COMMAND PACKAGE...: true when COMMAND is there in the end.
apt_install() {
    local command=$1
    shift
    command -v "$command" >/dev/null && return 0
    apt_get "$@" && command -v "$command" >/dev/null
}

# cargo_tool NAME: true when `cargo NAME` can be run in the end.
cargo_tool() {
    cargo "$1" --version >/dev/null 2>&1 && return 0
    [ -n "${CI:-}" ] || return 1
    note "installing cargo-$1"
    CARGO_TARGET_DIR="$TARGET/tools" cargo install --locked --quiet "cargo-$1" >"$SCRATCH/install.log" 2>&1 ||
        { tail -n 5 "$SCRATCH/install.log" && return 1; }
    spent "$TARGET/tools"
}

# nightly COMPONENT...: true when a nightly toolchain with these components can be used.
nightly() {
    cargo +nightly --version >/dev/null 2>&1 || return 1
    [ $# = 0 ] || rustup component add --toolchain nightly "$@" >"$SCRATCH/rustup.log" 2>&1 ||
        { tail -n 3 "$SCRATCH/rustup.log" && return 1; }
}

# Packages under the rule "no std, no alloc": the core and every driver.
bare_packages() {
    local manifest
    for manifest in hcq-nostd/Cargo.toml drivers/*/Cargo.toml; do
        sed -n 's/^name = "\(.*\)"/\1/p;T;q' "$manifest"
    done
}

# Features of one package, a line each, `default` left out; optional dependencies count where cargo counts them.
features_of() {
    cargo metadata --no-deps --format-version 1 --manifest-path "$1" >"$SCRATCH/meta.json"
    python3 - "$SCRATCH/meta.json" "$PWD/$1" <<'PY'
import json, sys
for package in json.load(open(sys.argv[1]))["packages"]:
    if package["manifest_path"] == sys.argv[2]:
        print("\n".join(sorted(set(package["features"]) - {"default"})))
PY
}

# ------------------------------------------------------------------------------------------ steps

step_fmt() { # rustfmt on every workspace
    run cargo fmt --all --check
    run cargo fmt --manifest-path tests/link/Cargo.toml --check
    run cargo fmt --manifest-path fuzz/Cargo.toml --check
}

step_tidy() { # what no compiler sees: open ends, files that grew too long, machine paths
    local files bad
    files="$(git ls-files -co --exclude-standard '*.rs')"
    bad="$(printf '%s\n' "$files" | xargs grep -nE '\b(TODO|FIXME|XXX|HACK)\b' /dev/null || true)"
    [ -z "$bad" ] || fail "left open in the source:"$'\n'"$bad"
    bad="$(printf '%s\n' "$files" | xargs grep -nE '#\[ignore' /dev/null || true)"
    [ -z "$bad" ] || fail "tests that nobody runs:"$'\n'"$bad"
    bad="$(printf '%s\n' "$files" | xargs wc -l | awk '$2 != "total" && $1 > 700 { print "   " $2 ": " $1 " lines" }')"
    [ -z "$bad" ] || fail "files over 700 lines, split them near 600:"$'\n'"$bad"
    bad="$(git ls-files -co --exclude-standard 'hcq-nostd/src/**' 'drivers/*/src/**' | grep -vE '/tests|/(testing|model)\.rs$' |
        xargs grep -nE '^(extern crate (std|alloc)|use (std|alloc)::)' /dev/null || true)"
    bad="$(while IFS=: read -r file line rest; do
        # The one place that may name std is the line after a `#[cfg(test)]`.
        [ -z "$file" ] || sed -n "$((line - 1))p" "$file" | grep -q 'cfg(.*\(test\|loom\)' || echo "$file:$line:$rest"
    done <<<"$bad")"
    [ -z "$bad" ] || fail "std or alloc where there is none:"$'\n'"$bad"
    note "$(printf '%s\n' "$files" | wc -l) source files"
}

step_clippy() { # lints of rustc and clippy, warnings are errors
    run cargo clippy --workspace --all-targets -- -D warnings
    run cargo clippy --manifest-path fuzz/Cargo.toml --all-targets -- -D warnings
    spent fuzz/target
}

step_test() { # unit, integration and doc tests; fewer executed than tests/floor is a failure
    local log="$SCRATCH/test.log" passed ignored skipped floor
    # The headers of DRM's drivers: the test that wants them says so where there are none.
    [ -e /usr/include/drm/msm_drm.h ] || [ -e /usr/include/libdrm/msm_drm.h ] || apt_get libdrm-dev || true
    run cargo test --workspace 2>&1 | tee "$log"
    spent_programs "$TARGET/debug"
    run cargo test --manifest-path fuzz/Cargo.toml 2>&1 | tee -a "$log"
    [ -n "${CARGO_TARGET_DIR:-}" ] || spent_programs fuzz/target/debug
    passed="$(awk '/^test result: / { n += $4 } END { print n + 0 }' "$log")"
    ignored="$(awk '/^test result: / { for (i = 1; i < NF; i++) if ($(i + 1) ~ /^ignored/) n += $i } END { print n + 0 }' "$log")"
    # A test that cannot run here says `skipped: NAME: WHAT IS MISSING` on a line of its own.
    grep -E '^skipped: ' "$log" | sort -u >"$SCRATCH/test.skips" || true
    skipped="$(wc -l <"$SCRATCH/test.skips")"
    while IFS= read -r line; do
        printf 'test %s\n' "${line#skipped: }" >>"$SKIPS"
        note "$line"
    done <"$SCRATCH/test.skips"
    floor="$(grep -vE '^(#|$)' tests/floor)"
    note "$passed tests passed, $ignored ignored, $skipped said that they were skipped; the floor is $floor"
    [ $((passed - skipped)) -ge "$floor" ] || fail "only $((passed - skipped)) tests were executed, tests/floor asks for $floor: \
find out which ones no longer run, and lower the floor only where tests were removed on purpose"
    [ $((passed - skipped)) -le $((floor + floor / 4 + 8)) ] ||
        note "tests/floor lags behind: raise it to $((passed - skipped))"
}

step_doc() { # documentation with warnings denied, private items too
    RUSTDOCFLAGS="-D warnings" run cargo doc --workspace --no-deps
    RUSTDOCFLAGS="-D warnings" run cargo doc -p hcq-nostd -p hcq-cpu --no-deps --document-private-items
}

step_features() { # each package with none, each alone, each pair and all of its features
    local manifest name list sets a b count=0
    command -v python3 >/dev/null || { skip features "python3 (apt-get install python3)" && return; }
    while read -r manifest; do
        name="$(sed -n 's/^name = "\(.*\)"/\1/p;T;q' "$manifest")"
        mapfile -t list < <(features_of "$manifest" | grep . || true)
        sets=("")
        for a in "${list[@]}"; do
            sets+=("$a")
            for b in "${list[@]}"; do [[ "$a" < "$b" ]] && sets+=("$a,$b"); done
        done
        [ "${#list[@]}" -le 2 ] || sets+=("$(IFS=, && echo "${list[*]}")")
        for a in "${sets[@]}"; do
            note "$name [$a]"
            cargo clippy --quiet -p "$name" --no-default-features --features "$a" -- -D warnings ||
                fail "$name does not build with the features [$a] alone"
            count=$((count + 1))
        done
    done < <(printf '%s\n' hcq-nostd/Cargo.toml drivers/*/Cargo.toml hcq-std/Cargo.toml hcq-std/*/Cargo.toml \
        boards/*/Cargo.toml tests/conformance/Cargo.toml tests/bench/Cargo.toml | grep -v '\*')
    note "$count sets of features"
}

step_nostd() { # the core and the drivers on four targets without an operating system
    local target packages
    run rustup target add "${BARE_TARGETS[@]}"
    for target in "${BARE_TARGETS[@]}"; do
        mapfile -t packages < <(bare_packages | sed 's/^/-p/')
        run cargo clippy "${packages[@]}" --target "$target" -- -D warnings
        run cargo build "${packages[@]}" --target "$target"
        run cargo build "${packages[@]}" --target "$target" --all-features
        spent "${TARGET:?}/$target"
    done
    # The last of the debug builds.
    spent "$TARGET/debug" "$TARGET/doc"
}

step_link() { # everything linked for those targets with no allocator and no panic
    run rustup target add "${BARE_TARGETS[@]}"
    run tests/link/check.sh "$TARGET/link" "${BARE_TARGETS[@]}" 2>&1 | tee "$SCRATCH/link.log"
    sed -n 's/^ *skipped: //p' "$SCRATCH/link.log" >>"$SKIPS"
    spent "$TARGET/link"
}

step_cross() { # the command for aarch64 Linux: the list of behaviours on simulated boards and the CPU, and a job, under emulation
    apt_install qemu-aarch64 qemu-user || { skip cross "qemu-aarch64 (apt-get install qemu-user)" && return; }
    run tests/cross/aarch64.sh 2>&1 | tee "$SCRATCH/cross.log"
    sed -n 's/^ *skipped: //p' "$SCRATCH/cross.log" >>"$SKIPS"
    spent "$TARGET/cross"
}

step_loom() { # every interleaving of the models in tests/loom*.rs: waits and wakes, publication, shared launches
    local model manifest
    note "RUSTFLAGS='--cfg loom'"
    for model in $(git ls-files -co --exclude-standard | grep -E '/tests/loom[a-z_]*\.rs$' || fail "no model left"); do
        manifest="${model%/tests/*}/Cargo.toml"
        RUSTFLAGS="--cfg loom" run cargo test --release --target-dir "$TARGET/loom" --manifest-path "$manifest" \
            --test "$(basename "$model" .rs)" 2>&1 | tee "$SCRATCH/loom.log"
        grep -qE '^test result: ok\. [1-9]' "$SCRATCH/loom.log" || fail "$model ran no model"
    done
    spent "$TARGET/loom"
}

# Modules of the core that run under Miri on both machines: all that touch memory, and what they rest on.
MIRI_CORE=(mem ring patch signal timeline record arena args)
MIRI_FOREIGN=mipsel-unknown-linux-gnu
step_miri() { # undefined behaviour in the core and the CPU driver, and in the core on a 32-bit machine without 64-bit atomics
    nightly miri rust-src || { skip miri "a nightly toolchain with miri and rust-src" && return; }
    export MIRIFLAGS="-Zmiri-strict-provenance -Zmiri-symbolic-alignment-check"
    export RUSTC_ICE=0 # no dump into the working folder
    # The CPU device's addresses are numbers of pointers, which strict provenance does not know. Miri's emulation of
    # weak memory breaks down where atomic and plain stores mix; loom looks into that.
    local by_number="-Zmiri-permissive-provenance -Zmiri-disable-weak-memory-emulation -Zmiri-disable-isolation"
    run cargo +nightly miri setup
    run cargo +nightly miri setup --target "$MIRI_FOREIGN"
    # Miri interprets on one core; the runs go side by side.
    miri_run hcq-nostd "$MIRI_FOREIGN" --lib "${MIRI_CORE[@]}" >"$SCRATCH/foreign.log" 2>&1 &
    local foreign=$! status=0
    miri_run hcq-nostd "" --lib "${MIRI_CORE[@]}" plan
    # Graphs and images, written, loaded, bound, patched and damaged. Its graphs are leaked on purpose.
    MIRIFLAGS="$MIRIFLAGS -Zmiri-ignore-leaks" miri_run hcq-nostd "" --test=graph build image mutated timelines
    MIRIFLAGS="$by_number" miri_run hcq-cpu "" --lib packet engine share queue
    wait "$foreign" || status=$?
    cat "$SCRATCH/foreign.log"
    spent "$TARGET"/miri*
    return "$status"
}

# miri_run PACKAGE TARGET PROGRAM MODULE...: runs these modules' tests in a test program; a module of which no test ran is a failure.
miri_run() {
    local package=$1 target=$2 program=$3 module log="$SCRATCH/miri-$1-$2$3.log"
    shift 3
    run timeout 900 cargo +nightly miri test --target-dir "$TARGET/miri$target" -p "$package" "$program" \
        ${target:+--target "$target"} -- -Zunstable-options --report-time "${@/%/::}" 2>&1 | tee "$log"
    for module in "$@"; do
        grep -qE "^test (.*::)?$module::.* ok( |$)" "$log" || fail "no test of $package's module $module ran under Miri"
    done
}

FUZZ_SECONDS="${FUZZ_SECONDS:-7}"
step_fuzz() { # every fuzz target for a short time, from the committed seeds
    local target
    apt_install c++ g++ || { skip fuzz "a C++ compiler for libFuzzer (apt-get install g++)" && return; }
    nightly || { skip fuzz "a nightly toolchain" && return; }
    cargo_tool fuzz || { skip fuzz "cargo-fuzz (cargo install --locked cargo-fuzz)" && return; }
    run cargo +nightly fuzz build --target-dir "$TARGET/fuzz"
    while read -r target; do
        mkdir -p "fuzz/corpus/$target"
        note "\$ cargo +nightly fuzz run $target, for $FUZZ_SECONDS s"
        cargo +nightly fuzz run --target-dir "$TARGET/fuzz" "$target" "fuzz/corpus/$target" "fuzz/seeds/$target" -- \
            -max_total_time="$FUZZ_SECONDS" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 >"$SCRATCH/fuzz.log" 2>&1 ||
            { tail -n 60 "$SCRATCH/fuzz.log" && fail "$target: replay with cargo run --manifest-path fuzz/Cargo.toml --bin $target -- FILE"; }
        note "  $(sed -n 's/^stat::number_of_executed_units: *//p' "$SCRATCH/fuzz.log") inputs," \
            "$(sed -n 's/^stat::new_units_added: *//p' "$SCRATCH/fuzz.log") of them new paths"
    done < <(cargo fuzz list)
    spent "$TARGET/fuzz"
}

step_deny() { # licences, banned and duplicate packages, sources
    # It takes longer to build than all else together: never installed here, used where it is.
    cargo deny --version >/dev/null 2>&1 || { skip deny "cargo-deny (cargo install --locked cargo-deny)" && return; }
    run cargo fetch --quiet
    run cargo deny --offline check bans licenses sources
}

step_bench-smoke() { # the figure of every goal prints; instruction counts are taken
    local log="$SCRATCH/bench.log" version
    run cargo bench -p hcq-bench --no-run
    run cargo bench -p hcq-bench --bench goals 2>&1 | tee "$log"
    sed -n 's/^\(.*\) skipped: /bench \1: /p' "$log" >>"$SKIPS"
    note "$(grep -cE ' goal [0-9.]+ (ok|missed)$' "$log" || true) figures, $(grep -cE ' goal [0-9.]+ missed$' "$log" || true) missed;" \
        "times on a shared machine are no gate"
    grep -qE ' goal [0-9.]+ (ok|missed)$' "$log" || fail "the goals print no figure"

    apt_install valgrind valgrind || { skip bench-instructions "valgrind (apt-get install valgrind)" && return; }
    version="$(sed -n '/^name = "gungraun-runner"/{n;s/^version = "\(.*\)"/\1/p}' Cargo.lock)"
    if [ -n "${CI:-}" ] && [ "$(gungraun-runner --version 2>/dev/null | awk '{ print $NF }')" != "$version" ]; then
        note "installing gungraun-runner $version"
        CARGO_TARGET_DIR="$TARGET/tools" cargo install --locked --quiet gungraun-runner --version "$version" || true
        spent "$TARGET/tools"
    fi
    command -v gungraun-runner >/dev/null ||
        { skip bench-instructions "gungraun-runner (cargo install --locked gungraun-runner --version $version)" && return; }
    run cargo bench -p hcq-bench --bench instructions
}

# ----------------------------------------------------------------------------------------- driver

usage() {
    sed -n '2,9s/^# \{0,1\}//p' ci.sh
    printf '\nSteps:\n'
    local step
    for step in "${STEPS[@]}"; do
        printf '  %-12s %s\n' "$step" "$(sed -n "s/^step_$step() { # //p" ci.sh)"
    done
}

wanted=()
for word in "$@"; do
    case "$word" in
        all) wanted+=("${STEPS[@]}") ;;
        quick) wanted+=("${QUICK[@]}") ;;
        help | -h | --help) usage && exit 0 ;;
        *)
            declare -F "step_$word" >/dev/null || { usage >&2 && printf '\nci.sh: no step named %s\n' "$word" >&2 && exit 2; }
            wanted+=("$word")
            ;;
    esac
done
[ "${#wanted[@]}" -gt 0 ] || { usage >&2 && exit 2; }

report=()
passed=0 failed=0
note "$(disk_left) MiB of disk are free below $TARGET"
begin=$SECONDS
for step in "${wanted[@]}"; do
    printf '\n== %s: %s\n' "$step" "$(sed -n "s/^step_$step() { # //p" ci.sh)"
    from=$SECONDS before="$(wc -l <"$SKIPS")"
    # A plain subshell: inside a condition, `set -e` would be off in the whole step.
    set +e
    (
        set -e
        "step_$step"
    )
    status=$?
    set -e
    took=$((SECONDS - from)) after="$(wc -l <"$SKIPS")"
    disk="$(printf '%6d MiB built, %6d MiB free' "$(disk_used)" "$(disk_left)")"
    if [ "$status" != 0 ]; then
        failed=1
        report+=("$(printf '%-12s FAILED  %4d s, %s' "$step" "$took" "$disk")")
        printf '== %s: FAILED after %d s\n' "$step" "$took"
        break
    fi
    if [ "$after" -gt "$before" ] && grep -q "^$step: " <(tail -n "+$((before + 1))" "$SKIPS"); then
        report+=("$(printf '%-12s skipped %4d s, %s' "$step" "$took" "$disk")")
        printf '== %s: skipped\n' "$step"
    else
        passed=$((passed + 1))
        report+=("$(printf '%-12s ok      %4d s, %s' "$step" "$took" "$disk")")
        printf '== %s: ok, %d s\n' "$step" "$took"
    fi
done

printf '\n== summary, %d s\n' $((SECONDS - begin))
printf '   %s\n' "${report[@]}"
if [ -s "$SKIPS" ]; then
    printf '   skipped:\n'
    sed 's/^/     /' "$SKIPS"
fi
[ "$failed" = 0 ] || printf '   failed: %s\n' "$step"
printf 'steps: %d passed, %d failed, %d skipped\n' "$passed" "$failed" "$(wc -l <"$SKIPS")"
[ "$failed" = 0 ]
