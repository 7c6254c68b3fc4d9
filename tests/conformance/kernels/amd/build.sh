#!/bin/sh
# Builds the stock kernels' code objects: build.sh [folder to write to]. Needs clang-19 with its linker.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here}
clang=${CLANG:-clang-19}

# build NAME CHIP CODE-OBJECT-VERSION [option...]
build() {
  name=$1 chip=$2 version=$3
  shift 3
  "$clang" -x cl -cl-std=CL2.0 -target amdgcn-amd-amdhsa -mcpu="$chip" -mcode-object-version="$version" -O2 -nogpulib \
    -cl-kernel-arg-info -fno-ident -Wall -Werror -Wl,--strip-debug -Wl,--build-id=none "$@" -o "$out/stock-$name.co" "$here/stock.cl"
  chmod 644 "$out/stock-$name.co"
}

build gfx942 gfx942 5
build gfx1100 gfx1100 5
build gfx1151 gfx1151 6 -Wno-error # clang 19 warns that version 6 is young
build gfx1201 gfx1201 5
build gfx1100-v4 gfx1100 4
build gfx1100-wave64 gfx1100 5 -mwavefrontsize64

# clang 19 does not know gfx950. It executes gfx942's instructions but for a few that these kernels do not have, so its object is
# gfx942's with the name in the metadata and the machine number in e_flags (byte 48; EF_AMDGPU_MACH_AMDGCN_GFX950 is 0x4f)
# replaced.
LC_ALL=C sed 's/gfx942/gfx950/g' "$out/stock-gfx942.co" > "$out/stock-gfx950.co"
printf '\117' | dd of="$out/stock-gfx950.co" bs=1 seek=48 conv=notrunc 2> /dev/null
