"""The data of this example: numbers that floats hold exactly."""

import numpy as np

n = 4096
x = np.arange(n, dtype=np.float32)
y = (n - np.arange(n, dtype=np.float32)) / 2
np.save("y.npy", y)
np.save("expected_half.npy", (np.float32(2.5) * x + y + x) * np.float32(0.5))
