"""The statements of the paper about its figures, each compared with what was measured, and their table."""

from __future__ import annotations

import contextlib
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from math import inf, sqrt

import numpy as np

from sublevel.paper.figures.config import EXPERIMENT, Setting, matched_rates, sample_size
from sublevel.paper.figures.results import Result, Results
from sublevel.paper.theory.curves import predicted_times
from sublevel.paper.theory.intervals import Interval, ratio_of_means, student_quantile

D, FAR, RATES, THRESHOLDS = EXPERIMENT.dimension, EXPERIMENT.far, EXPERIMENT.rates, EXPERIMENT.thresholds
SIZES = tuple(sample_size(power, D) for power in range(1, 7))
ROOT_D, ONE_D, _, D_SQUARED, _, D_CUBED = SIZES
MATCHED = matched_rates(D)
EQUIVALENT = "with the whole 90 % interval of the ratio: two one-sided tests at 5 %"
FIGURE, PAPER, MEASURED = 5, 48, 58
"""Widths of the columns of the table."""
CHANCE = 1e-3
"""Probability that the paper's number and ours differ by more than is allowed, if their expectations agree."""
SIMILAR = 1.25
"""The largest ratio of two numbers that count as similar, either way: the usual range of equivalence, 0.8 to 1.25."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of the paper with its verdict."""

    figure: int
    paper: str  # what the paper says
    accepted: str  # what counts as found
    measured: str  # what was found
    found: bool

    @property
    def verdict(self) -> str:
        """ "found" or "NOT FOUND"."""
        return "found" if self.found else "NOT FOUND"


class Measured:
    """Results by what the paper calls them. KeyError: the setting was not run."""

    def __init__(self, results: Results) -> None:
        self.results = results

    def ngd(self, n: int, c_cov: float, start: float = 0.0) -> Result:
        """The paper's algorithm."""
        return self.results[Setting("ngd", n, c_cov, start, D)]

    def rank_mu(self, n: int, start: float = 0.0) -> Result:
        """The rank-µ CMA-ES."""
        return self.results[Setting("rank-mu", n, None, start, D)]


Check = Callable[[Measured], Iterator[Statement]]


def statements(results: Results) -> list[Statement]:
    """A row for every statement whose settings were run."""
    found: list[Statement] = []
    for check in CHECKS:
        with contextlib.suppress(KeyError):
            found.extend(check(Measured(results)))
    return found


def final_conditions(measured: Measured) -> Iterator[Statement]:
    """The final Cond(CA) at n = d³."""
    for rate, said in ((0.1, 1.1), (0.5, 1.3), (1.0, 1.6)):
        paper = f"n = d³, c_C = {rate}: the final condition number is Cond(CA) ≈ {said}"
        yield printed_mean(measured.ngd(D_CUBED, rate), said, paper)


def window(result: Result, name: str, digit: float = 0.1) -> float:
    """Half a unit of the last digit that the paper prints, and what chance allows between its mean and ours.

    The paper has 50 trials, whose standard deviation is taken to be ours. Student's t allows for the few trials that
    ours is estimated from: one trial refutes nothing.
    """
    trials = max(1, result.trials - result.failed)
    quantile = student_quantile(trials - 1, CHANCE)
    return 0.5 * digit + (quantile * result.std(name) * sqrt(1 / EXPERIMENT.trials + 1 / trials) if trials > 1 else inf)


def printed_mean(result: Result, said: float, paper: str) -> Statement:
    """A mean final Cond(CA) of figure 1 that the text gives."""
    value, width = result.mean("final_cond"), window(result, "final_cond")
    return Statement(
        1,
        paper,
        f"{said:.1f} ± {width:.3f}: the paper's number to its last digit, and the sampling error of two means",
        f"{value:.3f} (standard deviation {result.std('final_cond'):.3f} of {result.trials} trials)",
        abs(value - said) <= width,
    )


