"""Reasons to end a run."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import isnan, log
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array, value_class
from sublevel.engine.families import Family
from sublevel.engine.families.categorical import LEAVING
from sublevel.engine.families.protocol import Discrete
from sublevel.engine.method import Info, Outcome
from sublevel.run.noise_floor import (
    INFORMATIVE,
    NARROW,
    NARROW_EVERY,
    UNINFORMATIVE,
    is_falling,
    longer_window,
    rank_scores,
    rank_signal,
    window_length,
)

TOLX = 1e-11
"""A run has converged when every standard deviation is this fraction of its initial one."""
EFFECT = 0.2
"""A step of this many standard deviations changes a coordinate unless floats are too coarse: pycma's `noeffectcoord`.
"""
STAGNATION = (0.2, 20_000)
"""Stagnation is judged from this part of a run's generations, and from no more than this many (Hansen,
arXiv:1604.00772, appendix B.3).

How many it takes at least, and in which generation it may be found first, is as in the package `cma` 4: with a large
sample on a rugged function a search makes no progress for hundreds of generations at the beginning.
"""
SLOW = 0.5
"""A search whose adapted rates are below this part of the usual ones is not tested for stagnation."""
CONDITION = 1e18
"""Cond(C) beyond which floating-point numbers cannot distinguish the axes."""
GROWTH = 1e20
"""A run diverges when a standard deviation has grown by this factor."""
HOPE = 1e-2
"""A run is abandoned if its values differ by less than this part of their distance to the best of earlier runs."""
SETTLED_HOPE = 0.1
"""The same for a run whose discrete variables have settled: only its real ones can still improve the values."""
AWAY = 10
"""Generations with settled discrete variables after which a run may return to its best point. The share of targets on
COCO's suite bbob-mixint in 5 and 10 dimensions is the same, within 0.9 points, for 20."""
HALF = 0.5
"""Part of a tolerance by which the better halves of a few samples differ at most where a run has converged."""
RESOLUTION = 256 * float(np.finfo(np.float64).eps)
"""Values that differ by less than this part of their size are equal up to rounding."""


class Kind(NamedTuple):
    """A kind of reason: its number, and a message about the value it comes with."""

    status: int
    message: str


KINDS: Mapping[str, Kind] = {
    "ftarget": Kind(0, "the target was reached: fun = {value:.6g}"),
    "tolx": Kind(
        1, "converged: all standard deviations are below `tolx`, or at most {value:.3g} of their initial values"
    ),
    "no_effect": Kind(
        2, "converged to floating-point precision: a step along the shortest axis no longer changes the mean"
    ),
    "collapsed_sample": Kind(3, "converged: all points of a sample were equal in {value:.0f} consecutive generations"),
    "tolfun": Kind(
        4, "converged: recent values differ by at most {value:.3g}, which is within a tolerance or rounding"
    ),
    "stagnation": Kind(
        5, "no improvement over {value:.0f} generations; the values may be noisy or the minimum may not be smooth"
    ),
    "ill_conditioned": Kind(
        6,
        "the covariance has a condition number of {value:.3g}; rescale the variables, or a variable may have no "
        "influence",
    ),
    "diverged": Kind(
        7,
        "a standard deviation grew by a factor of {value:.3g}; the objective may have no minimum, or `sigma0` is far "
        "too small",
    ),
    "run_budget": Kind(8, "the run used up the {value:.0f} evaluations that the restart strategy allows"),
    "unbounded": Kind(9, "the objective returned −inf, and no value is better"),
    "maxfevals": Kind(10, "the budget of {value:.0f} evaluations is used up; increase `maxfevals` to continue"),
    "maxiter": Kind(11, "the budget of {value:.0f} iterations is used up; increase `maxiter` to continue"),
    "callback": Kind(12, "stopped by the callback after {value:.0f} iterations"),
    "flat": Kind(
        13, "all values were equal in {value:.0f} consecutive generations; if `x0` lies on a plateau, increase `sigma0`"
    ),
    "too_narrow": Kind(
        14, "a step changes no coordinate of the mean, and the standard deviations never decreased; increase `sigma0`"
    ),
    "all_failed": Kind(
        15,
        "no value was usable in {value:.0f} consecutive generations; check the objective near `x0`, or decrease "
        "`sigma0`",
    ),
    "no_selection": Kind(
        16,
        "no point could be selected for {value:.0f} consecutive generations (sample too small or too many ties); "
        "increase `popsize`",
    ),
    "refused": Kind(
        17,
        "a step would leave the range of floating-point numbers or make the covariance indefinite, in {value:.0f} "
        "consecutive generations; the objective may be unbounded",
    ),
    "interrupted": Kind(18, "interrupted in iteration {value:.0f}; the result is the best point found until then"),
    "abandoned": Kind(
        19, "the best value stays {value:.2g} above that of an earlier run, and the values no longer change enough"
    ),
    "maxtime": Kind(20, "the time limit of {value:.6g} seconds is reached; increase `maxtime` to continue"),
    "noise_floor": Kind(
        21,
        "converged to the noise of the objective, or to its rounding: over {value:.0f} generations the values neither "
        "fell nor depended on the distance from the mean; `diagnosis` tells which, and noise_floor=False goes on",
    ),
    "settled": Kind(
        22,
        "converged: all variables are discrete, and in {value:.0f} generations none of their neighbours was better",
    ),
    "returned": Kind(
        23, "converged: the search went on around its best point, and then to values that stay {value:.2g} above it"
    ),
    "recurring": Kind(25, "converged: the last {value:.0f} runs ended at the same minimum, the best one"),
    "unchanged": Kind(
        24, "converged: none of {value:.0f} changes of single variables of the best point gave a better one"
    ),
}
"""All reasons. Their numbers are the `status` of a result and do not change."""

