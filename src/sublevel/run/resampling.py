"""Samples whose points all satisfy constraints, drawn again where one does not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array
from sublevel.engine.families import Family, Sample
from sublevel.run.projection import HalfSpaces, project
from sublevel.run.search_space import SearchSpace

ROUNDS = 100
"""How often a point is drawn again."""
HALVINGS = 40
"""How often the distance to a point that satisfies the constraints is then halved."""
STARTS = 1000
"""Starting points of a restart that are tried."""

Satisfied = Callable[[Array], NDArray[np.bool_]]
"""Whether points (n, d) satisfy the constraints (n,)."""


def draw_feasible(
    theta: Family,
    sample: Sample,
    rng: np.random.Generator,
    space: SearchSpace | None,
    satisfied: Satisfied,
    anchor: Array,
    half_spaces: HalfSpaces | None = None,
) -> tuple[Sample, Array, Array | None]:
    """A sample, points (n, d) to evaluate in place of its own, all of which satisfy constraints, and the linear
    inequalities (n, q) at the points of the sample.

    Points that violate linear constraints are evaluated at their projection. They remain points of the sample, and the
    ordering takes the linear inequalities into account. If that is not enough, they are drawn again, `ROUNDS` times at
    most, and then moved towards the mean, or, if the mean violates the constraints, towards `anchor` (d,), which does
    not.
    """
    points = sampled = _points(sample.x, space)
    fails = ~satisfied(points)
    if fails.any() and half_spaces is not None:
        points = points.copy()
        points[fails] = project(points[fails], theta, space, half_spaces)
        fails[fails] = ~satisfied(points[fails])
    if fails.any():
        changed = fails.copy()
        sample, points = _draw_again(theta, sample, points.copy(), fails, rng, space, satisfied, anchor)
        sampled = np.where(changed[:, None], points, sampled)
    return sample, points, None if half_spaces is None else half_spaces.g(sampled)


def _draw_again(
    theta: Family,
    sample: Sample,
    points: Array,
    fails: NDArray[np.bool_],
    rng: np.random.Generator,
    space: SearchSpace | None,
    satisfied: Satisfied,
    anchor: Array,
) -> tuple[Sample, Array]:
    """The sample and its points (n, d), with others where they fail."""
    z = sample.z.copy()
    choices = None if sample.choices is None else sample.choices.copy()
    for _ in range(ROUNDS):
        rows = np.flatnonzero(fails)
        fresh = theta.sample(rng, rows.size)
        z[rows], points[rows] = fresh.z, _points(fresh.x, space)
        if choices is not None and fresh.choices is not None:
            choices[rows] = fresh.choices
        fails[rows] = ~satisfied(points[rows])
        if not fails.any():
            break
    else:
        _contract(theta, z, choices, points, fails, space, satisfied, anchor)
    return theta.sample_at(z, choices), points


def _points(x: Array, space: SearchSpace | None) -> Array:
    """The user's points (n, d) of search points."""
    return x if space is None else space.points(x)


def _contract(
    theta: Family,
    z: Array,
    choices: NDArray[np.intp] | None,
    points: Array,
    fails: NDArray[np.bool_],
    space: SearchSpace | None,
    satisfied: Satisfied,
    anchor: Array,
) -> None:
    """Move whitened points (n, k) that fail towards one that does not, in place, with their categories and points."""
    goal = _points(theta.center[None], space)[0]
    end = np.zeros(z.shape[1])
    if not satisfied(goal[None].copy())[0]:
        goal = anchor
        end = theta.whiten((anchor if space is None else space.searched(anchor))[None])[0]
    if choices is not None and space is not None:
        choices[fails] = goal[space.choices].astype(np.intp)
    for _ in range(HALVINGS):
        rows = np.flatnonzero(fails)
        z[rows] = end + 0.5 * (z[rows] - end)
        points[rows] = _points(theta.sample_at(z, choices).x[rows], space)
        fails[rows] = ~satisfied(points[rows])
        if not fails.any():
            return
    z[fails], points[fails] = end, goal
