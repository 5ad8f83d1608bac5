"""The initial distribution of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from sublevel.engine.arrays import Array
from sublevel.engine.families import Family
from sublevel.evaluation.failures import annotate_exception
from sublevel.run.arguments import Box, DrawPoint, StartingPoint
from sublevel.run.labels import Labels
from sublevel.run.parameters import Space, range_width
from sublevel.run.search_space import SearchSpace, Variables, bounded_space
from sublevel.validation import (
    ABOUT_SIGMA0,
    as_bounds,
    as_covariance_root,
    as_deviations,
    as_initial_distribution,
    as_integrality,
    as_log_scaled,
    as_names,
    as_x0,
    short_repr,
)


@dataclass(frozen=True, slots=True)
class Start:
    """The distribution a run begins with, in the space that is searched."""

    family: type[Family]
    x0: Array  # (d,)
    another: DrawPoint | None  # draws a further starting point, if the user gave such a function
    sigma0: ArrayLike | None
    cov0: ArrayLike | None
    space: SearchSpace | None
    names: tuple[str, ...] | None = None  # d of them, if the user gave some
    parameters: Space | None = None  # if the user gave a space

    @property
    def labels(self) -> Labels:
        """Names and values of the variables as texts."""
        return Labels(self.names, self.space, self.parameters)

    @property
    def searched(self) -> int:
        """Number of variables that are not fixed."""
        space = self.space
        return self.x0.size if space is None else int(np.count_nonzero(space.free)) + space.choices.size

    @property
    def whole_space(self) -> SearchSpace:
        """The space, or one of real variables without bounds if there is none."""
        if self.space is not None:
            return self.space
        size = self.x0.size
        none, end = np.zeros(size, dtype=np.bool_), np.full(size, np.inf)
        variables = Variables(-end, end, none, none, np.zeros(size, dtype=np.intp))
        return bounded_space(variables, as_deviations(1.0 if self.sigma0 is None else self.sigma0, size), self.x0)

    def judged_deviations(self, theta: Family) -> Array:
        """Standard deviations (k,) with which a run begins; infinite for coordinates that do not tell whether it has
        converged.
        """
        deviations = theta.deviations
        return deviations if self.space is None else np.where(self.space.judged, deviations, np.inf)

    def theta(self, point: Array, sigma_factor: float = 1.0) -> Family:
        """N(point, (sigma_factor·sigma0)²·cov0), its free variables only."""
        if self.space is None:
            sigma = self.sigma0 if sigma_factor == 1 or self.sigma0 is None else np.multiply(self.sigma0, sigma_factor)
            return as_initial_distribution(self.family, point, sigma, self.cov0)
        free, start = self.space.free, self.space.searched(point)
        if not free.any():
            return self.space.combine(as_initial_distribution(self.family, start, 1.0, None))
        deviations = sigma_factor * as_deviations(self.sigma0, point.size)[free]
        cov0 = None if self.cov0 is None else np.asarray(self.cov0)[np.ix_(free, free)]
        return self.space.combine(as_initial_distribution(self.family, start, deviations, cov0))

    def point(self, rng: np.random.Generator) -> Array:
        """Where a restart begins: the user's choice, anywhere in a finite box, or drawn from the initial distribution.

        Bits begin with the same probabilities again: a drawn point is 0 or 1, and nothing would ever change.
        """
        if self.another is not None:
            point = drawn(self.another, rng)
            if point.size != self.x0.size:
                raise ValueError(
                    f"`x0` must return points of the same length every time, got {point.size} variables after "
                    f"{self.x0.size}."
                )
            if self.space is not None:
                check_inside(point, *self.space.box, self.names)
                as_log_scaled(self.space.log_scaled, self.space.box[0], point)
                point = self.space.nearest(point)
            return point
        if not self.family.continuous:
            return self.x0
        if self.space is not None and self.space.is_finite:
            return self.space.anywhere(rng)
        point = self.theta(self.x0).sample(rng, 1).x
        return (point if self.space is None else self.space.points(point))[0]


def mean_of(theta: Family, space: SearchSpace | None) -> Array:
    """Mean of a search distribution (d,), as a point of the user's space."""
    return theta.mean.copy() if space is None else space.points(theta.center[None])[0]


def deviations_of(theta: Family, space: SearchSpace | None) -> Array:
    """Standard deviation of each variable (d,), of ln x for log-scaled and 0 for fixed and categorical variables."""
    if space is None or space.free.all():
        return np.array(theta.deviations)
    full = np.zeros(space.free.size)
    full[space.free] = theta.deviations[: np.count_nonzero(space.free)]
    return full


def covariance_of(theta: Family, space: SearchSpace | None) -> Array:
    """Covariance of a search distribution (d, d), 0 for fixed and categorical variables."""
    if space is None or space.free.all():
        return theta.cov
    full = np.zeros((space.free.size, space.free.size))
    if space.free.any():
        full[np.ix_(space.free, space.free)] = theta.cov
    return full