def follows_theory(measured: Measured) -> Iterator[Statement]:
    """The whole curve at n = d³, c_C = 0.1."""
    times = np.array([measured.ngd(D_CUBED, 0.1).time_to(threshold) for threshold in THRESHOLDS])
    theory = predicted_times(EXPERIMENT.condition, 0.1 / 2, np.array(THRESHOLDS))
    pairs = ", ".join(f"{time:.1f}/{predicted:.0f}" for time, predicted in zip(times, theory, strict=True))
    worst = float(np.max(np.abs(times / theory - 1)))
    yield Statement(
        1,
        "n = d³, c_C = 0.1: the condition number follows the theoretical curve (eq:cond-sp with α = c_C/2)",
        "mean first time to Cond = 10⁵, 10⁴, 10³, 10², 10 within 15 % of theory",
        f"iterations, measured/theory: {pairs}; at most {100 * worst:.0f} % off",
        worst <= 0.15,
    )


def larger_is_closer(measured: Measured) -> Iterator[Statement]:
    """The order of the curves in n."""
    times = [measured.ngd(n, 0.1).time_to(10.0) for n in SIZES]
    theory = float(predicted_times(EXPERIMENT.condition, 0.1 / 2, np.array(10.0)))
    yield Statement(
        1,
        "The larger the sample, the closer to theory (c_C = 0.1)",
        "time to Cond = 10 falls with every larger n and stays above theory",
        f"{_list(times, '.0f')} iterations for n = {_list(SIZES, 'd')}; theory {theory:.0f}",
        all(a > b for a, b in pairwise([*times, theory])),
    )


def smallest_sample(measured: Measured) -> Iterator[Statement]:
    """n = ⌈√d⌉: slow, less precise, but it works."""
    small, large = measured.ngd(ROOT_D, 0.1), measured.ngd(D_CUBED, 0.1)
    ratio = small.time_to(10.0) / large.time_to(10.0)
    yield Statement(
        1,
        "n = ⌈√d⌉, c_C = 0.1: more than 30 times longer than n = d³ to learn the covariance matrix",
        "time to Cond = 10 more than 30 times as long",
        f"{small.time_to(10.0):.0f} against {large.time_to(10.0):.0f} iterations: {ratio:.1f} times",
        ratio > 30,
    )
    yield printed_mean(small, 4.0, "n = ⌈√d⌉, c_C = 0.1: the final condition number is Cond(CA) ≈ 4.0")
    yield Statement(
        1,
        "n = ⌈√d⌉, c_C = 0.1: the stochastic algorithm still works successfully",
        "every trial reaches the target",
        f"{small.trials - small.failed} of {small.trials} trials reached it",
        small.failed == 0,
    )


def small_rate_is_safe(measured: Measured) -> Iterator[Statement]:
    """No curve is missing at c_C = 0.1."""
    runs = [measured.ngd(n, 0.1) for n in SIZES]
    yield Statement(
        1,
        "c_C = 0.1: results for all six sample sizes, none omitted",
        "every trial reaches the target at every n",
        f"{sum(run.trials - run.failed for run in runs)} of {sum(run.trials for run in runs)} trials reached it",
        all(run.failed == 0 for run in runs),
    )


def larger_rates_are_noisier(measured: Measured) -> Iterator[Statement]:
    """Final Cond(CA) against c_C, wherever all trials got to the end."""
    by_size = {n: [measured.ngd(n, rate) for rate in RATES] for n in SIZES}
    complete = {n: runs for n, runs in by_size.items() if not any(run.failed for run in runs)}
    whole = {n: [run.mean("final_cond") for run in runs] for n, runs in complete.items()}
    rows = "; ".join(f"n = {n}: {_list(values, '.2f')}" for n, values in whole.items())
    yield Statement(
        1,
        "Larger learning rates c_C = 0.5, 1.0 attain a little higher final condition numbers",
        "final Cond rises with c_C at every n at which no trial fails, n = d³ among them",
        rows or "no n without failed trials",
        D_CUBED in whole and all(a < b for values in whole.values() for a, b in pairwise(values)),
    )