NAMES = {kind.status: name for name, kind in KINDS.items()}
SUCCESSES = frozenset(
    {
        "ftarget",
        "tolx",
        "no_effect",
        "collapsed_sample",
        "tolfun",
        "noise_floor",
        "settled",
        "returned",
        "unchanged",
        "recurring",
    }
)
"""Reasons of a run that has found what it can find."""

CONVERGED = SUCCESSES - {"ftarget", "noise_floor"}
"""Those after which other values of single variables are tried: not where the values are noise."""

STANDSTILLS: Mapping[Outcome, str] = {
    Outcome.FLAT: "flat",
    Outcome.FAILED: "all_failed",
    Outcome.NO_SELECTION: "no_selection",
    Outcome.REFUSED: "refused",
}
"""Why a generation took no step."""
PATIENCE: Mapping[str, int] = {"flat": 2, "refused": 2, "all_failed": 10, "no_selection": 10, "collapsed_sample": 10}
"""Consecutive generations without a step, for the same reason, that end a run: more where a fresh sample may help."""


class Reason(NamedTuple):
    """Why a run ended, with the number that decided it."""

    name: str
    value: float

    @property
    def status(self) -> int:
        """The number of its kind."""
        return KINDS[self.name].status

    @property
    def message(self) -> str:
        """The reason as a sentence."""
        return KINDS[self.name].message.format(value=self.value)


def message(reasons: Mapping[str, float]) -> str:
    """The reasons as sentences."""
    return "; ".join(Reason(name, number).message for name, number in reasons.items()) or "the run is in progress"


class Tolerances(NamedTuple):
    """When a run has converged for the user, besides what holds for every run; 0 and False are off."""

    fun: float = 0.0  # difference of values
    x: float = 0.0  # every standard deviation, of ln x where a variable is log-scaled
    relative: float = 0.0  # difference of values, as a part of their size
    noise_floor: bool = True  # whether a run ends where the order of the values is noise

    def difference(self, value: float) -> float:
        """Differences of values of this size do not matter to the user; 0 if all do."""
        return max(self.fun, self.relative * abs(value)) if self.relative else self.fun

    def equality(self, value: float) -> float:
        """The largest difference of a value from equal ones."""
        return max(self.difference(value), RESOLUTION * abs(value))


