"""Writes the data of this example. Needs NumPy; running the example does not."""

from pathlib import Path

import numpy as np

HERE = Path(__file__).parent

# A prime length: no group size divides it.
N = 10_007
rng = np.random.default_rng(1)
x = rng.uniform(-1, 1, N).astype(np.float32)
y = rng.uniform(-1, 1, N).astype(np.float32)
np.save(HERE / "x.npy", x)
np.save(HERE / "y.npy", y)
np.save(HERE / "expected_y.npy", (2.5 * x.astype(np.float64) + y).astype(np.float32))

# The long vectors: element i of x is i, of y is 1. Every result is a multiple of a half
# below 2**22, so floats hold it exactly, and the sums in doubles are exact too.
LONG, BLOCK = 1 << 20, 4096
result = 2.5 * np.arange(LONG, dtype=np.float64) + 1.0
np.save(HERE / "expected_sums.npy", result.reshape(-1, BLOCK).sum(axis=1))