def drawn(x0: DrawPoint, rng: np.random.Generator) -> Array:
    """The starting point (d,) that a function draws. Its exceptions get a note about the call."""
    try:
        point = x0(rng)
    except Exception as error:
        note = "a function that is called with a numpy Generator and returns a point."
        annotate_exception(error, f"sublevel: raised by `x0`, {short_repr(x0)}, {note}")
        raise
    return as_x0(point)


def check_inside(x0: Array, lower: Array, upper: Array, names: tuple[str, ...] | None) -> None:
    """A starting point (d,) must lie within the bounds (d,) each."""
    outside = np.flatnonzero((x0 < lower) | (x0 > upper))
    if outside.size:
        i = outside[0]
        of = "" if names is None else f" of {names[i]}"
        raise ValueError(
            f"`x0` must lie within the bounds, got x0[{i}] = {x0[i]:.6g} for the bounds {lower[i]:.6g} and "
            f"{upper[i]:.6g}{of}."
        )


def checked_beginning(
    family: type[Family],
    x0: StartingPoint,
    sigma0: ArrayLike | None,
    cov0: ArrayLike | None,
    bounds: Box | None,
    log_scaled: ArrayLike,
    integrality: ArrayLike | None,
    names: Sequence[str] | None,
    rng: np.random.Generator,
) -> Start:
    """The start from validated arguments."""
    space = as_space(x0)
    if space is not None:
        given = {"bounds": bounds, "integrality": integrality, "names": names}
        given |= {"log_scaled": True if np.any(log_scaled) else None}
        return _start_of_space(family, space, sigma0, cov0, given)
    another = cast(DrawPoint, x0) if callable(x0) else None
    point = drawn(another, rng) if another else as_x0(cast(ArrayLike, x0))
    called = None if names is None else as_names(names, point.size)
    is_log = as_log_scaled(log_scaled, -np.inf, point)
    if bounds is None and not is_log.any() and (integrality is None or not np.any(integrality)):
        return Start(family, point, another, sigma0, cov0, None, called)
    if not family.continuous:
        what = "`bounds`, `log_scaled` nor `integrality`"
        raise ValueError(f"binary methods take neither {what}, got bounds={short_repr(bounds)}.")
    d = point.size
    whole = as_integrality(integrality, d)
    box = [(None, None)] * d if bounds is None else bounds
    check_inside(point, *as_bounds(box, d), called)
    lower, upper = as_bounds(box, d, whole)
    mask = as_log_scaled(is_log, lower, point)
    lower = np.where(whole & mask, np.maximum(lower, 1.0), lower)
    if not np.any(lower < upper):
        raise ValueError("`bounds` fix every variable: nothing is left to search.")
    variables = Variables(lower, upper, mask, whole, np.zeros(d, dtype=np.intp))
    sigma0 = third_of_box(variables) if sigma0 is None else sigma0
    return _start(family, point, another, sigma0, cov0, variables, called)


def third_of_box(variables: Variables) -> Array:
    """A third of the range of each variable (d,), of ln x where it is log-scaled: the default of `sigma0`."""
    columns = (variables.lower, variables.upper, variables.is_log, variables.is_integer)
    widths = np.array([range_width(*row) for row in zip(*map(np.ndarray.tolist, columns), strict=True)])
    if not np.all(np.isfinite(widths)):
        raise TypeError(
            f"`sigma0` is missing, got None. {ABOUT_SIGMA0} It may be left out if every variable has two finite bounds,"
            " which are positive if it is `log_scaled`."
        )
    return np.where(widths > 0, widths, 1.0) / 3


def _start(
    family: type[Family],
    point: Array,
    another: DrawPoint | None,
    sigma0: ArrayLike | None,
    cov0: ArrayLike | None,
    variables: Variables,
    names: tuple[str, ...] | None,
    parameters: Space | None = None,
) -> Start:
    """The start among variables that have bounds, scales or discrete values."""
    if cov0 is not None:
        as_covariance_root(cov0, point.size)
    space = bounded_space(variables, as_deviations(sigma0, point.size), point)
    return Start(family, space.nearest(point), another, sigma0, cov0, space, names, parameters)


def as_space(x0: object) -> Space | None:
    """The space that is given in place of a starting point, by itself or by a dataclass; None if there is none."""
    if isinstance(x0, type) and is_dataclass(x0):
        return Space.of(x0)
    return x0 if isinstance(x0, Space) else None


def _start_of_space(
    family: type[Family],
    space: Space,
    sigma0: ArrayLike | None,
    cov0: ArrayLike | None,
    given: Mapping[str, object],
) -> Start:
    """The start in a space of named parameters, which says all about its variables."""
    for name, argument in given.items():
        if argument is not None:
            raise TypeError(f"`{name}` must not be given with a Space, whose parameters define it.")
    if not family.continuous:
        raise ValueError(
            "binary methods do not search a Space; use another method, which also takes bits: Choice(False, True)."
        )
    c = space.coordinates()
    variables = Variables(c.lower, c.upper, c.is_log, c.is_integer, c.categories)
    if not np.any((c.lower < c.upper) | (c.categories > 0)):
        raise ValueError("the bounds of the space fix every parameter: nothing is left to search.")
    deviations = c.deviations if sigma0 is None else sigma0
    return _start(family, c.x0, None, deviations, cov0, variables, space.names, space)
