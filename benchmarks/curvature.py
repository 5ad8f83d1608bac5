"""How accurate a curvature is, beside numdifftools, Minuit's HESSE, the `hess_inv` of BFGS and the covariance of the
package `cma`.

    python benchmarks/curvature.py [--quick] [--figure docs/pictures/curvature-benchmark.png]  (6 minutes)

Everyone is asked at the same point: where `sublevel.minimize` ended from the same start, with the same noise. BFGS and
`cma` have no such question; they make their own run from the same start, and their evaluations are those of the run.

The number is the largest factor by which a curvature is off in any direction, max(λ, 1/λ) over the eigenvalues λ of
hess_inv·H: 1 is exact, and — is a matrix that is not positive definite, or none. Methods that know no units of f
(`cma`, ranks) are given the best unit, and so is everyone under a transform of f. A ! marks an answer of ours that
comes with a warning (`problems`).

numdifftools and HESSE are there twice: as they are by default, and told what our search has learned: a step per
variable at which f rises as much as where ours looks, and how much values scatter. Under noise everyone gets the
evaluations that numdifftools takes by default: the others repeat themselves and average, ours is told by `maxfevals`
("curvature, equal").

Median over up to 3 seeds, evaluations in brackets. The last lines say in how many cases with noise or a condition
number of at least 1e8 nobody is nearer.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np
from scipy.integrate import odeint
from scipy.linalg import expm
from scipy.optimize import minimize as scipy_minimize

import sublevel as sl

# Problems


@dataclass(frozen=True)
class Problem:
    """A function of one point with the Hessian at its minimum, where to begin, and how much its values scatter."""

    name: str
    d: int
    fun: Callable[[np.ndarray], float]
    hessian_root: np.ndarray  # (d, d), L with H = LᵀL
    x0: np.ndarray
    sigma0: Any
    noise: float = 0.0
    ill: bool = False  # a condition number of 1e8 or more
    least: float = 0.0  # the value at the minimum
    is_composed: bool = False  # with an increasing function, which takes the units of f away

    def noisy(self, noise: float) -> Problem:
        """The problem with values that scatter."""
        return replace(self, noise=noise)

    def composed(self, name: str, g: Callable[[float], float]) -> Problem:
        """g∘f."""
        return replace(self, name=f"{name}, {self.name}", fun=lambda x: g(self.fun(x)), is_composed=True)


def ellipsoid(d: int, condition: float, seed: int) -> Problem:
    """A turned ellipsoid with its minimum, of value 1, away from 0."""
    rng = np.random.default_rng([seed, d])
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    root = np.sqrt(condition ** (np.arange(d) / (d - 1)))[:, None] * turn
    optimum = rng.standard_normal(d)
    name = f"ellipsoid 1e{np.log10(condition):.0f}"
    fun = lambda x: 1.0 + 0.5 * float(np.sum(np.square(root @ (x - optimum))))  # noqa: E731
    return Problem(name, d, fun, root, optimum + rng.standard_normal(d), 0.5, ill=condition >= 1e8, least=1.0)


def rosenbrock(d: int, seed: int) -> Problem:
    """The bent valley, from a start in its better half."""

    def fun(x: np.ndarray) -> float:
        return float(np.sum(100 * np.square(x[1:] - np.square(x[:-1])) + np.square(1 - x[:-1])))

    hessian = (
        np.diag(np.r_[np.full(d - 1, 802.0), 200.0])
        + np.diag(np.full(d - 1, -400.0), 1)
        + np.diag(np.full(d - 1, -400.0), -1)
    )
    for i in range(1, d - 1):
        hessian[i, i] = 1002.0
    return Problem("Rosenbrock", d, fun, np.linalg.cholesky(hessian).T, np.full(d, 0.8), 0.1)


def logistic(d: int, seed: int) -> Problem:
    """Negative log-likelihood of a logistic regression of 300 cases on correlated columns of different units."""
    rng = np.random.default_rng([seed, 7])
    units = 10.0 ** np.linspace(-1, 2, d)
    columns = (rng.standard_normal((300, d)) + rng.standard_normal((300, 1))) * units
    truth = rng.standard_normal(d) / units
    answers = rng.random(300) < 1 / (1 + np.exp(-columns @ truth))
    signed = np.where(answers, -1.0, 1.0)[:, None] * columns

    def fun(x: np.ndarray) -> float:
        return float(np.sum(np.logaddexp(0.0, signed @ x)))

    x = np.zeros(d)
    for _ in range(50):  # Newton's method with the exact derivatives
        p = 1 / (1 + np.exp(-(signed @ x)))
        hessian = (signed * (p * (1 - p))[:, None]).T @ signed
        x = x - np.linalg.solve(hessian, signed.T @ p)
    return Problem("logistic regression", d, fun, np.linalg.cholesky(hessian).T, np.zeros(d), 0.3 / units, least=fun(x))


TIMES = np.linspace(0.5, 24, 30)
DOSE = 100.0
RATES = np.array([1.1, 0.25, 0.4, 0.15, 12.0])  # absorption, elimination, to and from the tissue in 1/h, volume in l


def compartments(rates: np.ndarray) -> np.ndarray:
    """The matrix (3, 3) of gut, blood and tissue."""
    absorption, elimination, out, back = rates[:4]
    return np.array([[-absorption, 0, 0], [absorption, -elimination - out, back], [0, out, -back]])


def concentrations(rates: np.ndarray) -> np.ndarray:
    """In the blood at TIMES, in closed form and also for complex rates."""
    return np.array([(expm(t * compartments(rates)) @ [DOSE, 0, 0])[1] for t in TIMES]) / rates[4]


def simulated(rates: np.ndarray) -> np.ndarray:
    """The same by a solver of differential equations, as a user would have it."""
    if np.any(rates <= 0):
        return np.full(TIMES.size, 1e3)
    matrix = compartments(rates)
    return odeint(lambda y, t: matrix @ y, [DOSE, 0, 0], np.r_[0.0, TIMES], rtol=1e-9, atol=1e-9)[1:, 1] / rates[4]


def pharmacokinetics(d: int, seed: int) -> Problem:
    """Half the sum of squares of a fit of a compartment model, in units of the measurement error."""
    rng = np.random.default_rng([seed, 9])
    error = 0.01
    data = concentrations(RATES) + error * rng.standard_normal(TIMES.size)

    def fun(x: np.ndarray) -> float:
        return 0.5 * float(np.sum(np.square((simulated(x) - data) / error)))

    def gradient(x: np.ndarray) -> np.ndarray:  # exact, by complex steps
        steps = 1e-30j * np.eye(5)
        residuals = np.array([(concentrations(x + step) - data) / error for step in steps])
        return np.sum(residuals.real * residuals.imag, axis=1) / 1e-30

    def jacobian(x: np.ndarray) -> np.ndarray:
        columns = [(gradient(x + step) - gradient(x - step)) / (2 * step.sum()) for step in np.diag(1e-5 * x)]
        return 0.5 * (np.array(columns) + np.array(columns).T)

    x = RATES.copy()
    for _ in range(8):
        hessian = jacobian(x)
        x = x - np.linalg.solve(hessian, gradient(x))
    return Problem(
        "compartment model", 5, fun, np.linalg.cholesky(jacobian(x)).T, RATES * 0.9, 0.1 * RATES, least=fun(x)
    )


# Methods: each returns an inverse Hessian and the evaluations it took


class Counted:
    """The problem's function, with its noise, counting its calls."""

    def __init__(self, problem: Problem, seed: int) -> None:
        self.problem, self.rng, self.count = problem, np.random.default_rng([seed, 99]), 0

    def __call__(self, x: np.ndarray) -> float:
        self.count += 1
        value = self.problem.fun(np.asarray(x))
        return value + self.problem.noise * self.rng.standard_normal() if self.problem.noise else value


