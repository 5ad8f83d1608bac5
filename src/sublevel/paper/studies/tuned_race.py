"""NGD and rank-µ at the rates that suit each function: the comparison of `apart` that favours neither."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sublevel.engine.constants import hansen_kern_rate
from sublevel.engine.method import Method
from sublevel.engine.recipes import ngd, rank_mu
from sublevel.paper.cache import Arrays
from sublevel.paper.streams import streams
from sublevel.paper.studies.problems import PROBLEMS, Problem
from sublevel.paper.studies.statistics import running_time
from sublevel.paper.studies.trials import run_trials

NGD_RATES = (0.125, 0.25, 0.0625, 0.5, 0.03125, 1.0)
"""The values of c_C that are tried, in this order; 1 is the largest that the paper allows."""
RANK_MU_FACTORS = (1.0, 0.5, 2.0, 0.25, 4.0, 0.125)
"""The values of η_C that are tried, as multiples of the one of Hansen and Kern; those above `LARGEST` are left out."""
LARGEST = 0.9
"""η_C above which hardly anything of the old C would be left."""
SLACK = 3.0
"""A rate is given up after this many times the evaluations that the best rate so far needs for a success."""


def rates_to_try(method: str, d: int, n: int) -> list[float]:
    """The values of c_C or η_C of a sweep."""
    if method == "ngd":
        return list(NGD_RATES)
    usual = hansen_kern_rate(d, n // 4)
    return [factor * usual for factor in RANK_MU_FACTORS if factor * usual <= LARGEST]


def method_at(method: str, rate: float) -> Method:
    """NGD with this c_C, or rank-µ with this η_C."""
    return ngd(c_cov=rate) if method == "ngd" else rank_mu(c_cov=rate)


@dataclass(frozen=True, slots=True)
class TunedRace:
    """One method on one problem: a sweep of its rate, then trials with other random numbers at the best rate."""

    problem: str
    method: str
    d: int
    n: int
    spread: float  # σ⁰ as a multiple of the problem's own
    tuning: int  # trials at each rate of the sweep
    trials: int
    budget: int
    seed: int

    @property
    def key(self) -> str:
        return f"tuned/{self.problem}/{self.method}/d{self.d}/n{self.n}/s{self.spread:g}"

    @property
    def cost(self) -> float:
        share = 0.5 if self.problem in {"parabolic ridge", "Rosenbrock", "sphere from afar", "terraces"} else 0.12
        trials = 6 * self.tuning + self.trials
        return share * self.budget / self.n * (6e-4 + trials * (2e-6 * self.d + 6e-7 * self.n) * 1.3)

    def compute(self) -> Arrays:
        """The rates, the evaluations for a success at each, the best one, and the trials at it."""
        rates = rates_to_try(self.method, self.d, self.n)
        needed: list[float] = []
        values: list[float] = []
        for rate in rates:
            runs = self._run(rate, self.tuning, "sweep", min([self.budget, *(SLACK * some for some in needed)]))
            needed.append(running_time(runs["evaluations"], runs["ending"] == "reached"))
            values.append(float(np.median(runs["value"])))
        best = rates[min(range(len(rates)), key=lambda index: (needed[index], values[index]))]
        sweep: Arrays = {"rates": np.array(rates), "needed": np.array(needed), "rate": np.array(best)}
        return sweep | self._run(best, self.trials, "trials", self.budget)

    def _run(self, rate: float, trials: int, part: str, budget: float) -> Arrays:
        noise = streams(self.seed, f"apart-{self.key}-{part}-{rate:.6g}", 0, trials)
        return run_trials(method_at(self.method, rate), self._problem(budget), self.d, self.n, noise)

    def _problem(self, budget: float) -> Problem:
        problem = PROBLEMS[self.problem]
        budget = problem.budget if problem.judged_at_the_end else budget
        return replace(problem, spread=self.spread * problem.spread, budget=int(budget))
