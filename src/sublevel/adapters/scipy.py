"""As a method of `scipy.optimize.minimize`."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult, OptimizeWarning

from sublevel.engine.arrays import Array
from sublevel.run.minimize import minimize
from sublevel.run.result import Result
from sublevel.validation import as_bounds, as_x0

ALIASES = {
    "maxfev": "maxfevals",
    "maxfun": "maxfevals",
    "seed": "rng",
    "disp": "progress",
    "ftol": "tolfun",
    "fatol": "tolfun",
    "xtol": "tolx",
    "xatol": "tolx",
}
"""Options as other methods of SciPy call them."""
OPTIONS = set(inspect.signature(minimize).parameters) - {"fun", "x0", "args", "bounds", "callback"}
DERIVATIVES = {"jac", "hess", "hessp"}
"""What SciPy passes to every method and a search by order alone has no use for."""


def scipy_method(
    fun: Callable[..., Any],
    x0: Any,
    args: tuple[Any, ...] = (),
    *,
    bounds: Any = None,
    constraints: Any = (),
    callback: Callable[..., Any] | None = None,
    tol: float | None = None,
    **options: Any,
) -> Result:
    """`sublevel.minimize` for `scipy.optimize.minimize(fun, x0, method=sublevel.scipy_method, options={...})`.

    Options are the keyword arguments of `sublevel.minimize`. Without "sigma0" it is a third of the box if all bounds are finite.
    `tol` sets "tolfun" and "tolx" where the options do not. Derivatives are ignored; constraints are refused.

    >>> import scipy.optimize, sublevel
    >>> scipy.optimize.minimize(
    ...     scipy.optimize.rosen, [0, 0, 0], method=sublevel.scipy_method, bounds=[(-2, 2)] * 3, options={"ftarget": 1e-9, "rng": 1}
    ... ).success
    True
    """
    if np.size(constraints):
        raise ValueError("sublevel cannot handle `constraints`, only `bounds`. Return inf or a penalty where a point is not allowed.")
    given = {ALIASES.get(name, name): value for name, value in options.items() if name not in DERIVATIVES}
    if unknown := sorted(given.keys() - OPTIONS):
        warnings.warn(f"Unknown solver options: {', '.join(unknown)}", OptimizeWarning, stacklevel=3)
    known: dict[str, Any] = {"tolfun": tol, "tolx": tol} | {name: value for name, value in given.items() if name in OPTIONS}
    sigma0 = known.pop("sigma0", None)
    if sigma0 is None and known.get("method") != "pbil":
        sigma0 = _third_of_the_box(bounds, as_x0(x0))
    return minimize(fun, x0, sigma0, args=args, bounds=bounds, callback=_wrapped(callback), **known)


def _third_of_the_box(bounds: Any, x0: Array) -> Array:
    """A third of the distance between the bounds (d,)."""
    lower, upper = as_bounds([(None, None)] * x0.size if bounds is None else bounds, x0.size)
    width = upper - lower
    if not np.all(np.isfinite(width)):
        raise ValueError(
            'without finite `bounds` for each variable an initial standard deviation is needed: options={"sigma0": ...}, '
            "about a third of the range to search."
        )
    return np.where(width > 0, width, 1.0) / 3


def _wrapped(callback: Callable[..., Any] | None) -> Callable[[OptimizeResult], Any] | None:
    """A callback of SciPy's: of `intermediate_result` if that is the name of its only argument, else of the best point."""
    if callback is None:
        return None
    if set(inspect.signature(callback).parameters) == {"intermediate_result"}:
        return lambda result: callback(intermediate_result=result)
    return lambda result: callback(np.copy(result.x))