@dataclass(frozen=True)
class Asked:
    """What everyone is asked: a function at a point, with what our search and our answer know."""

    problem: Problem
    seed: int
    found: Any  # result of minimize
    steps: np.ndarray  # (d,), at which f rises by delta along each variable
    delta: float
    evaluations: int  # under noise: those that numdifftools takes by default, which everyone may spend

    def fun(self) -> Counted:
        return Counted(self.problem, self.seed + 1)


def repeated(fun: Counted, limit: int, hessian: Callable[[], np.ndarray]) -> np.ndarray:
    """The average of as many Hessians as the evaluations allow; one if there is no noise."""
    matrices = [hessian()]
    cost = fun.count
    while fun.problem.noise and fun.count + cost <= limit:
        matrices.append(hessian())
    return np.mean(matrices, axis=0)


def by_numdifftools(asked: Asked, told: bool) -> tuple[np.ndarray, int]:
    import numdifftools

    fun = asked.fun()
    tool = numdifftools.Hessian(fun, step=asked.steps if told else None)
    hessian = repeated(fun, asked.evaluations, lambda: tool(asked.found.mean))
    return np.linalg.inv(hessian), fun.count


def by_hesse(asked: Asked, told: bool) -> tuple[np.ndarray, int]:
    from iminuit import Minuit

    fun = asked.fun()

    def hessian() -> np.ndarray:
        minuit = Minuit(fun, asked.found.mean)
        minuit.errordef = 0.5
        minuit.strategy = 2
        if told:
            minuit.errors = asked.steps
            minuit.errordef = asked.delta
            if asked.problem.noise:
                minuit.precision = asked.problem.noise / (abs(asked.found.fun) + asked.delta)
        minuit.hesse()
        if minuit.covariance is None:
            return np.full((asked.problem.d, asked.problem.d), np.nan)
        return 2 * minuit.errordef * np.linalg.inv(np.array(minuit.covariance))

    return np.linalg.inv(repeated(fun, asked.evaluations, hessian)), fun.count


