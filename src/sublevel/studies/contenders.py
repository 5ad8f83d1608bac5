"""The methods that `apart` compares, at rates that make them equally fast on the paper's ellipsoid.

`python -m sublevel.studies.contenders` finds the numbers in the table below again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sublevel.families import FullGaussian
from sublevel.method import Method
from sublevel.recipes import ngd, rank_mu
from sublevel.studies.common import streams
from sublevel.studies.problems import PROBLEMS, slope
from sublevel.studies.runs import trials_of
from sublevel.transforms import HansenKernRates, SpectralRates
from sublevel.weights import Quantile, Truncation, Volume

DIMENSION = 10
SIZES = (10, 100)
"""n = d and n = d², as in the paper's figure 3."""


@dataclass(frozen=True, slots=True)
class Match:
    """Rates found by `main`, for one sample size."""

    ngd: float  # c_C at which NGD needs as many evaluations as rank-µ on the ellipsoid
    mixed: float  # the same for the quantile cost with spectral rates
    mean_step: float  # mean step of NGD on a slope over that of rank-µ, both in standard deviations


MATCHES = {10: Match(ngd=0.126, mixed=0.078, mean_step=0.24), 100: Match(ngd=0.851, mixed=0.527, mean_step=0.81)}

VARIANTS: dict[str, Callable[[Match], Method]] = {
    "ngd": lambda match: ngd(c_cov=match.ngd),
    "rank-mu": lambda match: rank_mu(),
    "ngd-long": lambda match: Method("ngd-long", Volume(), (SpectralRates(match.ngd, 1 / match.mean_step),)),
    "rank-mu-short": lambda match: rank_mu(c_mean=match.mean_step),
    "mixed": lambda match: Method("mixed", Quantile(Truncation()), (SpectralRates(match.mixed),)),
    "rank-mu-ties": lambda match: Method(
        "rank-mu-ties", Quantile(Truncation(), average_ties=True), (HansenKernRates(Truncation()),)
    ),
}
"""NGD and rank-µ, and what lies between: one with the mean steps of the other, the quantile cost with NGD's rates, ties shared."""


def method_of(variant: str, n: int) -> Method:
    """A variant at the rates for n."""
    return VARIANTS[variant](MATCHES[n])


def evaluations_on_the_ellipsoid(method: Method, n: int, trials: int, seed: int) -> float:
    """The median over trials."""
    runs = trials_of(method, PROBLEMS["ellipsoid"], DIMENSION, n, streams(seed, f"match-{n}", 0, trials))
    return float(np.median(np.where(runs["ending"] == "reached", runs["evaluations"], np.inf)))


def matched_rate(make: Callable[[float], Method], n: int, guess: float, trials: int, seed: int) -> float:
    """The rate of covariance at which a method is as fast as rank-µ: evaluations go nearly like 1/rate, so four corrections do."""
    wanted, rate = evaluations_on_the_ellipsoid(rank_mu(), n, trials, seed), guess
    for _ in range(4):
        rate = min(1.0, rate * evaluations_on_the_ellipsoid(make(rate), n, trials, seed) / wanted)
    return rate


def mean_step_on_a_slope(method: Method, n: int, samples: int, seed: int) -> float:
    """The expected step of the mean down a slope, in standard deviations."""
    theta = FullGaussian.start(np.zeros((samples, DIMENSION)), np.ones((samples, DIMENSION)))
    state = method.init(theta, n)
    sample = method.ask(state, np.random.default_rng(seed), n)
    state, _ = method.tell(state, sample, slope(sample.x))
    return float(np.mean(state.theta.mean[:, 0]))


def main(trials: int = 60, seed: int = 2012) -> None:
    """Print the matched rates."""
    for n in SIZES:
        c_cov = matched_rate(lambda rate: ngd(c_cov=rate), n, MATCHES[n].ngd, trials, seed)
        mixed = matched_rate(lambda rate: Method("mixed", Quantile(Truncation()), (SpectralRates(rate),)), n, MATCHES[n].mixed, trials, seed)
        ratio = mean_step_on_a_slope(ngd(c_cov=c_cov), n, 4000, seed) / mean_step_on_a_slope(rank_mu(), n, 4000, seed)
        print(f"n = {n}: ngd={c_cov:.4f}, mixed={mixed:.4f}, mean_step={ratio:.3f}")


if __name__ == "__main__":
    main()