def omissions(measured: Measured) -> Iterator[Statement]:
    """The settings that the paper leaves out."""
    named = measured.ngd(ONE_D, 0.5)
    failing = [run for rate in RATES for n in SIZES if (run := measured.ngd(n, rate)).failed]
    small_and_fast = all(run.setting.n <= D**1.5 + 1 and (run.setting.c_cov or 0) >= 0.5 for run in failing)
    rows = [f"n = {run.setting.n}, c_C = {run.setting.c_cov:g}: {failure_count(run)}" for run in failing]
    yield Statement(
        1,
        "Some results are omitted, for example n = d for c_C = 0.5, because numerically unstable computation occurs",
        "trials fail at n = d, c_C = 0.5, and elsewhere only at n ≤ ⌈d^1.5⌉ with c_C ≥ 0.5",
        "; ".join(rows) or "no trial failed",
        named.failed > 0 and small_and_fast,
    )


def slower_from_afar(measured: Measured) -> Iterator[Statement]:
    """Figure 2: m⁰ = (10, …, 10)."""
    sizes = (ONE_D, D_SQUARED, D_CUBED)
    near = [measured.ngd(n, 0.1) for n in sizes]
    far = [measured.ngd(n, 0.1, FAR) for n in sizes]
    ratios = [b.time_to(1e5) / a.time_to(1e5) for a, b in zip(near, far, strict=True)]
    pairs = ", ".join(f"{b.time_to(1e5):.0f}/{a.time_to(1e5):.0f}" for a, b in zip(near, far, strict=True))
    yield Statement(
        2,
        "m⁰ = (10, …, 10): slightly slower adaptation at the beginning",
        "mean first time to Cond = 10⁵ is longer than from 0, for n = d, d², d³",
        f"iterations, far/near: {pairs}",
        all(ratio > 1 for ratio in ratios),
    )
    yield Statement(
        2,
        "… especially in case a small sample size is chosen",
        "the factor falls from n = d to d² to d³",
        f"{_list(ratios, '.2f')} times as long for n = {_list(sizes, 'd')}",
        all(a > b for a, b in pairwise(ratios)),
    )
    ends = [ratio_of_means(b.numbers("final_cond"), a.numbers("final_cond")) for a, b in zip(near, far, strict=True)]
    yield Statement(
        2,
        "… although the adaptation does not change in theory",
        f"the final Cond(CA) is the same within 10 %, {EQUIVALENT}",
        f"far/near: {_intervals(ends)} for n = {_list(sizes, 'd')}",
        all(end.is_within(1 / 1.1, 1.1) for end in ends),
    )


def same_speed(measured: Measured) -> Iterator[Statement]:
    """Figure 3: iterations to the target, which is where the curves of the expected objective end."""
    for start, percent in ((0.0, 5), (FAR, 10)):
        ratios = [ratio_of_means(a.numbers("iterations"), b.numbers("iterations")) for a, b in _pairs(measured, start)]
        margin = 1 + percent / 100
        yield Statement(
            3,
            f"NGD and rank-µ CMA-ES behave similarly: the expected objective {_from(start)}",
            f"iterations to 10⁻¹⁰ within {percent} % of each other at n = d and n = d², {EQUIVALENT}",
            f"NGD over rank-µ: {_intervals(ratios)}",
            all(ratio.is_within(1 / margin, margin) for ratio in ratios),
        )


def same_adaptation(measured: Measured) -> Iterator[Statement]:
    """Figure 3: the condition number's way down."""
    for start in (0.0, FAR):
        ratios = [
            [ratio_of_means(a.times_to(threshold), b.times_to(threshold)) for threshold in THRESHOLDS]
            for a, b in _pairs(measured, start)
        ]
        rows = [f"{_intervals(row)} (n = {n})" for row, (n, _) in zip(ratios, MATCHED, strict=True)]
        yield Statement(
            3,
            f"NGD and rank-µ CMA-ES behave similarly: the condition number {_from(start)}",
            f"mean first times to Cond = 10⁵, …, 10 within a factor {SIMILAR} of each other at n = d and n = d², "
            + EQUIVALENT,
            f"NGD over rank-µ: {'; '.join(rows)}",
            all(ratio.is_within(1 / SIMILAR, SIMILAR) for row in ratios for ratio in row),
        )


