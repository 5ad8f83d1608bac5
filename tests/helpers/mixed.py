"""Distributions that are made of others, as arrays, and functions of integers and real variables."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

import numpy as np


def leaves(value):
    """The arrays of a distribution, of all its parts."""
    if is_dataclass(value):
        return [leaf for field in fields(value) for leaf in leaves(getattr(value, field.name))]
    return [] if value is None else [np.asarray(value)]


def same_bits(one, other):
    """Whether two distributions are equal to the last bit."""
    return all(np.array_equal(a, b) for a, b in zip(leaves(one), leaves(other), strict=True))


RASTRIGIN = {
    "x0": [5.0] * 4 + [0.0] * 2,
    "sigma0": [2.5] * 4 + [2.0] * 2,
    "integrality": [1] * 4 + [0] * 2,
    "bounds": [(0, 10)] * 4 + [(-5, 5)] * 2,
}
"""Arguments of a search for the minimum of `turned_rastrigin`."""


def turned_rastrigin(seed):
    """Many local minima in which integers and real variables depend on each other."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    answer = np.append(rng.integers(2, 8, 4), rng.uniform(-2, 2, 2))

    def fun(x):
        u = turn @ (np.asarray(x, dtype=float) - answer)
        return float(u @ u + 5 * np.sum(1 - np.cos(2 * np.pi * u)))

    return fun


SEPARATE = {"x0": [2.6] * 6, "sigma0": 1.0, "integrality": [0, 0, 1, 1, 1, 1], "bounds": [(-5, 5)] * 6}
"""Arguments of a search for the minimum of `rastrigin`, which tries changes of single variables before it ends."""


def rastrigin(x):
    """Many local minima of separate variables (..., d); the minimum is 0 at 0."""
    x = np.asarray(x, dtype=float)
    return np.sum(x**2 + 10 - 10 * np.cos(2 * np.pi * x), axis=-1)
