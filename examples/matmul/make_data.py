"""Writes the data of this example. Needs NumPy; running the example does not."""

from pathlib import Path

import numpy as np

HERE = Path(__file__).parent

# None is a multiple of the 32 x 32 tile.
M, N, K = 150, 130, 110
rng = np.random.default_rng(3)
a = rng.uniform(-1, 1, (M, K)).astype(np.float32)
b = rng.uniform(-1, 1, (K, N)).astype(np.float32)
np.save(HERE / "a.npy", a)
np.save(HERE / "b.npy", b)
np.save(HERE / "expected_c.npy", (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32))
