"""The pictures of docs/quickstart.md: the four panels of a run, and a search that can be watched.

python examples/pictures.py docs/pictures
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import sublevel as sl


def cost(x):
    """A narrow, turned valley with its minimum at (1, 2, 3), of points (..., 3)."""
    a, b, c = np.moveaxis(x - np.array([1, 2, 3]), -1, 0)
    return a**2 + 100 * (b - 0.5 * a) ** 2 + 1e4 * (c + b) ** 2


def bent(x):
    """Rosenbrock's valley, of points (..., 2)."""
    return 100 * (x[..., 1] - x[..., 0] ** 2) ** 2 + (1 - x[..., 0]) ** 2


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    sl.minimize(cost, [0, 0, 0], 0.5, rng=1, vectorized=True).plot(folder / "run.png")
    watched = sl.minimize(bent, [-1.0, 1.5], 0.3, rng=4, vectorized=True, maxfevals=450)
    sl.plots.animate(bent, watched, folder / "search.gif", vectorized=True, frames=28, fps=4)


if __name__ == "__main__":
    main()