def _pairs(measured: Measured, start: float) -> list[tuple[Result, Result]]:
    """NGD and rank-µ as figure 3 compares them."""
    return [(measured.ngd(n, rate, start), measured.rank_mu(n, start)) for n, rate in MATCHED]


def rank_mu_from_afar(measured: Measured) -> Iterator[Statement]:
    """Figure 3: the effect of figure 2 in rank-µ."""
    pairs = [(measured.rank_mu(n), measured.rank_mu(n, FAR)) for n, _ in MATCHED]
    times = [(far.time_to(1e5), near.time_to(1e5)) for near, far in pairs]
    yield Statement(
        3,
        "The change of performance of figure 2 is also observed for rank-µ CMA-ES",
        "mean first time to Cond = 10⁵ is longer from m⁰ = (10, …, 10), at n = d and n = d²",
        f"iterations, far/near: {', '.join(f'{far:.0f}/{near:.0f}' for far, near in times)}",
        all(far > near for far, near in times),
    )


CHECKS: tuple[Check, ...] = (
    *(final_conditions, follows_theory, larger_is_closer, smallest_sample, small_rate_is_safe),
    *(larger_rates_are_noisier, omissions, slower_from_afar, same_speed, same_adaptation, rank_mu_from_afar),
)


def failure_count(result: Result) -> str:
    """How many trials failed and how, in words."""
    kinds = result.failures
    named = ", ".join(f"{count} {name}" for name, count in kinds.items()) if len(kinds) > 1 else "".join(kinds)
    return f"{result.failed} of {result.trials} failed ({named})"


def _from(start: float) -> str:
    return f"from m⁰ = {'0' if start == 0 else f'({start:g}, …, {start:g})'}"


def _intervals(ratios: Sequence[Interval]) -> str:
    return ", ".join(f"{ratio.value:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]" for ratio in ratios)


def _list(values: Sequence[float], spec: str) -> str:
    return ", ".join(format(value, spec) for value in values)


def verdict_line(rows: Sequence[Statement], results: Results | None = None) -> str:
    """The whole result in a sentence, with the number of trials if results are given."""
    found, trials = sum(row.found for row in rows), _trials(results)
    if not rows:
        return "No statement of the paper is about what was run."
    if found == len(rows):
        return f"All {found} statements of the paper were found{trials}."
    return f"{found} of {len(rows)} statements of the paper were found, {len(rows) - found} not{trials}."


def _trials(results: Results | None) -> str:
    """How many trials each setting had."""
    counts = sorted({result.trials for result in (results or {}).values()})
    if not counts:
        return ""
    return f", with {counts[0]}{f' to {counts[-1]}' if len(counts) > 1 else ''} trials of each setting"


def table(rows: Sequence[Statement]) -> str:
    """One block of lines for each statement."""
    lines = [_line("fig.", "statement in the paper", "measured here", "verdict"), "-" * (FIGURE + PAPER + MEASURED + 9)]
    for row in rows:
        paper, measured = textwrap.wrap(row.paper, PAPER - 2), textwrap.wrap(row.measured, MEASURED - 2)
        cells = zip_longest([str(row.figure)], paper, measured, [row.verdict], fillvalue="")
        lines.extend(_line(*texts) for texts in cells)
    return "\n".join(lines)


def _line(figure: str, paper: str, measured: str, verdict: str) -> str:
    return f"{figure:<{FIGURE}}{paper:<{PAPER}}{measured:<{MEASURED}}{verdict}".rstrip()
