"""What type checkers must complain about: each line that ends with `# wrong`, and no other."""

from __future__ import annotations

import numpy as np

import sublevel as sl


def sphere(x: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    """One point (d,) to one value."""
    return float(np.sum(x**2))


result = sl.minimize(sphere, [1.0, 2.0], 0.5)
text: str = result.fun  # wrong
count: int = result.x  # wrong
result.distribution.no_such_thing()  # wrong
result.history.no_such_thing()  # wrong
sl.minimize(sphere, [1.0, 2.0], 0.5, method=3)  # wrong
sl.minimize(sphere, [1.0, 2.0], 0.5, restarts="ipob")  # wrong
sl.minimize(sphere, [1.0, 2.0], 0.5, bounds=3.0)  # wrong
sl.minimize(sphere, [1.0, 2.0], 0.5, on_error="ignore")  # wrong
sl.minimize(sphere, [1.0, 2.0], 0.5, workers="all")  # wrong
sl.minimize(sphere, [1.0, 2.0], 0.5, callback=3)  # wrong
sl.minimize(sphere, [1.0, 2.0], 0.5, store=3)  # wrong
sl.minimize(sphere, [1.0, 2.0], 0.5, rng="one")  # wrong
sl.minimize(3, [1.0, 2.0], 0.5)  # wrong
sl.Real("0", 1)  # wrong
sl.Integer(0, 3, scale="wide")  # wrong
sl.Space(rate=sl.Real(0, 1)).start_at(0.5)  # wrong
result.params.no_such_thing()  # wrong
