"""Profile-likelihood intervals beside MINOS of iminuit: ends, evaluations, and coverage over many data sets.

    python benchmarks/profile_intervals.py               (the table, a minute)
    python benchmarks/profile_intervals.py --coverage    (coverage over 400 data sets of each of three models, minutes)

Both begin at the same minimum, each with its own curvature (`sl.curvature`, HESSE). "apart" is the largest difference
of an end, as a part of the width of the interval, and "off" the same from a profile computed by nested minimisation
with tight tolerances. Evaluations are those of the intervals alone, and together with those of the curvature or HESSE.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from iminuit import Minuit
from scipy.optimize import brentq, minimize
from scipy.special import expit

import sublevel as sl


@dataclass(frozen=True)
class Model:
    """A function to fit, where to begin, and what it means."""

    name: str
    fun: Callable[[Any], float]
    x0: tuple[float, ...]
    kind: str = "nll"
    n_residuals: int | None = None
    log_scaled: bool = False


def decay(rng: np.random.Generator) -> Model:
    """Counts of an exponential decay over a background: amplitude, lifetime, background."""
    t = np.linspace(0.25, 9.75, 20)
    counts = rng.poisson(12 * np.exp(-t / 2.0) + 1.5)

    def nll(p: Any) -> float:
        mu = p[0] * np.exp(-t / p[1]) + p[2]
        return float(np.sum(mu - counts * np.log(mu))) if np.all(mu > 0) else np.inf

    return Model("decay, Poisson counts", nll, (10.0, 2.0, 1.0), log_scaled=True)


def peak(rng: np.random.Generator) -> Model:
    """A peak on a slope: height, place, width, and two of the background."""
    t = np.linspace(-5, 5, 50)
    counts = rng.poisson(15 * np.exp(-0.5 * ((t - 0.5) / 0.8) ** 2) + 5 - 0.3 * t)

    def nll(p: Any) -> float:
        mu = p[0] * np.exp(-0.5 * ((t - p[1]) / p[2]) ** 2) + p[3] + p[4] * t
        return float(np.sum(mu - counts * np.log(mu))) if np.all(mu > 0) else np.inf

    return Model("peak on a slope, Poisson counts", nll, (12.0, 0.2, 1.0, 4.0, 0.0))


def logistic(rng: np.random.Generator, n: int = 40) -> Model:
    """A logistic regression of few data."""
    X = np.column_stack([np.ones(n), rng.standard_normal((n, 2))])
    sign = np.where(rng.random(n) < expit(X @ [0.5, 1.5, -1.0]), -1.0, 1.0)
    return Model(
        "logistic regression, 40 data", lambda b: float(np.sum(np.logaddexp(0.0, (X @ b) * sign))), (0.0, 0.0, 0.0)
    )


def kinetics(rng: np.random.Generator) -> Model:
    """Michaelis–Menten kinetics by least squares, which know V/K better than V and K."""
    s = np.array([0.1, 0.2, 0.4, 0.8, 1.6, 3.2])
    y = 2.0 * s / (1.5 + s) + 0.04 * rng.standard_normal(s.size)
    squares = lambda p: float(np.sum((p[0] * s / (p[1] + s) - y) ** 2))  # noqa: E731
    return Model("Michaelis–Menten, least squares", squares, (1.5, 1.0), "least_squares", s.size)


def weibull(rng: np.random.Generator, n: int = 12) -> Model:
    """Shape and scale of a Weibull distribution from 12 lifetimes."""
    t = 3.0 * rng.weibull(1.7, n)

    def nll(p: Any) -> float:
        k, scale = p
        return (
            float(np.sum((t / scale) ** k - k * np.log(t / scale) + np.log(t / k))) if k > 0 and scale > 0 else np.inf
        )

    return Model("Weibull, 12 lifetimes", nll, (1.0, 2.0), log_scaled=True)


def banana(rng: np.random.Generator) -> Model:
    """A bent valley: the quadratic holds nowhere near the ends."""
    del rng
    return Model(
        "bent valley", lambda x: 0.5 * float(4 * (x[1] - 0.5 * x[0] ** 2) ** 2 + (x[0] - 1) ** 2 / 1.5), (0.5, 0.5)
    )


def compartments(rng: np.random.Generator) -> Model:
    """Two exponentials by least squares: amplitudes and rates, strongly correlated."""
    t = np.linspace(0.1, 6.0, 25)
    y = 1.0 * np.exp(-2.0 * t) + 0.6 * np.exp(-0.4 * t) + 0.01 * rng.standard_normal(t.size)
    squares = lambda p: float(np.sum((p[0] * np.exp(-p[1] * t) + p[2] * np.exp(-p[3] * t) - y) ** 2))  # noqa: E731
    return Model("two exponentials, least squares", squares, (0.8, 1.5, 0.5, 0.3), "least_squares", t.size, True)


MODELS = (decay, peak, logistic, kinetics, weibull, banana, compartments)


def found_curvature(model: Model) -> sl.Curvature:
    """Where both begin."""
    result = sl.minimize(model.fun, model.x0, 0.3, log_scaled=model.log_scaled, rng=1)
    return sl.curvature(model.fun, result, kind=model.kind, n_residuals=model.n_residuals)


def minos(model: Model, x: Any, rise: float) -> tuple[Any, int, int]:
    """Ends (d, 2) by MINOS from the same minimum, evaluations of HESSE, and of MINOS."""
    minuit = Minuit(model.fun, np.array(x))
    if model.log_scaled:
        minuit.limits = [(1e-12, None)] * len(x)
    minuit.errordef = rise
    minuit.migrad()
    before = minuit.nfcn
    minuit.hesse()
    after = minuit.nfcn
    minuit.minos()
    errors = list(minuit.merrors.values())
    ends = [
        [x + e.lower, x + e.upper] if e.is_valid else [np.nan] * 2 for x, e in zip(minuit.values, errors, strict=True)
    ]
    return np.array(ends), after - before, minuit.nfcn - after


def exact_end(model: Model, found: sl.Curvature, near: float, i: int, rise: float) -> float:
    """An end by brentq over nested minimisations, between 0.9 and 1.1 times as far from the minimum as the one that is
    `near`.
    """
    if not np.isfinite(near) or near == 0:
        return np.nan
    forth, back = (np.log, np.exp) if model.log_scaled else (np.asarray, np.asarray)
    start, rest = forth(found.x), np.delete(np.arange(found.x.size), i)
    guess = start[rest]

    def missing(v: float) -> float:
        nonlocal guess
        whole = start.copy()
        whole[i] = v

        def inner(w: Any) -> float:
            whole[rest] = w
            return model.fun(back(whole))

        for _ in range(2):
            guess = minimize(
                inner, guess, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12, "maxfev": 20_000}
            ).x
        return inner(guess) - found.fun - rise

    span = forth(near) - start[i]
    ends = start[i] + 0.9 * span, start[i] + 1.1 * span
    return float(back(brentq(missing, *ends, xtol=1e-8))) if missing(ends[0]) * missing(ends[1]) < 0 else np.nan


def compare(level: float) -> None:
    """A row for each model."""
    for make in MODELS:
        model = make(np.random.default_rng(3))
        found = found_curvature(model)
        profiles = found.profile_intervals(level)
        theirs, hesse, minos_calls = minos(model, found.x, profiles.rise)
        ours, width = profiles.intervals, np.diff(profiles.intervals, axis=1)
        true = np.array([[exact_end(model, found, end, i, profiles.rise) for end in row] for i, row in enumerate(ours)])
        pairs = (ours, theirs), (ours, true), (theirs, true)
        shares = " | ".join(f"{100 * np.nanmax(np.abs(one - other) / width):.2f} %" for one, other in pairs)
        calls = f"{profiles.nfev} | {minos_calls} | {found.nfev + profiles.nfev} | {hesse + minos_calls}"
        print(f"| {model.name} | {len(model.x0)} | {100 * level:.4g} % | {shares} | {calls} |", flush=True)
        for problem in profiles.problems:
            print("  ", problem)


def coverage(make: Callable[[np.random.Generator], Model], truth: tuple[float, ...], count: int, level: float) -> None:
    """How often intervals of both kinds hold the truth; data sets whose fit has no curvature are left out and
    counted.
    """
    profiled, plain, calls, lost = [], [], 0, 0
    for seed in range(count):
        found = found_curvature(make(np.random.default_rng(1000 + seed)))
        if not np.isfinite(found.hess_inv).all():
            lost += 1
            continue
        profiles = found.profile_intervals(level)
        calls += profiles.nfev
        for hits, (low, high) in ((profiled, profiles.intervals.T), (plain, found.intervals(level).T)):
            hits.append((low <= truth) & (truth <= high))
    columns = [", ".join(f"{100 * share:.1f}" for share in np.mean(hits, axis=0)) for hits in (profiled, plain)]
    name = make(np.random.default_rng(1)).name
    print(
        f"| {name} | {len(plain)} | {100 * level:.4g} % | {columns[0]} % | {columns[1]} % | {calls / len(plain):.0f} "
        f"| {lost} |",
        flush=True,
    )


COVERED = ((weibull, (1.7, 3.0)), (logistic, (0.5, 1.5, -1.0)), (kinetics, (2.0, 1.5)))

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coverage", action="store_true")
    parser.add_argument("--count", type=int, default=400)
    given = parser.parse_args()
    print(
        "| model | d | level | apart | ours off | MINOS off | ours | MINOS | ours, with curvature | MINOS, with HESSE |"
    )
    for level in (0.6827, 0.95):
        compare(level)
    if given.coverage:
        print("| model | data sets | level | profile covers | Hessian covers | evaluations | left out |")
        for make, truth in COVERED:
            for level in (0.6827, 0.95):
                coverage(make, truth, given.count, level)
