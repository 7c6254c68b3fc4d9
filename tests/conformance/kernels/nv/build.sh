#!/bin/sh
# Builds the stock kernels' cubins: build.sh [folder to write to]. Needs clang-19 and, in PTXAS, ptxas 12.9
# (PyPI's nvidia-cuda-nvcc-cu12 12.9.86 has one: nvidia/cuda_nvcc/bin/ptxas).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here}
clang=${CLANG:-clang-19}
ptxas=${PTXAS:-ptxas}
ptx=$(mktemp)
trap 'rm -f "$ptx"' EXIT

# PTX of the oldest version that these architectures can be made of: clang 19 does not know sm_120.
"$clang" -x c -std=c23 --target=nvptx64-nvidia-cuda -march=sm_80 -Xclang -target-feature -Xclang +ptx71 -O2 -S \
  -ffreestanding -fno-unroll-loops -fno-ident -Wall -Werror -o "$ptx" "$here/stock.c"
for arch in sm_86 sm_89 sm_90 sm_120; do
  "$ptxas" -arch=$arch -o "$out/stock-$arch.cubin" "$ptx"
done