def by_bfgs(asked: Asked) -> tuple[np.ndarray, int]:
    fun = asked.fun()
    return scipy_minimize(fun, asked.problem.x0, method="BFGS").hess_inv, fun.count


def by_cma(asked: Asked) -> tuple[np.ndarray, int]:
    import cma

    fun, sigma0 = asked.fun(), np.broadcast_to(asked.problem.sigma0, asked.problem.x0.shape)
    options = {
        "verbose": -9,
        "seed": asked.seed + 1,
        "CMA_stds": sigma0,
        "maxfevals": asked.found.nfev + asked.evaluations,
    }
    search = cma.CMAEvolutionStrategy(asked.problem.x0, 1.0, options).optimize(fun)
    scales = search.sigma_vec.scaling
    return search.C * scales * np.asarray(scales)[:, None], fun.count


def by_ranks(asked: Asked) -> tuple[np.ndarray, int]:
    fun = asked.fun()
    return sl.shape_from_ranks(fun, asked.found, rng=asked.seed).hess_inv, fun.count


def by_ours_with(asked: Asked, evaluations: int) -> tuple[np.ndarray, int]:
    fun = asked.fun()
    return sl.curvature(fun, asked.found, maxfevals=evaluations).hess_inv, fun.count


def off(inverse: np.ndarray, root: np.ndarray, unit: bool) -> float:
    """The largest factor by which a curvature is off, after the best choice of a unit if that is free."""
    if not np.isfinite(inverse).all():
        return np.inf
    values = np.linalg.eigvalsh(root @ (0.5 * (inverse + inverse.T)) @ root.T)
    if values[0] <= 0:
        return np.inf
    if unit:
        values = values / np.sqrt(values[0] * values[-1])
    return float(max(values[-1], 1 / values[0]))


PEERS: dict[str, tuple[Callable[[Asked], tuple[np.ndarray, int]], bool]] = {
    "ranks": (by_ranks, True),
    "numdifftools": (lambda asked: by_numdifftools(asked, False), False),
    "numdifftools, told": (lambda asked: by_numdifftools(asked, True), False),
    "HESSE": (lambda asked: by_hesse(asked, False), False),
    "HESSE, told": (lambda asked: by_hesse(asked, True), False),
    "BFGS": (by_bfgs, False),
    "cma": (by_cma, True),
}
OURS, EQUAL = "curvature", "curvature, equal"
COLUMNS = [OURS, EQUAL, *PEERS]


@dataclass(frozen=True)
class Outcome:
    """How far off, at what cost, and whether it came with a warning."""

    off: float
    evaluations: int
    warned: bool = False


