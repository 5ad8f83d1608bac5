"""How accurate a curvature is, beside numdifftools, Minuit's HESSE, the `hess_inv` of BFGS and the covariance of the package `cma`.

    python benchmarks/curvature.py [--seeds 5] [--quick] [--figure docs/pictures/curvature.png] [--page docs/curvature-benchmark.md]

Everyone is asked at the same point: where `sublevel.minimize` ended from the same start, with the same noise. BFGS and `cma` have no such
question; they make their own run from the same start, and their evaluations are those of the run.

The number is the largest factor by which a curvature is off in any direction, max(λ, 1/λ) over the eigenvalues λ of hess_inv·H, so 1 is
exact and inf is a matrix that is not positive definite. Methods that know no units of f (`cma`, ranks) are given the best unit.

numdifftools and HESSE are there twice: as they are by default, and told what our search has learned: a step per variable at which f rises
as much as ours looks at, and the noise. Under noise each may repeat itself and average as long as it stays within our evaluations.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
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

    def noisy(self, noise: float) -> Problem:
        """The problem with values that scatter."""
        return replace(self, noise=noise)

    def composed(self, name: str, g: Callable[[float], float]) -> Problem:
        """g∘f."""
        return replace(self, name=f"{name}: {self.name}", fun=lambda x: g(self.fun(x)))


def ellipsoid(d: int, condition: float, seed: int) -> Problem:
    """A turned ellipsoid with its minimum, of value 1, away from 0."""
    rng = np.random.default_rng([seed, d])
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    root = np.sqrt(condition ** (np.arange(d) / (d - 1)))[:, None] * turn
    optimum = rng.standard_normal(d)
    name = f"ellipsoid 1e{np.log10(condition):.0f}"
    fun = lambda x: 1.0 + 0.5 * float(np.sum(np.square(root @ (x - optimum))))  # noqa: E731
    return Problem(name, d, fun, root, optimum + rng.standard_normal(d), 0.5, ill=condition >= 1e8)


def rosenbrock(d: int, seed: int) -> Problem:
    """The bent valley, from a start in its better half."""

    def fun(x: np.ndarray) -> float:
        return float(np.sum(100 * np.square(x[1:] - np.square(x[:-1])) + np.square(1 - x[:-1])))

    hessian = np.diag(np.r_[np.full(d - 1, 802.0), 200.0]) + np.diag(np.full(d - 1, -400.0), 1) + np.diag(np.full(d - 1, -400.0), -1)
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
    return Problem("logistic regression", d, fun, np.linalg.cholesky(hessian).T, np.zeros(d), 0.3 / units)


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
    return Problem("compartment model", 5, fun, np.linalg.cholesky(jacobian(x)).T, RATES * 0.9, 0.1 * RATES)


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
    evaluations: int  # of ours

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
    options = {"verbose": -9, "seed": asked.seed + 1, "CMA_stds": sigma0, "maxfevals": asked.found.nfev + asked.evaluations}
    search = cma.CMAEvolutionStrategy(asked.problem.x0, 1.0, options).optimize(fun)
    scales = search.sigma_vec.scaling
    return search.C * scales * np.asarray(scales)[:, None], fun.count


def by_ranks(asked: Asked) -> tuple[np.ndarray, int]:
    fun = asked.fun()
    return sl.shape_from_ranks(fun, asked.found, rng=asked.seed).hess_inv, fun.count


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
OURS = "curvature"


def outcomes(problem: Problem, seed: int, peers: list[str]) -> dict[str, tuple[float, int]]:
    """How far off everyone is, and the evaluations it took."""
    search, fun = Counted(problem, seed), Counted(problem, seed + 1)
    budget = 2000 * problem.d if problem.noise else None
    found = sl.minimize(search, problem.x0, problem.sigma0, rng=seed, maxfevals=budget)
    ours = sl.curvature(fun, found)
    steps = np.sqrt(2 * ours.delta_f / np.abs(np.diagonal(ours.hessian)))
    asked = Asked(problem, seed, found, steps, ours.delta_f, fun.count)
    table = {OURS: (off(ours.hess_inv, problem.hessian_root, False), fun.count)}
    for peer in peers:
        method, unit = PEERS[peer]
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                inverse, count = method(asked)
            except (np.linalg.LinAlgError, ValueError):
                inverse, count = np.full((problem.d, problem.d), np.nan), 0
        table[peer] = (off(inverse, problem.hessian_root, unit), count)
    return table
