"""An initial distribution from points and values that are already known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sublevel.engine.arrays import Array
from sublevel.engine.memory import NO_MEMORY
from sublevel.engine.ordering import Lexicographic
from sublevel.evaluation.values import as_constraint_values, as_values, plain_array
from sublevel.run.initial import as_space
from sublevel.run.parameters import RANGE_SHARE, Space
from sublevel.run.search_space import exp_where, log_where
from sublevel.validation import as_numbers, short_repr

LARGEST_MATRIX = 10_000
"""Maximum number of variables for correlations: 800 MB."""


class Beginning(NamedTuple):
    """A search distribution to begin with, as `minimize` and `Optimizer` take it."""

    x0: Array  # (d,)
    sigma0: Array  # (d,), standard deviations
    cov0: Array | None  # (d, d), correlations; None without `correlations`


class SpaceBeginning(NamedTuple):
    """The same for a space of named parameters."""

    x0: Space  # with other initial values
    sigma0: Array  # (d,), standard deviations; without effect for categories
    cov0: Array | None  # (d, d), correlations; None without `correlations`


@overload
def warm_start(
    points: ArrayLike,
    values: ArrayLike,
    *,
    gamma: float = 0.1,
    alpha: float = 0.1,
    log_scaled: ArrayLike = False,
    correlations: bool = True,
    space: None = None,
    constraints: ArrayLike | None = None,
) -> Beginning: ...
@overload
def warm_start(
    points: ArrayLike | Sequence[Mapping[str, object]],
    values: ArrayLike,
    *,
    gamma: float = 0.1,
    alpha: float = 0.1,
    correlations: bool = True,
    space: Space | type[object],
    constraints: ArrayLike | None = None,
) -> SpaceBeginning: ...
def warm_start(
    points: ArrayLike | Sequence[Mapping[str, object]],
    values: ArrayLike,
    *,
    gamma: float = 0.1,
    alpha: float = 0.1,
    log_scaled: ArrayLike = False,
    correlations: bool = True,
    space: Space | type[object] | None = None,
    constraints: ArrayLike | None = None,
) -> Beginning | SpaceBeginning:
    """Initial distribution from points that were evaluated before, possibly for a similar problem (WS-CMA-ES).

    Parameters
    ----------
    points : array_like, shape (n, d)
        Points, each variable with at least two different values; with a `space` also dicts of parameters, which may be
        constant.
    values : array_like, shape (n,)
        Their values. NaN and +inf are ignored.
    gamma : float, optional
        Fraction of the points to use, from the best one on.
    alpha : float, optional
        Standard deviation to add to that of these points, as a fraction of the range of each variable.
    log_scaled : bool or array_like of bool, optional
        Positive variables that are searched on a log scale.
    correlations : bool, optional
        Whether to compute `cov0`. Pass False for many variables and the methods "sep-…" and "iso-…".
    space : Space or dataclass, optional
        The space of the points.
    constraints : array_like, shape (n, m) or (n,), optional
        Values g of constraints at the points, satisfied where g ≤ 0. Points that satisfy all of them are better than
        others, which are compared by their violations.

    Returns
    -------
    Beginning or SpaceBeginning
        A named tuple ``(x0, sigma0, cov0)`` for `minimize` and `Optimizer`. With a `space`, `x0` is the space with
        other initial values: means, rounded for integers, and the choices of the best point. All values of a choice
        have the same initial probability. Pass `integrality` to `minimize` again, which rounds `x0`.

    Raises
    ------
    ValueError
        If there are fewer than two points, no value is usable, or a variable is the same in all points.

    References
    ----------
    M. Nomura et al., Warm Starting CMA-ES for Hyperparameter Optimization, AAAI 2021, arXiv:2012.06932, where `alpha`
    is in units of a box [0, 1]ᵈ; here it is in units of the box around the points, or of the range of a parameter of a
    `space` (four times its `scale` if it has one).

    Examples
    --------
    >>> import numpy as np, sublevel as sl
    >>> tried = np.random.default_rng(1).uniform(-5, 5, (200, 3))
    >>> x0, sigma0, cov0 = sl.warm_start(tried, np.sum((tried - 2) ** 2, axis=1))
    >>> result = sl.minimize(lambda x: np.sum((x - 2.1) ** 2), x0, sigma0, cov0=cov0, ftarget=1e-8, rng=1)
    >>> result.success
    True
    >>> space = sl.Space(rate=sl.Real(0, 1), kernel=sl.Choice("rbf", "poly"))
    >>> known = [{"rate": 0.2, "kernel": "poly"}, {"rate": 0.9, "kernel": "rbf"}]
    >>> sl.warm_start(known, [0.1, 0.7], space=space).x0
    Space(rate=Real(low=0.0, high=1.0, start=0.2), kernel=Choice('rbf', 'poly', start='poly'))
    """
    if space is not None:
        if np.any(log_scaled):
            raise TypeError("`log_scaled` must not be given with a Space, whose parameters define it.")
        return _start_in_space(_as_space(space), points, values, (gamma, alpha, correlations), constraints)
    found = _as_points(points)
    is_log = np.broadcast_to(np.asarray(log_scaled, dtype=bool), found.shape[1:])
    if np.any(found[:, is_log] <= 0):
        raise ValueError("a variable that is `log_scaled` must be positive in all `points`.")
    u = log_where(is_log, found)
    width = np.ptp(u, axis=0)
    if len(u) < 2 or not np.all(width > 0):
        raise ValueError(
            f"every variable must vary over the `points`, but {np.flatnonzero(width <= 0).tolist()} are constant."
        )
    best = u[_best_rows(values, len(u), gamma, alpha, constraints)]
    mean, deviations, cov0 = _fit(best, width, alpha, correlations)
    return Beginning(exp_where(is_log, mean), deviations, cov0)


def _as_points(given: object) -> Array:
    """Points (n, d), two or more."""
    points = as_numbers("points", given)
    if points.ndim != 2 or len(points) < 2:
        raise ValueError(f"`points` must be two or more rows of variables, shape (n, d), got shape {points.shape}.")
    return points


def _constrained_ranks(values: Array, constraints: ArrayLike) -> Array:
    """The ranks (n,) of points with constraint values (n, m) or (n,), infinite for those that cannot be used."""
    n, g = values.size, plain_array("constraints", constraints)
    if g.ndim not in (1, 2) or len(g) != n or not g.size:
        raise ValueError(
            f"`constraints` must have a row for each of the {n} points, shape ({n}, m), got shape {g.shape}."
        )
    g = as_constraint_values(g, (n, g.size // n))
    ranks, _ = Lexicographic()(values, g, NO_MEMORY)
    usable = (values < np.inf) & ~np.isnan(g).any(axis=1)
    return np.where(usable, ranks.assign_by_rank(np.arange(n, dtype=np.float64), average_ties=False), np.inf)


def _best_rows(given: ArrayLike, n: int, gamma: float, alpha: float, constraints: ArrayLike | None) -> NDArray[np.intp]:
    """Rows of the best points, the best one first."""
    values = as_values(given, n)
    if constraints is not None:
        values = _constrained_ranks(values, constraints)
    for name, share in (("gamma", gamma), ("alpha", alpha)):
        if not 0 < share <= 1:
            raise ValueError(f"`{name}` must lie in (0, 1], got {share!r}.")
    usable = np.flatnonzero(values < np.inf)  # leaves NaN out
    if not usable.size:
        raise ValueError(f"none of the {n} `values` is usable, got {short_repr(values)}.")
    return usable[np.argsort(values[usable], kind="stable")][: max(int(gamma * usable.size), 1)]


def _fit(best: Array, width: Array, alpha: float, correlations: bool) -> tuple[Array, Array, Array | None]:
    """Mean and standard deviations (d,) of points (m, d) widened by alpha·width, and correlations (d, d) if wanted."""
    mean = best.mean(axis=0)
    spread = (best - mean) / width
    deviations = np.sqrt(np.sum(np.square(spread), axis=0) / len(best) + alpha**2)
    return mean, width * deviations, _correlations(spread, alpha, deviations) if correlations else None


def _as_space(given: object) -> Space:
    space = as_space(given)
    if space is None:
        raise TypeError(f"`space` must be a Space, or a dataclass that defines one, got {short_repr(given)}.")
    return space


def _start_in_space(
    space: Space, points: object, values: ArrayLike, how: tuple[float, float, bool], constraints: ArrayLike | None
) -> SpaceBeginning:
    """The space with initial values near the best points, which are encoded or dicts."""
    gamma, alpha, correlations = how
    rows = cast(Sequence[object], points) if isinstance(points, Sequence) else ()
    if rows and all(isinstance(row, Mapping) for row in rows):
        points = [space.encode(cast("Mapping[str, object]", row)) for row in rows]
    found, c = _as_points(cast(object, points)), space.coordinates()
    if found.shape[1] != len(space):
        raise ValueError(f"`points` must have the {len(space)} parameters of the space, got shape {found.shape}.")
    if not np.all((found >= c.lower) & (found <= c.upper)) or np.any(found[:, c.is_log] <= 0):
        raise ValueError("`points` must lie within the bounds of the space.")
    best = log_where(c.is_log, found[_best_rows(values, len(found), gamma, alpha, constraints)])
    mean, deviations, cov0 = _fit(best, c.deviations / RANGE_SHARE, alpha, correlations)
    x = exp_where(c.is_log, mean)
    x = np.where(c.is_integer, np.rint(x), np.where(c.categories > 0, best[0], x))
    return SpaceBeginning(space.start_at(space.decode(np.clip(x, c.lower, c.upper))), deviations, cov0)


def _correlations(spread: Array, alpha: float, deviations: Array) -> Array:
    """Correlations (d, d) of the rows of `spread` (n, d), widened by alpha, with standard deviations (d,)."""
    if deviations.size > LARGEST_MATRIX:
        raise ValueError(
            f"correlations of {deviations.size} variables are a matrix that is too large; pass "
            "correlations=False, and search with a method such as 'sep-cma'."
        )
    cov = spread.T @ spread / len(spread) + alpha**2 * np.eye(deviations.size)
    correlations = cov / deviations / deviations[:, None]
    np.fill_diagonal(correlations, 1.0)
    return correlations