class Endings(Sequence[Mapping[str, float]]):
    """Why runs ended: one reason each with its number, in nine bytes, because there may be many runs."""

    def __init__(self, endings: Iterable[Mapping[str, float]] = ()) -> None:
        self._statuses, self._numbers = array("B"), array("d")
        for reasons in endings:
            for name, number in reasons.items():
                self.append(Reason(name, number))

    def append(self, reason: Reason) -> None:
        """Add the reason of one more run."""
        self._statuses.append(reason.status)
        self._numbers.append(reason.value)

    def __len__(self) -> int:
        """Runs that ended."""
        return len(self._statuses)

    @overload
    def __getitem__(self, which: int) -> dict[str, float]: ...
    @overload
    def __getitem__(self, which: slice) -> list[dict[str, float]]: ...
    def __getitem__(self, which: int | slice) -> dict[str, float] | list[dict[str, float]]:
        """Why a run ended, or some of them."""
        if isinstance(which, slice):
            return [self[index] for index in range(*which.indices(len(self)))]
        return {NAMES[self._statuses[which]]: self._numbers[which]}


@value_class
class Lengths:
    """Numbers of generations after which a run of d variables with n points is judged."""

    recent: int  # generations whose best values must be equal
    few: int  # generations of which the better halves must differ by little
    patience: float  # for stagnation, at least
    earliest: float  # generation in which stagnation may be found first
    kept: int  # values that are kept
    floor: int  # from which the noise floor is judged, at least
    scores: Array  # (n,), centred ranks


