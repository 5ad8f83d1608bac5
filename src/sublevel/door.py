"""Checks at the door: what users give becomes what the core trusts, or an error that says what to do."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from sublevel.arrays import Array
from sublevel.constants import default_popsize
from sublevel.families import Bernoulli, DiagonalGaussian, Family, IsotropicGaussian
from sublevel.linalg import cholesky
from sublevel.method import Method
from sublevel.recipes import ngd, pbil, rank_mu

RECIPES: dict[str, Callable[[], Method]] = {
    "ngd": ngd,
    "sep-ngd": lambda: ngd(family=DiagonalGaussian),
    "iso-ngd": lambda: ngd(family=IsotropicGaussian),
    "rank-mu": rank_mu,
    "sep-rank-mu": lambda: rank_mu(family=DiagonalGaussian),
    "iso-rank-mu": lambda: rank_mu(family=IsotropicGaussian),
    "pbil": pbil,
}
"""Every method that has a name."""


def checked_method(method: str | Method) -> Method:
    """The method of that name, or the method itself."""
    if isinstance(method, Method):
        return method
    if not isinstance(method, str):
        raise TypeError(f"`method` must be a name or a Method, got {method!r}. Names: {', '.join(RECIPES)}.")
    if method not in RECIPES:
        near = difflib.get_close_matches(method.lower().replace("_", "-"), RECIPES, n=1)
        raise ValueError(
            f"there is no method {method!r}." + (f" Did you mean {near[0]!r}?" if near else "") + f" Names: {', '.join(RECIPES)}."
        )
    return RECIPES[method]()


def checked_popsize(popsize: object, d: int) -> int:
    """A sample size ≥ 2; the default for d dimensions if None."""
    return default_popsize(d) if popsize is None else checked_count("popsize", popsize, 2)


def checked_count(name: str, count: Any, least: int = 1) -> int:
    """A whole number ≥ least."""
    try:
        number = operator.index(count)
    except TypeError:
        raise TypeError(f"`{name}` must be a whole number, got {count!r} of type {type(count).__name__}.") from None
    if isinstance(count, bool) or number < least:
        raise ValueError(f"`{name}` must be at least {least}, got {count!r}.")
    return number


def checked_numbers(name: str, given: Any) -> Array:
    """Real, finite float64 numbers of any shape."""
    try:
        array = np.asarray(given)
    except ValueError as error:  # ragged nesting
        raise ValueError(f"`{name}` must be an array of numbers, got {given!r}: {error}.") from None
    if array.dtype.kind not in "fiu":
        raise TypeError(f"`{name}` must hold real numbers, got {given!r} (dtype {array.dtype}).")
    numbers = array.astype(np.float64)
    if not np.all(np.isfinite(numbers)):
        raise ValueError(f"`{name}` must be finite, got {given!r}. Replace NaN and inf by numbers.")
    return numbers


def checked_x0(x0: Any) -> Array:
    """The starting point (d,), d ≥ 1."""
    point = checked_numbers("x0", x0) if np.size(x0) else np.empty(0)
    if point.size == 0:
        raise ValueError(f"`x0` must hold at least one number, got {x0!r}. Its length is the number of variables.")
    if point.ndim > 1:
        raise ValueError(f"`x0` must be one point of shape (d,), got shape {point.shape}.")
    return np.atleast_1d(point)


def checked_deviations(sigma0: Any, d: int) -> Array:
    """Initial standard deviations (d,) from one number or one per variable."""
    if sigma0 is None:
        raise TypeError("`sigma0` is missing. It is the initial standard deviation; start with about a third of the search range.")
    deviations = checked_numbers("sigma0", sigma0)
    if deviations.shape not in ((), (1,), (d,)):
        raise ValueError(f"`sigma0` must be a number or have one entry per variable, shape ({d},), got shape {deviations.shape}.")
    if not np.all(deviations > 0):
        raise ValueError(
            f"`sigma0` must be positive, got {sigma0!r}. It is the initial standard deviation; start with about a third of the search range."
        )
    return np.broadcast_to(deviations, (d,)).astype(np.float64)


def checked_covariance_root(cov0: Any, d: int) -> Array:
    """Lower root (d, d) of a symmetric positive definite covariance."""
    cov = checked_numbers("cov0", cov0)
    if cov.shape != (d, d):
        raise ValueError(f"`cov0` must be a square matrix with one row per variable, shape ({d}, {d}), got shape {cov.shape}.")
    scale = np.sqrt(np.maximum(np.diagonal(cov), 0.0))
    if not np.all(scale > 0):
        raise ValueError(f"`cov0` must be positive definite: its diagonal holds variances, got {np.diagonal(cov)!r}.")
    correlation = cov / scale / scale[:, None]
    if np.max(np.abs(correlation - correlation.T)) > 1e-8:
        raise ValueError("`cov0` must be symmetric; (cov0 + cov0.T) / 2 is the nearest symmetric matrix.")
    root, definite = cholesky(0.5 * (correlation + correlation.T))
    if not definite:
        smallest = np.linalg.eigvalsh(correlation)[0]
        raise ValueError(
            f"`cov0` must be positive definite; the smallest eigenvalue of its correlation matrix is {smallest:.3g}. Add a multiple of the identity."
        )
    return scale[:, None] * root


def checked_start(family: type[Any], x0: Any, sigma0: Any, cov0: Any) -> Family:
    """The distribution to begin with: N(x0, sigma0²·cov0) as the family can hold it, or bits with probabilities x0."""
    mean = checked_x0(x0)
    if family is Bernoulli:
        if sigma0 is not None or cov0 is not None:
            raise ValueError("a method on bits has no `sigma0` and no `cov0`: pass sigma0=None, and the probabilities of a 1 as `x0`.")
        if not np.all((mean >= 0) & (mean <= 1)):
            raise ValueError(f"`x0` must hold probabilities in [0, 1] for a method on bits, got {x0!r}. Start with 0.5 for each bit.")
        return Bernoulli.start(mean)
    deviations = checked_deviations(sigma0, mean.size)
    return family.start(mean, deviations, None if cov0 is None else checked_covariance_root(cov0, mean.size))


def checked_values(values: Any, size: int) -> Array:
    """f-values (size,) as float64; NaN and ±inf are values, anything that is not a real number is an error."""
    array = np.asarray(values)
    if array.shape != (size,):
        raise ValueError(f"expected one value per point, shape ({size},), got shape {array.shape}.")
    if array.dtype.kind in "fiub":
        return array.astype(np.float64, copy=False)
    return np.array([checked_value(value) for value in array.tolist()])


def checked_value(value: Any) -> float:
    """One f-value as a float."""
    if isinstance(value, float):
        return value
    array = np.asarray(value)
    if array.size == 1 and array.dtype.kind in "fiub":
        return float(array.reshape(())[()])
    if array.size == 1 and array.dtype.kind == "O" and hasattr(value, "__float__") and not isinstance(value, complex):
        return float(value)
    hint = " Did you forget `return`?" if value is None else ""
    raise TypeError(f"the objective must return one real number per point, got {value!r} of type {type(value).__name__}.{hint}")
