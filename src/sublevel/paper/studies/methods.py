"""The methods that `apart` compares, at rates that make them equally fast on the paper's ellipsoid.

`python -m sublevel.paper.studies.methods` finds the numbers in the table below again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from sublevel.engine.families import FullGaussian
from sublevel.engine.method import Method
from sublevel.engine.recipes import ngd, rank_mu
from sublevel.engine.transforms import HansenKernRates, SpectralRates
from sublevel.engine.weights import Quantile, Truncation, Volume
from sublevel.paper.streams import streams
from sublevel.paper.studies.problems import BUDGET, PROBLEMS, slope
from sublevel.paper.studies.trials import run_trials

SETTINGS = ((10, 10), (10, 100), (20, 20))
"""d and n: n = d and n = d² as in the paper's figure 3, and the paper's own d with n = d."""


@dataclass(frozen=True, slots=True)
class Match:
    """Rates found by `main`, for one d and n."""

    ngd: float  # c_C at which NGD needs as many evaluations as rank-µ on the ellipsoid
    mixed: float  # the same for the quantile cost with spectral rates
    mean_step: float  # mean step of NGD on a slope over that of rank-µ, both in standard deviations


MATCHES = {
    (10, 10): Match(ngd=0.126, mixed=0.078, mean_step=0.24),
    (10, 100): Match(ngd=0.851, mixed=0.527, mean_step=0.81),
    (20, 20): Match(ngd=0.14, mixed=0.113, mean_step=0.21),
}

VARIANTS: dict[str, Callable[[Match], Method]] = {
    "ngd": lambda match: ngd(c_cov=match.ngd),
    "rank-mu": lambda match: rank_mu(),
    "ngd-long": lambda match: Method("ngd-long", Volume(), (SpectralRates(match.ngd, 1 / match.mean_step),)),
    "rank-mu-short": lambda match: rank_mu(c_mean=match.mean_step),
    "mixed": lambda match: mixed(match.mixed),
    "rank-mu-ties": lambda match: Method(
        "rank-mu-ties", Quantile(Truncation(), average_ties=True), (HansenKernRates(Truncation()),)
    ),
}
"""NGD, rank-µ, each with the mean steps of the other, the quantile cost with NGD's rates, rank-µ with ties shared."""


def method_of(variant: str, d: int, n: int) -> Method:
    """A variant at the rates for d and n."""
    return VARIANTS[variant](MATCHES[d, n])


def evaluations_on_the_ellipsoid(method: Method, d: int, n: int, trials: int, seed: int) -> float:
    """The median over trials."""
    problem = replace(PROBLEMS["ellipsoid"], budget=10 * BUDGET)
    runs = run_trials(method, problem, d, n, streams(seed, f"match-{d}-{n}", 0, trials))
    return float(np.median(np.where(runs["ending"] == "reached", runs["evaluations"], np.inf)))


def matched_rate(make: Callable[[float], Method], d: int, n: int, guess: float, trials: int, seed: int) -> float:
    """The rate at which a method is as fast as rank-µ: evaluations are nearly ∝ 1/rate, so three corrections do."""
    wanted, rate = evaluations_on_the_ellipsoid(rank_mu(), d, n, trials, seed), guess
    for _ in range(3):
        rate = min(1.0, rate * evaluations_on_the_ellipsoid(make(rate), d, n, trials, seed) / wanted)
    return rate


def mean_step_on_a_slope(method: Method, d: int, n: int, samples: int, seed: int) -> float:
    """The expected step of the mean down a slope, in standard deviations."""
    state = method.init(FullGaussian.start(np.zeros((samples, d)), np.ones((samples, d))), n)
    sample = method.ask(state, np.random.default_rng(seed), n)
    state, _ = method.tell(state, sample, slope(sample.x))
    return float(np.mean(state.theta.mean[:, 0]))


def mixed(rate: float) -> Method:
    """The quantile cost with NGD's rates."""
    return Method("mixed", Quantile(Truncation()), (SpectralRates(rate),))


def main(trials: int = 60, seed: int = 2012) -> None:
    """Print the matched rates."""
    for d, n in SETTINGS:
        c_cov = matched_rate(lambda rate: ngd(c_cov=rate), d, n, MATCHES[d, n].ngd, trials, seed)
        c_mixed = matched_rate(mixed, d, n, MATCHES[d, n].mixed, trials, seed)
        ours, theirs = (mean_step_on_a_slope(method, d, n, 4000, seed) for method in (ngd(c_cov=c_cov), rank_mu()))
        ratio = ours / theirs
        print(f"d = {d}, n = {n}: ngd={c_cov:.4f}, mixed={c_mixed:.4f}, mean_step={ratio:.3f}", flush=True)


if __name__ == "__main__":
    main()
