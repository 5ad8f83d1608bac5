"""`sublevel.minimize` as a method of `scipy.optimize.minimize`."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult, OptimizeWarning

from sublevel.engine.arrays import Array
from sublevel.run.arguments import Box, Objective, StartingPoint
from sublevel.run.constraints import ConstraintsLike
from sublevel.run.minimize import minimize
from sublevel.run.result import Result
from sublevel.validation import as_bounds, as_x0

TOLERANCES = {"ftol": "tolfun", "fatol": "tolfun", "xtol": "tolx", "xatol": "tolx"}
ALIASES = {"maxfev": "maxfevals", "maxfun": "maxfevals", "seed": "rng", "disp": "progress", **TOLERANCES}
"""Names of options in other methods of SciPy."""
OPTIONS = set(inspect.signature(minimize).parameters) - {"fun", "x0", "args", "bounds", "constraints", "callback"}
DERIVATIVES = {"jac", "hess", "hessp"}
"""Arguments that SciPy passes to every method and that are not used here."""


def scipy_method(
    fun: Objective,
    x0: StartingPoint,
    args: tuple[object, ...] = (),
    *,
    bounds: Box | None = None,
    constraints: ConstraintsLike = (),
    callback: Callable[..., object] | None = None,
    tol: float | None = None,
    **options: object,
) -> Result:
    """`sublevel.minimize` for `scipy.optimize.minimize(fun, x0, method=sublevel.scipy_method, options={...})`.

    Parameters
    ----------
    fun, x0, args, bounds, constraints, callback
        As for `scipy.optimize.minimize`.
    tol : float, optional
        Default of the options "tolfun" and "tolx".
    **options
        Keyword arguments of `sublevel.minimize`, such as "integrality". "sigma0" is required unless all bounds are
        finite. Derivatives are ignored, and unknown options cause a warning.

    Returns
    -------
    Result
        As returned by `sublevel.minimize`.

    Examples
    --------
    >>> import scipy.optimize, sublevel
    >>> scipy.optimize.minimize(
    ...     scipy.optimize.rosen,
    ...     [0, 0, 0],
    ...     method=sublevel.scipy_method,
    ...     bounds=[(-2, 2)] * 3,
    ...     options={"ftarget": 1e-9, "rng": 1},
    ... ).success
    True
    """
    given = {ALIASES.get(name, name): value for name, value in options.items() if name not in DERIVATIVES}
    if unknown := sorted(given.keys() - OPTIONS):
        warnings.warn(f"Unknown solver options: {', '.join(unknown)}", OptimizeWarning, stacklevel=3)
    known: dict[str, Any] = {"tolfun": tol, "tolx": tol}
    known |= {name: value for name, value in given.items() if name in OPTIONS}
    if known.get("sigma0") is None and known.get("method") != "pbil":
        _check_box(bounds, as_x0(x0))
    known |= {"args": args, "bounds": bounds, "constraints": constraints, "callback": _wrap_callback(callback)}
    return minimize(fun, x0, **known)


def _check_box(bounds: Box | None, x0: Array) -> None:
    """Raise ValueError unless the bounds are finite, so that `sigma0` has a default."""
    lower, upper = as_bounds([(None, None)] * x0.size if bounds is None else bounds, x0.size)
    if not np.all(np.isfinite(upper - lower)):
        raise ValueError(
            'without finite `bounds` the initial standard deviation must be given: options={"sigma0": ...}, about a '
            "third of the search range."
        )


def _wrap_callback(callback: Callable[..., object] | None) -> Callable[[OptimizeResult], object] | None:
    """A callback as in SciPy: it gets `intermediate_result` if that is its only argument, else the best point."""
    if callback is None:
        return None
    if set(inspect.signature(callback).parameters) == {"intermediate_result"}:
        return lambda result: callback(intermediate_result=result)
    return lambda result: callback(np.copy(result.x))