@lru_cache(maxsize=64)
def lengths(d: int, n: int) -> Lengths:
    """The lengths for d variables and n points."""
    recent = 10 + -(-30 * d // n)
    kept = max(STAGNATION[1], recent, window_length(d, n, STAGNATION[1]))
    earliest = max(500, d * (5 + 100 / n))
    return Lengths(
        recent, 2 + -(-6 * d // n), 100 + 100 * d**1.5 / n, earliest, kept, window_length(d, n, 0), rank_scores(d, n)
    )


class Window:
    """Best and median values of recent generations of a run."""

    __slots__ = ("_kept", "best", "medians")

    def __init__(self, kept: int, best: Iterable[float] = (), medians: Iterable[float] = ()) -> None:
        """The last `kept` values at least are kept."""
        self._kept = kept
        self.best, self.medians = (array("d", list(values)[-kept:]) for values in (best, medians))

    def append(self, best: float, median: float) -> None:
        """Add a generation."""
        self.best.append(best)
        self.medians.append(median)
        if len(self.best) > 2 * self._kept:
            del self.best[: -self._kept], self.medians[: -self._kept]

    def append_feasible(self, values: Array, feasible: NDArray[np.bool_]) -> tuple[float, float]:
        """Add the values (n,) of the feasible points of a generation, infinity if it has none; return the best of them
        and the spread of all values, NaN and infinity if there are none.
        """
        found, known = np.sort(values[feasible]), values[~np.isnan(values)]
        if not found.size:
            self.append(np.inf, np.inf)
            return np.nan, np.inf
        best = float(found[0])
        self.append(best, float(found[found.size // 2]))
        return best, float(np.ptp(known)) if np.isfinite(known).all() else np.inf


@value_class
class Standing:
    """What the reasons to end a run depend on, besides the search distribution and the values of recent generations."""

    initial_deviations: Array  # (k,)
    to_beat: float = float("nan")  # best value of earlier runs
    generations: int = 0
    latest: float = float("nan")  # best value of the last generation
    spread: float = float("inf")  # of the last generation's values, of the better half if variables are discrete
    lowest: float = float("nan")  # of the best values of all generations
    highest: float = float("nan")
    signal: float = 1.0  # mean of `rank_signal` over about as many generations as the noise floor is judged from
    was_informed: bool = False  # whether the ranks depended on the distance from the mean in a narrow search
    standstill: int = -1  # status of the reason why the last generations took no step; −1 if they did
    standing_for: int = 0  # generations
    settled_for: int = 0  # generations since a discrete variable was unsettled, or the best value improved if all are
    is_constrained: bool = False  # whether only values of feasible points count
    returned_to: float = float("nan")  # lowest value when the search last returned to its best point

    def after(
        self,
        theta: Family,
        info: Info,
        values: Array,
        points: Array,
        squares: Array | None,
        window: Window,
        feasible: NDArray[np.bool_] | None = None,
    ) -> Standing:
        """The standing after a generation with values (n,), search points (n, k) and ‖z‖² (n,), whose values enter the
        window; of points with constraints, only those of the feasible ones (n,).

        Without ‖z‖² no noise floor is found.
        """
        ranks, discrete, n, d = info.ranks, theta.discrete, values.size, self.initial_deviations.size
        if feasible is None:
            best = float(ranks.best)
            worst = ranks.order.item(-1 if discrete is None else n // 2)  # the others may have left an integer
            spread = values.item(worst) - best if best > -np.inf else np.inf
            window.append(best, values.item(ranks.order.item(n // 2)))
        else:
            best, spread = window.append_feasible(values, feasible)
        lowest, highest, signal = self.lowest, self.highest, self.signal
        if best == best:
            lowest = best if not best >= lowest else lowest
            highest = best if not best <= highest else highest
        generations = self.generations + 1
        if squares is not None:
            limits = lengths(d, n)
            window_size = longer_window(limits.floor, generations)
            signal += (rank_signal(limits.scores, ranks, squares) - signal) * 2 / window_size
        was_informed = self.was_informed
        if not was_informed and signal >= INFORMATIVE and generations % NARROW_EVERY == 0:
            was_informed = self.is_narrow(theta)
        standstill, standing_for = self.standstill, self.standing_for
        if info.outcome or standstill >= 0:
            standstill, standing_for = self._standstill_after(info, points)
        settled_for = 0 if discrete is None else self._settled_after(discrete, lowest)
        return Standing(
            self.initial_deviations,
            self.to_beat,
            generations,
            best,
            spread,
            lowest,
            highest,
            signal,
            was_informed,
            standstill,
            standing_for,
            settled_for,
            feasible is not None,
            self.returned_to,
        )

    def _settled_after(self, discrete: Discrete, lowest: float) -> int:
        """Generations for which the discrete variables have been settled, given the lowest value so far."""
        improved = lowest < self.lowest and self.has_no_width
        return 0 if discrete.unsettled or improved else self.settled_for + 1

    def _standstill_after(self, info: Info, points: Array) -> tuple[int, int]:
        """Status of the reason why the last generations took no step, and how many they were."""
        standstill = _standstill(Outcome(info.outcome), points) if info.outcome else -1
        return standstill, self.standing_for + 1 if standstill == self.standstill else 1

    def misses_best(self, window: Window) -> bool:
        """Whether the discrete variables settled some time ago, and no value since was as low as the lowest one, which
        is the best so far and was found after the last return to the best point. Only the order of values counts.
        """
        if self.settled_for < AWAY or self.lowest >= self.to_beat or self.lowest >= self.returned_to:
            return False
        return min(window.best[-AWAY:]) > self.lowest

    def begin_again(self, lowest: float) -> Standing:
        """The standing of a search that begins again around the best point, given its value."""
        return replace(self, lowest=lowest, returned_to=lowest, settled_for=0, standstill=-1, standing_for=0)

    @property
    def found_nothing(self) -> bool:
        """Whether there is no value yet, such as that of a feasible point."""
        return self.lowest != self.lowest

    @property
    def has_no_width(self) -> bool:
        """Whether all variables are discrete."""
        return bool(np.isinf(self.initial_deviations).all())

    def is_narrow(self, theta: Family) -> bool:
        """Whether the search is so narrow that it may be at the noise of f."""
        initial = self.initial_deviations
        is_first = theta.deviation(0) <= NARROW * initial.item(0)  # almost always decides
        return is_first and bool(np.all(theta.deviations <= NARROW * initial))


def find_reason(
    standing: Standing,
    window: Window,
    tolerances: Tolerances,
    theta: Family,
    deviations: Array,
    n: int,
    pace: Callable[[], float],
) -> Reason | None:
    """The reason to end a run with samples of n points, None to go on. Changes nothing.

    Without tolerances, it does not change when f is scaled, or x scaled or shifted. At a slow `pace` there is neither
    stagnation nor a noise floor.
    """
    limits = lengths(standing.initial_deviations.size, n)
    tried = 0.0 if (discrete := theta.discrete) is None else generations_to_try_neighbours(discrete, n)
    reason = _stands_still(standing, deviations, tried)
    if standing.settled_for >= tried and reason is None:
        reason = (
            _has_converged(standing, theta, deviations, tolerances)
            or _gains_little(standing, window, tolerances, limits)
            or _equal_values(standing, window, tolerances, limits)
            or _at_noise_floor(standing, window, tolerances, theta, n, pace)
        )
    if reason is None and standing.generations % 10 == 0:
        reason = _stagnates(standing, window, limits, pace) or _degenerate(standing, theta, deviations)
    return reason


def generations_to_try_neighbours(discrete: Discrete, n: int) -> float:
    """Generations in which samples of n points contain both neighbours of each discrete variable, the others being
    unchanged, with a probability of 95 %.

    The expected number in a generation is n·margin·(1 − `LEAVING`)/2 for each of them once all variables have settled.
    """
    expected = 0.5 * n * discrete.margin * (1.0 - LEAVING)
    return max(log(2 * discrete.variables / 0.05) / expected, PATIENCE["collapsed_sample"])


def _has_converged(standing: Standing, theta: Family, deviations: Array, tolerances: Tolerances) -> Reason | None:
    """A reason from the width of the distribution, if it has one."""
    if theta.discrete is not None and standing.has_no_width:
        return Reason("settled", float(standing.settled_for))
    return converged(theta.mean, deviations, standing.initial_deviations, tolerances.x)


def converged(mean: Array, deviations: Array, initial_deviations: Array, tolx: float = 0.0) -> Reason | None:
    """A reason from the width of the distribution relative to its initial width, the spacing of floats and `tolx`.

    Coordinates whose initial deviation is infinite do not count.
    """
    if tolx > 0.0 and np.all((deviations <= tolx) | np.isinf(initial_deviations)):
        return Reason("tolx", float(np.max(deviations / initial_deviations)))
    if deviations[0] > TOLX * initial_deviations[0] and mean[0] + EFFECT * deviations[0] != mean[0]:
        return None  # one coordinate is enough, and it is almost always the first
    wide = deviations > TOLX * initial_deviations
    if np.count_nonzero(wide & (mean + EFFECT * deviations != mean)):
        return None
    width = float(np.max(deviations / initial_deviations))
    return Reason(("too_narrow" if width >= 1 else "no_effect") if wide.any() else "tolx", width)


def _standstill(outcome: Outcome, points: Array) -> int:
    """Status of the reason why a sample (n, k) led to no step; equal values of equal points are no plateau."""
    is_collapsed = outcome == Outcome.FLAT and bool((points == points[0]).all())
    return KINDS["collapsed_sample" if is_collapsed else STANDSTILLS[outcome]].status


def _stands_still(standing: Standing, deviations: Array, patience: float) -> Reason | None:
    """Several consecutive generations took no step for the same reason."""
    if standing.standstill < 0:
        return None
    name = NAMES[standing.standstill]
    if standing.standing_for < max(PATIENCE["no_selection" if standing.found_nothing else name], patience):
        return None
    if name == "flat" and _came_down(standing, deviations):
        return Reason("tolfun", 0.0)
    return Reason(name, float(standing.standing_for))


def _came_down(standing: Standing, deviations: Array) -> bool:
    """Whether the equal values of a sample are the best ones of a run that has narrowed: convergence, no plateau."""
    low, high, best = standing.lowest, standing.highest, standing.latest
    if standing.is_constrained:  # the points have equal Lagrangians, whatever their values
        return bool(low < high and np.all(deviations < NARROW * standing.initial_deviations))
    is_best = best <= low or best - low <= RESOLUTION * abs(low) < np.inf
    return bool(low < high and is_best and np.all(deviations < standing.initial_deviations))


def _gains_little(standing: Standing, window: Window, tolerances: Tolerances, limits: Lengths) -> Reason | None:
    """The values of the better halves of a few samples differ by half a tolerance at most.

    While a search converges, they exceed the minimum by about as much as they differ from each other.
    """
    tolerance = tolerances.difference(standing.latest)
    if not tolerance > 0.0 or standing.generations < limits.few:
        return None
    highest, lowest = float(np.max(window.medians[-limits.few :])), float(np.min(window.best[-limits.few :]))
    is_small = highest < np.inf and highest - lowest <= HALF * tolerance
    return Reason("tolfun", highest - lowest) if is_small else None


def _equal_values(standing: Standing, window: Window, tolerances: Tolerances, limits: Lengths) -> Reason | None:
    """The values of the sample and the best ones of recent generations are equal within `tolfun` or rounding, or
    hopeless.

    Hopeless are values that differ by a hundredth of the distance to the best value of an earlier run, or to that of
    the best point to which the search has returned: at this pace it would take a hundred times as long to get there. If
    discrete variables have settled, a tenth is enough.
    """
    best, spread = standing.latest, standing.spread
    has_returned = not isnan(standing.returned_to)
    lacks = best - (standing.returned_to if has_returned else standing.to_beat)
    equal = tolerances.equality(best)
    hopeless = (SETTLED_HOPE if standing.settled_for else HOPE) * lacks
    if standing.generations < limits.recent or not (spread <= equal or spread <= hopeless):
        return None
    recent = window.best[-limits.recent :]
    change = max(recent) - min(recent)
    if spread <= equal and change <= equal:
        return Reason("tolfun", change)
    if spread <= hopeless and change <= hopeless < np.inf:
        return Reason("returned" if has_returned else "abandoned", lacks)
    return None


def _at_noise_floor(
    standing: Standing, window: Window, tolerances: Tolerances, theta: Family, n: int, pace: Callable[[], float]
) -> Reason | None:
    """In a narrow search the order of the values has become random, and they do not fall. Only ranks matter."""
    if not (standing.was_informed and standing.signal < UNINFORMATIVE and tolerances.noise_floor and theta.continuous):
        return None
    if standing.found_nothing:
        return None
    length = window_length(standing.initial_deviations.size, n, standing.generations)
    if standing.generations < length or not standing.is_narrow(theta) or pace() < SLOW:
        return None
    best, medians = (np.array(values[-length:]) for values in (window.best, window.medians))
    return None if is_falling(best, medians, standing.lowest) else Reason("noise_floor", float(length))


def _stagnates(standing: Standing, window: Window, limits: Lengths, pace: Callable[[], float]) -> Reason | None:
    """Neither the best nor the median values improved over the last fifth of the run, judged by their order. Failures
    are worse than any value.

    Nor was the best of all found in its second half. A search at a slow pace crosses noise or hills, and goes on.
    """
    length = int(min(max(STAGNATION[0] * standing.generations, limits.patience), STAGNATION[1]))
    if standing.generations < max(length, limits.earliest) or pace() < SLOW or standing.found_nothing:
        return None
    if np.nanmin(window.best[-(length // 2) :], initial=np.inf) <= standing.lowest:
        return None
    part = max(int(0.3 * length), 1)
    for values in (window.best, window.medians):
        recent = np.array(values[-length:])
        recent[np.isnan(recent)] = np.inf
        if np.median(recent[-part:]) < np.median(recent[:part]):
            return None
    return Reason("stagnation", float(length))


def _degenerate(standing: Standing, theta: Family, deviations: Array) -> Reason | None:
    """The distribution has become too wide, or too elongated for floating-point numbers."""
    growth = float(np.max(deviations / standing.initial_deviations))
    if growth > GROWTH:
        return Reason("diverged", growth)
    if standing.generations % (10 * theta.dimension) == 0 and (axis := theta.shortest_axis()) is not None:
        if axis.condition > CONDITION:
            return Reason("ill_conditioned", axis.condition)
        is_still = np.array_equal(theta.mean + EFFECT * axis.length * axis.direction, theta.mean)
        if is_still and not standing.has_no_width:  # integers are drawn wider than the Gaussian
            return Reason("no_effect", growth)
    return None
