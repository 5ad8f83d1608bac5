"""Runs of the shell that several tests make, over the methods of `cases`, and what must hold after every step."""

from __future__ import annotations

import dataclasses

import numpy as np

import sublevel as sl
from helpers import cases


def _by_name(table):
    """The methods of a table that come to rest at a minimum."""
    return {
        f"{case.method.name}-{case.method.family.__name__}": case.method for case in table if case not in cases.SHAPES
    }


GAUSSIAN = _by_name(cases.SEARCHES)
"""Every method on every Gaussian family, by name."""
METHODS = _by_name(cases.METHODS)
"""Those, and the ones on bits."""


def started(method, d, popsize=None, *, rng=1, x0=0.3, sigma0=0.7):
    """An optimizer at a start that suits the method's family."""
    return sl.Optimizer(
        np.full(d, x0), None if method.family is sl.Bernoulli else sigma0, method=method, popsize=popsize, rng=rng
    )


def told(opt, fun, generations=1):
    """The optimizer after some generations on a function of points (n, d), whatever `stop` says."""
    for _ in range(generations):
        X = opt.ask()
        opt.tell(X, fun(X))
    return opt


def cube(x):
    """max |xⱼ| (..., n): no squares that leave the range of floats, and the same bits for one point or many."""
    return np.max(np.abs(x), axis=-1)


def bits(opt):
    """Every bit of the search distribution and of what the transforms remember, but for values that they compare with
    later ones.
    """
    kept = zip(opt.method.transforms, opt.state.memory, strict=True)
    memory = tuple(part for transform, part in kept if not transform.compares_generations)
    return [part.tobytes() for part in arrays_of((opt.theta, memory))]


def arrays_of(value):
    """The arrays in a value, through tuples and dataclasses."""
    if isinstance(value, np.ndarray | np.generic):
        return [value]
    if isinstance(value, tuple):
        return [array for part in value for array in arrays_of(part)]
    if dataclasses.is_dataclass(value):
        return arrays_of(tuple(getattr(value, field.name) for field in dataclasses.fields(value)))
    return []


def assert_sound(opt):
    """The state is a distribution: a finite mean, and standard deviations that are positive and finite."""
    assert np.isfinite(opt.mean).all(), opt.mean
    assert np.isfinite(opt.deviations).all(), opt.deviations
    assert (opt.deviations > 0).all(), opt.deviations