def outcomes(problem: Problem, seed: int) -> dict[str, Outcome]:
    """Of everyone."""
    search, fun = Counted(problem, seed), Counted(problem, seed + 1)
    budget = 2000 * problem.d if problem.noise else None
    found = sl.minimize(search, problem.x0, problem.sigma0, rng=seed, maxfevals=budget)
    ours = sl.curvature(fun, found)
    steps = np.sqrt(2 * ours.delta_f / np.abs(np.diagonal(ours.hessian)))
    asked = Asked(problem, seed, found, steps, ours.delta_f, 1 + 30 * problem.d**2 if problem.noise else fun.count)

    def outcome(method: Callable[[Asked], tuple[np.ndarray, int]], unit: bool) -> Outcome:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                inverse, count = method(asked)
            except (np.linalg.LinAlgError, ValueError):
                inverse, count = np.full((problem.d, problem.d), np.nan), 0
        return Outcome(off(inverse, problem.hessian_root, unit or problem.is_composed), count)

    table = {
        OURS: Outcome(off(ours.hess_inv, problem.hessian_root, problem.is_composed), fun.count, bool(ours.problems))
    }
    table |= {peer: outcome(*PEERS[peer]) for peer in PEERS}
    if problem.noise:
        table[EQUAL] = outcome(lambda asked: by_ours_with(asked, asked.evaluations), False)
    return table


# All cases, the table and the figure


SCATTER = {"Rosenbrock": (1e-6, 1e-2), "logistic regression": (1e-2,), "compartment model": (1e-2,)}
"""Standard deviations of a value: where f rises by a hundred of it, logistic regression and Rosenbrock with the smaller
one are nearly quadratic, the other two are not."""
SECTIONS = {
    "ellipsoids": "Ellipsoids",
    "curved": "Functions that are not quadratic",
    "transforms": "Under transforms of f",
}
SEEDS = {2: 3, 5: 3, 10: 3, 20: 2, 50: 1}
"""Ellipsoids of each dimension."""


def problems(quick: bool) -> Iterator[tuple[str, Problem, int]]:
    """Every case with the group it belongs to and its seed, the cheap ones first."""
    curved = [logistic, rosenbrock] if quick else [logistic, rosenbrock, pharmacokinetics]
    for make, d, seed in product(curved, (5,) if quick else (5, 10), range(1 if quick else 3)):
        if make is not pharmacokinetics or d == 5:
            problem = make(d, seed)
            yield "curved", problem, seed
            for scatter in SCATTER[problem.name]:
                yield "curved, noise", problem.noisy(scatter), seed
    for problem in (ellipsoid(5, 1e6, 0), *(make(5, 0) for make in curved)):
        yield "transforms", problem.composed("√(f − f*)", partial(root_above, problem.least)), 0
        yield "transforms", problem.composed("log f", logarithm), 0
    for d, seeds in SEEDS.items():
        conditions = (1e2, 1e8) if quick else (1e2, 1e4, 1e6, 1e8, 1e10, 1e12) if d < 50 else (1e2, 1e8, 1e12)
        for condition, seed in product(conditions, range(1 if quick else seeds)):
            if not quick or d <= 5:
                yield "ellipsoids", ellipsoid(d, condition, seed), seed
                yield "ellipsoids, noise 0.01", ellipsoid(d, condition, seed).noisy(1e-2), seed


def root_above(least: float, value: float) -> float:
    return float(np.sqrt(max(value - least, 0.0)))


def logarithm(value: float) -> float:
    return float(np.log(value + 1e-300))


def cell(seen: list[Outcome]) -> str:
    """Median factor and evaluations."""
    if not seen:
        return ""
    factor, count = float(np.median([one.off for one in seen])), int(np.median([one.evaluations for one in seen]))
    warned = "!" if np.mean([one.warned for one in seen]) > 0.5 else ""
    if not factor < 1e6:
        return f"— ({count}){warned}"
    shown = f"{factor:.5f}" if factor < 1.01 else f"{factor:.3f}" if factor < 10 else f"{factor:.2g}"
    return f"{shown} ({count}){warned}"


def loses_to(seen: dict[str, list[Outcome]]) -> list[str]:
    """Peers that are nearer than `curvature` at equal evaluations, by more than a tenth of its distance and if that is
    more than 0.1 %.
    """

    def distance(name: str) -> float:
        return float(np.log(np.median([one.off for one in seen[name]]))) if seen.get(name) else np.inf

    ours = distance(EQUAL if seen.get(EQUAL) else OURS)
    return [peer for peer in PEERS if peer != "ranks" and distance(peer) < 0.9 * ours and ours > 1e-3]


