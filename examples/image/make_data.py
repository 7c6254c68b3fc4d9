"""Writes the data of this example. Needs NumPy and scikit-image; running the example does not.

The expected pictures are computed in whole numbers, in another way than the kernels do:
the blur as one 5 x 5 window, everything scaled by 256, rounding decided by integers.
"""

from math import isqrt
from pathlib import Path

import numpy as np
from skimage import data

HERE = Path(__file__).parent


def shifted(picture, rows, columns):
    """The picture moved by up to two pixels, its border repeated."""
    height, width = picture.shape
    y = np.clip(np.arange(height) + rows, 0, height - 1)
    x = np.clip(np.arange(width) + columns, 0, width - 1)
    return picture[np.ix_(y, x)]


def filtered(picture, weights):
    reach = len(weights) // 2
    return sum(
        weights[row][column] * shifted(picture, row - reach, column - reach)
        for row in range(len(weights))
        for column in range(len(weights))
    )


# Grey by the weights of ITU-R BT.601, in thousandths.
colour = data.chelsea().astype(np.int64)
grey = (colour @ np.array([299, 587, 114]) + 500) // 1000
np.save(HERE / "cat.npy", grey.astype(np.uint8))

binomial = np.array([1, 4, 6, 4, 1])
blurred = filtered(grey, np.outer(binomial, binomial))  # times 256

histogram = np.bincount((blurred // 256).ravel(), minlength=256)
np.save(HERE / "expected_histogram.npy", histogram.astype(np.uint32))

gx = filtered(blurred, [[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]])
gy = filtered(blurred, [[-1, -2, -1], [0, 0, 0], [1, 2, 1]])
# round(sqrt(s) / 256) is floor((2 * sqrt(s) + 256) / 512), and floor(2 * sqrt(s)) is isqrt(4 * s).
length = np.array([(isqrt(4 * int(s)) + 256) // 512 for s in (gx * gx + gy * gy).ravel()])
edges = np.minimum(length, 255).reshape(grey.shape)
np.save(HERE / "expected_edges.npy", edges.astype(np.uint8))
