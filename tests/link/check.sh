#!/usr/bin/env bash
# Links the proof for each target and judges the ELF file: it links with no allocator, no symbol of the allocator
# is in it, and the symbols of core::panicking are at most as many as tests/link/panics allows.
#
#   tests/link/check.sh TARGET_DIR TARGET...
set -euo pipefail
shopt -s nullglob
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
repo="$(cd "$here/../.." && pwd)"
out=$1
shift
# Nothing of a caller's environment changes what is proven.
unset RUSTFLAGS CARGO_TARGET_DIR
limit="$(grep -vE '^(#|$)' "$here/panics")"

fail() {
    printf '   error: %s\n' "$*" >&2
    exit 1
}

build() { # build TARGET [FEATURES]
    cargo build --quiet --release --manifest-path "$here/Cargo.toml" --target-dir "$out" --target "$1" \
        --features "${2:-}"
}

# Names of the symbols of an ELF file of any machine, a line each.
symbols() { readelf --symbols --wide "$1" | awk 'NF >= 8 { print $8 }'; }

# How many symbols of FILE match PATTERN.
count() { symbols "$1" | grep -cE "$2" || true; }

ALLOCATOR='__rust_(alloc|realloc|dealloc|no_alloc_shim)|5alloc5alloc|alloc::alloc'
PANIC='panicking|rust_begin_unwind'

command -v readelf >/dev/null || fail "readelf is missing (apt-get install binutils)"

# Functions of an x86-64 ELF file that lead to a panic, for the reader of a failure.
panicking_callers() {
    objdump --disassemble --demangle --no-show-raw-insn "$1" 2>/dev/null | awk '
        /^[0-9a-f]+ <.*>:$/ { function_ = $0; sub(/^[0-9a-f]+ </, "", function_); sub(/>:$/, "", function_) }
        /(call|jmp) .*<core::panicking/ && function_ !~ /^core::panicking/ {
            what = $0
            sub(/.*<core::panicking::/, "", what)
            print "      " function_ " -> " what
        }' | sort -u
}

# What the proof must name, a line each: the crate's folder, and each public function outside its tests as
# `Type::function`, or `text::<Type>` for the text of an error.
public_functions() {
    git -C "$repo" ls-files -co --exclude-standard 'hcq-nostd/src/*.rs' 'drivers/*/src/*.rs' |
        grep -vE '(^|/)(tests|testing|model)\.rs$|/tests/' | while read -r file; do
        awk -v folder="$(dirname "${file%%/src/*}/src")" '
            /^mod [a-z_]+ \{/ && previous ~ /cfg\(.*test/ { exit }  # a test module, at the end of its file
            /^(pub )?mod [a-z_]+ \{/ && previous ~ /cfg\(loom/ { other = 1 }  # what loom models are built from
            /^}/ && other { other = 0 }
            other { next }
            { previous = $0 }
            /^(unsafe )?impl/ {
                type = $0
                sub(/^(unsafe )?impl(<([^<>]|<[^<>]*>)*>)? +/, "", type)  # the generics of the block
                sub(/^.* for /, "", type)                                  # the trait
                sub(/[<{ ].*/, "", type)
            }
            match($0, /^pub (struct|enum) [A-Za-z_0-9]+/) {
                name = substr($0, RSTART, RLENGTH)
                sub(/.* /, "", name)
                public[name] = 1
            }
            /^impl.*Display for / && public[type] { print folder, "text::<" type ">" }
            /^}|\{\}$/ { type = "" }
            match($0, /^ *pub (const )?(unsafe )?(extern "C" )?fn [a-z_0-9]+/) {
                name = substr($0, RSTART, RLENGTH)
                sub(/.*fn /, "", name)
                print folder, (type == "" ? name : type "::" name)
            }' "$repo/$file"
    done | sort -u
}

missing=0 named=0
declare -A unproven=()
while read -r folder what; do
    case "$what" in
        text::*) pattern="$what" ;;
        *::*) pattern="\\b${what%%::*}(::<.*>)?::${what##*::}\\b" ;;
        *) pattern="\\b$what\\b" ;;
    esac
    # The core is proven in nostd.rs, a driver in the file of its folder's name, and in the modules of those.
    proof="$(basename "${folder#hcq-}").rs"
    if [ ! -f "$here/src/$proof" ]; then
        unproven[$folder]=$((${unproven[$folder]:-0} + 1))
    elif grep -qE "$pattern" "$here/src/$proof" "$here/src/${proof%.rs}/"*.rs; then
        named=$((named + 1))
    else
        missing=$((missing + 1))
        printf '   not in %s: %s\n' "$proof" "$what"
    fi
done < <(public_functions)
printf '   public functions in the proof: %d, not in it: %d\n' "$named" "$missing"
for folder in "${!unproven[@]}"; do
    printf '   skipped: link of %s: %d public functions, and no file for them in tests/link/src\n' "$folder" "${unproven[$folder]}"
done
[ "$missing" = 0 ] || fail "add them to tests/link/src"

for target in "$@"; do
    build "$target"
    elf="$out/$target/release/hcq-link"
    [ "$(count "$elf" '^_start$')" = 1 ] || fail "$target: no symbol table to judge"
    allocs="$(count "$elf" "$ALLOCATOR")"
    panics="$(count "$elf" "$PANIC")"
    read -r text data bss _ < <(size "$elf" | tail -n 1)
    printf '   %-28s linked: %d functions, text %d, data %d, bss %d; allocator symbols %d, panicking symbols %d (limit %d)\n' \
        "$target" "$(readelf --symbols --wide "$elf" | grep -c ' FUNC ')" "$text" "$data" "$bss" "$allocs" "$panics" "$limit"
    [ "$allocs" = 0 ] || fail "$target: $(symbols "$elf" | grep -E "$ALLOCATOR")"
    [ "$panics" -le "$limit" ] || fail "$target: more panicking symbols than tests/link/panics allows:
$(symbols "$elf" | grep -E "$PANIC")
$(panicking_callers "$elf")"
done

# The check sees what it is there to see.
if build "$1" plant-alloc 2>"$out/plant.log"; then
    fail "a planted allocation linked"
fi
grep -q 'no global memory allocator found' "$out/plant.log" || fail "the planted allocation failed for another reason:
$(cat "$out/plant.log")"
build "$1" plant-panic
planted="$(count "$out/$1/release/hcq-link" "$PANIC")"
[ "$planted" -gt 0 ] || fail "a planted panic was not counted"
printf '   planted faults: the allocation does not link, the panic shows as %d symbols\n' "$planted"
build "$1"