def table_of(results: dict[tuple[str, str, int, float, bool], dict[str, list[Outcome]]]) -> Iterator[str]:
    """Lines of Markdown."""
    for kind, heading in SECTIONS.items():
        yield f"\n## {heading}\n"
        yield "| case | d | " + " | ".join(COLUMNS) + " | nearer than ours |"
        yield "|---" * (len(COLUMNS) + 3) + "|"
        for (group, name, d, noise, _), seen in results.items():
            if group.startswith(kind):
                case = name + (f", noise {noise:g}" if noise else "")
                cells = [cell(seen.get(column, [])) for column in COLUMNS]
                yield f"| {case} | {d} | " + " | ".join(cells) + " | " + ", ".join(loses_to(seen)) + " |"


def draw(results: dict[tuple[str, str, int, float, bool], dict[str, list[Outcome]]], file: str) -> None:
    """Ellipsoids of the middle dimension: how far off against the condition number, without and with noise."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from sublevel.plots.style import STYLE

    dims = sorted({d for group, _, d, _, _ in results if group.startswith("ellipsoids")})
    d = 10 if 10 in dims else dims[-1]
    floor, top = 1e-5, 1e6
    styles = {OURS: ("#1f77b4", "o", 2.4), "ranks": ("#c2410c", "s", 2.0)}
    greys = ["#1b9a6c", "#8fd1b8", "#4b2e83", "#a99bc9", "#6b727b", "#b0892f"]
    others = [name for name in COLUMNS if name not in (*styles, EQUAL)]
    styles |= {name: (colour, ".", 1.2) for name, colour in zip(others, greys, strict=True)}
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10.5, 4.4), layout="constrained")
        axes = figure.subplots(1, 2, sharey=True)
        for axis, group in zip(axes, ("ellipsoids", "ellipsoids, noise 0.01"), strict=True):
            rows = [
                (float(name.split()[1]), seen)
                for (kind, name, size, _, _), seen in results.items()
                if kind == group and size == d
            ]
            for column, (colour, marker, width) in styles.items():
                ours = EQUAL if "noise" in group and column == OURS else column
                far = [np.median([one.off for one in seen[ours]]) - 1 for _, seen in rows]
                line = np.clip(np.nan_to_num(far, nan=top, posinf=top), floor, top)
                axis.loglog([c for c, _ in rows], line, color=colour, marker=marker, lw=width, ms=5, label=column)
            axis.set(
                xlabel="condition number",
                title=f"turned ellipsoids, d = {d}" + (", noise 0.01" if "noise" in group else ", no noise"),
            )
            axis.axhline(0.1, color="#e4e6e9", zorder=0)
        axes[0].set_ylabel("factor by which a curvature is off, less 1")
        ticks = 10.0 ** np.arange(-5, 7)
        axes[0].set_yticks(ticks, ["≤ 1e-5", *(f"{tick:g}" for tick in ticks[1:-1]), "worse or none"])
        axes[1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8.5)
        figure.savefig(file, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one seed, few cases")
    parser.add_argument("--only", default="", help="cases whose group or name holds this")
    parser.add_argument("--figure", help="where to write the figure")
    given = parser.parse_args()
    begun = time.perf_counter()
    results: dict[tuple[str, str, int, float, bool], dict[str, list[Outcome]]] = {}
    for group, problem, seed in problems(given.quick):
        if given.only in f"{group} {problem.name}":
            row = results.setdefault((group, problem.name, problem.d, problem.noise, problem.ill), {})
            for column, outcome in outcomes(problem, seed).items():
                row.setdefault(column, []).append(outcome)
            shown = "; ".join(f"{column} {cell(seen[-1:])}" for column, seen in row.items())
            print(
                f"[{time.perf_counter() - begun:.0f} s] {problem.name} d={problem.d} {problem.noise:g}: {shown}",
                file=sys.stderr,
                flush=True,
            )
    print("\n".join(table_of(results)))
    must = {key: loses_to(seen) for key, seen in results.items() if (key[3] or key[4]) and key[0] != "transforms"}
    print(
        f"\nnoisy or cond ≥ 1e8: {len(must)} cases, ours best or tied in {sum(not peers for peers in must.values())} "
        "of them"
    )
    for (_, name, d, noise, _), peers in must.items():
        if peers:
            print(f"  not: {name}, d = {d}, noise {noise:g}: {', '.join(peers)}")
    print(f"{time.process_time():.0f} seconds of processor time")
    if given.figure:
        draw(results, given.figure)


if __name__ == "__main__":
    main()
