"""Curvature from values of f: a quadratic regression in the whitened frame, at a scale where f tells most."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from sublevel.arrays import Array
from sublevel.curvature.design import Quadratic, Star, Values, fitted
from sublevel.curvature.frame import Frame, Place, found_place, free_frame
from sublevel.curvature.result import Curvature
from sublevel.diagnosis import Finding
from sublevel.door import checked_budget, checked_callable, checked_flag, checked_workers
from sublevel.evaluate import evaluator

EPS = float(np.finfo(np.float64).eps)


def curvature(
    fun: Callable[..., Any],
    result_or_optimizer: Any,
    *,
    delta_f: float | None = None,
    noise: float | None = None,
    maxfevals: float | None = None,
    kind: str | None = None,
    data: int | None = None,
    args: tuple[Any, ...] = (),
    bounds: Any = None,
    vectorized: bool = False,
    workers: int | Callable[..., Any] = 1,
    rng: Any = None,
) -> Curvature:
    """Hessian, inverse Hessian, error bars and principal directions of `fun` at a minimum that was found.

    fun, args, bounds, vectorized, workers
        As for `minimize`; bounds of a result of ours are known already.
    result_or_optimizer
        What `minimize` returned, an `Optimizer`, or any OptimizeResult with an `x`.
    delta_f
        Rise of f over the region to look at.
    noise
        Standard deviation of a value; None measures it.
    maxfevals
        What it may cost.
    kind, data
        "nll" if f is a negative log-likelihood; "least_squares" if it is the sum of `data` squared residuals.
    """
    checked_callable("fun", fun)
    place = found_place(result_or_optimizer, bounds)
    objective = partial(_with_args, fun, args) if args else fun
    evaluate = evaluator(objective, checked_flag("vectorized", vectorized), checked_workers(workers), keep=lambda points, values: None)
    budget = np.inf if maxfevals is None else checked_budget("maxfevals", maxfevals)
    try:
        return _first_version(_Counted(evaluate), place, delta_f, noise, budget, kind, data)
    finally:
        evaluate.close()


def _with_args(fun: Callable[..., Any], args: tuple[Any, ...], point: Array) -> Any:
    return fun(point, *args)


class _Counted:
    def __init__(self, evaluate: Any) -> None:
        self.evaluate, self.nfev = evaluate, 0

    def __call__(self, points: Array) -> Array:
        points.setflags(write=False)
        self.nfev += len(points)
        return self.evaluate(points)


def _pair_values(f: _Counted, frame: Frame, rows: Array) -> tuple[Array, Array]:
    values = f(frame.points(np.concatenate([rows, -rows]))) if len(rows) else np.empty(0)
    return values[: len(rows)], values[len(rows) :]


def _first_version(f: _Counted, place: Place, delta_f: Any, noise: Any, budget: float, kind: Any, data: Any) -> Curvature:
    frame = free_frame(place, place.x)
    k = frame.size
    f0 = float(f(frame.points(np.zeros((1, k))))[0])
    delta = delta_f or {"nll": 0.5, "least_squares": f0 / max((data or 0) - k, 1)}.get(kind) or 0.0
    direction = np.where(np.arange(k) % 2, -1.0, 1.0) / np.sqrt(k)
    step = 1.0
    for _ in range(40):
        plus, minus = _pair_values(f, frame, step * direction[None])
        rise = float(0.5 * (plus + minus)[0]) - f0
        if rise > 1e3 * EPS * abs(f0):
            break
        step *= 10.0
    q = 2 * rise / step**2
    eta = np.sqrt(q) * np.linalg.norm(frame.inverse * place.x[frame.free])
    delta = delta or max(1e8 * EPS * abs(f0), 2 * (1e7 * EPS * eta) ** 2)
    frame = frame.turned(np.eye(k) * np.sqrt(2 * delta / q))
    star = Star(k, k, bool(noise))
    axes = _pair_values(f, frame, star.axis_rows)
    couples = _pair_values(f, frame, star.couple_rows)
    fit = fitted(star, Values(np.array([f0]), (axes[0][None], axes[1][None]), (couples[0][None], couples[1][None])))
    return _described(place, frame, fit, delta, f.nfev, kind, data)


def _described(place: Place, frame: Frame, fit: Quadratic, delta: float, nfev: int, kind: Any, data: Any) -> Curvature:
    d, free, b = place.dimension, frame.free, frame.inverse
    variance = fit.even[0] / max(fit.even[1], 1)
    inverse = np.linalg.inv(fit.matrix)
    root = frame.root[free]
    w = inverse @ root.T

    def full(block: Array, fill: float) -> Array:
        matrix = np.full((d,) * block.ndim, fill)
        matrix[np.ix_(*(free,) * block.ndim)] = block
        return matrix

    hessian = b.T @ fit.matrix @ b
    curvatures, vectors = np.linalg.eigh(hessian)
    directions = np.zeros((d, frame.size))
    directions[free] = vectors[:, ::-1]
    x = np.clip(frame.points(-(inverse @ fit.gradient)), *place.box)
    return Curvature(
        x=x,
        fun=fit.constant - 0.5 * float(fit.gradient @ inverse @ fit.gradient),
        centre=frame.centre,
        gradient=full(b.T @ fit.gradient, np.nan),
        gradient_error=full(np.sqrt(variance * np.diagonal(b.T @ fit.errors.gradient @ b)), np.nan),
        hessian=full(hessian, np.nan),
        hessian_error=full(np.sqrt(variance * fit.errors.of_form(b)), np.nan),
        hess_inv=full(root @ inverse @ root.T, 0.0),
        hess_inv_error=full(np.sqrt(variance * fit.errors.of_form(w)), 0.0),
        curvatures=curvatures[::-1],
        curvatures_error=np.sqrt(variance * fit.errors.of_curvatures(b @ vectors[:, ::-1])),
        directions=directions,
        free=free,
        delta_f=delta,
        noise=float(np.sqrt(variance)),
        dof=fit.even[1],
        lack=float(np.median(np.abs(fit.lack))),
        nfev=nfev,
        kind=kind,
        data=data,
        problems=tuple[Finding, ...](),
        names=tuple(f"x[{i}]" for i in range(d)),
    )
