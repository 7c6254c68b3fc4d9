#!/bin/sh
# Installs tinygrad into a virtual environment of its own, tests/peer/.venv, for the goals bench.
set -eu
cd "$(dirname "$0")"
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "tinygrad 0.14 needs Python 3.11 or later" >&2
    exit 1
}
python3 -m venv .venv
timeout 300 .venv/bin/pip install --quiet --disable-pip-version-check tinygrad==0.14.0 || {
    rm -rf .venv
    echo "skipped: tinygrad: PyPI is not reachable" >&2
    exit 1
}
# Says at once whether the peer works here, for instance whether it finds clang.
printf '\n\n\n' | .venv/bin/python tinygrad_cpu.py 100
printf '\n' | .venv/bin/python tinygrad_amd.py launch 100 shared
